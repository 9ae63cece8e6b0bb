"""Paths between the ends of a claim: one at a time for people, many at once as evidence."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.runtime import paths as module
from engine.runtime.paths import count_paths, paths
from engine.runtime.world import World

PARTICLES, SEMCONS = 9, 4
LINK = st.tuples(st.integers(0, PARTICLES - 1), st.integers(0, SEMCONS - 1), st.integers(0, PARTICLES - 1))


def test_paths_are_counted_and_one_is_shown() -> None:
    links = np.array([[0, 0, 1], [1, 0, 2], [0, 0, 3], [3, 0, 2], [3, 0, 4], [4, 0, 5]], np.int64)
    world = World.of_links(7, 2, np.array([1, 0]), links, np.ones(7))
    assert paths(world, 0, 2) == (2, 0, (0, 1, 2))
    assert paths(world, 0, 5) == (0, 1, (0, 3, 4, 5))
    assert paths(world, 0, 6) == (0, 0, ())


@settings(max_examples=200, deadline=None)
@given(st.lists(LINK, min_size=1, max_size=40), st.lists(LINK, max_size=6), st.integers(1, 4))
def test_many_at_once_count_the_same(links: list[tuple[int, int, int]], added: list[tuple[int, int, int]], nodes: int) -> None:
    world = World.of_links(PARTICLES, SEMCONS, np.array([2, 3, 0, 1]), np.unique(np.array(links), axis=0), np.ones(PARTICLES))
    for link in added:
        world.add(*link)
    source, target = (side.reshape(-1) for side in np.mgrid[:PARTICLES, :PARTICLES])
    bound, module.NODES_PER_STEP = module.NODES_PER_STEP, nodes
    try:
        two, three = count_paths(world, source, target)
        one_by_one = [paths(world, int(p), int(q))[:2] for p, q in zip(source, target, strict=True)]
    finally:
        module.NODES_PER_STEP = bound
    assert list(zip(two.tolist(), three.tolist(), strict=True)) == one_by_one
