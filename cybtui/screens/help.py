"""The help page, made from the registry of actions."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from cybtui.actions import ACTIONS, key_names
from cybtui.theme_files import Palette

PANES = (
    ("Agents", "every agent: state, level of its last token, confidence, tokens, own+shared pages, accepted/proposed links"),
    ("Inbox", "links that agents propose, ranked by verified probability; below, the evidence of the selected one"),
    ("Goals", "terminal, instrumental and immediate goals, with what measures them; drift is flagged"),
    ("Token stream", "the selected agent's tokens; sign and colour say which level answered"),
    ("Depth", "how often each level answers, what it is worth pinned, the thresholds that decide, how sure it was"),
    ("Page pool", "memory as a map: layer by colour, shared pages solid; copies stay at zero"),
    ("Bandwidth", "bytes and arithmetic a token, counted, beside two models of other systems"),
    ("Log", "what happened"),
)


class Help(ModalScreen[None]):
    """Panes and keys; any of ?, q and escape leaves."""

    DEFAULT_CSS = """
    Help { align: center middle; background: $background 60%; }
    #page { width: 100; max-width: 96%; height: auto; max-height: 94%; border: round $accent; background: $background; padding: 0 2;
            border-title-color: $accent; border-subtitle-color: $foreground 60%; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("escape,question_mark,q,f1", "leave", "Close", show=False)]

    def __init__(self, palette: Palette) -> None:
        super().__init__()
        self.palette = palette

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="page") as page:
            page.border_title, page.border_subtitle = "Help", "escape closes"
            yield Static(self._text())

    def on_mount(self) -> None:
        self.query_one("#page").focus()

    def _text(self) -> Group:
        p = self.palette
        parts: list[RenderableType] = [
            Text("A swarm of agents works on one graph, one nested model and one memory pool.", p.text),
            Text("Commands act on the marked agents, else on the selected one.", p.dim),
        ]
        group = ""
        for action in ACTIONS:
            if action.group != group:
                group = action.group
                table = _table()
                parts += [Text(f"\n{group}", p.accent), table]
            table.add_row(Text(key_names(action), p.strong), Text(action.title, p.text), Text(action.help, p.dim))
        table = _table()
        for number, (name, what) in enumerate(PANES, 1):
            table.add_row(Text(str(number), p.strong), Text(name, p.text), Text(what, p.dim))
        return Group(*parts, Text("\nPanes", p.accent), table)

    def action_leave(self) -> None:
        """Closes the page."""
        self.dismiss(None)


def _table() -> Table:
    """Columns of keys, name and explanation; the last one wraps within itself."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for width in (12, 13):
        table.add_column(width=width, no_wrap=True)
    table.add_column(ratio=1)
    return table
