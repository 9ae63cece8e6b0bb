"""Withholding links: both directions, and every other link between the same two particles that would give the answer away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engine.graph.cybergraph import Cybergraph


def hold_out(graph: Cybergraph, fraction: float, seed: int) -> tuple[Cybergraph, NDArray[np.int64]]:
    """Splits off ``fraction`` of the links, (m, 3), so that the rest holds no reading of them.

    A link is a (pair, semcon) with its inverse reading; where the rest states the same pair under the same semcon or its inverse in
    either direction, that statement is withheld too (and counted as hidden). A particle keeps at least one link, so that no hidden
    link names a particle the model cannot know.
    """
    if not 0 <= fraction < 1:
        raise ValueError("fraction must be at least 0 and below 1")
    links, inverse = graph.links, graph.inverse
    low = np.minimum(links[:, 0], links[:, 2])
    high = np.maximum(links[:, 0], links[:, 2])
    family = np.minimum(links[:, 1], inverse[links[:, 1]])
    _, key = np.unique(np.stack([low, high, family], axis=1), axis=0, return_inverse=True)
    key = key.reshape(-1)
    statements = int(key.max(initial=-1)) + 1
    wanted = round(fraction * statements)
    order = np.random.default_rng([seed, 0x48494445]).permutation(statements)
    degree = np.bincount(links[:, 0], minlength=graph.particle_count) + np.bincount(links[:, 2], minlength=graph.particle_count)
    by_key = np.argsort(key, kind="stable")
    bounds = np.searchsorted(key[by_key], np.arange(statements + 1))
    hidden = np.zeros(len(links), bool)
    taken = 0
    for statement in order:
        if taken == wanted:
            break
        members = by_key[bounds[statement] : bounds[statement + 1]]
        source, target = links[members[0], 0], links[members[0], 2]
        if degree[source] <= len(members) or degree[target] <= len(members):
            continue
        degree[source] -= len(members)
        degree[target] -= len(members)
        hidden[members] = True
        taken += 1
    return graph.with_links(links[~hidden], graph.weights[~hidden]), links[hidden]


def induced(graph: Cybergraph, keep: NDArray[np.int64]) -> Cybergraph:
    """The subgraph on the particles ``keep`` (ids, ascending), which are renumbered in that order."""
    number = np.full(graph.particle_count, -1, np.int64)
    number[keep] = np.arange(len(keep))
    links = graph.links.copy()
    links[:, 0], links[:, 2] = number[links[:, 0]], number[links[:, 2]]
    inside = (links[:, 0] >= 0) & (links[:, 2] >= 0)
    return replace(
        graph,
        particles=tuple(graph.particles[i] for i in keep),
        names=tuple(graph.names[i] for i in keep) if graph.names else (),
        links=links[inside],
        weights=graph.weights[inside],
        neurons=(),
        neuron=None,
    )
