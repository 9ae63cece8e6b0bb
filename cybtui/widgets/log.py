"""Log: what happened, newest last."""

from __future__ import annotations

from cybtui.text import fit, safe
from cybtui.widgets.pane import Line, Pane
from engine.runtime.snapshot import LogLine, Snapshot


class LogPane(Pane):
    """Follows the tail until the cursor is moved up."""

    TITLE = "Log"
    NUMBER = 8
    SELECTS = True
    _lines: tuple[LogLine, ...] = ()
    _at = -1

    def prepare(self, snapshot: Snapshot, width: int, height: int) -> None:
        self._lines = snapshot.log

    def rows(self, snapshot: Snapshot) -> int:
        return len(self._lines)

    def row(self, snapshot: Snapshot, index: int, width: int) -> Line:
        p, line = self.view.palette, self._lines[index]
        style = {"error": p.bad, "refused": p.warning, "warning": p.warning, "applied": p.good}.get(line.kind, p.accent)
        return [(f"{line.tick:>7,}  ", p.dim), (fit(line.kind, 10), style), (" ", p.text), (safe(line.text), p.text)]

    def follow(self, snapshot: Snapshot) -> int | None:
        if self._at < 0 or not self._lines:
            return len(self._lines) - 1
        return max(0, min(len(self._lines) - 1, self._at - self._lines[0].sequence))

    def choose(self, snapshot: Snapshot, index: int) -> None:
        self._at = -1 if index >= len(self._lines) - 1 else self._lines[index].sequence
