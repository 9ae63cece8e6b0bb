"""``cybtui run``: options, exit statuses and the JSON object."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cybtui.cli import main
from tests.engine.random_model import write_random_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_random_model(tmp_path_factory.mktemp("model") / "random.cyb"))


def result_of(model: str, tmp_path: Path, *options: str) -> dict[str, object]:
    out = tmp_path / "result.json"
    assert main(["run", "--model", model, "--agents", "4", "--steps", "5", "--seed", "3", "--json", str(out), *options]) == 0
    loaded: dict[str, object] = json.loads(out.read_text())
    return loaded


def test_a_run_writes_its_figures(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = result_of(model, tmp_path, "--threads", "1")
    assert (result["agents"], result["steps"], result["seed"], result["threads"]) == (4, 5, 3, 1)
    assert (result["rule"], result["inherit"]) == ("top", "backfill")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "digest" in captured.err


def test_json_on_standard_output_is_all_of_it(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--model", model, "--agents", "2", "--steps", "3", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"]["generated"] == 6


def test_options_override_the_stored_policy(model: str, tmp_path: Path) -> None:
    assert result_of(model, tmp_path, "--inherit", "window:4", "--rule", "margin")["inherit"] == "window:4"
    assert result_of(model, tmp_path, "--thresholds", "0.5,0.5")["rule"] == "top"
    tokens = result_of(model, tmp_path, "--depth", "general")["tokens"]
    assert tokens["by_level"] == [0, 0, 20]  # type: ignore[index]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--depth", "speculate"], "not in this release"),
        (["--agents", "0"], "at least 1"),
        (["--agents", "x"], "invalid"),
        (["--steps", "-1"], "at least 1"),
        (["--inherit", "window:0"], "window"),
        (["--inherit", "copy"], "backfill"),
        (["--thresholds", "0.5"], "thresholds"),
        (["--thresholds", "0.5,nan"], "finite"),
        (["--thresholds", "a"], "numbers"),
        (["--rule", "best"], "invalid choice"),
        (["--rule", "gain"], "--thresholds"),
        (["--nonsense"], "unrecognized"),
    ],
)
def test_wrong_usage_is_status_two(model: str, options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["run", "--model", model, *options])
    assert raised.value.code == 2
    assert words in capsys.readouterr().err


def test_a_model_that_is_not_there_is_status_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--model", str(tmp_path / "no.cyb")]) == 1
    assert "no.cyb" in capsys.readouterr().err
