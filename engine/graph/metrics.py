"""What can be said of a graph or of a part of it: degrees, components, diameter, focus entropy; its identity and its cut by focus."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.graph.cybergraph import Cybergraph
from engine.graph.identifiers import PREFIX, cid_text
from engine.graph.spectrum import compute_spectrum, focus_adjacency
from engine.graph.split import induced


def graph_cid(graph: Cybergraph) -> str:
    """CID of the graph's content: semcons, particles and sorted links, independent of the order they were read in."""
    digest = hashlib.sha256()
    order = np.argsort(np.array(graph.particles, dtype=object).astype(str), kind="stable") if graph.particles else np.zeros(0, np.int64)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    for label in (*graph.semcons, *(graph.particles[i] for i in order)):
        digest.update(label.encode() + b"\0")
    links = np.stack([number[graph.links[:, 0]], graph.links[:, 1], number[graph.links[:, 2]]], axis=1)
    digest.update(np.unique(links, axis=0).astype("<i8").tobytes())
    return cid_text(PREFIX + digest.digest())


def cut_by_focus(graph: Cybergraph, focus: NDArray[np.float64], particles: int) -> Cybergraph:
    """The subgraph on the particles of highest focus (ties: the earlier one), in their order."""
    keep = np.sort(np.argsort(-focus, kind="stable")[:particles])
    return induced(graph, keep)


@dataclass(frozen=True)
class GraphMetrics:
    """``diameter`` is a lower bound from a few breadth-first searches, exact on small graphs."""

    particles: int
    links: int
    orphans: int
    components: int
    mean_degree: float
    largest_degree: int
    diameter: int
    spectral_gap: float  # 1 - λ2 of the degree-normalised adjacency: 0 where the part falls apart
    focus_entropy: float  # nats, of the focus restricted to the part


def _neighbours(graph: Cybergraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ends = np.concatenate([graph.links[:, [0, 2]], graph.links[:, [2, 0]]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    return np.searchsorted(ends[:, 0], np.arange(graph.particle_count + 1)), ends[:, 1]


def distances(graph: Cybergraph, start: int) -> NDArray[np.int64]:
    """(particles,) links from ``start``, -1 where there is no path."""
    offsets, targets = _neighbours(graph)
    distance = np.full(graph.particle_count, -1, np.int64)
    frontier, step = np.array([start], np.int64), 0
    distance[start] = 0
    while len(frontier):
        step += 1
        counts = offsets[frontier + 1] - offsets[frontier]
        first = np.repeat(offsets[frontier] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        reached = np.unique(targets[first + np.arange(counts.sum())]) if counts.sum() else np.zeros(0, np.int64)
        frontier = reached[distance[reached] < 0]
        distance[frontier] = step
    return distance


def _spectral_gap(graph: Cybergraph, degree: NDArray[np.int64]) -> float:
    if graph.particle_count < 2 or len(graph.links) == 0:
        return 0.0
    plain = graph.with_links(graph.links)
    matrix = focus_adjacency(plain, degree / degree.sum(), screen=0.0)
    return float(np.clip(1 - compute_spectrum(matrix, (2,), seed=0).values[1], 0, 2))


def measure(graph: Cybergraph, focus: NDArray[np.float64]) -> GraphMetrics:
    """Metrics of a (sub)graph; ``focus`` (particles,) is normalised here."""
    n = graph.particle_count
    degree = np.bincount(graph.links[:, 0], minlength=n) + np.bincount(graph.links[:, 2], minlength=n)
    parent = np.arange(n)
    for _ in range(64):  # label propagation with pointer jumping
        low = np.minimum(parent[graph.links[:, 0]], parent[graph.links[:, 2]])
        following = parent.copy()
        np.minimum.at(following, graph.links[:, 0], low)
        np.minimum.at(following, graph.links[:, 2], low)
        following = following[following]
        if np.array_equal(following, parent):
            break
        parent = following
    diameter = 0
    start = int(np.argmax(degree)) if n else 0
    for _ in range(4 if n else 0):
        reach = distances(graph, start)
        start = int(np.argmax(reach))
        diameter = max(diameter, int(reach.max()))
    p = np.asarray(focus, np.float64)
    p = p[p > 0] / max(float(p.sum()), 1e-300)
    return GraphMetrics(
        n,
        len(graph.links),
        int((degree == 0).sum()),
        len(np.unique(parent)),
        float(degree.mean()) if n else 0.0,
        int(degree.max(initial=0)),
        diameter,
        _spectral_gap(graph, degree),
        float(-(p * np.log(p)).sum()),
    )
