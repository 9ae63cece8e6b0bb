"""``cybtui bench``: options, exit statuses and the JSON object."""

from __future__ import annotations

import json

import pytest

from cybtui.cli import main
from cybtui.commands.bench import PEERS, SHAPES
from engine.bench.peer import PEERS as KNOWN_PEERS
from engine.bench.shapes import SHAPES as KNOWN_SHAPES

ROW = {
    "agents", "depth_share", "tokens_per_second", "weight_bytes_per_token", "kv_bytes_per_token", "savings", "savings_vs_batched",
    "rss_bytes", "fraction_of_roofline",
}  # fmt: skip


def test_the_command_names_what_there_is() -> None:
    assert ("default", *KNOWN_SHAPES) == SHAPES
    assert PEERS == KNOWN_PEERS


def test_the_object(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    arguments = ["bench", "--agents", "4,1", "--depth-share", "1,0", "--steps", "2", "--peer", "llama.cpp", "--json", "-"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert set(result["roofline"]) == {"dram_bytes_per_second", "f32_flops", "int8_ops"}
    assert [(row["agents"], row["depth_share"]) for row in result["rows"]] == [(1, 0), (1, 1), (4, 0), (4, 1)]
    assert all(set(row) >= ROW for row in result["rows"])
    assert result["refused"] == []
    assert result["peer"]["rows"] == []
    assert "not installed" in captured.err
    assert captured.err.index("roofline:") < captured.err.index("tokens/s")
    assert "256 shared and 16 private positions" in captured.err


@pytest.mark.parametrize(
    "words", [["--agents", "0"], ["--agents", "1,x"], ["--depth-share", "1.5"], ["--shape", "9b"], ["--agents", "999999"]]
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *words])
    assert stopped.value.code == 2
    assert "usage" in capsys.readouterr().err
