"""What simple rankings of all pairs would find with as many proposals: Adamic–Adar, the embedding, a random walk.

Each ranks unlinked pairs of the visible graph and names no semcon; a pair counts as found when any hidden link joins it, which
is generous to them. Costs are bounded: hubs beyond HUB_LINKS give no Adamic–Adar pairs, the embedding ranks the EMBEDDED
particles of most focus by the cosine of the router's columns, and the walk is estimated from WALKS walks of two and three steps
from each particle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.runtime import chance
from engine.runtime.world import World, contains

if TYPE_CHECKING:
    from engine.model.model import Model

HUB_LINKS = 300
EMBEDDED = 40_000
WALKS = 64
PAIR_LIMIT = 20_000  # pairs kept of each ranking
PAIRS_PER_CHUNK = 1 << 20
NAMES = ("adamic_adar", "embedding", "random_walk")


@dataclass(frozen=True)
class Baselines:
    """Cumulative hits of each ranking: ``hits[name][n]`` hidden pairs among its first n pairs, n up to the pairs it ranks."""

    hits: dict[str, NDArray[np.int64]]

    def at(self, proposals: int) -> dict[str, int]:
        """Hidden pairs each ranking finds with this many proposals."""
        return {name: int(hits[min(proposals, len(hits) - 1)]) for name, hits in self.hits.items()}

    def best(self, proposals: int) -> int:
        """The best of them."""
        return max(self.at(proposals).values(), default=0)


Breathe = Callable[[], None]


def _no_pause() -> None:
    """Called between chunks; whoever computes in the background pauses here."""


def _pair_keys(world: World, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.minimum(first, second) * world.particles + np.maximum(first, second)


def linked_pairs(world: World) -> NDArray[np.int64]:
    """Ascending keys low·P + high of all pairs the visible graph joins."""
    source = np.repeat(np.arange(world.particles), world.degree())
    return np.unique(_pair_keys(world, source, world.target.astype(np.int64)))


def hidden_pairs(world: World, hidden: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ascending keys of the pairs that hidden links (m, 3) join."""
    return np.unique(_pair_keys(world, hidden[:, 0], hidden[:, 2]))


