"""Small graphs for tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies

from engine.graph.cybergraph import Cybergraph, graph_from_triples


def random_graph(particles: int, links: int, semcons: int = 3, seed: int = 0) -> Cybergraph:
    """Links at random with a few hubs; some particles may have none."""
    random = np.random.default_rng(seed)
    ends = (particles * random.random((links, 2)) ** 2).astype(int)
    kinds = random.integers(0, semcons, links)
    graph = graph_from_triples((f"p{a}", f"s{s}", f"p{b}") for (a, b), s in zip(ends.tolist(), kinds.tolist(), strict=True))
    return graph


def clustered_graph(clusters: int = 6, size: int = 20, seed: int = 0) -> Cybergraph:
    """Every cluster is half full under ``near``; its members are ``in`` its first particle."""
    random = np.random.default_rng(seed)
    rows = []
    for cluster in range(clusters):
        for a in range(size):
            rows.append((f"c{cluster}.{a}", "in", f"c{cluster}.0"))
            rows += [(f"c{cluster}.{a}", "near", f"c{cluster}.{b}") for b in range(1, size) if b != a and random.random() < 0.3]
        rows.append((f"c{cluster}.0", "next", f"c{(cluster + 1) % clusters}.0"))
    return graph_from_triples(rows)


def graphs() -> strategies.SearchStrategy[Cybergraph]:
    """Graphs of up to 30 particles, with loops, repeats and lone particles."""
    ends = strategies.integers(0, 29)
    rows = strategies.lists(strategies.tuples(ends, strategies.integers(0, 2), ends), min_size=1, max_size=60)
    return rows.map(lambda found: graph_from_triples((f"p{a}", f"s{s}", f"p{b}") for a, s, b in found))
