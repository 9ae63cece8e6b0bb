"""The goal tree (design §8): terminal goals never change, instrumental goals change per task, immediate goals per step.

A goal is compiled to (semcons, particle set, measure); its tokens are what the model sees, its title is for people.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.compile.layout import GOAL_PARTICLES, GOAL_SEMCONS
from engine.errors import UserError
from engine.graph.domain import common_semcons, shown_particles
from engine.runtime.snapshot import GoalInfo
from engine.runtime.world import World, neighbourhood

TERMINAL, INSTRUMENTAL, IMMEDIATE = 0, 1, 2
QUALITY, DIVERGENCE, EXTRACT, VERIFY, LINKS_AROUND = "quality", "kl", "extract", "verify", "links around"
HISTORY = 60
DRIFT_WINDOW = 20  # samples over which an immediate goal is compared with the terminal measures
DOMAIN_PARTICLES = 2000
IMMEDIATE_PARTICLES = 300
NO_PARTICLES: NDArray[np.int64] = np.zeros(0, np.int64)


@dataclass
class Goal:
    """One node. ``particles`` are the tokens shown to the model, ``domain`` the set the goal is about (ascending)."""

    id: int
    parent: int  # -1 for terminal goals
    level: int
    kind: str
    title: str
    semcons: tuple[int, ...] = ()  # semcon numbers, not tokens
    particles: tuple[int, ...] = ()
    domain: NDArray[np.int64] = field(default_factory=lambda: NO_PARTICLES)
    group: int = -1  # the group that works under it; -1: any
    progress: float = math.nan
    measures: tuple[tuple[str, float], ...] = ()
    drift: bool = False
    history: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    progress_history: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))


class GoalTree:
    """All goals, ids in order of creation. Terminal goals are made with the tree and can be neither changed nor added to."""

    def __init__(self, world: World, label: Callable[[int], str]) -> None:
        self.world = world
        self.label = label
        self.goals: list[Goal] = [
            Goal(0, -1, TERMINAL, QUALITY, "raise knowledge quality"),
            Goal(1, -1, TERMINAL, DIVERGENCE, "lower KL(φ*_human ∥ φ*_ai)"),
            Goal(2, 0, INSTRUMENTAL, VERIFY, "verify claims before staking"),
        ]

    def __len__(self) -> int:
        return len(self.goals)

    def __getitem__(self, goal: int) -> Goal:
        if not 0 <= goal < len(self.goals):
            raise UserError(f"goal {goal} is not in the tree, which has goals 0 to {len(self.goals) - 1}")
        return self.goals[goal]

    @property
    def quality(self) -> Goal:
        """The terminal goal whose measure should rise."""
        return self.goals[0]

    @property
    def divergence(self) -> Goal:
        """The terminal goal whose measure should fall."""
        return self.goals[1]

    def children(self, goal: int) -> list[Goal]:
        """Direct children in order of id."""
        return [child for child in self.goals if child.parent == goal]

    def add_domain(self, centres: Sequence[int], group: int, parent: int = 0) -> Goal:
        """An instrumental goal: extract implicit links in the neighbourhood of ``centres``, for one group."""
        self._check_parent(parent, TERMINAL)
        domain = neighbourhood(self.world, centres, min(DOMAIN_PARTICLES, self.world.particles))
        shown = shown_particles(self.world.focus, domain, centres, GOAL_PARTICLES)
        semcons = common_semcons(self.world.roles, domain, GOAL_SEMCONS)
        title = f"extract implicit links around {self._names(centres)}"
        return self._append(Goal(len(self.goals), parent, INSTRUMENTAL, EXTRACT, title, semcons, shown, domain, group))

    def add_immediate(self, parent: int, centres: Sequence[int]) -> Goal:
        """An immediate goal: find links around ``centres``. It belongs to its parent's group."""
        self._check_parent(parent, INSTRUMENTAL)
        domain = neighbourhood(self.world, centres, min(IMMEDIATE_PARTICLES, self.world.particles))
        goal = Goal(len(self.goals), parent, IMMEDIATE, LINKS_AROUND, f"find links around {self._names(centres)}")
        goal.particles, goal.domain, goal.group = tuple(centres[:GOAL_PARTICLES]), domain, self.goals[parent].group
        goal.progress = 0.0
        return self._append(goal)

    def _append(self, goal: Goal) -> Goal:
        self.goals.append(goal)
        return goal

    def _check_parent(self, parent: int, level: int) -> None:
        found = self[parent]
        if found.level != level:
            names = ("a terminal goal", "an instrumental goal", "an immediate goal")
            raise UserError(f"goal {parent} is {names[found.level]}; the new goal needs {names[level]} as its parent")
        if level == INSTRUMENTAL and found.kind != EXTRACT:
            raise UserError(f"goal {parent} ({found.title}) has no domain: choose one that extracts links")

    def _names(self, particles: Sequence[int]) -> str:
        return ", ".join(self.label(particle) for particle in particles[:3]) + ("…" if len(particles) > 3 else "")

    def immediate_of(self, goal: int) -> list[int]:
        """The immediate goals an agent can be given for ``goal``: itself, or those under it."""
        found = self[goal]
        if found.level == IMMEDIATE:
            return [goal]
        below = [other for child in self.children(goal) for other in self.immediate_of(child.id)]
        return sorted(below)

    # ---- measures -----------------------------------------------------------------------------------------------------

    def sample(self) -> None:
        """Appends the present measures to the histories and decides drift; call at a fixed number of ticks."""
        for goal in self.goals:
            if goal.measures:
                goal.history.append(goal.measures[0][1])
            goal.progress_history.append(goal.progress)
        worse = _trend(self.quality.history) < 0 or _trend(self.divergence.history) > 0
        for goal in self.goals:
            if goal.level == IMMEDIATE:
                goal.drift = worse and _trend(goal.progress_history) > 0

    def drift_alerts(self) -> int:
        """Immediate goals that make progress while a terminal measure worsens."""
        return sum(goal.drift for goal in self.goals)

    def infos(self, agents_by_goal: NDArray[np.int64]) -> tuple[GoalInfo, ...]:
        """Depth first, for the snapshot. ``agents_by_goal`` is (goals,); a parent counts its children's agents too."""
        infos: list[GoalInfo] = []
        children: dict[int, list[Goal]] = {}
        for goal in self.goals:
            children.setdefault(goal.parent, []).append(goal)

        def visit(goal: Goal) -> int:
            at = len(infos)
            infos.append(_EMPTY)
            own = int(agents_by_goal[goal.id])
            agents = own + sum(visit(child) for child in children.get(goal.id, ()))
            infos[at] = GoalInfo(
                goal.id, goal.parent, goal.level, goal.title, goal.kind, agents, goal.progress, goal.measures,
                tuple(goal.history), goal.drift,
            )  # fmt: skip
            return agents

        for root in children[-1]:
            visit(root)
        return tuple(infos)


