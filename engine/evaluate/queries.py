"""Test links as queries: both directions, filtered by everything known, with what the model cannot know set apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.model.model import Model

Triple = tuple[str, str, str]


@dataclass
class QuerySet:
    """``sources``, ``semcons`` (indices), ``answers`` (n,) of the queries the model can score; ``filters`` the other known answers of
    each. ``unseen_ranks`` are the ranks of queries whose subject, semcon or answer the model has never seen: the mean rank of their
    remaining candidates. Entities the model does not know count as candidates that tie below all it knows."""

    sources: NDArray[np.int64]
    semcons: NDArray[np.int64]
    answers: NDArray[np.int64]
    filters: list[NDArray[np.uint32]]
    unseen_ranks: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Queries in all: twice the test links."""
        return len(self.sources) + len(self.unseen_ranks)


def queries_from_links(model: Model, links: NDArray[np.int64], known: Iterable[NDArray[np.int64]]) -> QuerySet:
    """Queries from links (n, 3) in the model's own numbers; every known link filters."""
    inverse = model.vocabulary.inverse
    answers = _known_answers([links, *known], inverse)
    reverse = np.stack([links[:, 2], inverse[links[:, 1]], links[:, 0]], axis=1)
    both = np.concatenate([links, reverse])
    filters = [answers[source, semcon] for source, semcon, _ in both.tolist()]
    return QuerySet(both[:, 0], both[:, 1], both[:, 2], filters)


def queries_from_triples(model: Model, triples: Sequence[Triple], known: Sequence[Triple]) -> QuerySet:
    """Queries from labelled triples; filtered by ``known``, by ``triples`` and by the links in the file."""
    particles = {label: index for index, label in enumerate(model.graph.particles)}
    names: dict[str, int] = dict(particles)
    semcon_of = {label: index for index, label in enumerate(model.graph.semcons)}
    semcons = len(semcon_of)
    inverse = [int(value) for value in model.vocabulary.inverse]
    for _, semcon, _ in (*triples, *known):
        if semcon not in semcon_of:
            semcon_of[semcon] = len(inverse)
            inverse += [len(inverse) + 1, len(inverse)]
    for source, _, target in (*known, *triples):
        names.setdefault(source, len(names))
        names.setdefault(target, len(names))

    def numbered(rows: Sequence[Triple]) -> NDArray[np.int64]:
        return np.array([(names[s], semcon_of[p], names[t]) for s, p, t in rows], np.int64).reshape(-1, 3)

    table = np.array(inverse, np.int64)
    links = numbered(triples)
    answers = _known_answers([links, numbered(known), model.graph.links], table)
    reverse = np.stack([links[:, 2], table[links[:, 1]], links[:, 0]], axis=1)
    both = np.concatenate([links, reverse])
    seen = (both[:, 0] < model.particles) & (both[:, 2] < model.particles) & (both[:, 1] < semcons)
    ranks = []
    for source, semcon, _ in both[~seen].tolist():
        remaining = len(names) - (len(answers[source, semcon]) - 1)
        ranks.append((remaining + 1) / 2)
    filters = [answers[source, semcon] for source, semcon, _ in both[seen].tolist()]
    filters = [each[each < model.particles] for each in filters]
    return QuerySet(both[seen, 0], both[seen, 1], both[seen, 2], filters, ranks)


def _known_answers(links: Iterable[NDArray[np.int64]], inverse: NDArray[np.integer]) -> dict[tuple[int, int], NDArray[np.uint32]]:
    known = np.concatenate([np.asarray(each, np.int64).reshape(-1, 3) for each in links])
    reverse = np.stack([known[:, 2], np.asarray(inverse, np.int64)[known[:, 1]], known[:, 0]], axis=1)
    both = np.unique(np.concatenate([known, reverse]), axis=0)
    starts = np.flatnonzero(np.r_[True, np.any(both[1:, :2] != both[:-1, :2], axis=1)]) if len(both) else np.zeros(0, np.int64)
    ends = np.r_[starts[1:], len(both)]
    return {
        (int(both[begin, 0]), int(both[begin, 1])): both[begin:end, 2].astype(np.uint32) for begin, end in zip(starts, ends, strict=True)
    }
