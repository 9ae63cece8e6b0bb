"""The main screen: all panes, placed by size. One level of widgets, so that a resize costs little."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from cybtui.actions import ACTIONS, shown_for
from cybtui.terminal import COLUMNS_MIN, ROWS_MIN
from cybtui.view import View
from cybtui.widgets.agents import AgentsPane
from cybtui.widgets.bandwidth import BandwidthPane
from cybtui.widgets.depth import DepthPane
from cybtui.widgets.goals import GoalsPane
from cybtui.widgets.inbox import InboxPane
from cybtui.widgets.log import LogPane
from cybtui.widgets.pane import Pane
from cybtui.widgets.pool import PoolPane
from cybtui.widgets.status import KeysLine, StatusLine, TabsLine
from cybtui.widgets.stream import StreamPane

ORDER = ("agents", "inbox", "goals", "stream", "depth", "pool", "bandwidth", "log")
WIDE, MIDDLE, TALL = 150, 100, 30
# (share of the width, ((pane, share of the height), …)) of each column; the log is a strip below the widest layout.
WIDE_COLUMNS = (
    (36, (("agents", 60), ("goals", 40))),
    (34, (("inbox", 52), ("stream", 48))),
    (30, (("depth", 31), ("pool", 27), ("bandwidth", 42))),
)
MIDDLE_COLUMNS = (
    (54, (("agents", 36), ("inbox", 34), ("stream", 30))),
    (46, (("goals", 25), ("depth", 28), ("pool", 17), ("bandwidth", 30))),
)
LOG_ROWS = 5


def places(width: int, height: int, only: str = "") -> dict[str, Region]:
    """Where each pane goes; panes that are left out are not shown. ``only`` is the pane to show alone, "" for as many as fit."""
    if only or width < MIDDLE or height < TALL:
        return {only or ORDER[0]: Region(0, 0, width, height)}
    wide = width >= WIDE and height >= 40
    rows = height - LOG_ROWS if wide else height
    result: dict[str, Region] = {}
    left = 0
    columns = WIDE_COLUMNS if wide else MIDDLE_COLUMNS
    for number, (share, panes) in enumerate(columns, 1):
        right = width if number == len(columns) else left + round(width * share / 100)
        top = below = 0
        for pane, part in panes:
            below += part
            bottom = round(rows * below / 100)
            result[pane] = Region(left, top, right - left, bottom - top)
            top = bottom
        left = right
    if wide:
        result["log"] = Region(0, rows, width, LOG_ROWS)
    return result


class PanesLayout(Layout):
    """Places the panes that fit."""

    name = "panes"

    def __init__(self) -> None:
        self.only = ""

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        where = places(size.width, size.height, self.only)
        return [WidgetPlacement(where[child.id], NULL_OFFSET, NULL_SPACING, child) for child in children if child.id in where]


class Panes(Container):
    """Holds the panes, placed by ``PanesLayout``."""

    def __init__(self) -> None:
        super().__init__(id="panes")
        self.arrangement = PanesLayout()

    @property
    def layout(self) -> Layout:
        return self.arrangement


class MainScreen(Screen[None]):
    """Panes, and below them status, tabs where one pane is shown, and keys."""

    DEFAULT_CSS = """
    MainScreen {
        layout: vertical; background: $background;
        #panes { height: 1fr; }
        #tabs { display: none; }
        #small { display: none; height: 1fr; color: $foreground; background: $background; }
        &.single #tabs { display: block; }
        &.tiny #panes, &.tiny #tabs, &.tiny #status, &.tiny #keys { display: none; }
        &.tiny #small { display: block; }
    }
    """
    BINDINGS: ClassVar[list[Any]] = [
        *(Binding(a.keys, f"app.do('{a.id}')", a.title, show=False, priority=a.id in ("next_pane", "previous_pane")) for a in ACTIONS),
        *(Binding(str(n), f"app.pane({n})", show=False) for n in range(1, 9)),
    ]

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view
        self.arrangement = PanesLayout()
        self.zoomed = False

    def compose(self) -> ComposeResult:
        kinds = (AgentsPane, InboxPane, GoalsPane, StreamPane, DepthPane, PoolPane, BandwidthPane, LogPane)
        with Panes() as panes:
            self.arrangement = panes.arrangement
            for kind in kinds:
                yield kind(self.view)
        yield TabsLine(self.view, "tabs")
        yield StatusLine(self.view, "status")
        yield KeysLine(self.view, "keys")
        yield Static(f"cybtui needs {COLUMNS_MIN}x{ROWS_MIN} cells.\nThe swarm goes on.", id="small", markup=False)

    def on_mount(self) -> None:
        self.query_one("#agents").focus()

    @property
    def ready(self) -> bool:
        """Whether all widgets are there: not before they are made, nor while they are taken away."""
        return self.is_running and len(self.query("Pane, OneLine")) == len(ORDER) + 3

    def panes(self) -> list[Pane]:
        """All panes in the order of their numbers."""
        return sorted(self.query(Pane), key=lambda pane: pane.NUMBER)

    @property
    def current(self) -> str:
        """Id of the focused pane."""
        return self.focused.id or ORDER[0] if isinstance(self.focused, Pane) else (self.arrangement.only or ORDER[0])

    def shown_panes(self) -> set[str]:
        """Ids of the panes on show."""
        if not self.ready:
            return set()
        size = self.query_one("#panes").size
        return set(places(size.width, size.height, self.arrangement.only))

    def arrange_panes(self) -> None:
        """Places panes anew after a resize, a zoom, or a change of the pane that is shown alone."""
        if not self.ready:
            return
        width, height = self.size.width, self.size.height
        self.set_class(width < COLUMNS_MIN or height < ROWS_MIN, "tiny")
        single = self.zoomed or width < MIDDLE or height < TALL
        hidden = self.current not in places(width, height - 2)
        self.arrangement.only = self.current if single or hidden else ""
        self.set_class(bool(self.arrangement.only), "single")
        self.query_one(f"#{self.current}").refresh(layout=True)
        self.call_after_refresh(self._update_panes)
        self.show_lines()

    def _update_panes(self) -> None:
        shown = self.shown_panes()
        for pane in self.panes():
            if pane.id in shown:
                pane.update()

    def show_lines(self) -> None:
        """Tabs and keys for the focused pane."""
        if not self.ready:
            return
        self.query_one("#keys", KeysLine).show_actions(shown_for(self.current))
        self.query_one("#tabs", TabsLine).show_tabs([(name, name) for name in ORDER], self.current)

    def show(self, name: str) -> None:
        """Focuses a pane and shows it."""
        self.query_one(f"#{name}", Pane).focus()
        self.call_after_refresh(self.arrange_panes)

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.arrange_panes)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self.arrange_panes()

    def on_tabs_line_clicked(self, event: TabsLine.Clicked) -> None:
        self.show(event.pane)
