"""Calibrating a file's verification: what counts as a fact, what is left out, and what the file keeps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import UserError
from engine.model.cyb_file import CybFile
from engine.model.model import Model
from engine.runtime import calibrate as module
from engine.runtime.calibrate import calibrate, gather, main
from engine.runtime.calibration import calibration_error, cross_fitted, reliability
from engine.runtime.swarm import Swarm
from engine.runtime.verification import FEATURES, UNCALIBRATED
from tests.engine.random_model import write_random_model
from tests.engine.runtime.fake_engine import FakeEngine

# few enough particles that a swarm without any sense states withheld links
SHAPE: dict[str, Any] = {"particles": 30, "relations": 2, "levels": (32, 64), "layers": 1, "links": 260}
SWARM: dict[str, Any] = {"agents": 16, "steps": 60, "make_engine": FakeEngine}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model") / "random.cyb", **SHAPE)


def test_hidden_links_are_neither_facts_nor_counter_examples(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model.open(path)
    swarms: list[Swarm] = []
    init = Swarm.__init__

    def spy(self: Swarm, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        swarms.append(self)

    monkeypatch.setattr(Swarm, "__init__", spy)
    data = gather(model, **SWARM)
    (swarm,) = swarms
    assert swarm.audit is not None
    assert len(swarm.claims) == 0
    assert not swarm.world.added, "nothing is accepted, so later claims see the graph as it is"
    canonical = swarm.world.canonical_key
    keys = [canonical(claim.source, claim.semcon, claim.target) for claim, _ in swarm.audit]
    hidden = {canonical(*map(int, link)) for link in model.hidden}
    valid = {canonical(*map(int, link)) for link in model.valid}
    assert hidden & set(keys)
    assert len(data.facts) == sum(key not in hidden for key in keys)
    assert data.facts.sum() == len(valid & set(keys)) > 0
    share = (len(valid) + len(hidden)) / len(valid)
    assert np.array_equal(data.weights, np.where(data.facts, share, 1.0))
    held = swarm.world.holds(*model.valid.T)
    assert not held.any(), "the swarm does not see what it is judged by"


def test_the_file_keeps_the_fit_and_the_runtime_uses_it(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_swarm: Callable[..., Swarm]
) -> None:
    monkeypatch.setattr(module, "LEAST_FACTS", 1)
    copy = tmp_path / "copy.cyb"
    shutil.copy(path, copy)
    assert Model.open(copy).verification is None
    stored = calibrate(copy, **SWARM)
    model = Model.open(copy)
    assert model.verification == {name: value for name, value in stored.items() if name != "reliability"}
    assert set(model.verification["coefficients"]) == set(FEATURES)
    assert stored["facts_stand_for"] > 1
    before, after = CybFile(path), CybFile(copy)
    assert after.strings["family"] == before.strings["family"]
    assert after.wrong_digests() == []
    shutil.copy(path, copy)
    assert calibrate(copy, **SWARM) == stored, "the same file gives the same fit"
    assert not make_swarm().verifier.logistic.calibrated
    assert gather(model, **SWARM).facts.sum() == stored["facts"], "a calibrated file claims what it claimed before"


def test_too_few_facts_are_refused(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="at least 10 are needed"):
        calibrate(path, agents=1, steps=1)
    assert main([str(tmp_path / "none.cyb")]) == 1
    assert "none.cyb" in capsys.readouterr().err


def test_weights_count_as_repetitions_and_folds_keep_groups_together() -> None:
    random = np.random.default_rng(0)
    features = random.standard_normal((4000, len(FEATURES)))
    features[:, 0] = 1
    labels = random.random(4000) < 1 / (1 + np.exp(2 - features[:, 1]))
    weights = np.where(labels, 2.0, 1.0)
    foretold = cross_fitted(features, labels, np.arange(4000), weights)
    assert calibration_error(foretold, labels, weights=weights) < 0.05
    rows = reliability(foretold, labels, weights)
    assert sum(weight for *_, weight in rows) == pytest.approx(weights.sum())
    assert [mean for mean, *_ in rows] == sorted(mean for mean, *_ in rows)
    # a group that is all of one kind foretells itself only where it is in the fit
    alone = cross_fitted(features, labels, np.zeros(4000, np.int64) + np.arange(4000) % 7, weights)
    assert not np.array_equal(alone, foretold)
    assert UNCALIBRATED.probabilities(features[:3]) == pytest.approx([UNCALIBRATED.probability(row) for row in features[:3]])
