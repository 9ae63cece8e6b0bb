"""Faults planted in a library built for it: `verify` must notice every one, and be content without any."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.native import MUTATIONS
from tests.engine.random_model import write_random_model

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "csrc" / "src").glob("*.c"))
COMPILER = shutil.which("gcc") or shutil.which("cc")
FLAGS = ["-std=c11", "-O2", "-fPIC", "-ffp-contract=off", "-DCYB_MUTATIONS", '-DCYB_VERSION="test"', f"-I{ROOT / 'csrc' / 'include'}"]
VECTOR = ["-mavx2", "-mfma", "-mf16c"] if platform.machine() in ("x86_64", "AMD64") else []

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler: faults cannot be planted")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.stem}.o"
        extra = VECTOR if source.stem == "kernels_avx2" else []
        done = subprocess.run(
            [str(COMPILER), *FLAGS, *extra, "-c", str(source), "-o", str(target)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return target

    with ThreadPoolExecutor(4) as pool:
        objects = list(pool.map(compile_one, SOURCES))
    built = folder / "libcyb-mutations.so"
    done = subprocess.run(
        [str(COMPILER), "-shared", *map(str, objects), "-o", str(built), "-lm", "-lpthread"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model") / "random.cyb")


def verify(model: Path, library: Path | None, *options: str) -> tuple[int, dict[str, Any], str]:
    environment = {**os.environ, **({"CYBTUI_LIBRARY": str(library)} if library else {})}
    command = [sys.executable, "-m", "cybtui", "verify", str(model), "--cases", "48", "--json", "-", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=ROOT, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def test_without_a_fault_everything_holds(model: Path, library: Path) -> None:
    status, result, _ = verify(model, library)
    assert status == 0, result
    assert result["failures"] == []


@pytest.mark.parametrize(
    ("fault", "claims"),
    [
        ("summation_order", {"nesting", "backfill"}),
        ("merge_order", {"nesting", "backfill"}),
        ("zeros_shares_filled", {"zeros_rule"}),
        ("stale_tape", {"nesting", "backfill"}),
        ("straddling_group", {"nesting", "backfill"}),
    ],
)
def test_every_fault_is_noticed(model: Path, library: Path, fault: str, claims: set[str]) -> None:
    status, result, _ = verify(model, library, "--mutate", fault)
    assert status == 1
    assert result["mutation"] == fault
    assert result["digests"]
    assert {claim for claim in claims if result[claim]} == set()
    assert any("again: --claim" in failure for failure in result["failures"])


def test_every_fault_of_the_library_is_tried() -> None:
    mark = next(mark for mark in test_every_fault_is_noticed.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert {fault for fault, _ in mark.args[1]} == set(MUTATIONS) - {"none"}


def test_an_ordinary_library_refuses_to_plant_one(model: Path) -> None:
    status, result, message = verify(model, None, "--mutate", "stale-tape")
    assert (status, result) == (1, {})
    assert "CYB_MUTATIONS" in message
    assert "Traceback" not in message
