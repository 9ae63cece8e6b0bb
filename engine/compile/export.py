"""Packs a nested model and its graph into a ``.cyb`` file (docs/cyb-format.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compile.weights import WEIGHT_NAMES, NestedWeights
from engine.graph.cybergraph import Cybergraph
from engine.model.context import CONTROL_TOKENS
from engine.model.cyb_file import CybFile, write_cyb_file
from engine.model.cyb_metadata import Metadata
from engine.model.vocabulary import encode_labels
from engine.native import MATRIX_TYPES, matrix_pack


def export(
    path: Path,
    name: str,
    basis: str,
    weights: NestedWeights,
    graph: Cybergraph,
    focus: NDArray[np.float64],
    hidden: NDArray[np.int64],
    valid: NDArray[np.int64],
    policy: Mapping[str, Any],
    provenance: Mapping[str, Any],
    embedding_type: str = "q8",
    weight_type: str = "q8",
) -> str:
    """Writes the file atomically and returns its checksum.

    ``graph`` holds the links the model may know; ``focus`` (vocabulary,) sums to 1; ``hidden`` and ``valid`` are (n, 3) withheld
    links. Raises UserError when the file cannot be written.
    """
    metadata = Metadata(
        name=name,
        basis=basis,
        levels=weights.levels,
        ffn=weights.ffn,
        layers=weights.layers,
        head_size=weights.head_size,
        tau=weights.tau,
        beta=weights.beta,
        particles=graph.particle_count,
        semcons=graph.semcon_count,
        policy=dict(policy),
        provenance=dict(provenance),
        epsilon=weights.epsilon,
        rope_base=weights.rope_base,
        input_scale=weights.input_scale,
        embedding_type=embedding_type,
        weight_type=weight_type,
    )
    text, offsets = encode_labels([*graph.particles, *graph.semcons, *CONTROL_TOKENS])
    spectrum = weights.spectrum if len(weights.spectrum) else np.zeros(weights.levels[-1], np.float32)
    tensors: dict[str, NDArray[Any]] = {
        "vocabulary.text": text,
        "vocabulary.offsets": offsets,
        "semcon.inverse": graph.inverse.astype(np.uint32),
        "focus": focus.astype(np.float32),
        "spectrum": spectrum.astype(np.float32),
        "graph.links": graph.links.astype(np.uint32),
        "graph.hidden": hidden.astype(np.uint32).reshape(-1, 3),
        "graph.valid": valid.astype(np.uint32).reshape(-1, 3),
    }
    if weights.gain_weights is not None and weights.gain_bias is not None:
        tensors["gain.weights"] = weights.gain_weights.astype(np.float32)
        tensors["gain.bias"] = weights.gain_bias.astype(np.float32)
    bounds = list(zip((0, *weights.levels[:-1]), weights.levels, strict=True))
    for block, (begin, end) in enumerate(bounds, 1):
        tensors[f"embedding.{block}"] = matrix_pack(
            MATRIX_TYPES[embedding_type], np.ascontiguousarray(weights.embedding[:, begin:end], np.float32)
        )
        for layer in range(weights.layers):
            for matrix in WEIGHT_NAMES:
                values = weights.weights[layer][block - 1][matrix].astype(np.float32)
                if matrix == "q":
                    values = values / np.float32(math.sqrt(weights.head_size))
                tensors[f"layers.{layer + 1}.block.{block}.{matrix}"] = matrix_pack(MATRIX_TYPES[weight_type], np.ascontiguousarray(values))
    return write_cyb_file(path, metadata, tensors)


def rewrite(
    path: Path,
    policy: Mapping[str, Any] | None = None,
    gain_weights: NDArray[np.float32] | None = None,
    gain_bias: NDArray[np.float32] | None = None,
    name: str | None = None,
    provenance: Mapping[str, Any] | None = None,
    verification: Mapping[str, Any] | None = None,
) -> str:
    """Replaces policy, gain rule, name, provenance or verification of a file, the rest byte for byte. Returns the new checksum."""
    from dataclasses import replace

    file = CybFile(path)
    metadata = replace(
        file.metadata,
        policy=dict(policy) if policy is not None else file.metadata.policy,
        name=name or file.metadata.name,
        provenance=dict(provenance) if provenance is not None else file.metadata.provenance,
        verification=dict(verification) if verification is not None else file.metadata.verification,
    )
    tensors: dict[str, NDArray[Any]] = {tensor: np.array(file.array(tensor)) for tensor in file.tensors if not tensor.startswith("__pad.")}
    if gain_weights is not None and gain_bias is not None:
        tensors["gain.weights"] = gain_weights.astype(np.float32)
        tensors["gain.bias"] = gain_bias.astype(np.float32)
    return write_cyb_file(path, metadata, tensors)
