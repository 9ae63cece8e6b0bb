"""A question in one line, with completion, and a page of help."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widgets import Input, Static

from cybtui.actions import ACTIONS

HELP = """cybtui: one operator, a swarm of agents, one model read at several depths.

  1 Inbox      links the swarm proposes, with the probability after verification and the evidence
  2 Agents     every agent: state, depth and confidence of its last token, pages of its own and shared
  3 Goal tree  terminal, instrumental and immediate goals, with measures; DRIFT marks progress that costs a terminal goal
  4 Stream     the selected agent's tokens; glyph and colour say which level answered
  5 Depth      shares by level, thresholds, confidence, and the pinned levels' quality measured when the model was compiled
  6 Page pool  which layer of context holds the pages; what is shared is there once
  7 Bandwidth  measured traffic and arithmetic; savings against two models of other systems
  8 Log        what happened

Keys 1 to 8 focus a pane, tab goes on, arrows select.
"""


class Complete(Suggester):
    """Suggestions from a function of the text."""

    def __init__(self, complete: Callable[[str], list[str]]) -> None:
        super().__init__(use_cache=False, case_sensitive=False)
        self.complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        if len(value) < 2:
            return None
        return next((label for label in self.complete(value) if label.casefold().startswith(value.casefold())), None)


class Prompt(ModalScreen[str | None]):
    """Asks for one line; escape gives None."""

    BINDINGS: ClassVar[list[tuple[str, str, str]]] = [("escape", "cancel", "Cancel")]
    DEFAULT_CSS = """
    Prompt { align: center middle; }
    Prompt > Vertical { width: 70%; max-width: 90; height: auto; border: round $accent; background: $panel; padding: 0 1; }
    """

    def __init__(self, question: str, value: str = "", complete: Callable[[str], list[str]] | None = None) -> None:
        super().__init__()
        self.question, self.value, self.complete = question, value, complete

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self.question, markup=False)
            yield Input(self.value, suggester=Complete(self.complete) if self.complete else None, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        """Closes without an answer."""
        self.dismiss(None)


class Help(ModalScreen[None]):
    """What the panes show, and every key."""

    BINDINGS: ClassVar[list[tuple[str, str, str]]] = [("escape,question_mark,q", "leave", "Close")]
    DEFAULT_CSS = """
    Help { align: center middle; }
    Help > VerticalScroll { width: 90%; height: 90%; border: round $accent; background: $panel; padding: 0 1; }
    """

    def compose(self) -> ComposeResult:
        keys = "\n".join(f"  {a.keys.replace('question_mark', '?').replace('slash', '/'):<8} {a.title:<14} {a.help}" for a in ACTIONS)
        with VerticalScroll():
            yield Static(HELP + "\n" + keys, markup=False)

    def action_leave(self) -> None:
        """Closes the page."""
        self.dismiss(None)
