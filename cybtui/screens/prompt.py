"""Questions to the operator: a line of input with completion, and a yes or no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from cybtui.text import safe

Completer = Callable[[str], list[str]]
LONGEST = 500


class Prompt(ModalScreen[str | None]):
    """Asks for a line; ``complete`` gives suggestions for the part after the last comma. Escape leaves with None."""

    DEFAULT_CSS = """
    Prompt { align: center middle; background: $background 60%; }
    #box { width: 72; max-width: 94%; height: auto; border: round $accent; border-title-color: $accent;
           background: $background; padding: 0 1; }
    #hint { color: $foreground 60%; height: auto; }
    #line { border: none; height: 1; padding: 0; background: $panel; margin: 0 0 0 0; }
    #options { border: none; max-height: 8; height: auto; background: $background; padding: 0;
               scrollbar-size-vertical: 1; scrollbar-background: $background; }
    #options > .option-list--option-highlighted { background: $accent 30%; color: $foreground; text-style: bold; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape", "leave", "Cancel", show=False),
        Binding("down", "pick(1)", show=False, priority=True),
        Binding("up", "pick(-1)", show=False, priority=True),
        Binding("tab", "take", show=False, priority=True),
    ]

    def __init__(self, title: str, hint: str = "", value: str = "", complete: Completer | None = None) -> None:
        super().__init__()
        self.question, self.hint, self.value, self.complete = title, hint, value, complete
        self._found: list[str] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Text(safe(self.question))
            if self.hint:
                yield Static(safe(self.hint), id="hint", markup=False)
            yield Input(self.value, id="line", select_on_focus=False, max_length=LONGEST)
            yield OptionList(id="options")

    def on_mount(self) -> None:
        self.query_one("#options", OptionList).can_focus = False
        self.query_one("#line", Input).focus()
        self._suggest(self.value)

    def _suggest(self, text: str) -> None:
        options = self.query_one("#options", OptionList)
        options.clear_options()
        last = text.rpartition(",")[2].strip()
        found = self.complete(last) if self.complete is not None else []
        found = [label for label in found if label != last]
        options.add_options([Option(Text(safe(label, 120)), id=str(at)) for at, label in enumerate(found)])
        options.display = bool(found)
        self._found = found

    def on_input_changed(self, event: Input.Changed) -> None:
        self._suggest(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        options = self.query_one("#options", OptionList)
        if options.highlighted is not None and self._found:
            self.action_take()
        self.dismiss(self.query_one("#line", Input).value.strip())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_take()

    def action_pick(self, step: int) -> None:
        """Moves among the suggestions."""
        options = self.query_one("#options", OptionList)
        if self._found:
            at = options.highlighted
            options.highlighted = (0 if step > 0 else len(self._found) - 1) if at is None else (at + step) % len(self._found)

    def action_take(self) -> None:
        """Puts the highlighted suggestion (the first by default) into the line."""
        if not self._found:
            return
        line, at = self.query_one("#line", Input), self.query_one("#options", OptionList).highlighted
        before, comma, _ = line.value.rpartition(",")
        line.value = f"{before}{comma}{' ' if comma else ''}{self._found[at or 0]}"
        line.cursor_position = len(line.value)
        self.query_one("#options", OptionList).highlighted = None

    def action_leave(self) -> None:
        """Leaves without an answer."""
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Asks yes or no; only ``y`` is yes."""

    DEFAULT_CSS = """
    Confirm { align: center middle; background: $background 60%; }
    #box { width: 60; max-width: 94%; height: auto; border: round $error; background: $background; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,enter,q", "answer(False)", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(f"{safe(self.question)}\n\ny yes    n no", markup=False)

    def action_answer(self, yes: bool) -> None:
        """Leaves with the answer."""
        self.dismiss(yes)