def _best(keys: NDArray[np.int64], scores: NDArray[np.floating], linked: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """The ``limit`` best unlinked pairs of a ranking, ties by key."""
    fresh = ~contains(linked, keys)
    keys, scores = keys[fresh], scores[fresh]
    if len(keys) > limit:
        floor = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        keep = scores >= floor
        keys, scores = keys[keep], scores[keep]
    return keys[np.lexsort((keys, -scores))][:limit]


def _sum_by_key(keys: NDArray[np.int64], values: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    unique, number = np.unique(keys, return_inverse=True)
    return unique, np.bincount(number.reshape(-1), weights=values, minlength=len(unique)).astype(np.float64)


def adamic_adar(world: World, linked: NDArray[np.int64], limit: int = PAIR_LIMIT, breathe: Breathe = _no_pause) -> NDArray[np.int64]:
    """Pairs by Σ 1/ln(neighbours of z) over common neighbours z."""
    low, high = np.divmod(linked, world.particles)
    ends, others = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.argsort(ends, kind="stable")
    ends, others = ends[order], others[order]
    offsets = np.searchsorted(ends, np.arange(world.particles + 1))
    degree = np.diff(offsets)
    keys, values = np.zeros(0, np.int64), np.zeros(0)
    pending: list[NDArray[np.int64]] = []
    weights: list[NDArray[np.float64]] = []
    size = 0
    for count in np.unique(degree[(degree >= 2) & (degree <= HUB_LINKS)]):
        middle = np.flatnonzero(degree == count)
        left, right = np.triu_indices(int(count), 1)
        step = max(1, PAIRS_PER_CHUNK // len(left))
        for start in range(0, len(middle), step):
            rows = offsets[middle[start : start + step], None]
            pairs = _pair_keys(world, others[rows + left], others[rows + right]).reshape(-1)
            pending.append(pairs)
            weights.append(np.full(len(pairs), 1 / np.log(count)))
            size += len(pairs)
            if size >= PAIRS_PER_CHUNK:
                keys, values = _sum_by_key(np.concatenate([keys, *pending]), np.concatenate([values, *weights]))
                pending, weights, size = [], [], 0
                breathe()
    keys, values = _sum_by_key(np.concatenate([keys, *pending]), np.concatenate([values, *weights]))
    return _best(keys, values, linked, limit)


def random_walk(
    world: World, linked: NDArray[np.int64], seed: int, limit: int = PAIR_LIMIT, breathe: Breathe = _no_pause
) -> NDArray[np.int64]:
    """Pairs by how often walks from one end are at the other after two or three steps."""
    degree = world.degree()
    alive = np.flatnonzero(degree)
    keys, values = np.zeros(0, np.int64), np.zeros(0)
    chunk = max(1, PAIRS_PER_CHUNK // (2 * WALKS))
    for first in range(0, len(alive), chunk):
        start = np.repeat(alive[first : first + chunk], WALKS)
        walk = np.tile(np.arange(WALKS), len(start) // WALKS)
        at, seen = start, []
        for step in range(3):
            at = world.target[world.offsets[at] + chance.below(seed, degree[at], start, walk, step)].astype(np.int64)
            if step:
                seen.append(_pair_keys(world, start, at)[at != start])
        fresh = np.concatenate(seen)
        keys, values = _sum_by_key(np.concatenate([keys, fresh]), np.concatenate([values, np.ones(len(fresh))]))
        breathe()
        if len(keys) > 4 * PAIRS_PER_CHUNK:  # pairs met once can't reach the kept ones any more
            often = values > 1
            keys, values = keys[often], values[often]
    return _best(keys, values, linked, limit)


def embedding(
    world: World,
    vectors: NDArray[np.float32],
    linked: NDArray[np.int64],
    limit: int = PAIR_LIMIT,
    breathe: Breathe = _no_pause,
) -> NDArray[np.int64]:
    """Pairs by cosine. ``vectors`` is (P, D)."""
    ids = np.sort(np.argsort(-world.focus, kind="stable")[:EMBEDDED]).astype(np.int64)
    unit = vectors[ids].astype(np.float32)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-20)
    keys, scores = np.zeros(0, np.int64), np.zeros(0, np.float32)
    room = limit + len(linked)  # so many of the best may turn out to be linked
    floor = _floor(unit, 4 * room)
    rows = 256
    for start in range(0, len(ids), rows):
        breathe()
        cosines = unit[start : start + rows] @ unit[start:].T
        cosines[np.tril_indices(min(rows, len(ids) - start), 0, len(ids) - start)] = -2
        left, right = np.nonzero(cosines > floor)
        if not len(left):
            continue
        keys = np.concatenate([keys, ids[start + left] * world.particles + ids[start + right]])
        scores = np.concatenate([scores, cosines[left, right]])
        if len(keys) > 2 * room:
            kept = np.argpartition(-scores, room)[:room]
            floor = scores[kept].min()
            keys, scores = keys[kept], scores[kept]
    return _best(keys, scores, linked, limit)


def _floor(unit: NDArray[np.float32], wanted: int, samples: int = 1 << 18) -> np.float32:
    """A cosine that about ``wanted`` pairs exceed, from a fixed sample of pairs; -2 where there are few pairs."""
    pairs = len(unit) * (len(unit) - 1) // 2
    above = int(samples * wanted / max(1, pairs))
    if above >= samples // 4:
        return np.float32(-2)
    counter = np.arange(samples)
    left, right = (chance.below(0, len(unit), counter, side) for side in (0, 1))
    cosines = np.einsum("ij,ij->i", unit[left], unit[right])[left != right]
    return np.float32(np.partition(cosines, len(cosines) - 1 - above)[len(cosines) - 1 - above])


def router_vectors(model: Model) -> NDArray[np.float32]:
    """The first block of E, (P, D1): the columns every level shares."""
    from engine.native import matrix_unpack

    return matrix_unpack(model.native.arrays.embedding[0])[: model.particles]


def compute(
    world: World,
    hidden: NDArray[np.int64],
    vectors: Callable[[], NDArray[np.float32]],
    seed: int = 0,
    limit: int = PAIR_LIMIT,
    breathe: Breathe = _no_pause,
) -> Baselines:
    """All three rankings on the visible graph, measured on the hidden links (m, 3)."""
    linked, wanted = linked_pairs(world), hidden_pairs(world, hidden)
    rankings = {
        "adamic_adar": adamic_adar(world, linked, limit, breathe),
        "embedding": embedding(world, vectors(), linked, limit, breathe),
        "random_walk": random_walk(world, linked, seed, limit, breathe),
    }
    return Baselines({
        name: np.concatenate([[0], np.cumsum(contains(wanted, pairs))]).astype(np.int64) for name, pairs in rankings.items()
    })  # fmt: skip
