"""Verification: evidence, the logistic, and that hidden links are no part of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.runtime.proposals import Entry
from engine.runtime.swarm import Swarm
from engine.runtime.verification import FEATURES, UNCALIBRATED, Logistic, evidence_text, stored_logistic
from tests.engine.runtime.fake_engine import rows_of


@given(st.lists(st.floats(-50, 50), min_size=len(FEATURES), max_size=len(FEATURES)))
def test_the_logistic_is_a_probability_that_rises_with_its_evidence(values: list[float]) -> None:
    probability = UNCALIBRATED.probability(values)
    assert 0 <= probability <= 1
    more = [value + 1 for value in values]
    assert UNCALIBRATED.probability([1.0, *more[1:]]) >= UNCALIBRATED.probability([1.0, *values[1:]])


def test_coefficients_are_named_and_complete() -> None:
    assert set(UNCALIBRATED.to_json()["coefficients"]) == set(FEATURES)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="coefficients are needed"):
        Logistic((1.0,), True, "x")


def test_a_file_without_verification_or_with_another_kind_is_uncalibrated_and_says_so() -> None:
    stored = {**UNCALIBRATED.to_json(), "calibrated": True, "provenance": "fitted"}
    assert stored_logistic(stored) == replace(UNCALIBRATED, calibrated=True, provenance="fitted")
    for other in (None, {"coefficients": {"constant": 1.0}}):
        logistic = stored_logistic(other)
        assert not logistic.calibrated
        assert logistic.coefficients == UNCALIBRATED.coefficients
        assert "the model file" in logistic.provenance


def entries_of(swarm: Swarm, links: Any) -> list[Entry]:
    return [Entry(number, 1, 0, 0, int(p), int(s), int(q), 1, 1, 0.5) for number, (p, s, q) in enumerate(links)]


def test_hidden_links_change_no_probability(make_swarm: Callable[..., Swarm], model: Any) -> None:
    swarm = make_swarm()
    entries = entries_of(swarm, model.hidden)
    with_them = swarm.verifier.features(entries)
    swarm.measures._hidden.clear()
    assert np.array_equal(swarm.verifier.features(entries_of(swarm, model.hidden)), with_them)
    held = swarm.world.holds(*(model.hidden[:, column] for column in range(3)))
    assert not held.any()


def test_one_call_scores_a_tick_and_known_targets_are_filtered(make_swarm: Callable[..., Swarm], model: Any) -> None:
    swarm = make_swarm()
    calls = []
    score = swarm.engine.score

    def spy(queries: Any, policy: Any, **options: Any) -> Any:
        calls.append((queries, options))
        return score(queries, policy, **options)

    swarm.engine.score = spy  # type: ignore[method-assign]
    entries = entries_of(swarm, model.hidden[:5])
    features = swarm.verifier.features(entries)
    assert len(calls) == 1
    assert len(features) == 5
    assert all(len(row) == len(FEATURES) for row in features)
    queries, options = rows_of(calls[0][0]), calls[0][1]
    targets, filters = rows_of(options["targets"]), rows_of(options["filters"])
    assert len(queries) == 10
    world = swarm.world
    for number, entry in enumerate(entries):
        assert queries[2 * number][-2:] == [entry.source, world.particles + entry.semcon]
        assert queries[2 * number + 1][-2:] == [entry.target, world.particles + int(world.inverse[entry.semcon])]
        known = {
            q
            for s, q in zip(world.semcon[world.row(entry.source)], world.target[world.row(entry.source)], strict=True)
            if s == entry.semcon
        }
        assert targets[2 * number][0] == entry.target
        assert set(filters[2 * number]) == known
    assert len(swarm.verifier.features([])) == 0


def test_the_operators_decisions_count_for_a_semcon_in_both_readings(make_swarm: Callable[..., Swarm], model: Any) -> None:
    swarm = make_swarm()
    (entry,) = entries_of(swarm, model.hidden[:1])
    before = swarm.verifier.features([entry])[0]
    swarm.verifier.learn(int(swarm.world.inverse[entry.semcon]), True)
    after = swarm.verifier.features([entry])[0]
    assert before[-1] == 0
    assert after[-1] == pytest.approx(np.log(2))
    assert np.array_equal(before[:-1], after[:-1])


def test_evidence_is_for_people(make_swarm: Callable[..., Swarm], model: Any) -> None:
    swarm = make_swarm()
    (entry,) = entries_of(swarm, model.hidden[:1])
    entry.features = tuple(swarm.verifier.features([entry])[0].tolist())
    entry.path = (entry.source, next(iter(swarm.world.neighbours(entry.source))))
    entry.agents = {1, 2}
    text = dict(evidence_text(swarm.world, swarm.label, entry, UNCALIBRATED))
    assert text["deepest level"].endswith("of 300")
    assert text["path"].startswith("thing.")
    assert text["agreement"] == "2 agents"
    assert text["probability"] == "uncalibrated"
    fitted = replace(UNCALIBRATED, calibrated=True)
    assert dict(evidence_text(swarm.world, swarm.label, entry, fitted))["probability"] == "calibrated"
