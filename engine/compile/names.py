"""What the names of particles say: word features that related particles share ("run", "runner"; "happy", "unhappy").

Fine-tuning learns one vector a feature and adds to every particle's own vector the weighted sum of its features' (as Bojanowski et al.,
"Enriching Word Vectors with Subword Information", 2017, do with character n-grams). The sum becomes part of E: a model file holds no
names but its labels, and the runtime knows nothing of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WORD = re.compile(r"[^\W\d_]+")
PREFIXES, SUFFIXES = range(3, 9), (2, 3, 4)
NEGATIONS = ("un", "in", "im", "il", "ir", "dis", "non", "anti", "de", "a")
SHARED_BY = 2  # a feature of one particle says nothing of another
NAMED_SHARE = 0.5  # fewer particles with a feature: names are codes, not words
SUFFIX_WEIGHT = 0.3  # how a word ends says its kind, not its meaning


@dataclass(frozen=True)
class NameFeatures:
    """Sparse rows, one a particle, of length 1 (0 without features): row p is ``feature[offsets[p]:offsets[p+1]]`` with ``weight``."""

    offsets: NDArray[np.int64]  # (particles+1,)
    feature: NDArray[np.int32]  # (n,)
    weight: NDArray[np.float32]  # (n,)
    count: int  # distinct features

    def dense(self) -> NDArray[np.float32]:
        """(particles, count)."""
        table = np.zeros((len(self.offsets) - 1, self.count), np.float32)
        table[np.repeat(np.arange(len(table)), np.diff(self.offsets)), self.feature] = self.weight
        return table


def _features_of(name: str) -> Iterator[str]:
    words = [word.lower() for word in WORD.findall(name)]
    if len(words) > 1:
        yield "last " + words[-1]
        yield "all " + "_".join(words)
    for word in words:
        yield from _features_of_word(word)
        for negation in NEGATIONS:
            rest = word.removeprefix(negation)
            if rest != word and len(rest) >= 4:
                yield from _stems(rest)


def _stems(word: str) -> Iterator[str]:
    yield "word " + word
    for length in PREFIXES:
        if length < len(word):
            yield "stem " + word[:length]
    if 3 <= len(word) < PREFIXES.stop:
        yield "stem " + word  # so that "run" has what "runner" begins with


def _features_of_word(word: str) -> Iterator[str]:
    yield from _stems(word)
    for length in SUFFIXES:
        if length < len(word):
            yield "end " + word[-length:]


def name_features(names: Sequence[Sequence[str]], limit: int) -> NameFeatures | None:
    """Features of particles with ``names`` (several each), at most ``limit`` of them, those of the most particles first.

    None when names are codes: when fewer than half of the particles share a word or part of one with another.
    """
    found = [sorted({feature for name in own for feature in _features_of(name)}) for own in names]
    holders: dict[str, list[int]] = {}
    for particle, own in enumerate(found):
        for feature in own:
            holders.setdefault(feature, []).append(particle)
    distinct: dict[tuple[int, ...], str] = {}  # "stem commun" and "stem communi" mostly hold of the same particles
    for feature in sorted(holders):
        if SHARED_BY <= len(holders[feature]) <= len(names) // 2:
            distinct.setdefault(tuple(holders[feature]), feature)
    kept = sorted(distinct.values(), key=lambda feature: (-len(holders[feature]), feature))[:limit]
    shared = {feature: len(holders[feature]) for feature in kept}
    number = {feature: index for index, feature in enumerate(sorted(kept))}
    rows = [[feature for feature in own if feature in number] for own in found]
    if sum(map(bool, rows)) < NAMED_SHARE * len(names):
        return None
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in rows])]).astype(np.int64)
    flat = [feature for own in rows for feature in own]
    indices = np.fromiter((number[one] for one in flat), np.int32, len(flat))
    strength = {one: np.log(len(names) / shared[one]) * (SUFFIX_WEIGHT if one.startswith("end ") else 1) for one in number}
    weight = np.fromiter((strength[one] for one in flat), np.float32, len(flat))
    owner = np.repeat(np.arange(len(rows)), np.diff(offsets))
    length = np.sqrt(np.bincount(owner, weight**2, len(rows)))
    return NameFeatures(offsets, indices, (weight / length[owner]).astype(np.float32), len(number))
