"""The model that comes with cybtui: whole, small, and in human words."""

from __future__ import annotations

import pytest

from engine.errors import UserError
from engine.model.model import Model, embedded_model_path

BYTES_MAX = 20_000_000


@pytest.fixture(scope="module")
def model() -> Model:
    try:
        return Model.open(embedded_model_path())
    except UserError as error:
        if "is missing" not in error.message:
            raise
        pytest.skip("this checkout has no engine/data/default.cyb")


def test_is_whole_and_small(model: Model) -> None:
    assert model.file.wrong_digests() == []
    assert model.bytes < BYTES_MAX


def test_speaks_human_words(model: Model) -> None:
    words = model.vocabulary
    assert words.find("dog.n.01") is not None
    assert any("part" in label for label in words.semcon_labels())
    assert all(words.label(token) == words.raw_label(token) != "" for token in range(0, len(words), 997))


def test_hidden_links_do_not_leak(model: Model) -> None:
    """No withheld link is among the links, in either direction."""
    inverse = model.vocabulary.inverse
    known = {tuple(link) for link in model.graph.directed().tolist()}
    assert len(model.hidden) > 0
    for name in ("hidden", "valid"):
        for source, semcon, target in getattr(model, name).tolist():
            assert (source, semcon, target) not in known
            assert (target, int(inverse[semcon]), source) not in known


def test_names_its_source(model: Model) -> None:
    assert "WordNet" in str(model.provenance)
