"""The closed form (design §7): E from the spectrum, one map a semcon from the links, and the nested transformer they give.

Direct score of a link: e_pᵀ P_s e_q with P_s = Eᵀ A_s E. The maps are not stored: they follow from E and the links of the file.

The transformer is built from the same factors, without training. A semcon position must read the particle before it, so every layer's
heads look one position back: q and k carry a constant direction that RoPE turns into a preference for offset one, v carries the
particle's columns, and the output map mixes them by the mean of the semcons' maps, weighted by how often each is read. The gated FFN
multiplies what was read by the semcon's own token vector: that vector is the diagonal of its map in the eigenbasis, where the maps of
most semcons are close to diagonal. How much of each map's energy lies off the diagonal or above the block triangle is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.compile.weights import NestedWeights
from engine.graph.cybergraph import Cybergraph
from engine.model.context import CONTROL_TOKENS

HEAD_SIZE = 32
EMBEDDING_RMS = 0.05
INPUT_SCALE = 20.0


@dataclass(frozen=True)
class ClosedForm:
    """``weights`` to export, ``dropped_energy`` the share of each semcon's energy above the block triangle, then their weighted mean."""

    weights: NestedWeights
    dropped_energy: dict[str, float]
    dropped_mean: float


def semcon_map(embedding: NDArray[np.float32], links: NDArray[np.int64], semcon: int) -> NDArray[np.float32]:
    """P_s = Eᵀ A_s E, (D, D), of the links (n, 3) stored under one semcon; its inverse semcon has the transpose."""
    mine = links[links[:, 1] == semcon]
    return np.asarray(embedding[mine[:, 0]].T @ embedding[mine[:, 2]], np.float32)


def block_triangle(matrix: NDArray[np.float32], levels: tuple[int, ...]) -> NDArray[np.float32]:
    """The matrix without what lies above the block diagonal: outputs of block k read columns below D_k only."""
    result = matrix.copy()
    for begin, end in zip((0, *levels[:-1]), levels, strict=True):
        result[begin:end, end:] = 0
    return result


def directed_map(
    embedding: NDArray[np.float32],
    graph_links: NDArray[np.int64],
    inverse: NDArray[np.int64],
    semcon: int,
    levels: tuple[int, ...],
) -> NDArray[np.float32]:
    """The map M with scores E (M e_p) for a query (p, semcon): from the links read in both directions, block-lower-triangular."""
    forward = semcon_map(embedding, graph_links, semcon).T
    other = int(inverse[semcon])
    if other != semcon or len(graph_links):
        forward = forward + semcon_map(embedding, graph_links, other)
    return block_triangle(np.ascontiguousarray(forward), levels)


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
    random = np.random.default_rng([seed, 0x434C4F53])
    scale = EMBEDDING_RMS / max(float(np.sqrt((vectors.astype(np.float64) ** 2).mean())), 1e-12)
    vocabulary = particles + graph.semcon_count + len(CONTROL_TOKENS)
    table = np.zeros((vocabulary, width), np.float32)
    table[:particles] = vectors * np.float32(scale)
    mean_map = np.zeros((width, width), np.float32)
    energies, dropped, weights_of = {}, {}, {}
    counts = np.bincount(graph.links[:, 1], minlength=graph.semcon_count)
    for semcon in range(graph.semcon_count):
        if counts[semcon] == 0 and counts[graph.inverse[semcon]] == 0:
            continue
        full = semcon_map(vectors, graph.links, semcon).T
        if int(graph.inverse[semcon]) != semcon:
            full = full + semcon_map(vectors, graph.links, int(graph.inverse[semcon]))
        lower = block_triangle(np.ascontiguousarray(full), levels)
        energy = float((full.astype(np.float64) ** 2).sum())
        energies[semcon] = energy
        dropped[graph.semcons[semcon]] = 1 - float((lower.astype(np.float64) ** 2).sum()) / max(energy, 1e-300)
        readings = int(counts[semcon] + (counts[graph.inverse[semcon]] if graph.inverse[semcon] != semcon else 0))
        weights_of[graph.semcons[semcon]] = readings
        unit = lower / max(float(np.sqrt(energy)), 1e-12)
        mean_map += np.float32(readings) * unit
        diagonal = np.diag(unit)
        table[particles + semcon] = diagonal / max(float(np.sqrt((diagonal**2).mean())), 1e-12) * EMBEDDING_RMS
    total = max(sum(weights_of.values()), 1)
    mean_map /= total
    first_control = particles + graph.semcon_count
    table[first_control:] = random.normal(0, 0.1 * EMBEDDING_RMS, (len(CONTROL_TOKENS), width)).astype(np.float32)
    norm = max(float(np.linalg.norm(mean_map, 2)), 1e-12)
    weights = [_layer(mean_map / norm, levels, head, layers) for _ in range(layers)]
    return ClosedForm(
        NestedWeights(
            levels=levels,
            ffn=levels,
            layers=layers,
            head_size=head,
            epsilon=1e-6,
            rope_base=10000.0,
            input_scale=INPUT_SCALE,
            embedding=table,
            weights=weights,
            tau=tuple(float(8.0 / (EMBEDDING_RMS * w)) for w in levels),
            beta=(0.0,) * len(levels),
            spectrum=values,
        ),
        dropped,
        sum(dropped[name] * count for name, count in weights_of.items()) / total,
    )


def _layer(mapping: NDArray[np.float32], levels: tuple[int, ...], head: int, layers: int) -> list[dict[str, NDArray[np.float32]]]:
    """One layer, block by block, all maps block-lower-triangular by construction."""
    width = levels[-1]
    identity = np.eye(width, dtype=np.float32)
    # the fastest pair of a head turned back by one position prefers the position before
    angle = 1.0
    prefer = np.zeros((width, width), np.float32)
    half = head // 2
    for start in range(0, width, head):
        prefer[start, start] = np.cos(angle)
        prefer[start + half, start] = -np.sin(angle)
    blocks = []
    for begin, end in zip((0, *levels[:-1]), levels, strict=True):
        rows = slice(begin, end)
        gain = np.float32(1.0 / layers)
        blocks.append(
            {
                "q": np.ascontiguousarray(4.0 * prefer[rows, :end]),
                "k": np.ascontiguousarray(4.0 * identity[rows, :end]),
                "v": np.ascontiguousarray(identity[rows, :end]),
                "o": np.ascontiguousarray(gain * mapping[rows, :end]),
                "gate": np.ascontiguousarray(identity[rows, :end]),
                "up": np.ascontiguousarray(mapping[rows, :end]),
                "down": np.ascontiguousarray(gain * identity[rows, :end]),
            }
        )
    return blocks


def layer_count(graph: Cybergraph, effective_rank: float) -> int:
    """Layers from the graph (Theorem 3 of the source bounds them by its diameter): log of particles over log of mean degree, in 1..6."""
    degree = 2 * len(graph.links) / max(graph.particle_count, 1)
    if graph.particle_count < 2 or effective_rank <= 1:
        return 1
    return int(np.clip(round(np.log(graph.particle_count) / np.log(max(degree, 2.0)) / 3), 1, 6))
