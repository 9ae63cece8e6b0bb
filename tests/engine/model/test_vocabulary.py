"""Labels, ids and how people's words find them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.context import CONTROL_TOKENS
from engine.model.vocabulary import Vocabulary, cid_of_text, display_label

PARTICLES = ["dog.n.01", "Dog house", "cat.n.01", "hot dog", "Straße", "naïve", "dog.n.01", "日本"]
SEMCONS = ["has part", "part of", "similar to"]


@pytest.fixture
def words() -> Vocabulary:
    return Vocabulary.from_labels(PARTICLES, SEMCONS, np.array([1, 0, 2]))


def test_ids_and_kinds(words: Vocabulary) -> None:
    assert len(words) == len(PARTICLES) + len(SEMCONS) + len(CONTROL_TOKENS)
    assert [words.label(token) for token in range(len(PARTICLES))] == PARTICLES
    assert words.semcon_labels() == SEMCONS
    assert [words.kind(token) for token in (0, 7, 8, 10, 11, len(words) - 1)] == [
        "particle",
        "particle",
        "semcon",
        "semcon",
        "control",
        "control",
    ]
    assert words.raw_label(words.control["<end>"]) == "<end>"
    for token in (-1, len(words)):
        with pytest.raises(IndexError):
            words.label(token)


def test_inverse_semcons(words: Vocabulary) -> None:
    first = words.semcon_token(0)
    assert words.inverse_token(first) == first + 1
    assert words.inverse_token(first + 2) == first + 2
    with pytest.raises(ValueError, match="not a semcon"):
        words.inverse_token(0)


def test_find(words: Vocabulary) -> None:
    assert words.find("dog.n.01") == 0, "the lowest of equal labels"
    assert words.find("  DOG HOUSE ") == 1
    assert words.find("STRASSE") == 4
    assert words.find("nothing") is None
    assert words.find("") is None
    assert words.find("has part") is None
    assert words.find("Has Part", kind="semcon") == 8


def test_complete(words: Vocabulary) -> None:
    assert words.complete("dog") == [1, 0, 6, 3], "those that start with it, in label order, then those that contain it"
    assert words.complete("dog", limit=2) == [1, 0]
    assert words.complete("") == words.complete("dog", limit=0) == words.complete("zebra") == []


def test_nearest(words: Vocabulary) -> None:
    assert words.nearest("cat.n.1")[0] == 2
    assert words.nearest("dgo house")[0] == 1
    assert words.nearest("") == []
    assert words.nearest("x" * 10_000) == []


def test_cids(words: Vocabulary) -> None:
    cid = words.cid(2)
    assert cid == cid_of_text("cat.n.01")
    assert len(cid) == 36
    assert cid[4:] == hashlib.sha256(b"cat.n.01").digest()


@given(st.text())
def test_labels_are_harmless(label: str) -> None:
    shown = display_label(label)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    assert "\u202e" not in shown
    if label.isascii() and label.isprintable():
        assert shown == label


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=20), st.text(max_size=4))
def test_completions_contain_the_text(labels: list[str], text: str) -> None:
    words = Vocabulary.from_labels(labels, ["is"], np.array([0]))
    assert [words.raw_label(token) for token in range(len(labels))] == labels
    for token in words.complete(text):
        assert text.strip().casefold() in labels[token].casefold()
    for token in words.nearest(text):
        assert 0 <= token < len(labels)
