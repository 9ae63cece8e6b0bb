"""Columns of E that come from the particles' names: evidence for particles with few links (design §7, "the text counts too").

A name gives weighted terms: its words, its last word (the head of a compound), the words' beginnings (which inflections and
derivations share) and what is left without a negating prefix. The particle-term matrix, weighted by inverse document frequency, is
brought to a few columns by a sparse-sign random projection, which keeps dot products (Achlioptas, "Database-friendly random
projections", 2003). These columns stay fixed in fine-tuning, so that what is learnt about them holds for links never seen.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"[^\W\d_]+", re.UNICODE)
_NEGATIONS = ("un", "in", "im", "non", "dis", "ir", "il", "de", "anti", "counter", "mis")
_SENSE = re.compile(r"\.[nvasr]\.\d+( \(\d+\))?$")


def name_terms(names: Sequence[str]) -> dict[str, float]:
    """Terms of one particle's names and their weights before inverse document frequency."""
    terms: dict[str, float] = {}

    def put(term: str, weight: float) -> None:
        terms[term] = max(terms.get(term, 0.0), weight)

    for name in names:
        words = [word.casefold() for word in _WORD.findall(_SENSE.sub("", name))]
        if not words:
            continue
        put("=" + "_".join(words), 1.0)
        for index, word in enumerate(words):
            last = index == len(words) - 1
            put("=" + word, 1.0 if last else 0.5)
            for length in (4, 5, 6, 7):
                if len(word) >= length:
                    put("^" + word[:length], (0.45 if len(words) == 1 else 0.25) * (length / 5.5))
            if len(words) == 1:
                for prefix in _NEGATIONS:
                    rest = word.removeprefix(prefix)
                    if rest != word and len(rest) >= 4:
                        put("=" + rest, 0.6)
                        put("^" + rest[:5], 0.4)
    return terms


def has_names(labels: Sequence[str]) -> bool:
    """Whether labels are words people wrote rather than keys: most of a sample hold a word of three letters."""
    sample = labels[:: max(1, len(labels) // 1000)]
    return sum(any(len(word) >= 3 for word in _WORD.findall(label)) and not label.startswith("/") for label in sample) > 0.6 * len(sample)


def name_columns(names: Sequence[Sequence[str]], columns: int, seed: int) -> NDArray[np.float32]:
    """(particles, columns) with rows of rms 1; a particle without terms has a zero row. Same seed, same bits."""
    terms = [name_terms(each) for each in names]
    frequency: dict[str, int] = {}
    for each in terms:
        for term in each:
            frequency[term] = frequency.get(term, 0) + 1
    kept = {term: count for term, count in frequency.items() if count > 1}
    result = np.zeros((len(names), columns), np.float32)
    signs: dict[str, NDArray[np.float32]] = {}
    for row, each in enumerate(terms):
        for term, weight in each.items():
            count = kept.get(term)
            if count is None:
                continue
            if term not in signs:
                signs[term] = _signs(term, columns, seed)
            result[row] += np.float32(weight * np.log(len(names) / count)) * signs[term]
    norm = np.sqrt((result**2).mean(axis=1, keepdims=True))
    return np.where(norm > 0, result / np.maximum(norm, 1e-9), 0).astype(np.float32)


def _signs(term: str, columns: int, seed: int) -> NDArray[np.float32]:
    """±1 per column from a hash of the term: a column's signs do not depend on how many columns there are."""
    data = hashlib.shake_128(f"{seed}:{term}".encode()).digest(-(-columns // 8))
    bits = np.unpackbits(np.frombuffer(data, np.uint8))[:columns]
    return bits.astype(np.float32) * 2 - 1
