"""What panes share: the snapshot on show, styles, glyphs, and which agent, goal and proposal are selected."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cybtui.glyphs import ASCII, UNICODE, Glyphs
from cybtui.theme_files import Palette
from engine.runtime.commands import Source
from engine.runtime.snapshot import GoalInfo, GroupInfo, Proposal, Snapshot

UNDECIDED = ("new", "verified")


@dataclass
class View:
    """Selection is by id, so that it survives whatever the swarm does; -1 is nothing selected.

    ``version`` grows with every change that is not a new snapshot, so that panes know when to draw again.
    """

    palette: Palette
    glyphs: Glyphs = UNICODE
    source: Source | None = None
    snapshot: Snapshot | None = None
    agent: int = -1
    goal: int = -1
    proposal: int = -1
    marks: set[int] = field(default_factory=set)
    version: int = 0

    @property
    def ascii_only(self) -> bool:
        """Whether our own signs are ASCII."""
        return self.glyphs is ASCII

    def changed(self) -> None:
        """Tells panes that something other than the snapshot is new."""
        self.version += 1

    def agent_row(self, agent: int | None = None) -> int:
        """Row of an agent (the selected one by default) in the agent table, -1 when it is gone."""
        if self.snapshot is None:
            return -1
        wanted = self.agent if agent is None else agent
        ids = self.snapshot.agents.id
        row = int(np.searchsorted(ids, wanted))
        return row if row < len(ids) and int(ids[row]) == wanted else -1

    def group(self) -> GroupInfo | None:
        """Group of the selected agent, else the first."""
        if self.snapshot is None or not self.snapshot.groups:
            return None
        row = self.agent_row()
        at = int(self.snapshot.agents.group[row]) if row >= 0 else 0
        return self.snapshot.groups[min(max(0, at), len(self.snapshot.groups) - 1)]

    def selected_goal(self) -> GoalInfo | None:
        """The goal under the goal tree's cursor."""
        goals = self.snapshot.goals if self.snapshot else ()
        return next((goal for goal in goals if goal.id == self.goal), None)

    def selected_proposal(self) -> Proposal | None:
        """The proposal under the inbox's cursor."""
        proposals = self.snapshot.proposals if self.snapshot else ()
        return next((one for one in proposals if one.id == self.proposal), None)

    def chosen(self) -> tuple[int, ...]:
        """Marked agents that are alive, else the selected one, else none."""
        marked = tuple(sorted(agent for agent in self.marks if self.agent_row(agent) >= 0))
        if marked:
            return marked
        return (self.agent,) if self.agent_row() >= 0 else ()
