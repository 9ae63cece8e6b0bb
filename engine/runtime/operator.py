"""The operator's commands, applied to the swarm between ticks. Every refusal says why and what would work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

from engine.errors import NativeError, UserError
from engine.runtime.agents import agent_cid
from engine.runtime.commands import (
    Accept,
    Command,
    CreateGoal,
    Fork,
    Kill,
    Pause,
    Receipt,
    Reject,
    Resume,
    Retarget,
    SaveSession,
    SetDepth,
    SetPolicy,
    SetRunning,
    Spawn,
    Steer,
)
from engine.runtime.goals import EXTRACT, IMMEDIATE, TERMINAL
from engine.runtime.proposals import ACCEPTED, NEW, REJECTED
from engine.runtime.snapshot import AGENT_STATES
from engine.runtime.swarm import Swarm

NAMED_MAX = 8
Result = tuple[str, dict[str, object]]


def resolve_particles(swarm: Swarm, text: str) -> list[int]:
    """Particles named by label, one or several with commas between. Raises UserError with the nearest labels."""
    vocabulary = swarm.model.vocabulary
    whole = vocabulary.find(text.strip())
    if whole is not None:
        return [whole]
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UserError("name a particle by its label, or several with commas between")
    if len(names) > NAMED_MAX:
        raise UserError(f"{len(names)} particles are named; at most {NAMED_MAX} fit")
    found: list[int] = []
    for name in names:
        token = vocabulary.find(name)
        if token is None:
            nearest = ", ".join(vocabulary.label(other) for other in vocabulary.nearest(name, 5))
            raise UserError(f"{name!r} is no particle's label" + (f"; nearest: {nearest}" if nearest else ""))
        found.append(token)
    return list(dict.fromkeys(found))


def _agents_text(agents: list[int]) -> str:
    names = ", ".join(f"a{agent}" for agent in agents[:5])
    return names if len(agents) <= 5 else f"{names} and {len(agents) - 5} more"


class Operator:
    """Applies commands. ``save`` and ``set_running`` belong to whoever drives the swarm."""

    def __init__(
        self,
        swarm: Swarm,
        save: Callable[[str], str] | None = None,
        set_running: Callable[[bool], None] | None = None,
    ) -> None:
        self.swarm = swarm
        self._save = save
        self._set_running = set_running

    def apply(self, receipt: Receipt) -> None:
        """Fills in the receipt: applied at this tick, or refused with the reason. Raises nothing a command can cause."""
        try:
            message, result = self._do(receipt.command)
            receipt.message, receipt.result = message, result
            receipt.tick = self.swarm.tick
            receipt.status = "applied"
        except UserError as error:
            receipt.tick, receipt.message, receipt.status = self.swarm.tick, error.message, "refused"
        except NativeError as error:
            receipt.tick, receipt.message, receipt.status = self.swarm.tick, error.text, "refused"

    @singledispatchmethod
    def _do(self, command: Command) -> Result:
        raise UserError(f"the runtime does not know the command {type(command).__name__}")

    # ---- population ---------------------------------------------------------------------------------------------------

    @_do.register
    def _spawn(self, command: Spawn) -> Result:
        swarm = self.swarm
        self._check_group(command.group)
        free = swarm.agents.capacity - len(swarm.agents)
        if command.count < 1:
            raise UserError("the number of agents to spawn is at least 1")
        if command.count > free:
            raise UserError(f"{command.count} more agents do not fit: {free} of {swarm.agents.capacity} places are free")
        group = command.group
        if command.goal >= 0:
            goal = swarm.goals[command.goal]
            if goal.group < 0:
                raise UserError(f"goal {goal.id} ({goal.title}) has no domain: choose one that extracts links, or one below it")
            group = goal.group
        agents = swarm.spawn(command.count, group, command.goal)
        return f"spawned {_agents_text(agents)}", {"agents": tuple(agents)}

    @_do.register
    def _fork(self, command: Fork) -> Result:
        swarm, agents = self.swarm, self.swarm.agents
        (slot,) = agents.resolve([command.agent])
        if len(agents) >= agents.capacity:
            raise UserError(f"no place is free: {agents.capacity} agents is what the pool was made for")
        agent = agents.next_id
        group = swarm.groups[int(agents.group[slot])]
        fork = swarm.engine.fork(slot, agent_cid(swarm.seed, agent), agent)
        agents.copy(slot, fork, agent)
        if agents.episode[fork]:
            swarm.layers.repin(int(agents.version[fork]))
            state = AGENT_STATES[int(swarm.engine.snapshot().state[fork])]
            agents.paused[fork] = state == "paused"
            if state == "idle":
                swarm.end_episode(fork)
        return f"a{command.agent} forked into a{agent} in {group.name}", {"agents": (agent,)}

    @_do.register
    def _pause(self, command: Pause) -> Result:
        return self._each(command.agents, "paused", self.swarm.rest, empty_means_all=True)

    @_do.register
    def _resume(self, command: Resume) -> Result:
        return self._each(command.agents, "resumed", self.swarm.wake, empty_means_all=True)

    @_do.register
    def _kill(self, command: Kill) -> Result:
        return self._each(command.agents, "killed", self.swarm.remove)

    def _each(self, agents: tuple[int, ...], what: str, act: Callable[[int], None], empty_means_all: bool = False) -> Result:
        slots = self.swarm.agents.resolve(agents, empty_means_all)
        ids = [int(self.swarm.agents.id[slot]) for slot in slots]
        for slot in slots:
            act(slot)
        return f"{what} {_agents_text(ids)}" if ids else "there is no agent", {"agents": tuple(ids)}

    # ---- goals ----------------------------------------------------------------------------------------------------------

    @_do.register
    def _steer(self, command: Steer) -> Result:
        swarm, agents = self.swarm, self.swarm.agents
        slots = agents.resolve(command.agents)
        particles = resolve_particles(swarm, command.text)
        domain = swarm.steering_domain(particles)
        for slot in slots:
            agents.steering[slot] = tuple(particles)
            agents.steering_domain[slot] = domain
            swarm.end_episode(slot)
        names = ", ".join(swarm.label(particle) for particle in particles)
        ids = [int(agents.id[slot]) for slot in slots]
        return f"{_agents_text(ids)} steered to {names}", {"agents": tuple(ids), "particles": tuple(particles)}

    @_do.register
    def _retarget(self, command: Retarget) -> Result:
        swarm, agents = self.swarm, self.swarm.agents
        slots = agents.resolve(command.agents)
        goal = swarm.goals[command.goal]
        choices = swarm.goals.immediate_of(goal.id) or ([goal.id] if goal.kind == EXTRACT else [])
        if not choices:
            raise UserError(f"goal {goal.id} ({goal.title}) is no task for an agent: choose an immediate goal, or one that has some")
        for number, slot in enumerate(slots):
            chosen = swarm.goals[choices[number % len(choices)]]
            agents.goal[slot] = chosen.id
            swarm.engine.set_goal(slot, chosen.id + 1)
            if chosen.group != agents.group[slot]:
                swarm.engine.set_group(slot, chosen.group)
                agents.group[slot] = chosen.group
            agents.steering.pop(slot, None)
            agents.steering_domain.pop(slot, None)
            swarm.end_episode(slot)
        ids = [int(agents.id[slot]) for slot in slots]
        return f"{_agents_text(ids)} now: {goal.title}", {"agents": tuple(ids), "goal": goal.id}

    @_do.register
    def _create_goal(self, command: CreateGoal) -> Result:
        swarm = self.swarm
        parent = swarm.goals[command.parent]
        particles = resolve_particles(swarm, command.text)
        if parent.level == IMMEDIATE:
            raise UserError(f"goal {parent.id} is an immediate goal, and nothing goes below it: choose its parent {parent.parent}")
        if parent.level == TERMINAL:
            if len(swarm.groups) >= swarm.engine.config.groups:
                raise UserError(f"{len(swarm.groups)} groups are as many as there can be; add an immediate goal to one of them")
            group = swarm.add_group(particles, parent=parent.id)
            goal = swarm.goals[group.goal]
        else:
            goal = swarm.goals.add_immediate(parent.id, particles)
        return f"goal {goal.id}: {goal.title}", {"goal": goal.id, "group": goal.group}

    # ---- depth and policy ---------------------------------------------------------------------------------------------

    @_do.register
    def _set_depth(self, command: SetDepth) -> Result:
        swarm, agents = self.swarm, self.swarm.agents
        slots = agents.resolve(command.agents)
        low, high, levels = command.minimum, command.maximum, swarm.engine.levels
        if (low, high) != (0, 0) and not 1 <= low <= high <= levels:
            raise UserError(f"depth {low} to {high}: levels go from 1 to {levels}, the lower bound first; 0 to 0 is the group's")
        for slot in slots:
            swarm.engine.set_depth(slot, low, high)
            agents.depth_min[slot], agents.depth_max[slot] = low, high
        ids = [int(agents.id[slot]) for slot in slots]
        what = "back to the group's depth" if high == 0 else f"depth {low} to {high}"
        return f"{_agents_text(ids)}: {what}", {"agents": tuple(ids)}

    @_do.register
    def _set_policy(self, command: SetPolicy) -> Result:
        swarm = self.swarm
        self._check_group(command.group)
        group = swarm.groups[command.group]
        policy = group.policy
        changes: dict[str, Any] = {
            name: getattr(command, name) for name in ("thresholds", "rule", "temperature") if getattr(command, name) is not None
        }
        policy = replace(policy, **changes)
        if command.inherit is not None:
            policy = policy.with_inherit(command.inherit)
        policy = swarm.model.check_policy(policy)
        swarm.engine.set_policy(group.id, policy)
        group.policy = policy
        text = f"{policy.inherit_text}, {policy.rule} {policy.thresholds_text}, temperature {policy.temperature:g}"
        return f"{group.name}: {text}", {"group": group.id}

    def _check_group(self, group: int) -> None:
        if not 0 <= group < len(self.swarm.groups):
            raise UserError(f"group {group} is not there; groups go from 0 to {len(self.swarm.groups) - 1}")

    # ---- proposals ------------------------------------------------------------------------------------------------------

    def _entry(self, proposal: int) -> Any:
        proposals = self.swarm.proposals
        if not 0 <= proposal < len(proposals):
            raise UserError(f"proposal {proposal} is not there")
        entry = proposals[proposal]
        if entry.status == NEW:
            raise UserError(f"proposal {proposal} is not verified yet")
        return entry

    @_do.register
    def _accept(self, command: Accept) -> Result:
        entry = self._entry(command.proposal)
        if entry.status == ACCEPTED:
            raise UserError(f"proposal {command.proposal} is accepted already")
        self.swarm.accept(entry, "operator", "operator")
        return f"accepted proposal {entry.id}", {"proposal": entry.id}

    @_do.register
    def _reject(self, command: Reject) -> Result:
        entry = self._entry(command.proposal)
        if entry.status == REJECTED:
            raise UserError(f"proposal {command.proposal} is rejected already")
        self.swarm.reject(entry, command.reason, "operator")
        return f"rejected proposal {entry.id}", {"proposal": entry.id}

    # ---- session ----------------------------------------------------------------------------------------------------------

    @_do.register
    def _running(self, command: SetRunning) -> Result:
        if self._set_running is None:
            raise UserError("this runtime has no step loop to halt")
        self._set_running(command.running)
        return "running" if command.running else "halted", {"running": command.running}

    @_do.register
    def _save_session(self, command: SaveSession) -> Result:
        if self._save is None:
            raise UserError("this runtime keeps no sessions")
        return self._save(command.name), {}
