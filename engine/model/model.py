"""A model that is open: the file's vocabulary, graph and policy for Python, its matrices for the native runtime."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import engine
from engine.errors import UserError
from engine.graph.cybergraph import Cybergraph
from engine.model.cyb_file import CybFile
from engine.model.policy import Policy, level_names
from engine.model.vocabulary import Vocabulary, display_label

if TYPE_CHECKING:
    from engine.native import NativeModel

FOCUS_FLOOR = 1e-12


def embedded_model_path() -> Path:
    """The model that comes with cybtui. Raises UserError when the installation lacks it."""
    for folder in engine.__path__:
        path = Path(folder) / "data" / "default.cyb"
        if path.is_file():
            return path
    raise UserError("the embedded model engine/data/default.cyb is missing: install cybtui again, or name a model file")


class Model:
    """One model file, open and validated. Arrays are read-only views of the mapped file.

    ``digest`` (the header's checksum, hex) identifies the file: it covers the digests of all tensors. ``family`` (32 bytes) is
    the KV compatibility key.
    """

    def __init__(self, file: CybFile) -> None:
        metadata = file.metadata
        self.file = file
        self.path = file.path
        self.bytes = file.size
        self.digest = file.checksum
        self.family = bytes.fromhex(file.strings["family"])
        self.name = display_label(metadata.name)
        self.basis = metadata.basis
        self.widths = metadata.levels
        self.ffn_widths = metadata.ffn
        self.levels = len(metadata.levels)
        self.level_names = level_names(self.levels)
        self.layers = metadata.layers
        self.head_size = metadata.head_size
        self.particles = metadata.particles
        self.semcons = metadata.semcons
        self.policy = Policy.from_json(metadata.policy, self.levels)
        """The stored policy: what a run uses where the operator states nothing else."""
        self.policy_curve: list[dict[str, Any]] = list(metadata.policy.get("curve", []))
        """Measured when the model was compiled: rule, thresholds, inherit, share, mrr, cost a point."""
        self.stored_policy = metadata.policy
        self.verification = metadata.verification
        """Calibrated coefficients of the runtime's verification, and how they were come by; None in a file without them."""
        self.provenance = metadata.provenance
        self.vocabulary = Vocabulary(
            file.array("vocabulary.text").tobytes(),
            file.array("vocabulary.offsets"),
            metadata.particles,
            metadata.semcons,
            file.array("semcon.inverse"),
            file.array("vocabulary.cids") if "vocabulary.cids" in file else None,
        )
        self.focus: NDArray[np.float32] = file.array("focus")
        self.spectrum: NDArray[np.float32] = file.array("spectrum")

    @classmethod
    def open(cls, path: Path | str | None = None) -> Model:
        """Opens and validates a model file; None is the embedded one. Raises UserError."""
        return cls(CybFile(embedded_model_path() if path is None else path))

    # ---- graph ----------------------------------------------------------------------------------------------------------

    def _links(self, name: str) -> NDArray[np.int64]:
        return self.file.array(name).astype(np.int64)

    @cached_property
    def graph(self) -> Cybergraph:
        """The links the model was compiled from, without the withheld ones."""
        tokens = self.vocabulary
        particles = tuple(tokens.raw_label(token) for token in range(self.particles))
        semcons = tuple(tokens.raw_label(self.particles + semcon) for semcon in range(self.semcons))
        links = self._links("graph.links")
        return Cybergraph(particles, semcons, tokens.inverse, links, np.ones(len(links), np.float32), source_name=self.name)

    @cached_property
    def hidden(self) -> NDArray[np.int64]:
        """(m, 3) links withheld for evaluation: source, semcon index, target."""
        return self._links("graph.hidden")

    @cached_property
    def valid(self) -> NDArray[np.int64]:
        """(v, 3) links withheld for early stopping and policy."""
        return self._links("graph.valid")

    # ---- native -----------------------------------------------------------------------------------------------------------

    @cached_property
    def log_focus(self) -> NDArray[np.float32]:
        """(vocabulary,) ln of focus, floored at ln 1e-12."""
        floored = np.maximum(self.focus.astype(np.float64), FOCUS_FLOOR)
        return np.log(floored).astype(np.float32)

    @cached_property
    def native(self) -> NativeModel:
        """The struct the native runtime reads, over the mapped file. Raises UserError when the library cannot be loaded."""
        from engine.native import MATRIX_TYPES, WEIGHT_NAMES, Matrix, ModelArrays, NativeModel

        file, metadata = self.file, self.file.metadata
        shapes = metadata.matrices()

        def matrix(name: str) -> Matrix:
            kind, rows, columns = shapes[name]
            return Matrix(MATRIX_TYPES[kind], rows, columns, file.array(name))

        blocks = range(1, self.levels + 1)
        has_gain = "gain.weights" in file
        bias = None
        if has_gain:
            bias = np.zeros((self.levels - 1, len(self.vocabulary)), np.float32)
            bias[:, self.particles :] = file.array("gain.bias")
        arrays = ModelArrays(
            widths=self.widths,
            ffn_widths=self.ffn_widths,
            layers=self.layers,
            head_size=self.head_size,
            vocabulary=len(self.vocabulary),
            particles=self.particles,
            epsilon=metadata.epsilon,
            rope_base=metadata.rope_base,
            input_scale=metadata.input_scale,
            tau=metadata.tau,
            beta=metadata.beta,
            log_focus=self.log_focus,
            embedding=[matrix(f"embedding.{block}") for block in blocks],
            weights=[
                [[matrix(f"layers.{layer}.block.{block}.{name}") for name in WEIGHT_NAMES] for block in blocks]
                for layer in range(1, self.layers + 1)
            ],
            family=self.family,
            gain_weights=file.array("gain.weights") if has_gain else None,
            gain_bias=bias,
        )
        return NativeModel(arrays)

    @property
    def has_gain_rule(self) -> bool:
        """Whether the file holds the calibrated escalation rule."""
        return "gain.weights" in self.file

    def check_policy(self, policy: Policy) -> Policy:
        """The policy resolved for this model's levels. Raises UserError, also for the gain rule in a file without one."""
        if policy.rule == "gain" and not self.has_gain_rule:
            raise UserError(f"{self.path}: the file has no calibrated gain rule: use --rule top or --rule margin")
        return policy.for_levels(self.levels)
