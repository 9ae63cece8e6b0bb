"""Who computes a level: the native executor exactly, the MLX one within rounding."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backends.executor import LevelExecutor, Placement, open_executor
from engine.errors import UserError
from engine.model.model import Model
from engine.native import reference_forward
from tests.engine.random_model import random_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return random_model(tmp_path_factory.mktemp("model"), embedding_type="f16", weight_type="f16")


@pytest.fixture(scope="module")
def tokens(model: Model) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, len(model.vocabulary), (5, 19))


@pytest.fixture(scope="module")
def native(model: Model) -> Iterator[LevelExecutor]:
    executor = open_executor("native", model)
    yield executor
    executor.close()


@pytest.mark.parametrize("level", [1, 2, 3])
def test_native_is_the_reference_bit_for_bit(model: Model, native: LevelExecutor, tokens: NDArray[np.int64], level: int) -> None:
    assert native.exact
    found = native.logits(tokens, level)
    for row, query in enumerate(tokens):
        _, wanted = reference_forward(model.native, level, query, np.arange(len(query)), want_kv=False)
        assert wanted is not None
        assert np.array_equal(found[row], wanted[-1])


@pytest.mark.parametrize("level", [1, 2, 3])
def test_mlx_is_near(model: Model, native: LevelExecutor, tokens: NDArray[np.int64], level: int) -> None:
    pytest.importorskip("mlx.core")
    executor = open_executor("mlx", model)
    assert not executor.exact
    found, wanted = executor.logits(tokens, level), native.logits(tokens, level)
    assert np.abs(found - wanted).max() / np.abs(wanted).max() < 5e-3
    executor.close()


def test_levels_are_placed(model: Model, native: LevelExecutor, tokens: NDArray[np.int64]) -> None:
    with Placement.of(model) as placement:
        assert [placement.executor(level).name for level in (1, 2, 3)] == ["native"] * 3
        assert np.array_equal(placement.logits(tokens[:2], 2), native.logits(tokens[:2], 2))


def test_a_wide_level_goes_to_mlx(model: Model, tokens: NDArray[np.int64]) -> None:
    pytest.importorskip("mlx.core")
    with Placement.of(model, {3: "mlx"}) as placement:
        assert [placement.executor(level).name for level in (1, 2, 3)] == ["native", "native", "mlx"]
        assert placement.logits(tokens, 3).shape == (5, len(model.vocabulary))


def test_no_query_gives_no_row(model: Model, native: LevelExecutor) -> None:
    assert native.logits(np.zeros((0, 4), np.int64), 1).shape == (0, len(model.vocabulary))


@pytest.mark.parametrize(("choice", "words"), [({4: "native"}, "levels 1 to 3"), ({1: "abacus"}, "not known")])
def test_what_cannot_be_placed_is_named(model: Model, choice: dict[int, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Placement.of(model, choice)


def test_without_mlx_the_message_says_what_to_install(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx", None)
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    with pytest.raises(UserError, match="pip install"):
        open_executor("mlx", model)
