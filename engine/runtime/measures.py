"""What the terminal goals are measured by: lift over the best baseline on hidden links, and KL(φ*_human ∥ φ*_ai).

The AI's focus is an estimate: every verified proposal puts its probability on its two ends, over a prior of PRIOR a particle,
φ_ai(p) = (weight(p) + PRIOR) / (Σ weight + PRIOR·P). With no proposals it is uniform; it can approach the graph's own focus
only as the agents put their claims where the focus is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.runtime.baselines import Baselines
from engine.runtime.proposals import ACCEPTED, Entry
from engine.runtime.world import World

PRIOR = 0.5


class Measures:
    """Running counts over the proposals of a swarm. Hidden links enter here and nowhere else."""

    def __init__(self, world: World, hidden: NDArray[np.int64]) -> None:
        self.world = world
        self._hidden = {world.canonical_key(*(int(value) for value in link)) for link in hidden}
        self.hidden = len(self._hidden)
        self.hits = 0  # hidden links among all proposals
        self.accepted_hits = 0  # hidden links among accepted ones
        self.by_goal: dict[int, list[int]] = {}  # goal → [proposed, accepted] of its own agents
        self.baselines: Baselines | None = None
        self.weight = np.zeros(world.particles)

    def is_hidden(self, entry: Entry) -> bool:
        """Whether a proposal states a hidden link, whichever way it is read."""
        return self.world.canonical_key(entry.source, entry.semcon, entry.target) in self._hidden

    def proposed(self, entry: Entry) -> None:
        """Counts a new, verified proposal."""
        self.restored(entry)
        self.weight[entry.source] += entry.probability
        self.weight[entry.target] += entry.probability

    def restored(self, entry: Entry) -> None:
        """Counts a proposal of an earlier run of the session, whose weight was saved."""
        self.hits += self.is_hidden(entry)
        self.by_goal.setdefault(entry.goal, [0, 0])[0] += 1

    def decided(self, entry: Entry, status: str) -> None:
        """Call before a proposal's status changes to ``status``."""
        change = int(status == ACCEPTED) - int(entry.status == ACCEPTED)
        self.accepted_hits += change * self.is_hidden(entry)
        self.by_goal.setdefault(entry.goal, [0, 0])[1] += change

    def quality(self, proposals: int) -> float:
        """Hidden links found over those the best baseline finds with as many proposals (over 1 where it finds none)."""
        if self.baselines is None or not proposals or not self.hidden:
            return float("nan")
        return self.hits / max(1, self.baselines.best(proposals))

    def divergence(self) -> float:
        """KL(φ*_human ∥ φ*_ai) in nats."""
        human = self.world.focus
        machine = (self.weight + PRIOR) / (self.weight.sum() + PRIOR * len(self.weight))
        there = human > 0
        return float(np.sum(human[there] * (np.log(human[there]) - np.log(machine[there]))))
