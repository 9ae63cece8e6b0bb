"""Paths of two and three links between the ends of a claim, in the visible graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.runtime.world import World, contains, ranked

NODES_PER_STEP = 32
ROWS_PER_CHUNK = 512
Counts = NDArray[np.int64]


def paths(world: World, source: int, target: int) -> tuple[int, int, tuple[int, ...]]:
    """Paths of two and of three links (over at most NODES_PER_STEP neighbours a step), and the first one found."""
    near_source, near_target = world.neighbours(source), world.neighbours(target)
    two = [node for node in near_source if node in near_target and node not in (source, target)]
    three = 0
    first_three: tuple[int, ...] = ()
    for node in list(near_source)[:NODES_PER_STEP]:
        if node == target:
            continue
        for other in list(world.neighbours(node))[:NODES_PER_STEP]:
            if other in near_target and other not in (source, target):
                three += 1
                first_three = first_three or (source, node, other, target)
    return len(two), three, (source, two[0], target) if two else first_three


def count_paths(world: World, source: NDArray[np.int64], target: NDArray[np.int64]) -> tuple[Counts, Counts]:
    """What ``paths`` counts, for many pairs at once: two and three, (n,) each."""
    neighbours = _Neighbours(world)
    two, three = np.zeros(len(source), np.int64), np.zeros(len(source), np.int64)
    for start in range(0, len(source), ROWS_PER_CHUNK):
        part = slice(start, start + ROWS_PER_CHUNK)
        two[part], three[part] = _count(world, neighbours, source[part], target[part])
    return two, three


def _count(world: World, neighbours: _Neighbours, source: NDArray[np.int64], target: NDArray[np.int64]) -> tuple[Counts, Counts]:
    # who is near which target, as ascending numbers row·P + particle
    row, near = neighbours.of(target)
    near_target = np.sort(row * world.particles + near)
    row, rank, node = neighbours.ranked(source)
    middle = contains(near_target, row * world.particles + node) & (node != target[row])
    two = np.bincount(row[middle], minlength=len(source))
    kept = (rank < NODES_PER_STEP) & (node != target[row])
    row, node = row[kept], node[kept]
    # many pairs of a tick share nodes: their neighbours are looked up once
    unique, number = np.unique(node, return_inverse=True)
    step, rank, other = neighbours.ranked(unique)
    kept = rank < NODES_PER_STEP
    step, other = step[kept], other[kept]
    begin = np.searchsorted(step, np.arange(len(unique) + 1))
    number = number.reshape(-1)
    at, rank = ranked(np.diff(begin)[number])
    other = other[begin[number[at]] + rank]
    row = row[at]
    ends = contains(near_target, row * world.particles + other) & (other != source[row]) & (other != target[row])
    return two, np.bincount(row[ends], minlength=len(source))


class _Neighbours:
    """``World.neighbours`` of many particles at once, links added later included."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.source = self.end = np.zeros(0, np.int64)  # added pairs that are not near anyway, ascending
        if not len(world.added_keys):
            return
        offsets, targets, _ = world.near
        source, rest = np.divmod(world.added_keys, world.semcons * world.particles)
        end = rest % world.particles
        pairs = np.unique(source * world.particles + end)
        source, end = np.divmod(pairs, world.particles)
        fresh = source != end
        source, end = source[fresh], end[fresh]
        row, rank = ranked(offsets[source + 1] - offsets[source])
        there = np.zeros(len(source), bool)
        there[row[targets[offsets[source][row] + rank] == end[row]]] = True
        self.source, self.end = source[~there], end[~there]

    def ranked(self, particles: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(row, rank, neighbour) of every neighbour of every particle, rows ascending, ranks as ``World.neighbours`` orders them."""
        offsets, targets, _ = self.world.near
        low = offsets[particles]
        count = offsets[particles + 1] - low
        row, rank = ranked(count)
        node = targets[low[row] + rank].astype(np.int64)
        if len(self.source):
            first = np.searchsorted(self.source, particles)
            more = np.searchsorted(self.source, particles, "right") - first
            late, extra = ranked(more)
            row, rank = np.concatenate([row, late]), np.concatenate([rank, count[late] + extra])
            node = np.concatenate([node, self.end[first[late] + extra]])
            order = np.argsort(row, kind="stable")
            row, rank, node = row[order], rank[order], node[order]
        return row, rank, node

    def of(self, particles: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(row, neighbour) as ``ranked`` gives them."""
        row, _, node = self.ranked(particles)
        return row, node