_EMPTY = GoalInfo(-1, -1, 0, "", "", 0, math.nan, (), (), False)


def _trend(history: Sequence[float]) -> float:
    """Last minus first of the last DRIFT_WINDOW samples; 0 while there are too few or one of them is not a number."""
    if len(history) < DRIFT_WINDOW:
        return 0.0
    first, last = history[-DRIFT_WINDOW], history[-1]
    return last - first if math.isfinite(first) and math.isfinite(last) else 0.0


def default_domains(world: World, groups: int, immediate: int) -> list[tuple[int, list[int]]]:
    """Domain centres chosen from the graph alone: high-focus hubs of distinct neighbourhoods, each with hubs inside it.

    Returns up to ``groups`` pairs (centre, up to ``immediate`` centres within its domain).
    """
    taken = np.zeros(world.particles, bool)
    order = np.argsort(-world.focus, kind="stable")
    domains: list[tuple[int, list[int]]] = []
    share = max(1, world.particles // max(1, 2 * groups))
    for centre in order:
        if len(domains) == groups:
            break
        if taken[centre] or world.offsets[centre] == world.offsets[centre + 1]:
            continue
        domain = neighbourhood(world, [int(centre)], min(DOMAIN_PARTICLES, share, world.particles))
        taken[domain] = True
        by_focus = domain[np.argsort(-world.focus[domain], kind="stable")]
        inner = [int(particle) for particle in by_focus if particle != centre][: 4 * immediate : 4]
        domains.append((int(centre), inner[:immediate] or [int(centre)]))
    if not domains and world.particles:
        domains.append((int(order[0]), [int(order[0])]))
    return domains
