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
    _neighbours: dict[int, dict[int, int]] = field(default_factory=dict)

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

    def holds(self, source: NDArray[np.int64], semcon: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the graph holds each directed link, (n,)."""
        keys = (source * self.semcons + semcon) * self.particles + target
        if len(self.keys):
            at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            found = self.keys[at] == keys
        else:
            found = np.zeros(len(keys), bool)
        if self.added:
            found |= np.fromiter((int(key) in self.added for key in keys), bool, len(keys))
        return np.asarray(found, bool)

    def add(self, source: int, semcon: int, target: int) -> None:
        """An accepted link joins the graph in both readings; adding it again changes nothing."""
        self.added.add(self.key(source, semcon, target))
        self.added.add(self.key(target, int(self.inverse[semcon]), source))
        self.neighbours(source).setdefault(target, semcon)
        self.neighbours(target).setdefault(source, int(self.inverse[semcon]))

    def remove(self, source: int, semcon: int, target: int) -> None:
        """Takes back an ``add``. A link the graph came with stays."""
        self.added.discard(self.key(source, semcon, target))
        self.added.discard(self.key(target, int(self.inverse[semcon]), source))
        self._neighbours.pop(source, None)
        self._neighbours.pop(target, None)
        for key in self.added:
            pair, q = divmod(key, self.particles)
            p, s = divmod(pair, self.semcons)
            if p in (source, target):
                self.neighbours(p).setdefault(q, s)

    def degree(self) -> NDArray[np.int64]:
        """Directed links of each particle, (P,)."""
        return np.diff(self.offsets)

    def row(self, particle: int) -> slice:
        """Where ``semcon`` and ``target`` hold the links of a particle."""
        return slice(int(self.offsets[particle]), int(self.offsets[particle + 1]))

    def targets(self, sources: NDArray[np.int64], semcons: NDArray[np.int64], limit: int) -> list[list[int]]:
        """Up to ``limit`` known targets of each (source, semcon), ascending."""
        first = (sources * self.semcons + semcons) * self.particles
        low = np.searchsorted(self.keys, first)
        high = np.minimum(np.searchsorted(self.keys, first + self.particles), low + limit)
        return [
            (self.keys[start:stop] - base).tolist() for start, stop, base in zip(low.tolist(), high.tolist(), first.tolist(), strict=True)
        ]

    def neighbours(self, particle: int) -> dict[int, int]:
        """Neighbour → one semcon that leads to it, for at most NEIGHBOURS_MAX neighbours (those of lowest semcon first)."""
        found = self._neighbours.get(particle)
        if found is None:
            row = self.row(particle)
            found = {}
            for semcon, target in zip(self.semcon[row].tolist(), self.target[row].tolist(), strict=True):
                if len(found) >= NEIGHBOURS_MAX:
                    break
                found.setdefault(target, semcon)
            found.pop(particle, None)
            self._neighbours[particle] = found
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


def neighbourhood(world: World, centres: Sequence[int], limit: int) -> NDArray[np.int64]:
    """Particles reached from ``centres`` breadth first, at most ``limit``, ascending. In a ring the best focus comes first."""
    return domain.neighbourhood(world.offsets, world.target, world.focus, centres, limit)
