"""Filtered figures against a plain count over logits, in both readings of every link."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.compile.pipeline import CompileOptions, compile_source
from engine.evaluate.link_prediction import Evaluator, direct_levels, evaluate, filtered_rank, metrics
from engine.evaluate.queries import QuerySet, queries_from_links, queries_from_triples
from engine.model.context import ControlTokens, absolute_positions, group_tokens, personal_tokens, system_tokens
from engine.model.model import Model
from engine.model.policy import default_policy
from engine.native import reference_forward
from tests.engine.random_model import random_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return random_model(tmp_path_factory.mktemp("model"), particles=120, links=500)


@pytest.fixture(scope="module")
def queries(model: Model) -> QuerySet:
    return queries_from_links(model, model.hidden, [model.graph.links, model.valid])


@pytest.mark.parametrize("level", [1, 2, 3])
def test_ranks_follow_from_the_reference_logits_of_the_trained_layout(model: Model, queries: QuerySet, level: int) -> None:
    control = ControlTokens(model.particles + model.semcons)
    with Evaluator(model) as evaluator:
        found = evaluator.run(queries, default_policy(model.levels).pinned(level)).ranks
    for query in range(0, len(queries.sources), 5):
        layers = [
            system_tokens(control),
            group_tokens(control),
            personal_tokens(control),
            [int(queries.sources[query]), model.particles + int(queries.semcons[query])],
        ]
        tokens = [token for layer in layers for token in layer]
        positions = [position for layer in absolute_positions(layers) for position in layer]
        _, logits = reference_forward(model.native, level, tokens, positions, want_kv=False)
        assert logits is not None
        scores = logits[-1, : model.particles].astype(np.float64)
        answer = int(queries.answers[query])
        competing = np.setdiff1d(np.arange(model.particles), queries.filters[query])
        better, ties = int((scores[competing] > scores[answer]).sum()), int((scores[competing] == scores[answer]).sum())
        assert found[query] == 1 + better + ties / 2


def test_the_object_has_the_keys_of_the_command_line(model: Model, queries: QuerySet) -> None:
    result = evaluate(model, queries)
    assert [row["width"] for row in result["levels"]] == list(model.widths)
    assert all({"width", "mrr", "hits1", "hits3", "hits10"} <= set(row) for row in result["levels"])
    assert all({"rule", "thresholds", "inherit", "mrr", "hits10", "share", "cost"} <= set(row) for row in result["dynamic"])
    assert result["queries"] == 2 * len(model.hidden)
    assert result["levels"][-1]["cost"] == 1
    assert result["levels"][0]["cost"] < result["levels"][1]["cost"] < 1
    assert all(abs(sum(row["share"]) - 1) < 1e-9 for row in result["dynamic"])
    assert sum(row["queries"] for row in result["semcons"]) == result["queries"]
    total = sum(row["queries"] * row["mrr"][-1] for row in result["semcons"]) / result["queries"]
    assert abs(total - result["levels"][-1]["mrr"]) < 1e-9


def test_the_seed_rule_and_the_stored_policy_are_both_there(tmp_path: Path) -> None:
    model = random_model(tmp_path, particles=60, links=200, rule="gain", thresholds=(0.05, 0.02))
    queries = queries_from_links(model, model.hidden, [model.graph.links])
    rows = evaluate(model, queries)["dynamic"]
    assert [(row["rule"], row["thresholds"]) for row in rows] == [("top", [0.9, 0.85]), ("gain", [0.05, 0.02])]


def test_always_escalating_answers_as_the_deepest_and_costs_more_than_any_pin(model: Model, queries: QuerySet) -> None:
    policy = default_policy(model.levels)
    with Evaluator(model) as evaluator:
        pinned = evaluator.run(queries, policy.pinned(3))
        through = evaluator.run(queries, replace(policy, thresholds=(2.0, 2.0)), features=True)
    assert np.array_equal(pinned.ranks, through.ranks)
    assert through.multiply_adds > pinned.multiply_adds
    assert through.features is not None
    assert through.features.shape == (len(queries.sources), 3, 6)
    assert np.all(through.features[..., 0] == 1)


def test_the_number_of_threads_changes_nothing(model: Model, queries: QuerySet) -> None:
    one, three = evaluate(model, queries, threads=1), evaluate(model, queries, threads=3)
    assert {**one, "seconds": 0} == {**three, "seconds": 0}


def test_only_unseen_queries_still_give_figures(model: Model) -> None:
    result = evaluate(model, queries_from_triples(model, [("a", "b", "c")], []))
    assert result["queries"] == result["unseen"] == 2
    assert result["levels"][0]["mrr"] == 1 / ((model.particles + 2 + 1) / 2)


def test_metrics_count_hits_up_to_the_bound() -> None:
    assert metrics(np.array([1.0, 3.0, 3.5, 10.0])) == pytest.approx(
        {"mrr": (1 + 1 / 3 + 1 / 3.5 + 0.1) / 4, "hits1": 0.25, "hits3": 0.5, "hits10": 1.0}
    )


def test_filtered_rank_leaves_other_answers_out() -> None:
    scores = np.array([0.5, 0.9, 0.5, 0.1, 0.7], np.float32)
    assert filtered_rank(scores, 0, np.array([0, 1], np.uint32)) == 1 + 1 + 0.5
    assert filtered_rank(scores, 0, np.array([0], np.uint32)) == 1 + 2 + 0.5
    assert filtered_rank(scores, 3, np.array([1, 2, 3], np.uint32)) == 1 + 2


def test_a_spectral_file_is_scored_directly_with_its_transformer_beside(tmp_path: Path) -> None:
    """The maps of the file's links and E, dense and slow, give the same ranks."""
    random = np.random.default_rng(0)
    lines = {f"n{a}\tr{(a + b) % 3}\tn{b}" for a, b in random.integers(0, 60, (500, 2)) if a != b}
    source = tmp_path / "graph.txt"
    source.write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")
    compile_source(CompileOptions(source, tmp_path / "graph.cyb", levels=(32, 64), hold_out=0.1, seed=1))
    model = Model.open(tmp_path / "graph.cyb")
    queries = queries_from_links(model, model.hidden, [model.graph.links])
    result = evaluate(model, queries)
    assert [row["width"] for row in result["forward"]] == [32, 64]
    assert result["levels"] == direct_levels(model, queries)
    from engine.native import matrix_unpack

    table = np.concatenate([matrix_unpack(matrix)[: model.particles] for matrix in model.native.arrays.embedding], axis=1)
    adjacency = np.zeros((model.semcons, model.particles, model.particles))
    for source_id, semcon, target in model.graph.directed().tolist():
        adjacency[semcon, source_id, target] = 1
    ranks = []
    for source_id, semcon, answer, known in zip(queries.sources, queries.semcons, queries.answers, queries.filters, strict=True):
        narrow = table[:, :32].astype(np.float64)
        scores = narrow @ (narrow[source_id] @ (narrow.T @ adjacency[semcon] @ narrow))
        ranks.append(filtered_rank(scores.astype(np.float32), int(answer), known))
    assert result["levels"][0]["mrr"] == pytest.approx(float((1 / np.array(ranks)).mean()), rel=1e-3)
