"""What ``cybtui compile`` does about verification after a fine-tune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cybtui.commands.compile import _calibrate
from engine.model.model import Model
from tests.engine.random_model import write_random_model


def test_a_file_with_too_few_facts_stays_uncalibrated_and_says_so(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.cyb", particles=40, levels=(32, 64), layers=1, links=80)
    result: dict[str, Any] = {"notices": [], "seconds": {}, "digest": "stale"}
    stages: list[str] = []
    _calibrate(result, path, 0, lambda stage, share: stages.append(stage))
    assert "stays uncalibrated" in result["notices"][0]
    assert "verification" not in result
    assert result["digest"] == Model.open(path).digest
    assert result["seconds"]["calibrate"] > 0
    assert set(stages) == {"claims"}
