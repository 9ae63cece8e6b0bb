"""Stream: the selected agent's tokens, each with the level that answered, by sign and colour."""

from __future__ import annotations

from rich.cells import cell_len

from cybtui.text import fit, percent, safe
from cybtui.view import View
from cybtui.widgets.pane import Line, Pane
from engine.runtime.snapshot import Snapshot, TokenRecord

TOKENS = 500
SHORTEST_LABEL = 8


class StreamPane(Pane):
    """One row a token, newest last; follows the tail until the cursor is moved up."""

    TITLE = "Token stream"
    NUMBER = 4
    SELECTS = True

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._tokens: list[TokenRecord] = []
        self._at = -1  # sequence number under the cursor, -1 = the tail
        self._agent = -1

    def prepare(self, snapshot: Snapshot, width: int, height: int) -> None:
        if self.view.agent != self._agent:
            self._agent, self._at = self.view.agent, -1
        source = self.view.source
        self._tokens = source.stream(self._agent, TOKENS) if source and self._agent >= 0 else []
        name = f" of a{self._agent}" if self._agent >= 0 else ""
        self.border_title = f"{self.NUMBER} {self.TITLE}{name}"
        self.border_subtitle = "" if self._at < 0 else "end: follow"

    def head(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        p, g, levels = self.view.palette, self.view.glyphs, len(snapshot.model.levels)
        legend: Line = [(f"{g.level(0, levels)} given  ", p.levels[0])]
        for level, name in enumerate(snapshot.model.level_names, 1):
            legend.append((f"{g.level(level, levels)} {safe(name)}  ", p.level(level, levels)))
        ribbon: Line = [(g.level(t.depth, levels), p.level(t.depth, levels)) for t in self._tokens[-width:]]
        return [legend, ribbon] if height >= 8 else [legend]

    def rows(self, snapshot: Snapshot) -> int:
        return len(self._tokens)

    def row(self, snapshot: Snapshot, index: int, width: int) -> Line:
        p, g, levels = self.view.palette, self.view.glyphs, len(snapshot.model.levels)
        token = self._tokens[index]
        style = p.level(token.depth, levels)
        indent = "" if token.starts_episode or token.kind != "semcon" else "  "
        others = [(text, chance) for text, chance in token.alternatives if text != token.text][:2]
        wide = width >= 48
        room = min(30, max(24, width - 36)) if wide else width - 14
        line: Line = [
            (f"{g.level(token.depth, levels)} ", style),
            (fit(indent + safe(token.text), room), p.dim if token.depth == 0 else style if p.colourful else p.text),
        ]
        if token.depth == 0:
            return [*line, ("  given" if not token.starts_episode else "  new episode", p.dim)]
        line += [(" ", p.text), (g.meter(token.probability, 5), style), (f" {percent(token.probability)}", p.text)]
        return [*line, (_others(others, width - room - 13), p.dim)] if wide else line

    def foot(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        p, g = self.view.palette, self.view.glyphs
        if height < 12 or not self.has_focus or not self._tokens:
            return []
        token = self._tokens[min(len(self._tokens) - 1, max(0, self.cursor))]
        names = ("given", *snapshot.model.level_names)
        lines: list[Line] = [[(f"tick {token.tick:,}  {token.kind}  answered by {safe(names[min(token.depth, len(names) - 1)])}", p.dim)]]
        for text, chance in token.alternatives[:3]:
            lines.append([(g.meter(chance, 8), p.accent), (f" {chance:6.1%}  ", p.text), (safe(text), p.text)])
        return lines

    def follow(self, snapshot: Snapshot) -> int | None:
        if not self._tokens:
            return None
        if self._at < 0:
            return len(self._tokens) - 1
        return next((i for i, token in enumerate(self._tokens) if token.sequence >= self._at), len(self._tokens) - 1)

    def choose(self, snapshot: Snapshot, index: int) -> None:
        last = index >= len(self._tokens) - 1
        self._at = -1 if last else self._tokens[index].sequence


def _others(others: list[tuple[str, float]], width: int) -> str:
    """What else was probable, as many as fit; a label is cut, its share never is."""
    text = ""
    for label, chance in others:
        share, room = f" {chance:.0%}", width - len(text) - 2
        whole = cell_len(safe(label, 40))
        cells = min(whole, room - len(share))
        if cells < min(whole, SHORTEST_LABEL):
            break
        text += "  " + fit(safe(label, 40), cells) + share
    return text
