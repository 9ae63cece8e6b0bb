"""The scalar reference of csrc/ against numpy in float64: conventions (rotation, orientation, folding, scales), not bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.compile.export import export
from engine.compile.weights import NestedWeights
from engine.graph.cybergraph import Cybergraph
from engine.model.context import CONTROL_TOKENS
from engine.model.model import Model
from engine.native import reference_forward
from tests.engine.numpy_reference import forward, random_weights

PARTICLES, SEMCONS = 60, 4
VOCABULARY = PARTICLES + SEMCONS + len(CONTROL_TOKENS)
POSITIONS = np.array([0, 1, 2, 16, 17, 18, 19, 33, 48, 49, 50, 51])


def exported(folder: Path, weights: NestedWeights, kind: str = "f16") -> Model:
    random = np.random.default_rng(1)
    links = np.unique(random.integers(0, [PARTICLES, SEMCONS, PARTICLES], (80, 3)), axis=0)
    graph = Cybergraph(
        tuple(f"thing {i}" for i in range(PARTICLES)),
        tuple(f"relation {i}" for i in range(SEMCONS)),
        np.array([2, 3, 0, 1]),
        links,
        np.ones(len(links), np.float32),
    )
    focus = random.uniform(0.1, 1.0, VOCABULARY)
    policy = {"inherit": "backfill", "rule": "top", "thresholds": [0.9, 0.85], "curve": []}
    none = np.zeros((0, 3), np.int64)
    path = folder / f"{kind}.cyb"
    export(path, "test", "tuned", weights, graph, focus / focus.sum(), none, none, policy, {}, kind, kind)
    return Model.open(path)


@pytest.fixture(scope="module")
def weights() -> NestedWeights:
    return random_weights(VOCABULARY)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, weights: NestedWeights) -> Model:
    return exported(tmp_path_factory.mktemp("model"), weights)


@pytest.fixture(scope="module")
def tokens() -> NDArray[np.int64]:
    return np.random.default_rng(3).integers(0, VOCABULARY, len(POSITIONS))


def kv_values(kv: NDArray[np.uint16]) -> NDArray[np.float64]:
    return kv.view(np.float16).astype(np.float64)


def assert_close(found: NDArray[Any], wanted: NDArray[Any], tolerance: float) -> None:
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert error < tolerance, f"off by {error:.2e} of the largest value"


@pytest.mark.parametrize("level", [1, 2, 3])
def test_logits_and_kv_agree_at_every_level(model: Model, weights: NestedWeights, tokens: NDArray[np.int64], level: int) -> None:
    wanted, wanted_kv = forward(weights, model.log_focus.astype(np.float64), tokens, POSITIONS)
    kv, logits = reference_forward(model.native, level, tokens, POSITIONS)
    assert kv is not None
    assert logits is not None
    assert_close(logits, wanted[level - 1], 2e-3)
    assert_close(kv_values(kv), wanted_kv[..., : weights.levels[level - 1]], 2e-3)


@pytest.mark.parametrize("zeros", [False, True])
def test_holes_agree_masked_and_as_zeros(model: Model, weights: NestedWeights, tokens: NDArray[np.int64], zeros: bool) -> None:
    """Positions 2, 5, 6 stop at the first level, position 8 at the second."""
    levels = np.full(len(tokens), 3)
    levels[[2, 5, 6]], levels[8] = 1, 2
    holes = levels[:, None] < np.arange(1, 4)
    wanted, wanted_kv = forward(weights, model.log_focus.astype(np.float64), tokens, POSITIONS, holes, zeros)
    kv, logits = reference_forward(model.native, 3, tokens, POSITIONS, holes.astype(np.uint8), zeros_rule=zeros)
    assert kv is not None
    assert logits is not None
    for row, level in enumerate(levels):
        assert_close(logits[row], wanted[level - 1][row], 2e-3)
        width = weights.levels[level - 1]
        assert_close(kv_values(kv)[:, :, row, :width], wanted_kv[:, :, row, :width], 4e-3)


def test_the_two_hole_rules_differ(model: Model, tokens: NDArray[np.int64]) -> None:
    holes = np.zeros((len(tokens), 3), np.uint8)
    holes[2:6, 1:] = 1
    masked = reference_forward(model.native, 3, tokens, POSITIONS, holes, zeros_rule=False, want_kv=False)[1]
    zeroed = reference_forward(model.native, 3, tokens, POSITIONS, holes, zeros_rule=True, want_kv=False)[1]
    assert masked is not None
    assert zeroed is not None
    assert not np.array_equal(masked[-1], zeroed[-1])


def test_quantised_weights_stay_near(tmp_path: Path, weights: NestedWeights, tokens: NDArray[np.int64]) -> None:
    """q8 rounds weights to 1/127 of the largest of a group: near, not equal."""
    model = exported(tmp_path, weights, "q8")
    wanted, _ = forward(weights, model.log_focus.astype(np.float64), tokens, POSITIONS)
    for level in (1, 2, 3):
        logits = reference_forward(model.native, level, tokens, POSITIONS, want_kv=False)[1]
        assert logits is not None
        assert_close(logits, wanted[level - 1], 6e-2)
        assert np.corrcoef(logits.reshape(-1), wanted[level - 1].reshape(-1))[0, 1] > 0.998


def test_training_and_runtime_mean_the_same_model(weights: NestedWeights, tokens: NDArray[np.int64]) -> None:
    """The pass that fine-tuning differentiates, against the same numpy reference."""
    pytest.importorskip("mlx.core")
    import mlx.core as mx

    from engine.compile import finetune_model as training
    from engine.compile.finetune import Recipe

    mine = NestedWeights(
        **{
            **weights.__dict__,
            "epsilon": training.EPSILON,
            "rope_base": training.ROPE_BASE,
            "input_scale": training.INPUT_SCALE,
        }
    )
    joined = [
        [
            {
                "qkv": mx.array(np.concatenate([block["q"], block["k"], block["v"]])),
                "o": mx.array(block["o"]),
                "gate_up": mx.array(np.concatenate([block["gate"], block["up"]])),
                "down": mx.array(block["down"]),
            }
            for block in layer
        ]
        for layer in weights.weights
    ]
    parameters = {
        "embedding": mx.array(weights.embedding),
        "log_tau": mx.array(np.log(np.array(weights.tau, np.float32))),
        "beta": mx.array(np.array(weights.beta, np.float32)),
        "layers": joined,
    }
    log_focus = np.log(np.random.default_rng(5).uniform(0.001, 1, VOCABULARY)).astype(np.float32)
    model = training.NestedModel(Recipe(levels=weights.levels, layers=weights.layers, head_size=weights.head_size), log_focus)
    ids, where = mx.array(tokens[None].astype(np.int32)), mx.array(POSITIONS[None].astype(np.int32))
    blocks = model.hidden(parameters, ids, where, mx.ones(ids.shape, mx.bool_), None)
    found = model.logits(parameters, [block[0] for block in blocks])
    wanted, _ = forward(mine, log_focus.astype(np.float64), tokens, POSITIONS)
    for level in range(3):
        assert_close(np.array(found[level]), wanted[level], 2e-3)
