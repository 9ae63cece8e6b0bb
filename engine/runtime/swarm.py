"""The swarm: agents, groups, goals and proposals over one native engine. One ``step`` is one logical tick.

Nothing here looks at a clock or another thread: the same model, seed and commands give the same tokens and decisions, whatever
the batch, the threads or the load. Effects that cross agents happen in the order of (tick, agent id).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.model.policy import Policy
from engine.runtime import cycle
from engine.runtime.agents import Population, agent_cid, members
from engine.runtime.claims import Claims, promise
from engine.runtime.context_layers import ContextLayers, Group
from engine.runtime.goals import IMMEDIATE, GoalTree, default_domains
from engine.runtime.ledger import Ledger
from engine.runtime.measures import Measures
from engine.runtime.proposals import ACCEPTED, BELOW_HALF, REJECTED, VERIFIED, Entry, Proposals
from engine.runtime.starts import Domain, Starts
from engine.runtime.verification import REJECT_BELOW, Verifier, stored_logistic
from engine.runtime.world import World, neighbourhood

if TYPE_CHECKING:
    from engine.model.model import Model
    from engine.native import Engine

VERSION_TICKS = 16  # new group versions appear at multiples of it
SAMPLE_TICKS = 10  # goal measures are sampled at multiples of it
DEFAULT_BUDGET = 20
TEMPERATURE = 0.7  # of a policy that states none: claims are better drawn near the top of the distribution
STEERING_PARTICLES = 64
ACCEPT_FROM = 0.5  # headless
FIRST_BEGINNERS = 16
AGENTS_PER_VERIFICATION = 8  # a tick verifies one claim for so many agents
CLAIMS_PER_AGENT, CLAIMS_LEAST = 2, 512  # room in the queue; what a tick verifies lasts sixteen ticks
VERIFICATIONS_LEAST, VERIFICATIONS_AT_ONCE = 8, 1024


@dataclass(frozen=True, slots=True)
class Tick:
    """What one step did. Rows are ordered by agent id."""

    tick: int
    agents: NDArray[np.int64]  # (n,) ids
    tokens: NDArray[Any]  # (n,) TOKEN_DTYPE
    began: tuple[tuple[int, tuple[int, ...]], ...]  # agent id, prompt of an episode that began in this tick
    proposals: tuple[int, ...]  # new ones


class Swarm:
    """``live`` False: verified proposals are accepted or rejected at once; True: they wait for the operator.

    Live, at most as many new agents begin in one tick as have begun before (FIRST_BEGINNERS at first), in order of id: somebody
    who watches sees the first tokens at once, and not after a thousand contexts were computed.
    """

    def __init__(
        self,
        model: Model,
        engine: Engine,
        *,
        seed: int = 0,
        budget: int = DEFAULT_BUDGET,
        live: bool = False,
        ledger: Ledger | None = None,
    ) -> None:
        self.model = model
        self.engine = engine
        self.seed = seed
        self.budget = budget
        self.live = live
        self.tick = 0
        self.limit = 0  # generated tokens after which an agent rests; 0 = none
        self.world = World.of_model(model)
        self.label: Callable[[int], str] = lru_cache(1 << 16)(model.vocabulary.label)
        self.goals = GoalTree(self.world, self.label)
        self.layers = ContextLayers(engine, self.world, model.vocabulary.control)
        self.groups: list[Group] = []
        self.agents = Population(engine.config.agents, engine.levels)
        self.starts = Starts(self.world, seed)
        self.claims = Claims()
        self.proposals = Proposals()
        self.verifier = Verifier(engine, self.world, self.layers, stored_logistic(model.verification))
        self.measures = Measures(self.world, model.hidden)
        self.ledger = ledger or Ledger()
        self.claims.capacity = max(CLAIMS_LEAST, CLAIMS_PER_AGENT * engine.config.agents)
        self.default_policy = replace(model.policy, temperature=TEMPERATURE)
        self.history: list[Tick] | None = None  # a list keeps every tick, for ``digest``
        self.audit: list[tuple[Entry, NDArray[np.float64]]] | None = None  # a list keeps every claim verified, and its features
        self.agents_per_verification = AGENTS_PER_VERIFICATION
        self._cid_text = lru_cache(1 << 16)(lambda token: model.vocabulary.cid(token).hex())
        self.everywhere: NDArray[np.int64] = np.arange(self.world.particles)
        self._domains_of_goal: dict[int, tuple[Domain, ...]] = {}  # a goal's domain never changes

    # ---- groups and goals -----------------------------------------------------------------------------------------------

    def add_group(self, centres: Sequence[int], policy: Policy | None = None, parent: int = 0) -> Group:
        """A group with its instrumental goal (extract implicit links around ``centres``) and first context version."""
        number = len(self.groups)
        policy = self.model.check_policy(policy or self.default_policy)
        self.engine.set_policy(number, policy)
        goal = self.goals.add_domain(centres, number, parent)
        group = Group(number, self.label(centres[0]), goal.id, policy)
        self.groups.append(group)
        self.layers.renew(group, goal)
        return group

    def add_default_groups(self, agents: int, policy: Policy | None = None) -> None:
        """Groups and immediate goals for a swarm of this size, with domains chosen from the graph."""
        groups = max(1, min(12, max(4, agents // 64), agents, self.engine.config.groups // 2))
        immediate = max(2, min(8, agents // (12 * groups)))
        for centre, inner in default_domains(self.world, groups, immediate):
            group = self.add_group([centre], policy)
            for particle in inner:
                self.goals.add_immediate(group.goal, [particle])

    def spawn(self, count: int, group: int | None = None, goal: int = -1) -> list[int]:
        """New agents; they begin at the next tick. ``group`` None spreads over the groups, ``goal`` -1 over immediate goals."""
        spawned = []
        for _ in range(count):
            agent = self.agents.next_id
            number = (agent - 1) % len(self.groups) if group is None else group
            under = self.groups[number].goal if goal < 0 else goal
            choices = self.goals.immediate_of(under) or [self.groups[number].goal]
            chosen = choices[((agent - 1) // (len(self.groups) if group is None else 1)) % len(choices)]
            slot = self.engine.create_agent(number, agent_cid(self.seed, agent), chosen + 1, agent)
            self.agents.add(slot, agent, number, chosen)
            spawned.append(agent)
        return spawned

    def steering_domain(self, particles: Sequence[int]) -> NDArray[np.int64]:
        """Where agents start that were steered to ``particles``."""
        return neighbourhood(self.world, particles, min(STEERING_PARTICLES, self.world.particles))

    def end_episode(self, slot: int) -> None:
        """The agent starts anew at the next tick."""
        self.agents.needs_episode[slot] = True

    def remove(self, slot: int) -> None:
        """Kills an agent."""
        self.engine.kill(slot)
        self.unpin(slot)
        self.agents.remove(slot)

    def rest(self, slot: int) -> None:
        """Pauses an agent that runs; an agent that has not begun just does not begin."""
        if not self.agents.paused[slot]:
            self.agents.paused[slot] = True
            if self.agents.episode[slot]:
                self.engine.pause(slot)

    def wake(self, slot: int) -> None:
        """Undoes ``rest``."""
        if self.agents.paused[slot]:
            self.agents.paused[slot] = False
            if self.agents.episode[slot]:
                self.engine.resume(slot)

    # ---- one tick ---------------------------------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """Agents that will take a token in the next tick."""
        return int(np.count_nonzero(self.agents.live & ~self.agents.paused))

    def step(self) -> Tick:
        """One logical tick: contexts, episodes, a token an agent, claims, verification, decisions. Raises NativeError."""
        if self.tick and self.tick % VERSION_TICKS == 0:
            for group in self.groups:
                if group.changed:
                    self.layers.renew(group, self.goals[group.goal])
        began = self._begin_episodes()
        self.engine.tick()
        tokens = self.engine.tick_tokens()
        slots = tokens["slot"].astype(np.int64)
        order = np.argsort(self.agents.id[slots], kind="stable")
        tokens, slots = tokens[order], slots[order]
        self.tick += 1
        new = self._think(slots, tokens)
        if self.tick % SAMPLE_TICKS == 0:
            self.measure()
        self.ledger.tick()
        tick = Tick(self.tick, self.agents.id[slots], tokens, began, new)
        if self.history is not None:
            self.history.append(tick)
        return tick

    def _begin_episodes(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        agents = self.agents
        rows = agents.slots
        due = rows[agents.needs_episode[rows] & ~agents.paused[rows]]
        if self.live:
            new = agents.episode[due] == 0
            allowed = max(FIRST_BEGINNERS, int(np.count_nonzero(agents.episode[rows])))
            due = due[~new | (np.cumsum(new) <= allowed)]
        if not len(due):
            return ()
        slots = due.tolist()
        prompts = self.starts.choose(agents, slots, [self._domains(slot) for slot in slots])
        personal = []
        for slot, goal, prompt in zip(slots, agents.goal[due].tolist(), prompts, strict=True):
            shown = agents.steering.get(slot, self.goals[goal].particles)
            personal.append(self.layers.personal([*shown[:1], prompt[0]]))
        contexts = np.zeros(len(due), np.int64)
        versions = np.zeros(len(due), np.int64)
        for group, rows in members(agents.group[due]):
            version = self.layers.pin(self.groups[group], len(rows))
            contexts[rows], versions[rows] = version.context, version.number
        self.engine.begin_many(due, contexts, personal, prompts)
        agents.personal.update(zip(slots, personal, strict=True))
        agents.prompt.update(zip(slots, prompts, strict=True))
        for number, rows in members(agents.version[due]):
            self.layers.unpin(number, len(rows))
        agents.version[due] = versions
        agents.needs_episode[due] = False
        agents.walk_limit[due] = cycle.walk_limits(self.seed, agents, due)
        agents.episode[due] += 1
        cycle.set_walks(self.world, agents, due, prompts)
        return tuple(zip(agents.id[due].tolist(), map(tuple, prompts), strict=True))

    def unpin(self, slot: int) -> None:
        """The agent leaves the version it pinned (of whichever group)."""
        self.layers.unpin(int(self.agents.version[slot]))
        self.agents.version[slot] = -1

    def _domains(self, slot: int) -> tuple[Domain, ...]:
        """Where an agent looks for gaps, from the narrowest: as steered, else its goal's domain, that of its parent, everywhere."""
        steered = self.agents.steering_domain.get(slot)
        if steered is not None:
            return (steered,)
        number = int(self.agents.goal[slot])
        found = self._domains_of_goal.get(number)
        if found is not None:
            return found
        goal = self.goals[number]
        wider = (goal.domain, self.goals[goal.parent].domain) if goal.parent >= 0 else (goal.domain,)
        found = self._domains_of_goal[number] = (*(domain for domain in wider if len(domain)), self.everywhere)
        return found

    def _think(self, slots: NDArray[np.int64], tokens: NDArray[Any]) -> tuple[int, ...]:
        agents = self.agents
        agents.generated[slots] += 1
        agents.by_level[slots, tokens["depth"].astype(np.int64) - 1] += 1
        walked = cycle.advance(self.world, agents, slots, tokens["token"].astype(np.int64))
        self.starts.observe(walked.target)
        agents.needs_episode[slots[walked.ended]] = True
        self._claim(slots, tokens, cycle.claims(self.world, agents, slots, tokens, walked))
        new = self._verify(self.claims.take(max(VERIFICATIONS_LEAST, len(slots) // self.agents_per_verification)))
        if self.limit:
            for slot in slots[agents.generated[slots] >= self.limit].tolist():
                self.rest(slot)
        return tuple(entry.id for entry in new)

    # ---- claims -----------------------------------------------------------------------------------------------------------

    def verify_waiting(self) -> None:
        """Verifies all claims that wait, in their order."""
        while len(self.claims):
            self._verify(self.claims.take(VERIFICATIONS_AT_ONCE))

    def _claim(self, slots: NDArray[np.int64], tokens: NDArray[Any], claimed: cycle.Claimed) -> None:
        """Queues what is new of a tick's claims; who claims what is known already agrees with it."""
        agents, world = self.agents, self.world
        by = slots[claimed.rows]
        promised = promise(world, claimed)
        keys = world.canonical_keys(claimed.source, claimed.semcon, claimed.target)
        welcome = (promised >= self.claims.floor) & ((agents.open if self.live else agents.proposed)[by] < self.budget)
        columns = (agents.group[by], agents.goal[by], claimed.source, claimed.semcon, claimed.target, tokens["depth"][claimed.rows])
        rows = list(zip(*(column.tolist() for column in (*columns, claimed.probability, promised)), strict=True))
        for number, (key, agent, wanted) in enumerate(zip(keys.tolist(), agents.id[by].tolist(), welcome.tolist(), strict=True)):
            seen = self.claims.waiting.get(key) or self.proposals.find(key)
            if seen is not None:
                self._agree(seen, agent)
            elif wanted and key not in self.claims.found_wanting:
                group, goal, source, semcon, target, depth, probability, value = rows[number]
                claim = Entry(-1, agent, group, goal, source, semcon, target, self.tick, depth, probability, promise=value)
                claim.agents.add(agent)
                self.claims.add(key, claim)

    def _verify(self, taken: list[tuple[int, Entry]]) -> list[Entry]:
        """Verifies claims; those worth it become proposals, within the budget of who claimed them first."""
        claims = [claim for _, claim in taken]
        features = self.verifier.features(claims)
        probabilities = self.verifier.logistic.probabilities(features)
        if self.audit is not None:
            self.audit += zip(claims, features, strict=True)
        new = []
        agents = self.agents
        for (key, entry), row, probability in zip(taken, features.tolist(), probabilities.tolist(), strict=True):
            slot = agents.slot_of.get(entry.agent)
            spent = 0 if slot is None else int((agents.open if self.live else agents.proposed)[slot])
            if probability < REJECT_BELOW:
                self.claims.found_wanting.add(key)
            if probability < REJECT_BELOW or spent >= self.budget:
                continue
            entry.id = len(self.proposals)
            self.proposals.add(key, entry)
            if slot is not None:
                agents.proposed[slot] += 1
                agents.open[slot] += 1
            self.proposals.set_verified(entry, probability, tuple(row))
            self.measures.proposed(entry)
            self._settle(entry)
            new.append(entry)
        return new

    def _agree(self, entry: Entry, agent: int) -> None:
        """Another agent walked the same link: that is evidence."""
        if agent in entry.agents:
            return
        entry.agents.add(agent)
        if entry.id >= 0:
            self.proposals.set_verified(entry, *self.verifier.agreed(entry))
            if entry.status == VERIFIED or (entry.status == REJECTED and entry.reason == BELOW_HALF):
                self._settle(entry)

    def _settle(self, entry: Entry) -> None:
        """The automatic part of deciding: all of it headless, only the hopeless ones live."""
        if not self.live and entry.probability >= ACCEPT_FROM:
            self.accept(entry, "verified", "swarm")
        elif entry.status == VERIFIED and entry.probability < (REJECT_BELOW if self.live else ACCEPT_FROM):
            self.reject(entry, BELOW_HALF, "swarm")

    def accept(self, entry: Entry, reason: str, neuron: str) -> None:
        """The link joins the graph and the memory of the proposer's group; the ledger says who staked it and on what."""
        self._decide(entry, ACCEPTED, reason, neuron)
        self.world.add(entry.source, entry.semcon, entry.target)
        group = self.groups[entry.group]
        group.memory.append((entry.source, entry.semcon, entry.target))
        group.changed = True

    def reject(self, entry: Entry, reason: str, neuron: str) -> None:
        """The link is not proposed again."""
        was_accepted = entry.status == ACCEPTED
        self._decide(entry, REJECTED, reason, neuron)
        if was_accepted:
            fact = (entry.source, entry.semcon, entry.target)
            self.world.remove(*fact)
            group = self.groups[entry.group]
            if fact in group.memory:
                group.memory.remove(fact)
                group.changed = True

    def _decide(self, entry: Entry, status: str, reason: str, neuron: str) -> None:
        by_operator = neuron == "operator"
        slot = self.agents.slot_of.get(entry.agent)
        if slot is not None:
            agents = self.agents
            if entry.status in (ACCEPTED, REJECTED):
                (agents.accepted if entry.status == ACCEPTED else agents.rejected)[slot] -= 1
            else:
                agents.open[slot] -= 1
            (agents.accepted if status == ACCEPTED else agents.rejected)[slot] += 1
        self.measures.decided(entry, status)
        self.proposals.decide(entry, status, reason, self.tick)
        if by_operator:
            self.verifier.learn(entry.semcon, status == ACCEPTED)
        link = (entry.source, self.world.particles + entry.semcon, entry.target)
        evidence = {
            "proposal": entry.id,
            "link": [self._cid_text(token) for token in link],
            "tokens": list(link),
            "group": entry.group,
            "labels": [self.label(token) for token in link],
            "agent": agent_cid(self.seed, entry.agent).hex(),
            "probability": entry.probability,
            "calibrated": self.verifier.logistic.calibrated,
            "features": entry.features,
            "agents": sorted(entry.agents),
            "reason": reason,
        }
        self.ledger.append(status, self.tick, neuron, evidence, durable=by_operator)

    # ---- measures ---------------------------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Brings every goal's measures and progress up to date and samples them (drift is decided on the samples)."""
        counts = self.proposals.counts
        quality, divergence = self.measures.quality(counts["proposed"]), self.measures.divergence()
        by_goal = np.zeros((len(self.goals), 2), np.int64)
        for goal_id, counted in self.measures.by_goal.items():
            by_goal[goal_id] = counted
        self.goals.quality.measures = (("lift", quality), ("hidden links found", float(self.measures.hits)))
        self.goals.divergence.measures = (("nats", divergence),)
        for goal in reversed(self.goals.goals):
            if goal.level == IMMEDIATE:
                seen = np.count_nonzero(self.starts.visits[goal.domain])
                goal.progress = float(seen / max(1, len(goal.domain)))
                by_goal[goal.parent] += by_goal[goal.id]
                goal.measures = (
                    ("explored", goal.progress),
                    ("proposed", float(by_goal[goal.id, 0])),
                    ("accepted", float(by_goal[goal.id, 1])),
                )
            elif goal.kind == "extract":
                goal.measures = (("accepted", float(by_goal[goal.id, 1])), ("proposed", float(by_goal[goal.id, 0])))
            elif goal.kind == "verify":
                share = counts["verified"] / counts["proposed"] if counts["proposed"] else float("nan")
                goal.measures = (("verified share", share),)
        self.goals.sample()
