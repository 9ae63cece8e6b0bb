"""The gain rule on made-up queries where it is known what going deeper is worth."""

from __future__ import annotations

import numpy as np
import pytest

from engine.compile import gain
from engine.compile.gain import Samples, fit_gain

COSTS = np.array([0.1, 0.45, 1.05])
SEMCONS = 6
PRICES = (0.0, 0.005, 0.02, 0.08, 0.3)  # fewer than the rule tries, to be quick


def made_up(queries: int = 1500, foretold: bool = True, seed: int = 0) -> Samples:
    """Half the queries win a lot at the deepest level and half nothing; where it is ``foretold``, entropy (feature 4) says which."""
    random = np.random.default_rng(seed)
    wins = random.random(queries) < 0.5
    features = np.zeros((queries, 3, 6), np.float32)
    features[..., 0] = 1
    features[..., 4] = (np.where(wins, 3.0, 1.0) if foretold else random.normal(2, 1, queries))[:, None] + random.normal(
        0, 0.2, (queries, 3)
    )
    features[..., 2] = random.uniform(0, 1, (queries, 3))
    router = random.uniform(0.05, 0.3, queries)
    reciprocal = np.stack([router, np.where(wins, router + 0.05, router), np.where(wins, router + 0.4, router)])
    return Samples(features, reciprocal, random.integers(0, SEMCONS, queries), np.arange(queries) % (queries // 2), COSTS)


def outcome(samples: Samples, rule: gain.GainRule) -> tuple[float, float]:
    """Reciprocal rank lost and arithmetic under the rule as the native runtime applies it, in float32."""
    queries = len(samples.semcons)
    depth = np.full(queries, len(COSTS) - 1)
    for level in reversed(range(len(COSTS) - 1)):
        expected = samples.features[:, level] @ rule.weights[level] + rule.bias[level, samples.semcons]
        depth[expected <= np.float32(rule.thresholds[level])] = level
    lost = samples.reciprocal[-1] - samples.reciprocal[depth, np.arange(queries)]
    return float(lost.mean()), float(samples.costs[depth].mean())


def test_a_foretold_gain_is_bought_and_nothing_else() -> None:
    rule = fit_gain(made_up(), SEMCONS, prices=PRICES)
    lost, cost = outcome(made_up(seed=1), rule)
    assert lost < gain.TOLERANCE
    assert cost < 0.65, "half the queries need the deepest level, half the first"
    assert rule.weights.shape == (2, 6)
    assert rule.bias.shape == (2, SEMCONS)
    assert len(rule.thresholds) == 2


def test_estimates_are_honest_on_fresh_queries() -> None:
    rule = fit_gain(made_up(), SEMCONS, prices=PRICES)
    lost, cost = outcome(made_up(4000, seed=2), rule)
    assert lost == pytest.approx(rule.loss, abs=4 * rule.loss_error + 0.002)
    assert cost == pytest.approx(rule.cost, abs=0.05)


def test_what_nothing_foretells_is_not_believed() -> None:
    """With features of pure chance the expected gain is the same for everybody: no query is sent deeper for its noise."""
    samples = made_up(foretold=False)
    fit = gain._fit(samples, np.arange(1500), 0.01, SEMCONS)
    spread = fit.predicted(samples, np.arange(1500), 1).std()
    assert spread < 0.25 * (samples.reciprocal[2] - samples.reciprocal[1]).std()


def test_a_semcon_with_a_gain_of_its_own_is_told_apart() -> None:
    samples = made_up(3000, foretold=False)
    better = samples.reciprocal.copy()
    better[1:] = better[0] + np.where(samples.semcons == 2, 0.3, 0.0)
    rule = fit_gain(Samples(samples.features, better, samples.semcons, samples.links, COSTS), SEMCONS, prices=PRICES)
    expected = samples.features[:, 0] @ rule.weights[0] + rule.bias[0, samples.semcons]
    goes = expected > rule.thresholds[0]
    assert goes[samples.semcons == 2].mean() > 0.99
    assert goes[samples.semcons != 2].mean() < 0.01


def test_where_depth_earns_nothing_the_first_level_answers() -> None:
    samples = made_up()
    flat = np.broadcast_to(samples.reciprocal[:1], samples.reciprocal.shape).copy()
    rule = fit_gain(Samples(samples.features, flat, samples.semcons, samples.links, COSTS), SEMCONS, prices=PRICES)
    lost, cost = outcome(Samples(samples.features, flat, samples.semcons, samples.links, COSTS), rule)
    assert (lost, cost) == (0, pytest.approx(0.1))


def test_the_budget_holds_where_the_tolerance_would_cost_more() -> None:
    samples = made_up(foretold=False)
    assert fit_gain(samples, SEMCONS, prices=PRICES).cost <= gain.BUDGET


def test_the_same_seed_gives_the_same_rule() -> None:
    one, other = fit_gain(made_up(), SEMCONS, seed=4, prices=PRICES), fit_gain(made_up(), SEMCONS, seed=4, prices=PRICES)
    assert np.array_equal(one.weights, other.weights)
    assert one.thresholds == other.thresholds


def test_elimination_solves_the_whole_ridge_regression() -> None:
    samples = made_up(300)
    features, target = samples.features[:, 0].astype(np.float64), samples.reciprocal[2]
    weights, bias = gain._ridge(features, samples.semcons, target, SEMCONS)
    one_hot = np.eye(SEMCONS)[samples.semcons]
    design = np.concatenate([features, one_hot], axis=1)
    penalty = np.concatenate([gain.FEATURE_SHRINKAGE * 300 * features.var(axis=0) + 1e-9, np.full(SEMCONS, gain.SEMCON_SHRINKAGE)])
    whole = np.linalg.solve(design.T @ design + np.diag(penalty), design.T @ target)
    assert np.allclose(np.concatenate([weights, bias]), whole, atol=1e-6)
