"""The two lines below the panes: state with the last receipt, and the keys of the focused pane."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from cybtui.text import safe
from cybtui.view import View
from cybtui.widgets.pane import Line, strip_of

LAST = 3  # actions at the end that are shown however narrow the screen


class OneLine(Widget):
    """A line that is drawn only when its parts changed."""

    DEFAULT_CSS = "OneLine { height: 1; background: $background; }"

    def __init__(self, view: View, name: str) -> None:
        super().__init__(id=name)
        self.view = view
        self.parts: Line = []
        self._spans: list[tuple[int, int, str]] = []  # (first cell, end, what a click there means)

    def show(self, parts: Line) -> None:
        """Draws ``parts``."""
        if parts != self.parts:
            self.parts = parts
            self.refresh()

    def render_line(self, y: int) -> Strip:
        base = self.view.palette.text
        return strip_of([(" ", base), *self.parts] if y == 0 else [], self.size.width, base, None, self.view.ascii_only)


class StatusLine(OneLine):
    """Model, tick, rates, and what became of the last command."""

    def refresh_status(self, note: str, note_kind: str, frames: float) -> None:
        """Takes the note of the app: '' plain, 'good' or 'bad'."""
        p, g, snapshot = self.view.palette, self.view.glyphs, self.view.snapshot
        style = {"good": p.good, "bad": p.bad, "wait": p.warning}.get(note_kind, p.dim)
        if snapshot is None or not snapshot.model.levels:
            self.show([(safe(note), style)])
            return
        state = ("stopped", p.bad) if snapshot.error else ("running", p.good) if snapshot.running else ("halted", p.warning)
        rates, width = snapshot.rates, self.size.width
        line: Line = [(state[0], state[1]), (f"  tick {snapshot.tick:,}", p.text)]
        if width >= 60:
            line.append((f"  {rates.tokens_per_second:,.0f} tokens/s", p.text))
        if width >= 100:
            line.append((f"  step {rates.step_p50 * 1e3:.0f} ms p50, {rates.step_p99 * 1e3:.0f} p99", p.dim))
        if width >= 130:
            line.append((f"  {safe(snapshot.model.name)} {g.times.join(str(d) for d in snapshot.model.levels)}", p.dim))
            line.append((f"  screen {frames:.0f}/s", p.dim))
        self.show([*line, (g.separator, p.faint), (safe(snapshot.error or note), p.bad if snapshot.error else style)])


class KeysLine(OneLine):
    """Keys that matter now; a click on one does it."""

    class Clicked(Message):
        """An action was clicked."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def show_actions(self, actions: list[tuple[str, str, str]]) -> None:
        """``actions`` are (id, key, title); those that fit are shown."""
        p, parts, used = self.view.palette, [], 1
        self._spans = []
        left = sum(len(key) + len(title) + 3 for _, key, title in actions[-LAST:])
        for at, (name, key, title) in enumerate(actions):
            cells = len(key) + len(title) + 3
            last = at >= len(actions) - LAST
            if used + cells + (0 if last else left) > self.size.width:
                continue
            self._spans.append((used, used + cells - 2, name))
            parts += [(key, p.accent), (f" {title}  ", p.dim)]
            used += cells
        self.show(parts)

    def on_click(self, event: events.Click) -> None:
        for start, end, name in self._spans:
            if start <= event.x < end:
                self.post_message(self.Clicked(name))


class TabsLine(OneLine):
    """Names of panes where only one is shown."""

    class Clicked(Message):
        """A pane was clicked."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def show_tabs(self, panes: list[tuple[str, str]], current: str) -> None:
        """``panes`` are (id, short name) in order of their numbers."""
        p, parts, used = self.view.palette, [], 1
        self._spans = []
        narrow = sum(len(name) + 4 for _, name in panes) > self.size.width
        for number, (pane, name) in enumerate(panes, 1):
            text = str(number) if narrow and pane != current else f"{number} {name}"
            self._spans.append((used, used + len(text), pane))
            parts += [(text, p.accent if pane == current else p.dim), ("  ", p.text)]
            used += len(text) + 2
        self.show(parts)

    def on_click(self, event: events.Click) -> None:
        for start, end, name in self._spans:
            if start <= event.x < end:
                self.post_message(self.Clicked(name))
