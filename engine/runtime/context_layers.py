"""The shared context layers (design §5): one system context, and immutable versions of each group's context.

An agent pins one version for an episode. A new version appears at a logical tick and applies at an agent's next episode; the
old one lives on, natively, while agents hold it. Text that is for people stays here and is never fed to the model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.compile.layout import FACTS, GOAL_PARTICLES, GOAL_SEMCONS, PERSONAL_PARTICLES
from engine.machine import this_machine
from engine.model.context import ControlTokens, group_tokens, personal_tokens, system_tokens
from engine.model.policy import Policy
from engine.runtime.goals import Goal
from engine.runtime.snapshot import PAGE_LAYERS
from engine.runtime.world import World

if TYPE_CHECKING:
    from engine.native import Engine

LAYER_SYSTEM, LAYER_GROUP = PAGE_LAYERS.index("system"), PAGE_LAYERS.index("group")
Fact = tuple[int, int, int]  # source particle, semcon number, target particle

OUTPUT_FORMAT = "particle, semcon, particle, semcon, … Each new triple becomes a proposal."


@dataclass
class Version:
    """One immutable group context. ``context`` is the native id. Held by ``holders`` agents."""

    number: int
    tokens: list[int]
    facts: tuple[Fact, ...]
    context: int
    holders: int = 0


@dataclass
class Group:
    """A group of agents under one instrumental goal, one policy and one collective memory."""

    id: int
    name: str
    goal: int  # GoalInfo.id of its instrumental goal
    policy: Policy
    memory: deque[Fact] = field(default_factory=lambda: deque(maxlen=FACTS))
    changed: bool = False  # memory or goal differ from the newest version
    versions: dict[int, Version] = field(default_factory=dict)
    newest: int = -1

    @property
    def version(self) -> Version:
        """The version that new episodes pin."""
        return self.versions[self.newest]


class ContextLayers:
    """Makes and releases the native contexts of a swarm."""

    def __init__(self, engine: Engine, world: World, control: ControlTokens) -> None:
        self.engine = engine
        self.world = world
        self.control = control
        self.hardware = this_machine().text
        """What this machine is, for people: shown, not fed."""
        self.output_format = OUTPUT_FORMAT
        self.system = engine.create_context(0, LAYER_SYSTEM, system_tokens(control))
        self.neutral = engine.create_context(self.system, LAYER_GROUP, group_tokens(control))
        """No goal, no memory: what claims are verified under."""
        self._personal_head = personal_tokens(control, (0,))[:-1]  # every episode begins with it: put together once
        self._next_version = 0
        self._group_of: dict[int, Group] = {}  # by version number

    def semcon_tokens(self, semcons: Sequence[int]) -> list[int]:
        """Token ids of semcon numbers."""
        return [self.world.particles + semcon for semcon in semcons]

    def retrieved(self, goal: Goal) -> list[Fact]:
        """Links of the goal's particles, towards the best focus: what a group knows before it has accepted anything."""
        facts: list[Fact] = []
        for particle in goal.particles:
            row = self.world.row(particle)
            links = zip(self.world.semcon[row].tolist(), self.world.target[row].tolist(), strict=True)
            best = sorted(links, key=lambda link: (-self.world.focus[link[1]], link))[:2]
            facts += [(particle, semcon, target) for semcon, target in best if target != particle]
        return facts[:FACTS]

    def tokens_of(self, goal: Goal, facts: Sequence[Fact]) -> list[int]:
        """The group layer: instrumental goal and collective memory, within the bounds the model was trained on."""
        triples = [(source, self.world.particles + semcon, target) for source, semcon, target in facts[:FACTS]]
        return group_tokens(self.control, self.semcon_tokens(goal.semcons[:GOAL_SEMCONS]), goal.particles[:GOAL_PARTICLES], triples)

    def personal(self, particles: Sequence[int]) -> list[int]:
        """The personal layer: the immediate goal, what steering named, and where this episode starts."""
        shown = tuple(dict.fromkeys(particles))[:PERSONAL_PARTICLES]
        return [*self._personal_head, *shown] if shown else personal_tokens(self.control)

    def renew(self, group: Group, goal: Goal) -> Version:
        """A new version from the group's present memory, accepted links first, then retrieved ones."""
        facts = list(group.memory)[::-1]
        facts += [fact for fact in self.retrieved(goal) if fact not in facts]
        return self.restore(group, self._next_version, self.tokens_of(goal, facts), tuple(facts[:FACTS]))

    def restore(self, group: Group, number: int, tokens: list[int], facts: tuple[Fact, ...], keep_unused: bool = False) -> Version:
        """The version with a given number and tokens, as the group's newest; the one before goes unless held or kept."""
        version = Version(number, tokens, facts, self.engine.create_context(self.system, LAYER_GROUP, tokens))
        self._next_version = max(self._next_version, number + 1)
        old = group.newest
        group.versions[number] = version
        self._group_of[number] = group
        group.newest = number
        group.changed = False
        if old >= 0 and not keep_unused:
            self._drop_if_unused(group, old)
        return version

    def pin(self, group: Group, agents: int = 1) -> Version:
        """Agents take the newest version for an episode."""
        group.version.holders += agents
        return group.version

    def version_of(self, number: int) -> Version:
        """A version by its number, which must be held."""
        return self._group_of[number].versions[number]

    def repin(self, number: int) -> Version:
        """An agent takes a given version again (resume, fork)."""
        version = self.version_of(number)
        version.holders += 1
        return version

    def drop_unused(self) -> None:
        """Releases versions nobody holds, except the newest of each group."""
        for number, group in list(self._group_of.items()):
            self._drop_if_unused(group, number)

    def unpin(self, number: int, agents: int = 1) -> None:
        """Agents leave a version; -1 is none."""
        group = self._group_of.get(number)
        if group is not None:
            group.versions[number].holders -= agents
            self._drop_if_unused(group, number)

    def _drop_if_unused(self, group: Group, number: int) -> None:
        version = group.versions[number]
        if number != group.newest and version.holders <= 0:
            self.engine.release_context(version.context)
            del group.versions[number], self._group_of[number]
