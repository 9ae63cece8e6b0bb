"""``cybtui verify``: options, exit statuses and the JSON object."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cybtui.cli import main
from cybtui.commands.verify import CLAIMS
from engine.model.model import Model
from engine.proof.proofs import CASES, PROOFS
from tests.engine.random_model import write_random_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model") / "random.cyb", particles=60)


def test_the_command_names_the_claims_that_there_are() -> None:
    assert tuple(PROOFS) == CLAIMS
    assert CASES == 1000


def test_a_sound_file_is_proven(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(model), "--cases", "5", "--json", "-"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert all(result[claim] is True for claim in CLAIMS)
    assert result["digests"] is True
    assert result["failures"] == []
    assert result["checks"] >= 30
    assert captured.err.count("ok") == len(CLAIMS)


def test_one_claim_alone(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(model), "--cases", "5", "--claim", "zero_copy"]) == 0
    captured = capsys.readouterr()
    assert "zero_copy" in captured.err
    assert "nesting" not in captured.err
    assert "all hold" in captured.out


def test_a_changed_byte_is_status_1(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = Model.open(model).file
    data = bytearray(model.read_bytes())
    start = len(data) - max(entry.end for entry in file.tensors.values())
    data[start + file.tensors["embedding.1"].begin + 33] ^= 1
    changed = tmp_path / "changed.cyb"
    changed.write_bytes(bytes(data))
    assert main(["verify", str(changed), "--cases", "2"]) == 1
    captured = capsys.readouterr()
    assert "tensor embedding.1" in captured.out
    assert "NOT proven" in captured.out


def test_unknown_faults_are_named(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(model), "--mutate", "gremlins"]) == 1
    assert "straddling_group" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--cases", "0"], ["--cases", "-4"], ["--claim", "beauty"], ["--seed", "x"]])
def test_wrong_usage(model: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["verify", str(model), *options])
    assert left.value.code == 2
