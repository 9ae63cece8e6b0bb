"""Inbox: proposed links, the most probable first, with the evidence of the selected one below."""

from __future__ import annotations

from cybtui.text import fit, percent, safe
from cybtui.view import UNDECIDED, View
from cybtui.widgets.pane import Line, Pane, stable
from engine.runtime.snapshot import Proposal, Snapshot


class InboxPane(Pane):
    """One row a proposal; the order rests while the pane has the focus."""

    TITLE = "Inbox: proposed links"
    NUMBER = 2
    SELECTS = True

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.resort = False
        self._chosen = False  # until the operator chooses, the best proposal is selected
        self._order: list[int] = []
        self._by_id: dict[int, Proposal] = {}

    def prepare(self, snapshot: Snapshot, width: int, height: int) -> None:
        self._by_id = {one.id: one for one in snapshot.proposals}
        ranked = list(self._by_id)
        self._order = stable(self._order, ranked) if self.has_focus and not self.resort else ranked
        self.resort = False
        self.border_subtitle = "" if self._order == ranked else "order held, o ranks"

    def head(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        p, g, counts = self.view.palette, self.view.glyphs, snapshot.proposal_counts
        shown = sum(one.status in UNDECIDED for one in snapshot.proposals)  # the best of them, where there are many
        waiting = max(shown, counts.get("proposed", 0) - counts.get("accepted", 0) - counts.get("rejected", 0))
        accepted, rejected = (" accepted", " rejected") if width >= 60 else ("", "")
        line: Line = [(f"{waiting:,} to decide", p.strong)]
        line += [
            (f"  {counts.get('proposed', 0):,} proposed", p.dim),
            (f"  {g.decided[2]} {counts.get('accepted', 0):,}{accepted}", p.good),
            (f"  {g.decided[3]} {counts.get('rejected', 0):,}{rejected}", p.dim),
        ]
        return [line]

    def rows(self, snapshot: Snapshot) -> int:
        return len(self._order)

    def row(self, snapshot: Snapshot, index: int, width: int) -> Line:
        p, g = self.view.palette, self.view.glyphs
        one = self._by_id[self._order[index]]
        decided = one.status not in UNDECIDED
        sign, style = {"accepted": (g.decided[2], p.good), "rejected": (g.decided[3], p.bad)}.get(one.status, (" ", p.dim))
        text = p.dim if decided else p.text
        bar = 6 if width >= 50 else 3
        line: Line = [
            (f"{sign} ", style),
            (g.meter(one.probability, bar), p.dim if decided else p.good if one.probability >= 0.5 else p.warning),
            (f"{percent(one.probability)}  ", text),
        ]
        room = width - bar - 8
        ends = max(4, (room - min(22, room // 3)) // 2)
        source, target = safe(one.source), safe(one.target)
        relation = f" {g.dash} {safe(one.semcon)}"
        arrow = f" {g.arrow} "
        room -= len(arrow)
        source = fit(source, min(len(source), ends), ellipsis=g.ellipsis)
        relation = fit(relation, min(len(relation), max(6, room - len(source) - min(len(target), ends))), ellipsis=g.ellipsis)
        return [*line, (source, text), (relation + arrow, p.dim), (target, text)]

    def foot(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        p, g, one = self.view.palette, self.view.glyphs, self.view.selected_proposal()
        if one is None or height < 8:
            return []
        line = "─" if g.dash != "-" else "-"
        title = f"{line} why  a{one.agent}, tick {one.tick:,} "
        lines: list[Line] = [[(title + line * max(0, width - len(title)), p.dim)]]
        lines.append([(safe(one.source), p.strong), (f" {g.dash} {safe(one.semcon)} {g.arrow} ", p.accent), (safe(one.target), p.strong)])
        for kind, text in one.evidence:
            lines.append([(fit(kind, 16), p.dim), (safe(text), p.text)])
        if one.status not in UNDECIDED:
            lines.append([(fit(one.status, 16), p.dim), (safe(one.reason), p.text)])
        return lines[: max(2, height * 2 // 5)]

    def follow(self, snapshot: Snapshot) -> int | None:
        if not self._order:
            self.view.proposal = -1
            return None
        if not self._chosen and not self.has_focus:
            self.view.proposal = self._order[0]
            return 0
        if self.view.proposal in self._by_id:
            return self._order.index(self.view.proposal)
        self.cursor = max(0, min(self.cursor, len(self._order) - 1))
        self.view.proposal = self._order[self.cursor]
        return self.cursor

    def choose(self, snapshot: Snapshot, index: int) -> None:
        if index < len(self._order):
            self.view.proposal, self._chosen = self._order[index], True

    def step(self) -> None:
        """Moves on to the next undecided proposal, so that a decision is one key."""
        for at in (*range(self.cursor + 1, len(self._order)), *range(self.cursor)):
            one = self._by_id.get(self._order[at])
            if one is not None and one.status in UNDECIDED:
                self.move(at)
                return
