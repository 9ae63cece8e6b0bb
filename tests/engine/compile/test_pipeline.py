from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.compile import pipeline
from engine.compile.pipeline import CompileOptions, compile_source
from engine.errors import UserError
from engine.evaluate.link_prediction import evaluate
from engine.evaluate.queries import queries_from_links
from engine.model.model import Model
from engine.native import matrix_unpack
from tests.engine.graph.graphs import clustered_graph


@pytest.fixture
def source(tmp_path: Path) -> Path:
    graph = clustered_graph()
    path = tmp_path / "graph.tsv"
    names, semcons = graph.particles, graph.semcons
    path.write_text("".join(f"{names[a]}\t{semcons[s]}\t{names[b]}\n" for a, s, b in graph.links.tolist()), encoding="utf-8")
    return path


def compiled(source: Path, name: str, levels: tuple[int, ...], **options: object) -> tuple[dict[str, object], Model]:
    output = source.parent / name
    result = compile_source(CompileOptions(source, output, levels, seed=5, **options))  # type: ignore[arg-type]
    return result, Model.open(output)


def test_a_compiled_graph_opens_and_predicts(source: Path) -> None:
    result, model = compiled(source, "m.cyb", (32, 64, 96), hold_out=0.05)
    assert result["digest"] == model.digest
    assert result["heads"] == [1, 2, 3]
    assert result["hidden"] == len(model.hidden) > 0
    assert 0 < float(result["kappa"]) < 1  # type: ignore[arg-type]
    figures = evaluate(model, queries_from_links(model, model.hidden, [model.graph.links]))
    chance = 2 / model.particles
    assert figures["levels"][-1]["mrr"] > 5 * chance
    assert figures["forward"][-1]["mrr"] > 5 * chance


def test_fewer_levels_hold_the_same_embedding(source: Path) -> None:
    _, whole = compiled(source, "whole.cyb", (32, 64, 96))
    _, part = compiled(source, "part.cyb", (32, 64))
    for one, other in zip(part.native.arrays.embedding, whole.native.arrays.embedding, strict=False):
        assert np.array_equal(matrix_unpack(one), matrix_unpack(other))


def test_compiling_twice_gives_the_same_digest(source: Path) -> None:
    first, _ = compiled(source, "a.cyb", (32, 64))
    second, _ = compiled(source, "a.cyb", (32, 64))
    assert first["digest"] == second["digest"]


def test_a_killed_compile_resumes_behind_the_spectrum(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = compiled(source, "m.cyb", (32, 64))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "closed_form", killed)
    with pytest.raises(KeyboardInterrupt):
        compiled(source, "m.cyb", (32, 64))
    monkeypatch.undo()
    assert list(source.parent.glob(".m.cyb.*.stages"))
    monkeypatch.setattr(pipeline, "compute_spectrum", killed)
    result, _ = compiled(source, "m.cyb", (32, 64))
    assert result["digest"] == expected["digest"]
    assert not list(source.parent.glob(".m.cyb.*.stages"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\n", ":1: expected 3 fields"),
        (b"a\tb\tc\n\xff\tb\tc\n", ":2: not UTF-8"),
        (b"", "no triples"),
        (b"a\t\tc\n", "relation is empty"),
    ],
)
def test_a_bad_source_is_named_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.tsv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        compile_source(CompileOptions(path, tmp_path / "m.cyb", (32,)))
    assert not (tmp_path / "m.cyb").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "vault"}, "vault is not in this release"),
        ({"format": "rdf"}, "rdf is not known"),
        ({"levels": (32, 48)}, "48"),
        ({"levels": (64, 32)}, "32"),
        ({"hold_out": 1.0}, "hold-out"),
        ({"output": Path("/nowhere/at/all/m.cyb")}, "does not exist"),
        ({"source": Path("/nowhere.tsv")}, "no such file"),
    ],
)
def test_wrong_options_are_refused(source: Path, options: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"source": source, "output": source.parent / "m.cyb", "levels": (32,), **options}
    with pytest.raises(UserError, match=message):
        compile_source(CompileOptions(**given))  # type: ignore[arg-type]
