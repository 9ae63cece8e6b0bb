"""Forced depths, refusals and figures of the benchmark, on a tiny shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.bench import measure as module
from engine.bench import shapes
from engine.bench.measure import Plan, goes_deep, measure, measure_all, needed_bytes, stored_bytes
from engine.bench.peer import measure_peer, rows_of
from engine.bench.shapes import SHAPES, Shape, open_shape, weights_file
from engine.errors import UserError
from engine.native import NativeModel, Roofline, measure_roofline

TINY = Shape("tiny", (32, 128, 256), 2, 32, 5000)
ROOFLINE = Roofline(1e10, 1e11, 1e11)
PLAN = Plan(steps=3, threads=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> NativeModel:
    return open_shape(TINY, tmp_path_factory.mktemp("weights"))


def test_the_roofline_is_measured() -> None:
    found = measure_roofline(1, 1 << 24)
    assert found.dram_bytes_per_second > 1e8
    assert found.f32_flops > 1e8
    assert found.int8_ops > 1e8


def test_known_shapes_have_the_sizes_that_their_names_promise() -> None:
    gigabytes = {name: shape.file_bytes / 1e9 for name, shape in SHAPES.items()}
    assert gigabytes["7b-wide"] == pytest.approx(6.9, rel=0.05)
    assert gigabytes["1b"] < gigabytes["3b"] < gigabytes["7b"]


def test_a_file_is_written_once_and_opened_as_it_is(tmp_path: Path) -> None:
    first = weights_file(TINY, tmp_path)
    written = first.stat().st_mtime_ns
    assert weights_file(TINY, tmp_path) == first
    assert first.stat().st_mtime_ns == written
    assert first.stat().st_size == TINY.file_bytes
    assert list(tmp_path.iterdir()) == [first]


def test_what_fits_neither_memory_nor_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "memory_available", lambda: 1 << 16)
    with pytest.raises(UserError, match="of memory are free"):
        weights_file(TINY, tmp_path)
    monkeypatch.setattr(shapes, "memory_available", lambda: 0)
    monkeypatch.setattr(shapes, "SPARE_BYTES", 1 << 60)
    with pytest.raises(UserError, match="name another --folder"):
        weights_file(TINY, tmp_path)
    assert not list(tmp_path.iterdir())


def test_shares_are_met_by_a_hash_of_counters() -> None:
    deep = np.array([goes_deep(1, 200, step, 0.1) for step in range(50)])
    assert deep.mean() == pytest.approx(0.1, abs=0.01)
    assert np.array_equal(deep[:, :50], [goes_deep(1, 50, step, 0.1) for step in range(50)])  # whoever else is there
    assert not goes_deep(1, 100, 0, 0.0).any()
    assert goes_deep(1, 100, 0, 1.0).all()


def test_pinned_points_take_one_level(model: NativeModel) -> None:
    router, deepest = (measure(model, ROOFLINE, 4, share, PLAN) for share in (0.0, 1.0))
    assert router["by_level"] == [12, 0, 0]
    assert deepest["by_level"] == [0, 0, 12]
    assert router["weight_bytes_per_token"] < deepest["weight_bytes_per_token"]
    assert deepest["weight_bytes_per_token"] * 4 == pytest.approx(stored_bytes(model), rel=1e-6)
    assert router["filled"] == deepest["filled"] == [0, 0, 0]
    assert 0.8 < deepest["savings_vs_batched"] <= 1
    assert router["savings"] > deepest["savings"] > 1


def test_tokens_between_go_where_the_hash_says(model: NativeModel) -> None:
    row = measure(model, ROOFLINE, 6, 0.5, PLAN)
    deep = sum(int(goes_deep(PLAN.seed, 6, step, 0.5).sum()) for step in range(3))
    assert row["by_level"] == [18 - deep, 0, deep]
    assert row["filled"][2] > 0
    again = measure(model, ROOFLINE, 6, 0.5, replace(PLAN, threads=1))
    counted = ("by_level", "filled", "tokens", "multiply_adds_per_token", "weight_bytes_per_token", "kv_bytes_per_token")
    assert [row[name] for name in counted] == [again[name] for name in counted]


def test_points_are_ordered_and_those_that_do_not_fit_are_listed(model: NativeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = needed_bytes(model, 5000, 1.0, PLAN.steps)
    monkeypatch.setattr(module, "memory_available", lambda: wide)
    told: list[dict[str, object]] = []
    rows, refused = measure_all(model, ROOFLINE, (5000, 2, 1), (1.0, 0.0), PLAN, told.append)
    points = [(row["agents"], row["depth_share"]) for row in rows]
    assert points[:4] == [(1, 0.0), (1, 1.0), (2, 0.0), (2, 1.0)]
    assert (refused[-1]["agents"], refused[-1]["depth_share"]) == (5000, 1.0)
    assert "memory" in refused[-1]["reason"]
    assert len(told) == 6


def test_a_point_that_takes_too_long_is_listed(model: NativeModel) -> None:
    rows, refused = measure_all(model, replace(ROOFLINE, int8_ops=1e5), (1,), (1.0,), replace(PLAN, limit=1.0))
    assert rows == []
    assert "--limit" in refused[0]["reason"]


def test_the_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not installed" in measure_peer(None, (1,), 0, 1.0)["reason"]
    line = '{"pp": 256, "tg": 16, "pl": 4, "t_tg": 0.5, "speed_tg": 128.0}'
    program = tmp_path / "llama-batched-bench"
    program.write_text(f"#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'version: 7 (abc)'; else echo noise; echo '{line}'; fi\n")
    program.chmod(0o755)
    assert "--peer-model" in measure_peer(None, (4,), 0, 10.0)["reason"]
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF")
    found = measure_peer(gguf, (4,), 0, 10.0)
    assert found == {"name": "llama.cpp", "version": "version: 7 (abc)", "rows": rows_of(line)}
    assert found["rows"][0] == {"agents": 4, "tokens_per_second": 128.0, "seconds": 0.5}
