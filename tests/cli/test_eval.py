"""``cybtui eval``: options, exit statuses, the table and the JSON object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cybtui.cli import main
from engine.model.model import Model
from tests.engine.random_model import write_random_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_random_model(tmp_path_factory.mktemp("model") / "random.cyb", particles=100))


@pytest.fixture
def triples(model: str, tmp_path: Path) -> Path:
    graph = Model.open(model).graph
    path = tmp_path / "test.txt"
    path.write_text(
        f"{graph.particles[0]}\t{graph.semcons[0]}\t{graph.particles[1]}\nnobody\t{graph.semcons[1]}\t{graph.particles[2]}\n",
        encoding="utf-8",
    )
    return path


def evaluated(*arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["eval", *arguments, "--json", "-"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_hidden_links(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = evaluated(model, "--hidden", capsys=capsys)
    assert {"levels", "dynamic", "queries", "seconds"} <= set(result)
    assert result["queries"] == 2 * len(Model.open(model).hidden)
    assert all(0 <= row["mrr"] <= 1 for row in result["levels"])


def test_a_triples_file_with_what_is_known(model: str, triples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.txt"
    known.write_text("a\tb\tc\n", encoding="utf-8")
    result = evaluated(model, "--triples", str(triples), "--known", str(known), str(triples), capsys=capsys)
    assert (result["queries"], result["unseen"]) == (4, 2)


def test_a_table_for_people(model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["eval", model, "--hidden"]) == 0
    table = capsys.readouterr().out
    assert "MRR" in table
    for width in (32, 64, 128):
        assert f"pinned {width}" in table
    assert "top 0.9, 0.85 backfill" in table


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("one field only", "expected 3 fields"),
        ("a\tb\tc\td", "found 4"),
        ("a\t\tc", "relation is empty"),
        ("\tb\tc", "subject is empty"),
    ],
)
@pytest.mark.parametrize("option", ["--triples", "--known"])
def test_a_malformed_line_is_named(
    model: str, triples: Path, tmp_path: Path, line: str, words: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text(f"a\tb\tc\n{line}\n", encoding="utf-8")
    files = ["--triples", str(bad)] if option == "--triples" else ["--triples", str(triples), "--known", str(bad)]
    assert main(["eval", model, *files]) == 1
    message = capsys.readouterr().err
    assert f"{bad}:2" in message
    assert words in message


def test_bytes_that_are_no_text_are_named(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"a\tb\tc\nx\xff\ty\tz\n")
    assert main(["eval", model, "--triples", str(bad)]) == 1
    assert f"{bad}:2: not UTF-8" in capsys.readouterr().err


def test_missing_and_empty_files_are_named(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", model, "--triples", str(tmp_path / "none.txt")]) == 1
    assert "none.txt: cannot be read" in capsys.readouterr().err
    (tmp_path / "empty.txt").touch()
    assert main(["eval", model, "--triples", str(tmp_path / "empty.txt")]) == 1
    assert "no triples found" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [[], ["--hidden", "--triples", "t.txt"], ["--hidden", "--known", "k.txt"], ["--hidden", "--threads", "x"]]
)
def test_wrong_usage(model: str, options: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["eval", model, *options])
    assert left.value.code == 2
