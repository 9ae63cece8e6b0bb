"""A pane: fixed lines above, rows that scroll, fixed lines below. Only lines that changed are drawn, only those in view are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from cybtui.text import IN_ASCII, fit
from cybtui.view import View
from engine.runtime.snapshot import Snapshot

Part = tuple[str, Style]
Line = list[Part]


def strip_of(line: Line, width: int, base: Style, over: Style | None = None, ascii_only: bool = False) -> Strip:
    """A strip of exactly ``width`` cells; ``over`` is laid on every style, ``ascii_only`` turns our own signs into ASCII."""
    if ascii_only:
        line = [(text.translate(IN_ASCII), style) for text, style in line]
    segments, used = [], 0
    for text, style in line:
        if used >= width:
            break
        cells = len(text) if text.isascii() else cell_len(text)
        if used + cells > width:
            cells = width - used
            text = fit(text, cells, ellipsis="~" if ascii_only else "…")  # noqa: PLW2901
        segments.append(Segment(text, style + over if over else style))
        used += cells
    if used < width:
        segments.append(Segment(" " * (width - used), base + over if over else base))
    return Strip(segments, width)


class Pane(ScrollView, can_focus=True):
    """Subclasses give lines from a snapshot: ``head``, ``row`` and ``foot``; ``rows`` says how many rows there are.

    Lines are lists of (text, style); whatever is too wide is cut, so that a line can never disturb its neighbours.
    """

    TITLE = ""
    NUMBER = 0
    SELECTS = False
    DEFAULT_CSS = """
    Pane {
        border: round $foreground 18%; border-title-color: $foreground 60%; border-subtitle-color: $foreground 45%;
        border-subtitle-align: right; padding: 0 1; background: $background; overflow-x: hidden;
        scrollbar-size-vertical: 1; scrollbar-gutter: stable;
        scrollbar-color: $foreground 20%; scrollbar-background: $background; scrollbar-color-hover: $accent;
        scrollbar-background-hover: $background; scrollbar-background-active: $background;
    }
    Pane:focus { border: round $accent; border-title-color: $accent; border-title-style: bold; border-subtitle-color: $accent; }
    """

    class Selected(Message):
        """The operator moved a cursor."""

    def __init__(self, view: View) -> None:
        super().__init__(id=type(self).__name__.removesuffix("Pane").lower())
        self.view = view
        self.cursor = 0
        self._drawn: tuple[object, ...] = ()
        self._strips: list[Strip] = []
        self.border_title = f"{self.NUMBER} {self.TITLE}"
        if not self.SELECTS:
            self.styles.overflow_y = "hidden"
            self.styles.scrollbar_gutter = "auto"

    # ---- what subclasses give --------------------------------------------------------------------------------------

    def prepare(self, snapshot: Snapshot, width: int, height: int) -> None:
        """Called once before lines are made."""

    def head(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        """Lines above the rows."""
        return []

    def rows(self, snapshot: Snapshot) -> int:
        """How many rows scroll."""
        return 0

    def row(self, snapshot: Snapshot, index: int, width: int) -> Line:
        """One row."""
        return []

    def foot(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        """Lines below the rows."""
        return []

    def follow(self, snapshot: Snapshot) -> int | None:
        """The row that the selection is at now; None leaves the cursor alone."""
        return None

    def choose(self, snapshot: Snapshot, index: int) -> None:
        """The cursor came to a row."""

    # ---- drawing ---------------------------------------------------------------------------------------------------

    @property
    def inner(self) -> Size:
        """Cells for lines; the scroll bar's column is left out when it shows."""
        return self.scrollable_content_region.size

    def update(self) -> None:
        """Draws what changed since the last call; free when nothing did."""
        size = self.inner
        key = (id(self.view.snapshot), self.view.version, size, self.scroll_offset.y, self.has_focus, self.cursor)
        if key == self._drawn or not size.width or not size.height:
            return
        strips = self._make(size.width, size.height)
        after = (id(self.view.snapshot), self.view.version, size, self.scroll_offset.y, self.has_focus, self.cursor)
        old, self._strips, self._drawn = self._strips, strips, after
        if len(old) != len(strips):
            self.refresh()
            return
        changed = [Region(0, y, size.width, 1) for y, strip in enumerate(strips) if strip != old[y]]
        if changed:
            self.refresh(*changed)

    def _make(self, width: int, height: int) -> list[Strip]:
        palette, snapshot = self.view.palette, self.view.snapshot
        if snapshot is None or not snapshot.model.levels:
            message = "loading the model" + self.view.glyphs.ellipsis
            return [strip_of([(message if not y else "", palette.dim)], width, palette.text) for y in range(height)]
        self.prepare(snapshot, width, height)
        total, at = self.rows(snapshot), self.follow(snapshot)
        if at is not None and total:
            self.cursor = max(0, min(total - 1, at))
        head = self.head(snapshot, width, height)[:height]
        foot = self.foot(snapshot, width, height)[: max(0, height - len(head) - 1)]
        body = height - len(head) - len(foot)
        self._head, self._body = len(head), body
        self._extend(Size(width, len(head) + total + len(foot) if total > body else 1))
        if self.SELECTS and total:
            self._keep_in_view(total)
        top = max(0, min(round(self.scroll_y), total - body))
        ascii_only = self.view.ascii_only
        strips = [strip_of(line, width, palette.text, None, ascii_only) for line in head]
        for index in range(top, min(total, top + max(0, body))):
            over = None
            if self.SELECTS and index == self.cursor:
                over = palette.cursor if self.has_focus else palette.cursor_idle
            strips.append(strip_of(self.row(snapshot, index, width), width, palette.text, over, ascii_only))
        blank = strip_of([], width, palette.text)
        strips += [blank] * max(0, height - len(foot) - len(strips))
        strips += [strip_of(line, width, palette.text, None, ascii_only) for line in foot]
        return strips[:height]

    def _extend(self, wanted: Size) -> None:
        """Takes the height that can be scrolled; where there is a scroll bar before and after, no layout of the screen is due."""
        if wanted.height == self.virtual_size.height:
            return
        if self.show_vertical_scrollbar and min(wanted.height, self.virtual_size.height) > 1:
            self.set_reactive(Widget.virtual_size, wanted)
            self.vertical_scrollbar.window_virtual_size = wanted.height
        else:
            self.virtual_size = wanted

    def _keep_in_view(self, total: int) -> None:
        top, body = round(self.scroll_y), max(1, self._body)
        if self.cursor < top:
            self.set_reactive(type(self).scroll_y, float(self.cursor))
        elif self.cursor >= top + body:
            self.set_reactive(type(self).scroll_y, float(self.cursor - body + 1))
        else:
            return
        self.set_reactive(type(self).scroll_target_y, self.scroll_y)
        self.vertical_scrollbar.position = self.scroll_y  # also where the bar is about to be shown

    def render_line(self, y: int) -> Strip:
        if not self._strips:
            self.update()
        if y < len(self._strips):
            return self._strips[y].adjust_cell_length(self.inner.width)
        return Strip.blank(self.inner.width, self.view.palette.text)

    # ---- keys and mouse --------------------------------------------------------------------------------------------

    _head = 0
    _body = 1

    def move(self, to: int) -> None:
        """Moves the cursor to a row, or scrolls where the pane has none."""
        snapshot = self.view.snapshot
        if snapshot is None:
            return
        total = self.rows(snapshot)
        to = max(0, min(total - 1, to))
        if self.SELECTS and total:
            self.cursor = to
            self.choose(snapshot, to)
            self.view.changed()
            self.post_message(self.Selected())
        self.update()

    def on_key(self, event: events.Key) -> None:
        steps = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": self._body, "pageup": -self._body}
        ends = {"home": 0, "end": 1 << 40}
        if not self.SELECTS:
            return
        if event.key in steps:
            self.move(self.cursor + steps[event.key])
        elif event.key in ends:
            self.move(ends[event.key])
        else:
            return
        event.stop()
        event.prevent_default()

    def on_click(self, event: events.Click) -> None:
        row = event.get_content_offset(self)
        if self.SELECTS and row is not None and self._head <= row.y < self._head + self._body:
            self.move(round(self.scroll_y) + row.y - self._head)

    def _on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 3)

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -3)

    def _wheel(self, event: events.MouseEvent, step: int) -> None:
        if self.SELECTS:
            self.move(self.cursor + step)
        else:
            self.scroll_relative(y=step, animate=False)
        event.stop()
        event.prevent_default()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.update()

    def on_focus(self) -> None:
        self.update()

    def on_blur(self) -> None:
        self.update()

    def on_resize(self) -> None:
        self.update()


def stable(previous: Sequence[int], wanted: Iterable[int]) -> list[int]:
    """``wanted`` in the order of ``previous``, newcomers last: nothing moves under the cursor."""
    order = list(wanted)
    present = set(order)
    kept = [item for item in previous if item in present]
    known = set(kept)
    return kept + [item for item in order if item not in known]
