"""Policies measured on a model file: the curve, the rule that is stored, and what stays as it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.compile.policy import main, measure_and_store, validation_queries
from engine.errors import UserError
from engine.evaluate.link_prediction import evaluate
from engine.evaluate.queries import queries_from_links
from engine.model.cyb_file import CybFile
from engine.model.model import Model
from engine.native import ISA_REFERENCE, Engine, EngineConfig
from tests.engine.random_model import write_random_model


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model") / "random.cyb", particles=100, links=900, gain=False)


@pytest.fixture(scope="module")
def measured(original: Path) -> tuple[Path, dict[str, Any]]:
    path = original.with_name("measured.cyb")
    shutil.copy(original, path)
    return path, measure_and_store(path)


def test_the_rule_and_the_curve_are_in_the_file(measured: tuple[Path, dict[str, Any]]) -> None:
    path, stored = measured
    model = Model.open(path)
    assert model.has_gain_rule
    assert (model.policy.rule, model.policy.inherit) == ("gain", "backfill")
    assert model.policy_curve == stored["curve"]
    assert [row.get("pinned") for row in stored["curve"][:3]] == [1, 2, 3]
    tried = {(row["rule"], row["inherit"]) for row in stored["curve"]}
    assert {("top", "backfill"), ("margin", "backfill"), ("gain", "backfill"), ("gain", "zeros"), ("gain", "window:16")} <= tried
    assert all({"rule", "thresholds", "inherit", "share", "mrr", "cost"} <= set(row) for row in stored["curve"])
    assert stored["curve"][2]["cost"] == 1


def test_nothing_else_changed(original: Path, measured: tuple[Path, dict[str, Any]]) -> None:
    before, after = CybFile(original), CybFile(measured[0])
    assert after.strings["family"] == before.strings["family"], "KV stays compatible"
    for name in before.tensors:
        if not name.startswith("__pad."):
            assert np.array_equal(before.array(name), after.array(name)), name
    assert after.wrong_digests() == []


def test_evaluation_shows_the_stored_rule(measured: tuple[Path, dict[str, Any]]) -> None:
    model = Model.open(measured[0])
    result = evaluate(model, queries_from_links(model, model.valid, [model.graph.links, model.hidden]))
    row = result["dynamic"][1]
    stored = next(row for row in measured[1]["curve"] if row["rule"] == "gain")
    assert row["rule"] == "gain"
    assert row["mrr"] == pytest.approx(stored["mrr"], abs=1e-5)
    assert row["cost"] == pytest.approx(stored["cost"], abs=5e-3)


def test_the_native_runtime_decides_as_the_fit_does(measured: tuple[Path, dict[str, Any]]) -> None:
    """Depth of each query from its features, weights and bias, and from the runtime."""
    model = Model.open(measured[0])
    queries = validation_queries(model)
    rows = [[int(source), model.particles + int(semcon)] for source, semcon in zip(queries.sources, queries.semcons, strict=True)]
    with Engine(model.native, EngineConfig(pages=2048, agents=1, groups=1, isa=ISA_REFERENCE)) as engine:
        found = engine.score(rows, model.policy, want=("gain_features",))
    assert found.gain_features is not None
    weights, bias = model.file.array("gain.weights"), model.file.array("gain.bias")
    for query in range(len(rows)):
        depth = 1
        for level in range(model.levels - 1):
            expected = float(found.gain_features[query, level] @ weights[level] + bias[level, queries.semcons[query]])
            if abs(expected - model.policy.thresholds[level]) < 1e-6:
                break
            if expected <= model.policy.thresholds[level]:
                assert found.depth[query] == depth
                break
            depth += 1
        else:
            assert found.depth[query] == model.levels


def test_one_level_has_a_curve_of_one_point(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "one.cyb", levels=(32,), particles=60, gain=False)
    stored = measure_and_store(path)
    assert [row["pinned"] for row in stored["curve"]] == [1]
    assert Model.open(path).policy_curve == stored["curve"]


def test_as_a_module(original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "copy.cyb"
    shutil.copy(original, path)
    model = Model.open(path)
    links = tmp_path / "valid.txt"
    graph = model.graph
    lines = [f"{graph.particles[s]}\t{graph.semcons[p]}\t{graph.particles[t]}" for s, p, t in model.hidden.tolist()]
    links.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main([str(path), "--valid", str(links), "--threads", "1"]) == 0
    assert "pinned 3" in capsys.readouterr().out
    assert Model.open(path).policy.rule == "gain"


def test_no_validation_links_is_said(original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "copy.cyb"
    shutil.copy(original, path)
    with pytest.raises(UserError, match="--valid"):
        measure_and_store(path, links=np.zeros((0, 3), np.int64))
    assert main([str(tmp_path / "missing.cyb")]) == 1
    assert "missing.cyb" in capsys.readouterr().err
