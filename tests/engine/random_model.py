"""A small model of random weights on a small random graph: what tests of everything above the file format run on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.graph.cybergraph import canonical_links
from engine.model.context import CONTROL_TOKENS
from engine.model.cyb_file import write_cyb_file
from engine.model.cyb_metadata import Metadata
from engine.model.model import Model
from engine.model.vocabulary import encode_labels
from tests.engine.packing import pack


def random_contents(
    particles: int = 300,
    relations: int = 3,
    levels: Sequence[int] = (32, 64, 128),
    layers: int = 2,
    head_size: int = 16,
    links: int = 900,
    seed: int = 0,
    embedding_type: str = "q8",
    weight_type: str = "q8",
    gain: bool = True,
    rule: str = "top",
    thresholds: Sequence[float] | None = None,
    inherit: str = "backfill",
) -> tuple[Metadata, dict[str, NDArray[Any]]]:
    """Metadata and tensors for ``write_cyb_file``. Every relation has an inverse: there are ``2 * relations`` semcons.

    Weights are normal and scaled to keep activations near 1; τ is chosen so that some tokens are confident and some are not.
    """
    random = np.random.default_rng(seed)
    semcons = 2 * relations
    deepest = len(levels)
    metadata = Metadata(
        name=f"random {seed}",
        basis="tuned",
        levels=tuple(levels),
        ffn=tuple(2 * width for width in levels),
        layers=layers,
        head_size=head_size,
        tau=tuple(60.0 / width**0.5 for width in levels),
        beta=(0.1,) * deepest,
        particles=particles,
        semcons=semcons,
        policy={
            "inherit": inherit,
            "rule": rule,
            "thresholds": list(thresholds or (0.9, 0.85, 0.8, 0.8, 0.8, 0.8, 0.8)[: deepest - 1]),
            "curve": [],
        },
        provenance={"source": "random", "seed": seed},
        input_scale=20.0,
        embedding_type=embedding_type,
        weight_type=weight_type,
    )
    forward = [f"relation {index}" for index in range(relations)]
    labels = [f"thing.{index:04d}" for index in range(particles)]
    text, offsets = encode_labels([*labels, *forward, *(f"{name}⁻¹" for name in forward), *CONTROL_TOKENS])
    inverse = np.array([*range(relations, semcons), *range(relations)], np.int64)

    drawn = np.stack(
        [
            (particles * random.random(links) ** 2).astype(np.int64),
            random.integers(0, semcons, links),
            (particles * random.random(links) ** 2).astype(np.int64),
        ],
        axis=1,
    )
    graph = random.permutation(canonical_links(drawn[drawn[:, 0] != drawn[:, 2]], inverse))
    held_out = max(1, len(graph) // 25)
    focus = np.bincount(graph[:, [0, 2]].reshape(-1), minlength=metadata.vocabulary) + 0.5
    tensors: dict[str, NDArray[Any]] = {
        "vocabulary.text": text,
        "vocabulary.offsets": offsets,
        "semcon.inverse": inverse.astype(np.uint32),
        "focus": (focus / focus.sum()).astype(np.float32),
        "spectrum": np.geomspace(1, 0.01, levels[-1]).astype(np.float32),
        "graph.hidden": graph[:held_out].astype(np.uint32),
        "graph.valid": graph[held_out : 2 * held_out].astype(np.uint32),
        "graph.links": graph[2 * held_out :].astype(np.uint32),
    }
    if gain:
        tensors["gain.weights"] = random.normal(0, 0.1, (deepest - 1, 6)).astype(np.float32)
        tensors["gain.bias"] = random.normal(0, 0.1, (deepest - 1, semcons + len(CONTROL_TOKENS))).astype(np.float32)
    for name, (kind, rows, columns) in metadata.matrices().items():
        deviation = 0.05 if name.startswith("embedding.") else columns**-0.5
        tensors[name] = pack(kind, random.normal(0, deviation, (rows, columns)).astype(np.float32))
    return metadata, tensors


def write_random_model(path: Path, **shape: Any) -> Path:
    """Writes a random model file; ``shape`` as in ``random_contents``. Returns ``path``."""
    metadata, tensors = random_contents(**shape)
    write_cyb_file(path, metadata, tensors)
    return path


def random_model(folder: Path, **shape: Any) -> Model:
    """Writes a random model under ``folder`` and opens it; ``shape`` as in ``random_contents``."""
    return Model.open(write_random_model(folder / "random.cyb", **shape))
