"""The live runtime: commands and receipts, snapshots, streams, failure, closing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import UserError
from engine.model.model import Model
from engine.runtime.commands import Accept, Command, Fork, Kill, Receipt, SaveSession, SetRunning, Spawn, Steer
from engine.runtime.loop import Runtime, Settings
from engine.runtime.snapshot import AGENT_STATES
from tests.engine.random_model import random_model
from tests.engine.runtime.fake_engine import FakeEngine

Start = Callable[..., Runtime]


@pytest.fixture
def start(model: Model, tmp_path: Path) -> Iterator[Start]:
    runtimes: list[Runtime] = []

    def make(fail_at: int = 0, of: Model = model, **settings: Any) -> Runtime:
        settings = {"agents": 12, "folder": tmp_path / "sessions", **settings}

        def engine(model: Model, config: Any) -> Any:
            return FakeEngine(model, config, fail_at)

        runtime = Runtime(of, Settings(**settings), engine)
        runtimes.append(runtime)
        return runtime

    yield make
    for runtime in runtimes:
        runtime.close()
        assert runtime.wait_closed(10)


def wait(condition: Callable[[], Any], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def done(runtime: Runtime, command: Command) -> Receipt:
    receipt = runtime.submit(command)
    wait(lambda: receipt.status != "requested")
    return receipt


def test_a_swarm_is_at_work_and_the_snapshot_hangs_together(start: Start) -> None:
    runtime = start()
    assert runtime.snapshot().model.name == "random 0"
    wait(lambda: runtime.snapshot().tick > 30)
    snapshot = runtime.snapshot()
    agents = snapshot.agents
    assert agents.id.tolist() == list(range(1, 13))
    assert agents.name[0] == "a1"
    lengths = {len(getattr(agents, name)) for name in agents.__dataclass_fields__}
    assert lengths == {12}
    assert agents.by_level.sum(axis=1).tolist() == agents.generated.tolist()
    assert all(AGENT_STATES[state] == "running" for state in agents.state)
    levels = [goal.level for goal in snapshot.goals]
    assert levels[0] == 0
    assert set(levels) == {0, 1, 2}
    assert all(snapshot.goals[at].id is not None for at in range(len(levels)))
    assert {group.name for group in snapshot.groups} == {runtime.label(0), *(group.name for group in snapshot.groups)}
    probabilities = [proposal.probability for proposal in snapshot.proposals if proposal.status == "verified"]
    assert probabilities == sorted(probabilities, reverse=True)
    assert all(dict(proposal.evidence)["probability"] == "uncalibrated" for proposal in snapshot.proposals)
    assert snapshot.depth.histogram.shape == (3, 20)
    assert not snapshot.error
    assert runtime.snapshot().tick >= snapshot.tick


def test_a_stream_is_in_order_and_marks_episodes(start: Start) -> None:
    runtime = start()
    wait(lambda: runtime.snapshot().tick > 60)
    records = runtime.stream(5, 50)
    assert len(records) == 50
    sequences = [record.sequence for record in records]
    assert sequences == sorted(set(sequences))
    assert any(record.starts_episode and record.depth == 0 for record in records)
    generated = [record for record in records if record.depth]
    assert all(len(record.alternatives) == 3 and record.text == runtime.label(record.token) for record in generated)
    assert runtime.stream(999) == []
    assert runtime.stream(5, 0) == []


def test_commands_are_applied_in_order_with_receipts(start: Start) -> None:
    runtime = start()
    spawned = done(runtime, Spawn(3))
    assert (spawned.status, spawned.result) == ("applied", {"agents": (13, 14, 15)})
    forked = runtime.submit(Fork(13))
    killed = runtime.submit(Kill((13, 14)))
    wait(lambda: killed.status != "requested")
    assert (forked.status, killed.status) == ("applied", "applied")
    assert killed.tick >= forked.tick >= spawned.tick
    wait(lambda: 16 in runtime.snapshot().agents.id)
    assert 13 not in runtime.snapshot().agents.id
    refused = done(runtime, Steer((15,), "thing.00411"))
    assert refused.status == "refused"
    assert "nearest: thing.0041" in refused.message
    texts = [line.text for line in runtime.snapshot().log]
    wait(lambda: any("steer: 'thing.00411' is no" in line.text for line in runtime.snapshot().log))
    assert any(text.startswith("spawn: spawned a13") for text in texts)


def test_halting_stops_ticks_and_commands_still_work(start: Start) -> None:
    runtime = start()
    assert done(runtime, SetRunning(False)).status == "applied"
    wait(lambda: not runtime.snapshot().running)
    tick = runtime.snapshot().tick
    assert done(runtime, Spawn(1)).status == "applied"
    wait(lambda: 13 in runtime.snapshot().agents.id)
    assert runtime.snapshot().tick == tick
    assert done(runtime, SetRunning(True)).status == "applied"
    wait(lambda: runtime.snapshot().tick > tick)


def test_a_native_failure_stops_cleanly_and_says_why(start: Start) -> None:
    runtime = start(fail_at=20)
    wait(lambda: runtime.snapshot().error)
    snapshot = runtime.snapshot()
    assert snapshot.error == "the pool is full and not one agent fits"
    assert not snapshot.running
    assert snapshot.log[-1].kind == "error"
    wait(lambda: not runtime._thread.is_alive())
    receipt = runtime.submit(Spawn(1))
    assert receipt.status == "refused"
    assert "the pool is full" in receipt.message


def test_closing_is_quick_idempotent_and_saves(start: Start, tmp_path: Path) -> None:
    runtime = start(session="mine")
    wait(lambda: runtime.snapshot().proposals)
    proposal = next(proposal for proposal in runtime.snapshot().proposals if proposal.status == "verified")
    assert done(runtime, Accept(proposal.id)).status == "applied"
    begin = time.monotonic()
    runtime.close()
    runtime.close()
    assert time.monotonic() - begin < 1
    assert runtime.wait_closed(5)
    assert runtime.submit(Spawn(1)).status == "refused"
    assert (tmp_path / "sessions" / "mine.session").exists()
    again = start(session="mine")
    wait(lambda: again.snapshot().tick > runtime.snapshot().tick)
    kept = {proposal.id: proposal.status for proposal in again.snapshot().proposals}
    assert kept[proposal.id] == "accepted"
    assert len(again.snapshot().agents.id) == 12
    assert any("resumed mine" in line.text for line in again.snapshot().log)


def test_a_session_of_another_model_is_refused(start: Start, tmp_path: Path) -> None:
    runtime = start(session="mine")
    wait(lambda: runtime.snapshot().tick > 1)
    runtime.close()
    assert runtime.wait_closed(5)
    with pytest.raises(UserError, match="belongs to the model"):
        start(of=random_model(tmp_path, seed=1), session="mine")


def test_an_unwritable_data_folder_is_a_warning(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    runtime = start(folder=tmp_path / "file")
    wait(lambda: runtime.snapshot().tick > 5)
    assert any(line.kind == "warning" and "in memory" in line.text for line in runtime.snapshot().log)
    refused = done(runtime, SaveSession("x"))
    assert refused.status == "refused"
    assert "cannot be written" in refused.message
    assert not runtime.snapshot().error


def test_two_unnamed_sessions_keep_two_ledgers(start: Start, tmp_path: Path) -> None:
    first, second = start(), start()
    wait(lambda: first.snapshot().tick > 1 and second.snapshot().tick > 1)
    assert {first.snapshot().extra["session"], second.snapshot().extra["session"]} == {"last", "last-2"}


def test_a_snapshot_of_a_thousand_agents_is_cheap(model: Model) -> None:
    from types import SimpleNamespace

    from engine.runtime.picture import Picture
    from engine.runtime.swarm import Swarm
    from engine.runtime.telemetry import Telemetry

    engine: Any = FakeEngine(model, SimpleNamespace(agents=1000, groups=8, seed=1))
    swarm = Swarm(model, engine, live=True)
    swarm.add_default_groups(1000)
    swarm.spawn(1000)
    telemetry = Telemetry(3)
    for _ in range(4):
        tick = swarm.step()
        telemetry.step(0.0, 0.1, 1000, tick.tokens, engine.counters())
    fixed = engine.snapshot()
    engine.snapshot = lambda: fixed
    picture = Picture(swarm, telemetry)
    best = 1.0
    for _ in range(5):
        begin = time.perf_counter()
        snapshot = picture.take(True, (), engine.counters())
        best = min(best, time.perf_counter() - begin)
    assert len(snapshot.agents.id) == 1000
    assert np.isfinite(snapshot.rates.tokens_per_second)
    assert best < 0.015  # 1.5 ms where nothing else runs
