"""Goals: the tree of terminal, instrumental and immediate goals with their measures."""

from __future__ import annotations

from cybtui.text import count, fit, safe
from cybtui.widgets.pane import Line, Pane
from engine.runtime.snapshot import GoalInfo, Snapshot


class GoalsPane(Pane):
    """One row a goal, depth first."""

    TITLE = "Goals"
    NUMBER = 3
    SELECTS = True

    def prepare(self, snapshot: Snapshot, width: int, height: int) -> None:
        self._goals = snapshot.goals
        last: dict[int, int] = {}
        for goal in snapshot.goals:
            last[goal.parent] = goal.id
        self._last = set(last.values())
        self._by_id = {goal.id: goal for goal in snapshot.goals}
        drifting = sum(goal.drift for goal in snapshot.goals)
        self.border_subtitle = f"{drifting} drifting" if drifting else ""

    _goals: tuple[GoalInfo, ...] = ()

    def head(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        return [[(fit(" goal", width - 16) + fit("measure", 8, right=True) + fit("agents", 8, right=True), self.view.palette.dim)]]

    def rows(self, snapshot: Snapshot) -> int:
        return len(self._goals)

    def row(self, snapshot: Snapshot, index: int, width: int) -> Line:
        p, g, goal = self.view.palette, self.view.glyphs, self._goals[index]
        stem = ""
        if goal.level:
            stem = g.last if goal.id in self._last else g.branch
            parent = self._by_id.get(goal.parent)
            while parent is not None and parent.level > 0:
                stem = ("  " if parent.id in self._last else g.bar) + stem
                parent = self._by_id.get(parent.parent)
        right = self._measure(goal, width)
        cells = sum(len(text) for text, _ in right)
        title = p.strong if goal.level == 0 else p.text
        pointer = g.pointer if index == self.cursor else " "
        name = fit(goal.title, max(4, width - len(stem) - cells - 2))
        return [(pointer, p.accent), (stem, p.faint), (name, title), (" ", p.text), *right]

    def _measure(self, goal: GoalInfo, width: int) -> Line:
        p, g = self.view.palette, self.view.glyphs
        line: Line = []
        if goal.drift:
            line.append((f"{g.drift} ", p.bad))
        if width >= 60 and len([v for v in goal.history if v == v]) > 1:
            line.append((f"{g.sparkline(goal.history, 10):>10} ", p.accent))
        if goal.progress == goal.progress:
            line += [(g.meter(goal.progress, 6), p.good), (f" {goal.progress:4.0%}", p.text)]
        else:
            known = next(((name, value) for name, value in goal.measures if value == value), None)
            if known:
                value = f"{known[1]:.4f}" if known[1] != round(known[1]) else count(known[1])
                line.append((f"{safe(known[0], 18)} {value}", p.text))
        line.append((f"{goal.agents:>7,}" if goal.agents else " " * 7, p.dim))
        return line

    def foot(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        goal, p = self.view.selected_goal(), self.view.palette
        if goal is None or height < 7:
            return []
        values = "  ".join(f"{name} {value:.4g}" for name, value in goal.measures if value == value)
        return [[(f"goal {goal.id}  ", p.dim), (safe(f"{goal.kind}  {values}"), p.dim)]]

    def follow(self, snapshot: Snapshot) -> int | None:
        ids = [goal.id for goal in self._goals]
        if not ids:
            return None
        if self.view.goal not in ids:
            self.view.goal = ids[0]
        return ids.index(self.view.goal)

    def choose(self, snapshot: Snapshot, index: int) -> None:
        self.view.goal = self._goals[index].id
