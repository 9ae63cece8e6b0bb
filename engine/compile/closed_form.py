"""The closed form (design §7): E from the spectrum, one map a semcon from the links, and the nested transformer they give.

Direct score of a link: e_pᵀ P_s e_q with P_s = Eᵀ A_s E, where E holds the eigenvectors and A_s counts each link once. The maps are not
stored: they follow from E and the links of the file. P_s is made block-lower-triangular, so that it nests; how much of its energy that
drops is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.compile.closed_transformer import Codes, code_rows, details, group_semcons, layer, sketches
from engine.compile.weights import NestedWeights
from engine.graph.cybergraph import Cybergraph
from engine.model.context import CONTROL_TOKENS

HEAD_SIZE = 32
EMBEDDING_RMS = 0.05
INPUT_SCALE = 20.0
ROPE_BASE = 10000.0


@dataclass(frozen=True)
class ClosedForm:
    """``weights`` to export, ``dropped_energy`` the share of each semcon's energy above the block triangle, then their weighted mean."""

    weights: NestedWeights
    dropped_energy: dict[str, float]
    dropped_mean: float


def block_triangle(matrix: NDArray[np.float32], levels: tuple[int, ...]) -> NDArray[np.float32]:
    """The matrix without what lies above the block diagonal: outputs of block k read columns below D_k only."""
    result = matrix.copy()
    for begin, end in zip((0, *levels[:-1]), levels, strict=True):
        result[begin:end, end:] = 0
    return result


def full_map(
    embedding: NDArray[np.float32],
    links: NDArray[np.int64],
    inverse: NDArray[np.int64],
    semcon: int,
    levels: tuple[int, ...],
) -> NDArray[np.float32]:
    """The map M (D, D) with scores e_q · M e_p for a query (p, semcon), from the links (n, 3) read in both directions. Block by block:
    the same bits whatever levels follow."""
    forward, backward = links[links[:, 1] == semcon], links[links[:, 1] == inverse[semcon]]
    targets = np.concatenate([forward[:, 2], backward[:, 0]])
    sources = np.concatenate([forward[:, 0], backward[:, 2]])
    blocks = [np.ascontiguousarray(embedding[:, begin:end]) for begin, end in zip((0, *levels[:-1]), levels, strict=True)]
    read = [block[sources] for block in blocks]
    return np.concatenate([np.concatenate([block[targets].T @ other for other in read], axis=1) for block in blocks])


def directed_map(
    embedding: NDArray[np.float32],
    graph_links: NDArray[np.int64],
    inverse: NDArray[np.int64],
    semcon: int,
    levels: tuple[int, ...],
) -> NDArray[np.float32]:
    """The block-lower-triangular part of ``full_map``: what a model of these levels scores with."""
    return block_triangle(full_map(embedding, graph_links, inverse, semcon, levels), levels)


def direct_scores(
    embedding: NDArray[np.float32], mapping: NDArray[np.float32], sources: NDArray[np.int64], width: int
) -> NDArray[np.float32]:
    """(queries, particles) scores e_pᵀ P_s e_q of one semcon at one level: the first ``width`` columns alone."""
    moved = embedding[sources, :width] @ mapping[:width, :width].T
    return np.asarray(moved @ embedding[:, :width].T, np.float32)


def closed_form(
    graph: Cybergraph,
    vectors: NDArray[np.float32],
    values: NDArray[np.float32],
    levels: tuple[int, ...],
    layers: int,
    seed: int,
) -> ClosedForm:
    """Weights of the closed form. ``vectors`` (particles, DK) orthonormal columns, ``values`` (DK,) their eigenvalues."""
    particles, width = vectors.shape
    head = HEAD_SIZE if levels[0] % HEAD_SIZE == 0 else levels[0]
    scale = np.float32(EMBEDDING_RMS * np.sqrt(particles))  # the columns have norm 1, so this is their rms at every level
    readings = semcon_readings(graph)
    codes = Codes.of(levels[0], layers)
    sketch = sketches(vectors, graph.links, graph.inverse, levels, seed)
    group = group_semcons(sketch[:, : levels[0]], readings, layers) if graph.semcon_count else np.zeros(0, np.int64)
    spelled, factors = details(sketch, group, codes, levels)
    maps, dropped = _group_maps(graph, vectors, group, levels, layers)
    semcon_rows, control_rows = code_rows(codes, group, spelled, len(CONTROL_TOKENS), width)
    table = np.concatenate([vectors * scale, semcon_rows / np.float32(INPUT_SCALE), control_rows / np.float32(INPUT_SCALE)])
    weights = []
    for number, mapping in enumerate(maps):
        last = number == layers - 1
        first = np.ascontiguousarray(mapping[: levels[0], : levels[0]])
        unit = mapping * np.float32(np.sqrt(levels[0]) / max(float(np.linalg.norm(first)), 1e-12))
        weights.append(layer(number, layers, unit, factors if last else None, levels, head, codes, ROPE_BASE))
    total = max(int(readings.sum()), 1)
    return ClosedForm(
        NestedWeights(
            levels=levels,
            ffn=tuple(2 * each for each in levels),
            layers=layers,
            head_size=head,
            epsilon=1e-6,
            rope_base=ROPE_BASE,
            input_scale=INPUT_SCALE,
            embedding=np.ascontiguousarray(table, np.float32),
            weights=weights,
            tau=tuple(float(8.0 / (EMBEDDING_RMS * w)) for w in levels),
            beta=(0.0,) * len(levels),
            spectrum=values,
        ),
        {graph.semcons[semcon]: share for semcon, share in dropped.items()},
        sum(share * int(readings[semcon]) for semcon, share in dropped.items()) / total,
    )


def semcon_readings(graph: Cybergraph) -> NDArray[np.int64]:
    """(semcons,) links that can be read through each semcon: those stored under it and those stored under its inverse."""
    counts = np.bincount(graph.links[:, 1], minlength=graph.semcon_count)
    symmetric = graph.inverse == np.arange(graph.semcon_count)
    return np.asarray(counts + np.where(symmetric, 0, counts[graph.inverse]), np.int64)


def _group_maps(
    graph: Cybergraph, vectors: NDArray[np.float32], group: NDArray[np.int64], levels: tuple[int, ...], layers: int
) -> tuple[list[NDArray[np.float32]], dict[int, float]]:
    """The block-lower-triangular map of each group's links, and the share of energy that each semcon's own map loses."""
    maps = [np.zeros((levels[-1], levels[-1]), np.float32) for _ in range(layers)]
    dropped: dict[int, float] = {}
    for semcon in range(graph.semcon_count):
        full = full_map(vectors, graph.links, graph.inverse, semcon, levels)
        energy = float(np.vdot(full, full))
        if energy == 0:
            continue
        lower = block_triangle(full, levels)
        dropped[semcon] = max(0.0, 1 - float(np.vdot(lower, lower)) / energy)
        maps[group[semcon]] += lower
    return maps, dropped


def layer_count(graph: Cybergraph) -> int:
    """Layers from the graph, 1 to 6: the typical distance of two particles, log particles / log mean degree (Theorem 3 of the source
    bounds layers by distances), and no more than there are semcons to tell apart."""
    degree = 2 * len(graph.links) / max(graph.particle_count, 1)
    if graph.particle_count < 2:
        return 1
    distance = round(float(np.log(graph.particle_count) / np.log(max(degree, 2.0))))
    return int(np.clip(distance, 1, min(6, max(1, int((semcon_readings(graph) > 0).sum())))))
