"""Agents: thousands of rows, of which those in view are made."""

from __future__ import annotations

import time

import numpy as np

from cybtui.text import count, fit, percent, safe
from cybtui.view import View
from cybtui.widgets.pane import Line, Pane, stable
from engine.runtime.snapshot import AGENT_STATES, Snapshot

SORTS = ("id", "confidence", "depth", "tokens", "pages", "accepted", "state")
SORT_SECONDS = 2.0


class AgentsPane(Pane):
    """One row an agent. The order rests while the pane has the focus, and is made anew every two seconds otherwise."""

    TITLE = "Agents"
    NUMBER = 1
    SELECTS = True

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.filter = ""
        self.sort = 0
        self.resort = True
        self._order: list[int] = []  # agent ids
        self._rows: dict[int, int] = {}  # agent id -> row of the table
        self._sorted_at = 0.0
        self._seen: tuple[object, ...] = ()

    def prepare(self, snapshot: Snapshot, width: int, height: int) -> None:
        table = snapshot.agents
        seen = (id(snapshot), self.filter, self.sort, self.resort)
        if seen == self._seen:
            return
        rows = self._filtered(snapshot)
        due = not self.has_focus and time.monotonic() - self._sorted_at > SORT_SECONDS
        keys = self._keys(snapshot)[rows]
        wanted = table.id[rows[np.lexsort((table.id[rows], keys))]].tolist()
        if self.resort or due:
            self._order = wanted
            self._sorted_at, self.resort = time.monotonic(), False
        else:
            self._order = stable(self._order, wanted)
        self._rows = dict(zip(table.id.tolist(), range(len(table.id)), strict=True))
        self._seen = (id(snapshot), self.filter, self.sort, self.resort)

    def _filtered(self, snapshot: Snapshot) -> np.ndarray:
        table = snapshot.agents
        rows = np.arange(len(table.id))
        words = self.filter.casefold().split()
        if not words:
            return rows
        goals = {at: goal.title for at, goal in enumerate(snapshot.goals)}

        def text(row: int) -> str:
            group = snapshot.groups[table.group[row]].name if snapshot.groups else ""
            parts = (table.name[row], group, AGENT_STATES[table.state[row]], goals.get(int(table.goal[row]), ""))
            mark = "marked" if int(table.id[row]) in self.view.marks else ""
            return " ".join((*parts, mark)).casefold()

        return np.array([row for row in rows.tolist() if all(word in text(row) for word in words)], np.int64)

    def _keys(self, snapshot: Snapshot) -> np.ndarray:
        table = snapshot.agents
        keys = {
            "confidence": -table.confidence,
            "depth": -table.depth.astype(np.float64),
            "tokens": -table.generated.astype(np.float64),
            "pages": -table.pages_private.astype(np.float64),
            "accepted": -table.accepted.astype(np.float64),
            "state": -table.state.astype(np.float64),
        }
        return np.asarray(keys.get(SORTS[self.sort], table.id))

    def head(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        p, g, table = self.view.palette, self.view.glyphs, snapshot.agents
        states = np.bincount(table.state, minlength=len(AGENT_STATES))
        line: Line = [(f"{len(table.id):,} agents", p.strong)]
        present = [(state, style) for state, style in ((2, p.good), (1, p.dim), (3, p.warning), (4, p.bad)) if states[state]]
        words = sum(len(f"  * {states[state]:,} {AGENT_STATES[state]}") for state, _ in present) + len(line[0][0]) <= width
        for state, style in present:
            line.append((f"  {g.states[state]} {states[state]:,}" + (f" {AGENT_STATES[state]}" if words else ""), style))
        if self.filter:
            line.append((f"  filter {safe(self.filter)!r}: {len(self._order):,}", p.accent))
        if self.view.marks:
            line.append((f"  {g.mark} {len(self.view.marks)} marked", p.accent))
        names = {"id": "agent", "confidence": "confidence", "depth": "depth", "tokens": "tokens", "pages": "pages", "state": "state"}
        title: Line = [("  ", p.dim)]
        for name, cells, right in self._columns(width):
            key = {"agent": "id", "links": "accepted", "sure": "confidence"}.get(name, name)
            here = SORTS[self.sort] == key
            shown = names.get(name, name) + (g.sorted if here else "")
            title.append((fit(shown, cells, right) + " ", p.accent if here else p.dim))
        return [line, title] if height > 4 else [title]

    def _columns(self, width: int) -> list[tuple[str, int, bool]]:
        """(name, cells, right-aligned) of the columns that fit, in order."""
        columns = [("agent", 6, False), ("state", 9, False), ("depth", 6, False)]
        room = width - 2 - sum(cells + 1 for _, cells, _ in columns)
        sure = ("confidence", 10, False) if room >= 10 else ("sure", 4, True)
        for name, cells, right in (sure, ("tokens", 6, True), ("pages", 8, True), ("links", 6, True)):
            if room >= cells:
                columns.append((name, cells, right))
                room -= cells + 1
        if room >= 8:
            columns.append(("last token", room - 1, False))
        return columns

    def rows(self, snapshot: Snapshot) -> int:
        return len(self._order)

    def row(self, snapshot: Snapshot, index: int, width: int) -> Line:
        p, g, table = self.view.palette, self.view.glyphs, snapshot.agents
        agent = self._order[index]
        row, levels = self._rows[agent], len(snapshot.model.levels)
        depth, state = int(table.depth[row]), int(table.state[row])
        low, high = int(table.depth_min[row]), int(table.depth_max[row])
        level = p.level(depth, levels)
        bounds = "" if (low, high) in ((0, 0), (1, levels)) else (f" ={low}" if low == high else f" {low}-{high}")
        style = {2: p.good, 3: p.warning, 4: p.bad}.get(state, p.dim)
        chance = float(table.confidence[row])
        token = int(table.last_token[row])
        label = self.view.source.label(token) if token >= 0 and self.view.source else ""
        cells: dict[str, Line] = {
            "agent": [(fit(table.name[row], 6), p.text)],
            "state": [(fit(f"{g.states[state]} {AGENT_STATES[state]}"[:9], 9), style)],
            "depth": [(fit(f"{g.level(depth, levels)} {depth or g.dash}{bounds}", 6), level)],
            "confidence": [(g.meter(chance, 5), level), (f" {percent(chance)}", p.text)],
            "sure": [(percent(chance), p.text)],
            "tokens": [(fit(count(int(table.generated[row])), 6, right=True), p.text)],
            "pages": [(fit(f"{table.pages_private[row]}+{table.pages_shared[row]}", 8, right=True), p.dim)],
            "links": [(fit(f"{table.accepted[row]}/{table.proposed[row]}", 6, right=True), p.dim)],
        }
        line: Line = [(g.mark if agent in self.view.marks else " ", p.accent), (g.pointer if index == self.cursor else " ", p.accent)]
        for name, size, _ in self._columns(width):
            line += cells.get(name) or [(fit(label, size), p.dim)]
            line.append((" ", p.text))
        return line

    @property
    def order(self) -> tuple[int, ...]:
        """Ids of the agents shown, in order."""
        return tuple(self._order)

    def follow(self, snapshot: Snapshot) -> int | None:
        if not self._order:
            return None
        try:
            return self._order.index(self.view.agent)
        except ValueError:
            self.cursor = max(0, min(self.cursor, len(self._order) - 1))
            self.view.agent = self._order[self.cursor]
            self.view.changed()
            return self.cursor

    def choose(self, snapshot: Snapshot, index: int) -> None:
        if index < len(self._order):
            self.view.agent = self._order[index]
