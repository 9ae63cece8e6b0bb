"""Decisions made after the last save come back from the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.runtime import session
from engine.runtime.commands import Accept, Reject
from engine.runtime.ledger import Ledger, read
from engine.runtime.proposals import ACCEPTED, REJECTED
from engine.runtime.recovery import recover
from engine.runtime.swarm import Swarm
from tests.engine.runtime.test_swarm import apply, check


@pytest.mark.parametrize("saved_at", [0, 40])
def test_no_decision_of_the_operator_is_lost(make_swarm: Callable[..., Swarm], tmp_path: Path, saved_at: int) -> None:
    path = tmp_path / "a.session"
    swarm = make_swarm(live=True, ledger=Ledger(session.ledger_path(path)))
    for tick in range(60):
        if tick == saved_at:
            session.save(swarm, path)
        swarm.step()
    accepted, rejected, changed = list(swarm.proposals.open)[:3]
    for command in (Accept(accepted), Reject(rejected, "wrong"), Accept(changed), Reject(changed)):
        assert apply(swarm, command).status == "applied"
    links = [(entry.source, entry.semcon, entry.target) for entry in map(swarm.proposals.__getitem__, (accepted, rejected, changed))]

    state, arrays = session.read(path)
    again = make_swarm(empty=True, live=True)
    assert session.resume(again, state, arrays) == []
    records, _ = read(session.ledger_path(path))
    assert recover(again, records, state["ledger_records"]) == 4
    assert recover(again, records, len(records)) == 0
    check(again)
    statuses = []
    for link in links:
        entry = again.proposals.find(again.world.canonical_key(*link))
        assert entry is not None
        statuses.append((entry.status, entry.reason))
    assert statuses == [(ACCEPTED, "operator"), (REJECTED, "wrong"), (REJECTED, "operator")]
    assert again.ledger.memory == []
    again.step()
    check(again)


def test_records_that_do_not_fit_are_passed_over(make_swarm: Callable[..., Swarm]) -> None:
    swarm = make_swarm(live=True)
    evidence = [None, {}, {"tokens": [1, 2]}, {"tokens": [1, 10**9, 2], "features": []}, {"tokens": "abc", "features": []}]
    records = [{"kind": "accepted", "neuron": "operator", "evidence": each} for each in evidence]
    assert recover(swarm, [*records, {"kind": "x", "neuron": "operator", "evidence": {}}, {"neuron": "swarm"}], 0) == 0
    check(swarm)
