"""What the agents may see of the graph, as the runtime asks for it: adjacency, membership, roles. No hidden link is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.graph import domain
from engine.graph.cybergraph import both_directions

if TYPE_CHECKING:
    from engine.model.model import Model

ROLE_CHUNK_CELLS = 1 << 24
GAPS = 3
NEIGHBOURS_MAX = 64
EXPECTATION_MAX = 0.99  # nothing about roles is surer than that
Near = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]


def gap_odds(expectation: NDArray[np.floating]) -> NDArray[np.float32]:
    """e/(1 − e) of the share e of its like that play a role a particle lacks: the order in which gaps are worth asking about."""
    bounded = np.minimum(np.asarray(expectation, np.float32), np.float32(EXPECTATION_MAX))
    return np.asarray(bounded / (1 - bounded), np.float32)


@dataclass
class World:
    """The visible graph of a model. P particles, S semcons, m directed links (both readings of every link).

    Invariant: ``keys`` is ascending and holds exactly the directed links; links added later are in ``added`` in both readings.
    """

    particles: int
    semcons: int
    inverse: NDArray[np.int64]  # (S,)
    offsets: NDArray[np.int64]  # (P+1,) rows of source particles
    semcon: NDArray[np.int32]  # (m,)
    target: NDArray[np.int32]  # (m,)
    keys: NDArray[np.int64]  # (m,) (source·S + semcon)·P + target
    focus: NDArray[np.float64]  # (P,) φ* over particles, sums to 1
    added: set[int] = field(default_factory=set)
    _added_keys: NDArray[np.int64] | None = None  # ``added`` ascending; None when it has to be made anew

    @classmethod
    def of_links(
        cls, particles: int, semcons: int, inverse: NDArray[np.int64], links: NDArray[np.int64], focus: NDArray[np.floating]
    ) -> World:
        """From stored links (n, 3) and focus over at least the particles."""
        directed = both_directions(np.asarray(links, np.int64), inverse)
        offsets = np.searchsorted(directed[:, 0], np.arange(particles + 1))
        weight = np.asarray(focus[:particles], np.float64)
        total = weight.sum()
        weight = weight / total if total > 0 else np.full(particles, 1 / max(1, particles))
        keys = (directed[:, 0] * semcons + directed[:, 1]) * particles + directed[:, 2]
        return cls(
            particles,
            semcons,
            np.asarray(inverse, np.int64),
            offsets.astype(np.int64),
            directed[:, 1].astype(np.int32),
            directed[:, 2].astype(np.int32),
            keys,
            weight,
        )

    @classmethod
    def of_model(cls, model: Model) -> World:
        """The visible graph of an open model: without its hidden and its validation links."""
        return cls.of_links(model.particles, model.semcons, model.vocabulary.inverse, model.graph.links, model.focus[: model.particles])

    # ---- links ------------------------------------------------------------------------------------------------------

    def key(self, source: int, semcon: int, target: int) -> int:
        """The number of a directed link."""
        return (source * self.semcons + semcon) * self.particles + target

    def canonical_key(self, source: int, semcon: int, target: int) -> int:
        """One number for a link, whichever way it is read."""
        return min(self.key(source, semcon, target), self.key(target, int(self.inverse[semcon]), source))

    def canonical_keys(self, source: NDArray[np.int64], semcon: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
        """``canonical_key`` of many links, (n,)."""
        reading = (source * self.semcons + semcon) * self.particles + target
        inverse = (target * self.semcons + self.inverse[semcon]) * self.particles + source
        return np.asarray(np.minimum(reading, inverse), np.int64)

    def holds(self, source: NDArray[np.int64], semcon: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the graph holds each directed link, (n,)."""
        keys = (source * self.semcons + semcon) * self.particles + target
        return contains(self.keys, keys) | contains(self.added_keys, keys)

    def lacks(self, particles: NDArray[np.int64], semcons: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a particle is the source of no link of a semcon, added ones included, (n,)."""
        first = (particles * self.semcons + semcons) * self.particles
        low, high = np.searchsorted(self.added_keys, [first, first + self.particles])
        return np.asarray(~self.roles[particles, semcons] & (low == high), bool)

    def add(self, source: int, semcon: int, target: int) -> None:
        """An accepted link joins the graph in both readings; adding it again changes nothing."""
        self.added.add(self.key(source, semcon, target))
        self.added.add(self.key(target, int(self.inverse[semcon]), source))
        self._added_keys = None

    def remove(self, source: int, semcon: int, target: int) -> None:
        """Takes back an ``add``. A link the graph came with stays."""
        self.added.discard(self.key(source, semcon, target))
        self.added.discard(self.key(target, int(self.inverse[semcon]), source))
        self._added_keys = None

    @property
    def added_keys(self) -> NDArray[np.int64]:
        """Keys of the links added later, ascending."""
        if self._added_keys is None:
            self._added_keys = np.sort(np.fromiter(self.added, np.int64, len(self.added)))
        return self._added_keys

    def degree(self) -> NDArray[np.int64]:
        """Directed links of each particle, (P,)."""
        return np.diff(self.offsets)

    def row(self, particle: int) -> slice:
        """Where ``semcon`` and ``target`` hold the links of a particle."""
        return slice(int(self.offsets[particle]), int(self.offsets[particle + 1]))

    def targets(
        self, sources: NDArray[np.int64], semcons: NDArray[np.int64], without: NDArray[np.int64], limit: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Up to ``limit`` known targets of each (source, semcon) but ``without``, ascending: (offsets (n+1,), targets)."""
        first = (sources * self.semcons + semcons) * self.particles
        low = np.searchsorted(self.keys, first)
        count = np.minimum(np.searchsorted(self.keys, first + self.particles) - low, limit + 1)
        row, rank = ranked(count)
        found = self.keys[low[row] + rank] - first[row]
        kept = found != without[row]
        row, found = row[kept], found[kept]
        begin = np.searchsorted(row, np.arange(len(sources)))
        kept = np.arange(len(row)) - begin[row] < limit
        row, found = row[kept], found[kept]
        return np.searchsorted(row, np.arange(len(sources) + 1)), found

    @cached_property
    def near(self) -> Near:
        """Distinct neighbours in the graph as it came, at most NEIGHBOURS_MAX a particle (those of lowest semcon first).

        (offsets (P+1,), neighbours, one semcon that leads to each).
        """
        source = np.repeat(np.arange(self.particles), self.degree())
        _, first = np.unique(source * self.particles + self.target, return_index=True)
        first = np.sort(first)
        first = first[source[first] != self.target[first]]
        begin = np.searchsorted(source[first], np.arange(self.particles + 1))
        first = first[np.arange(len(first)) - begin[source[first]] < NEIGHBOURS_MAX]
        offsets = np.searchsorted(source[first], np.arange(self.particles + 1))
        return offsets, self.target[first], self.semcon[first]

    def neighbours(self, particle: int) -> dict[int, int]:
        """Neighbour → one semcon that leads to it: ``near`` ones, then those of links added later, ascending."""
        offsets, targets, semcons = self.near
        row = slice(int(offsets[particle]), int(offsets[particle + 1]))
        found = dict(zip(targets[row].tolist(), semcons[row].tolist(), strict=True))
        first = particle * self.semcons * self.particles
        low, high = np.searchsorted(self.added_keys, [first, first + self.semcons * self.particles])
        late = [divmod(key, self.particles) for key in (self.added_keys[low:high] - first).tolist()]
        for semcon, target in sorted(late, key=lambda link: (link[1], link[0])):
            if target != particle:
                found.setdefault(target, semcon)
        return found

    # ---- roles: which semcons a particle takes part in ------------------------------------------------------------------

    @cached_property
    def roles(self) -> NDArray[np.bool_]:
        """(P, S): particle p is the source of some link of semcon s (so target of its inverse)."""
        roles = np.zeros((self.particles, self.semcons), bool)
        roles[np.repeat(np.arange(self.particles), self.degree()), self.semcon] = True
        return roles

    @cached_property
    def company(self) -> NDArray[np.float32]:
        """(S, S): of the particles with role s', the share that also has role s (rows s')."""
        together = np.zeros((self.semcons, self.semcons), np.float64)
        chunk = max(1, ROLE_CHUNK_CELLS // max(1, self.semcons))
        for start in range(0, self.particles, chunk):
            part = self.roles[start : start + chunk].astype(np.float32)
            together += part.T @ part
        count = np.maximum(np.diag(together), 1)
        return (together / count[:, None]).astype(np.float32)

    def expectation(self, particles: NDArray[np.int64]) -> NDArray[np.float32]:
        """(n, S): how many of the particles like each one (by the roles it has) play each role, 0 to 1."""
        roles = self.roles[particles].astype(np.float32)
        count = np.maximum(roles.sum(axis=1, keepdims=True), 1)
        return np.asarray((roles @ self.company) / count, np.float32)

    def expected(self, particles: NDArray[np.int64], semcons: NDArray[np.int64]) -> NDArray[np.float32]:
        """``expectation`` of one role a particle, (n,); the same bits in any batch."""
        roles = self.roles[particles]
        shared = np.where(roles, self.company[:, semcons].T, np.float32(0)).sum(axis=1)
        return np.asarray(shared / np.maximum(roles.sum(axis=1), 1), np.float32)

    @cached_property
    def gaps(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Roles a particle lacks though its like play them: semcons and expectations, both (P, G ≤ GAPS), strongest first."""
        width = min(GAPS, self.semcons)
        semcons = np.zeros((self.particles, width), np.int32)
        weight = np.zeros((self.particles, width), np.float32)
        chunk = max(1, ROLE_CHUNK_CELLS // max(1, self.semcons))
        for start in range(0, self.particles, chunk):
            ids = np.arange(start, min(start + chunk, self.particles))
            missing = np.where(self.roles[ids], np.float32(0), self.expectation(ids))
            order = np.argsort(-missing, axis=1, kind="stable")[:, :width]
            semcons[ids] = order
            weight[ids] = np.take_along_axis(missing, order, axis=1)
        return semcons, weight


def contains(ascending: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each value is in an ascending array."""
    if not len(ascending):
        return np.zeros(len(values), bool)
    return np.asarray(ascending[np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)] == values)


def ranked(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers, and 0, 1, … within each row, of rows that are ``counts`` long."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - (np.cumsum(counts) - counts)[row]


def neighbourhood(world: World, centres: Sequence[int], limit: int) -> NDArray[np.int64]:
    """Particles reached from ``centres`` breadth first, at most ``limit``, ascending. In a ring the best focus comes first."""
    return domain.neighbourhood(world.offsets, world.target, world.focus, centres, limit)
