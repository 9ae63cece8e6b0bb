"""The swarm on an engine without a model: determinism, budgets, decisions, versions, steering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    SetDepth,
    SetPolicy,
    SetRunning,
    Spawn,
    Steer,
)
from engine.runtime.operator import Operator
from engine.runtime.proposals import ACCEPTED, REJECTED
from engine.runtime.run import digest, drive
from engine.runtime.swarm import VERSION_TICKS, Swarm

Make = Callable[..., Swarm]


def apply(swarm: Swarm, command: Command) -> Receipt:
    receipt = Receipt(command)
    Operator(swarm, lambda name: name, lambda running: None).apply(receipt)
    return receipt


def check(swarm: Swarm) -> None:
    swarm.agents.check()
    swarm.proposals.check()
    holders = [number for slot in swarm.agents.slots.tolist() if (number := int(swarm.agents.version[slot])) >= 0]
    for group in swarm.groups:
        assert group.newest in group.versions
        for version in group.versions.values():
            assert version.holders == holders.count(version.number)
            assert version.holders > 0 or version.number == group.newest
            assert version.context not in swarm.engine.released  # type: ignore[attr-defined]


def test_the_same_seed_gives_the_same_digest_and_decisions(make_swarm: Make) -> None:
    swarms = [make_swarm(seed=seed) for seed in (3, 3, 4)]
    for swarm in swarms:
        swarm.limit = 40
        drive(swarm, 0)
        check(swarm)
        assert all(swarm.agents.generated[swarm.agents.slots] == 40)
    first, again, other = (list(swarm.history or []) for swarm in swarms)
    assert digest(first) == digest(again) != digest(other)
    outcomes = [[(entry.agent, entry.status, entry.probability) for entry in swarm.proposals] for swarm in swarms]
    assert outcomes[0] == outcomes[1] != outcomes[2]


def test_digest_is_by_agent_whatever_the_ticks(make_swarm: Make) -> None:
    import hashlib

    swarm = make_swarm()
    swarm.limit = 7
    drive(swarm, 0)
    hashed = hashlib.sha256()
    for agent in sorted(swarm.agents.slot_of):
        rows = [tick.tokens[tick.agents == agent] for tick in swarm.history or []]
        hashed.update(np.concatenate([row["token"] for row in rows]).astype("<u4").tobytes())
        hashed.update(np.concatenate([row["depth"] for row in rows]).astype(np.uint8).tobytes())
    assert digest(swarm.history or []) == hashed.hexdigest()


def test_budget_acceptance_and_memory(make_swarm: Make) -> None:
    swarm = make_swarm(budget=3)
    swarm.limit = 60
    drive(swarm, 0)
    assert swarm.agents.proposed.max() == 3
    counts = swarm.proposals.counts
    assert counts["proposed"] == counts["verified"] == counts["accepted"] + counts["rejected"] > 0
    for entry in swarm.proposals:
        assert (entry.status == ACCEPTED) == (entry.probability >= 0.5)
        held = swarm.world.holds(np.array([entry.source]), np.array([entry.semcon]), np.array([entry.target]))[0]
        assert held == (entry.status == ACCEPTED)
    facts = {fact for group in swarm.groups for fact in group.memory}
    assert facts
    assert facts <= {(entry.source, entry.semcon, entry.target) for entry in swarm.proposals if entry.status == ACCEPTED}
    records = swarm.ledger.memory
    assert [record["sequence"] for record in records] == list(range(len(records)))
    assert sum(record["kind"] == ACCEPTED for record in records) >= counts["accepted"]


def test_a_version_is_immutable_and_applies_at_the_next_episode(make_swarm: Make) -> None:
    swarm = make_swarm(agents=8)
    seen: dict[int, list[int]] = {}
    begun: dict[int, int] = {}
    for _ in range(6 * VERSION_TICKS):
        before = {int(swarm.agents.id[slot]): int(swarm.agents.version[slot]) for slot in swarm.agents.slots}
        tick = swarm.step()
        started = {agent for agent, _ in tick.began}
        for slot in swarm.agents.slots.tolist():
            agent, number = int(swarm.agents.id[slot]), int(swarm.agents.version[slot])
            if agent in started:
                begun[agent] = swarm.tick
                assert number == swarm.groups[int(swarm.agents.group[slot])].newest
            else:
                assert number == before[agent]
            version = swarm.layers.version_of(number)
            assert seen.setdefault(number, list(version.tokens)) == version.tokens
        check(swarm)
    assert any(group.newest >= len(swarm.groups) for group in swarm.groups)


def test_a_live_swarm_begins_with_few_and_doubles(make_swarm: Make) -> None:
    live, headless = make_swarm(agents=40, live=True), make_swarm(agents=40)
    assert [len(live.step().tokens) for _ in range(4)] == [16, 32, 40, 40]
    assert len(headless.step().tokens) == 40
    assert live.agents.id[live.agents.slots].tolist() == list(range(1, 41))
    live.rest(live.agents.slot_of[1])
    assert len(live.step().tokens) == 39


def test_live_proposals_wait_for_the_operator_and_can_be_taken_back(make_swarm: Make) -> None:
    swarm = make_swarm(live=True, budget=2)
    for _ in range(60):
        swarm.step()
    assert swarm.agents.open.max() <= 2
    waiting = list(swarm.proposals.open)
    assert waiting
    entry = swarm.proposals[waiting[0]]
    assert apply(swarm, Accept(entry.id)).status == "applied"
    assert apply(swarm, Accept(entry.id)).status == "refused"
    slot = swarm.agents.slot_of[entry.agent]
    assert (swarm.agents.accepted[slot], entry.status) == (1, ACCEPTED)
    fact = [np.array([value]) for value in (entry.source, entry.semcon, entry.target)]
    assert swarm.world.holds(*fact)[0]
    assert apply(swarm, Reject(entry.id, "wrong")).status == "applied"
    assert not swarm.world.holds(*fact)[0]
    assert (swarm.agents.accepted[slot], entry.status, entry.reason) == (0, REJECTED, "wrong")
    assert "not there" in apply(swarm, Accept(10**9)).message
    check(swarm)


def test_steering_moves_an_agent_and_unknown_labels_are_refused_with_the_nearest(make_swarm: Make) -> None:
    swarm = make_swarm()
    swarm.step()
    receipt = apply(swarm, Steer((2, 5), "thing.0042"))
    assert receipt.status == "applied"
    tick = swarm.step()
    domain = set(swarm.steering_domain((42,)).tolist())
    prompts = dict(tick.began)
    for agent in (2, 5):
        assert prompts[agent][0] in domain
        assert 42 in swarm.agents.personal[swarm.agents.slot_of[agent]]
    refused = apply(swarm, Steer((2,), "thing.00"))
    assert refused.status == "refused"
    assert "nearest: thing.0000" in refused.message
    assert "no such agent" in apply(swarm, Steer((99,), "thing.0042")).message


def test_retargeting_changes_goal_group_and_domain(make_swarm: Make) -> None:
    swarm = make_swarm()
    swarm.step()
    goal = apply(swarm, CreateGoal(0, "thing.0150, thing.0151")).result["goal"]
    task = apply(swarm, CreateGoal(goal, "thing.0150")).result["goal"]  # type: ignore[arg-type]
    receipt = apply(swarm, Retarget((1, 2, 3), goal))  # type: ignore[arg-type]
    assert receipt.status == "applied"
    swarm.step()
    domain = set(swarm.goals[task].domain.tolist())  # type: ignore[index]
    for agent in (1, 2, 3):
        slot = swarm.agents.slot_of[agent]
        assert swarm.agents.goal[slot] == task
        assert swarm.groups[int(swarm.agents.group[slot])].goal == goal
        assert swarm.agents.prompt[slot][0] in domain
        assert 150 in swarm.agents.personal[slot]
    assert apply(swarm, Retarget((1,), 1)).status == "refused"
    assert apply(swarm, CreateGoal(task, "thing.0001")).status == "refused"  # type: ignore[arg-type]
    check(swarm)


def test_agreement_is_evidence(make_swarm: Make) -> None:
    swarm = make_swarm(live=True)
    for _ in range(80):
        swarm.step()
    entry = next(entry for entry in swarm.proposals if entry.status == "verified")
    before = entry.probability
    swarm._agree(entry, 10**6)
    assert entry.probability > before
    after = entry.probability
    swarm._agree(entry, 10**6)
    assert entry.probability == after


COMMANDS = st.one_of(
    st.builds(Spawn, st.integers(0, 6), st.integers(-1, 5), st.integers(-1, 12)),
    st.builds(Fork, st.integers(1, 14)),
    st.builds(Pause, st.lists(st.integers(1, 14), max_size=3).map(tuple)),
    st.builds(Resume, st.lists(st.integers(1, 14), max_size=3).map(tuple)),
    st.builds(Kill, st.lists(st.integers(1, 14), max_size=3).map(tuple)),
    st.builds(Steer, st.lists(st.integers(1, 14), max_size=3).map(tuple), st.sampled_from(["thing.0007", "nothing", " ", ","])),
    st.builds(Retarget, st.lists(st.integers(1, 14), max_size=3).map(tuple), st.integers(-2, 15)),
    st.builds(CreateGoal, st.integers(-1, 15), st.sampled_from(["thing.0007", "thing.0011,thing.0012", "nope"])),
    st.builds(SetDepth, st.lists(st.integers(1, 14), max_size=3).map(tuple), st.integers(0, 4), st.integers(0, 4)),
    st.builds(SetPolicy, st.integers(-1, 5), st.sampled_from([None, (0.5, 0.5), (0.5,), (float("nan"), 1.0)])),
    st.builds(SetPolicy, st.integers(0, 3), st.none(), st.sampled_from(["margin", "gain", "x"]), st.sampled_from(["zeros", "y"])),
    st.builds(SetPolicy, st.integers(0, 3), temperature=st.sampled_from([-1.0, 0.0, 2.0])),
    st.builds(Accept, st.integers(-1, 40)),
    st.builds(Reject, st.integers(-1, 40)),
    st.builds(SetRunning, st.booleans()),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(COMMANDS, st.none()), max_size=40), st.integers(0, 3), st.booleans())
def test_whatever_is_commanded_invariants_hold_and_a_repetition_is_the_same(
    make_swarm: Make, steps: list[Any], seed: int, live: bool
) -> None:
    digests = []
    for _ in range(2):
        swarm = make_swarm(agents=6, capacity=14, seed=seed, live=live)
        receipts = []
        for command in steps:
            if command is None:
                swarm.step()
            else:
                receipt = apply(swarm, command)
                assert receipt.status in ("applied", "refused")
                assert receipt.message
                receipts.append((receipt.status, receipt.message))
            check(swarm)
        swarm.step()
        digests.append((digest(swarm.history or []), receipts))
    assert digests[0] == digests[1]


@pytest.mark.parametrize("agents", [1, 3, 100])
def test_any_number_of_agents_has_groups_and_tasks(make_swarm: Make, agents: int) -> None:
    swarm = make_swarm(agents=agents, capacity=agents)
    swarm.step()
    assert len(swarm.agents) == agents
    assert all(swarm.goals[int(goal)].level == 2 for goal in swarm.agents.goal[swarm.agents.slots])
