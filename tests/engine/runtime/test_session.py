"""Sessions: going on exactly, damaged files, other models, places that cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UserError
from engine.runtime import session
from engine.runtime.commands import Accept, CreateGoal, Fork, Kill, Pause, Reject, Resume, SetPolicy, Spawn, Steer
from engine.runtime.run import digest
from engine.runtime.swarm import Swarm
from tests.engine.runtime.test_swarm import COMMANDS, apply, check

Make = Callable[..., Swarm]


def resumed(make_swarm: Make, path: Path, **options: Any) -> Swarm:
    swarm = make_swarm(empty=True, **options)
    state, arrays = session.read(path)
    session.check_model(state, path, swarm.model.digest, swarm.model.name)
    assert session.resume(swarm, state, arrays) == []
    return swarm


@pytest.mark.parametrize("inherit", ["backfill", "zeros", "window:4"])
@pytest.mark.parametrize("stop", [1, 13, 40])
def test_a_resumed_session_goes_on_as_if_it_had_never_stopped(make_swarm: Make, tmp_path: Path, inherit: str, stop: int) -> None:
    path = tmp_path / "a.session"

    def begin() -> Swarm:
        swarm = make_swarm(live=True, seed=9)
        for group in range(len(swarm.groups)):
            apply(swarm, SetPolicy(group, inherit=inherit))
        apply(swarm, Steer((3,), "thing.0042"))
        return swarm

    whole = begin()
    parts = begin()
    commands = {
        5: Pause((1,)),
        10: Accept(0),
        11: Reject(1),
        20: Resume((1,)),
        22: Spawn(2, 1),
        25: Kill((2,)),
        30: CreateGoal(0, "thing.0009"),
    }
    for tick in range(70):
        if tick == stop:
            session.save(parts, path)
            history = parts.history
            parts = resumed(make_swarm, path, seed=9, live=True)
            parts.history = history
            check(parts)
        for swarm in (whole, parts):
            if tick in commands:
                assert apply(swarm, commands[tick]).status == "applied"
            swarm.step()
    assert digest(whole.history or []) == digest(parts.history or [])
    assert [(e.agent, e.status, e.probability, e.features) for e in whole.proposals] == [
        (e.agent, e.status, e.probability, e.features) for e in parts.proposals
    ]
    assert whole.measures.divergence() == parts.measures.divergence()
    assert whole.agents.generated[whole.agents.slots].tolist() == parts.agents.generated[parts.agents.slots].tolist()
    check(parts)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(COMMANDS, st.none(), st.none()), max_size=30), st.integers(0, 30), st.integers(0, 3))
def test_after_any_commands_a_resumed_session_goes_on_exactly(
    make_swarm: Make, tmp_path_factory: Any, steps: list[Any], stop: int, seed: int
) -> None:
    steps = [step for step in steps if not (isinstance(step, SetPolicy) and step.inherit == "zeros")]
    path = tmp_path_factory.mktemp("session") / "a.session"
    whole, parts = (make_swarm(agents=6, capacity=14, seed=seed, live=True) for _ in range(2))
    for number, command in enumerate([*steps, None, None]):
        if number == min(stop, len(steps)):
            session.save(parts, path)
            history = parts.history
            parts = resumed(make_swarm, path, agents=6, capacity=14, seed=seed, live=True)
            parts.history = history
            check(parts)
        if command is None:
            whole.step()
            parts.step()
        else:
            first, second = apply(whole, command), apply(parts, command)
            assert (first.status, first.message, first.tick) == (second.status, second.message, second.tick)
        check(parts)
    assert digest(whole.history or []) == digest(parts.history or [])


def test_forks_and_a_policy_changed_half_way_resume_with_a_notice_at_worst(make_swarm: Make, tmp_path: Path) -> None:
    swarm = make_swarm(live=True)
    for group in range(len(swarm.groups)):
        apply(swarm, SetPolicy(group, inherit="zeros"))
    for _ in range(5):
        swarm.step()
    apply(swarm, Fork(1))
    swarm.step()
    session.save(swarm, tmp_path / "a.session")
    again = make_swarm(empty=True)
    notices = session.resume(again, *session.read(tmp_path / "a.session"))
    assert len(notices) <= 1
    check(again)
    again.step()
    check(again)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_clearly(make_swarm: Make, tmp_path_factory: Any, data: Any) -> None:
    path = tmp_path_factory.mktemp("session") / "a.session"
    swarm = make_swarm()
    swarm.step()
    session.save(swarm, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 30))])
    with pytest.raises(UserError, match="damaged"):
        session.read(path)


def test_another_model_and_another_format_are_refused(make_swarm: Make, tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    session.save(make_swarm(), path)
    state, _ = session.read(path)
    with pytest.raises(UserError, match="belongs to the model random 0"):
        session.check_model(state, path, "f" * 64, "other")
    with pytest.raises(UserError, match="no such session"):
        session.read(tmp_path / "b.session")


@pytest.mark.parametrize("name", ["", "..", "a/b", "-a", "a" * 65, "a.", "ä\n"])
def test_names_that_are_no_file_names_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="session name"):
        session.session_path(name)


def test_a_save_that_fails_leaves_the_old_file(make_swarm: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.session"
    swarm = make_swarm()
    session.save(swarm, path)
    old = path.read_bytes()
    swarm.step()

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="No space"):
        session.save(swarm, path)
    assert path.read_bytes() == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.session"]
