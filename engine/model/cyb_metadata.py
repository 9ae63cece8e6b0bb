"""The metadata of a ``.cyb`` file as typed values, and the tensors that they promise (docs/cyb-format.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import UserError
from engine.model.context import CONTROL_TOKENS
from engine.model.cyb_header import ALIGNMENT, TensorEntry, bad, strict_json
from engine.model.policy import Policy

LEVELS_MAX, LAYERS_MAX, WIDTH_MAX, FFN_MAX, VOCABULARY_MAX = 8, 512, 1 << 16, 1 << 18, 1 << 27
QUANT_GROUP, PANEL_ROWS, GAIN_FEATURES, CID_BYTES = 32, 16, 6, 36
HEAD_SIZE_MAX = 256
EVIDENCE_MAX, COEFFICIENT_MAX = 64, 1e6
BASES = ("spectral", "tuned")
STORAGE_TYPES = ("q8", "f16")
WEIGHT_NAMES = ("q", "k", "v", "o", "gate", "up", "down")


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a model is. ``levels`` are widths D1 < … < DK, ``ffn`` cumulative FFN widths, ``tau`` and ``beta`` one a level."""

    name: str
    basis: str
    levels: tuple[int, ...]
    ffn: tuple[int, ...]
    layers: int
    head_size: int
    tau: tuple[float, ...]
    beta: tuple[float, ...]
    particles: int
    semcons: int
    policy: dict[str, Any]
    provenance: dict[str, Any] = field(default_factory=dict)
    epsilon: float = 1e-5
    rope_base: float = 10000.0
    input_scale: float = 1.0
    embedding_type: str = "q8"
    weight_type: str = "q8"
    controls: int = len(CONTROL_TOKENS)
    verification: dict[str, Any] | None = None

    @property
    def vocabulary(self) -> int:
        """Token count: particles, then semcons, then control tokens."""
        return self.particles + self.semcons + self.controls

    def to_strings(self) -> dict[str, str]:
        """The metadata as the file keeps it, without digests, family and checksum."""
        lists = {"levels": self.levels, "ffn": self.ffn, "tau": self.tau, "beta": self.beta}
        numbers = ("layers", "head_size", "epsilon", "rope_base", "input_scale", "particles", "semcons", "controls")
        texts = ("name", "basis", "embedding_type", "weight_type")
        return {
            "format": "cyb/1",
            **{key: getattr(self, key) for key in texts},
            **{key: json.dumps(list(value), separators=(",", ":")) for key, value in lists.items()},
            **{key: json.dumps(getattr(self, key)) for key in numbers},
            **{key: _compact(getattr(self, key)) for key in ("policy", "provenance")},
            **({} if self.verification is None else {"verification": _compact(self.verification)}),
        }

    @classmethod
    def from_strings(cls, where: str, strings: Mapping[str, str]) -> Metadata:
        """Reads and checks every field. Raises UserError."""
        read = _Reader(where, strings)
        metadata = cls(
            name=read.text("name", 200),
            basis=read.one_of("basis", BASES),
            levels=read.counts("levels", WIDTH_MAX),
            ffn=read.counts("ffn", FFN_MAX),
            layers=read.count("layers", 1, LAYERS_MAX),
            head_size=read.count("head_size", 2, HEAD_SIZE_MAX),
            tau=read.numbers("tau", 1e-6, 1e6),
            beta=read.numbers("beta", -1e3, 1e3),
            particles=read.count("particles", 1, VOCABULARY_MAX),
            semcons=read.count("semcons", 1, VOCABULARY_MAX),
            controls=read.count("controls", len(CONTROL_TOKENS), len(CONTROL_TOKENS)),
            policy=read.object("policy"),
            provenance=read.object("provenance"),
            epsilon=read.number("epsilon", 1e-12, 1.0),
            rope_base=read.number("rope_base", 1.001, 1e12),
            input_scale=read.number("input_scale", 1e-6, 1e6),
            embedding_type=read.one_of("embedding_type", STORAGE_TYPES),
            weight_type=read.one_of("weight_type", STORAGE_TYPES),
            verification=read.object("verification") if "verification" in strings else None,
        )
        metadata.check(where)
        return metadata

    def check(self, where: str) -> None:
        """The invariants that join the fields. Raises UserError."""
        levels, head = self.levels, self.head_size
        if not 1 <= len(levels) <= LEVELS_MAX:
            raise bad(where, f"levels: a model has 1 to {LEVELS_MAX} levels, not {len(levels)}")
        if head % 2:
            raise bad(where, f"head_size {head} is not even")
        for key, values in (("levels", levels), ("ffn", self.ffn)):
            if len(values) != len(levels):
                raise bad(where, f"{key} has {len(values)} entries for {len(levels)} levels")
            if any(low >= high for low, high in zip((0, *values), values, strict=False)):
                raise bad(where, f"{key} {list(values)} is not ascending")
            if any(value % QUANT_GROUP for value in values):
                raise bad(where, f"{key} {list(values)} are not multiples of {QUANT_GROUP}")
        if any(width % levels[0] or width % head for width in levels):
            raise bad(where, f"levels {list(levels)} are not multiples of the first and of head_size {head}")
        for key in ("tau", "beta"):
            if len(getattr(self, key)) != len(levels):
                raise bad(where, f"{key} has {len(getattr(self, key))} entries for {len(levels)} levels")
        if self.vocabulary > VOCABULARY_MAX:
            raise bad(where, f"a vocabulary of {self.vocabulary} tokens is more than {VOCABULARY_MAX}")
        try:
            Policy.from_json(self.policy, len(levels))
        except UserError as error:
            raise bad(where, f"policy: {error.message.removeprefix('policy: ')}") from None
        curve = self.policy.get("curve", [])
        if not isinstance(curve, list) or not all(isinstance(point, dict) for point in curve):
            raise bad(where, "policy: curve must be a list of objects")
        self._check_verification(where)

    def _check_verification(self, where: str) -> None:
        if self.verification is None:
            return
        named = self.verification.get("coefficients")
        if not isinstance(named, dict) or not 1 <= len(named) <= EVIDENCE_MAX or not all(1 <= len(name) <= 80 for name in named):
            raise bad(where, f"verification: coefficients must be an object of 1 to {EVIDENCE_MAX} named numbers")
        for name, value in named.items():
            if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= COEFFICIENT_MAX:
                raise bad(where, f"verification: coefficient {name!r} is {str(value)[:40]}, not a number up to ±{COEFFICIENT_MAX:g}")
        for key, value in self.verification.items():
            if key == "provenance":
                if not isinstance(value, str) or len(value) > 1000:
                    raise bad(where, "verification: provenance must be a text of at most 1,000 characters")
            elif key != "coefficients" and not isinstance(value, int | float):
                raise bad(where, f"verification: {key[:40]!r} must be a number")

    # ---- the tensors promised -------------------------------------------------------------------------------------

    def matrices(self) -> dict[str, tuple[str, int, int]]:
        """Every packed matrix: name → (storage type, rows, columns), in file order."""
        shapes: dict[str, tuple[str, int, int]] = {}
        blocks = [high - low for low, high in zip((0, *self.levels), self.levels, strict=False)]
        units = [high - low for low, high in zip((0, *self.ffn), self.ffn, strict=False)]
        for level, block in enumerate(blocks, 1):
            shapes[f"embedding.{level}"] = (self.embedding_type, self.vocabulary, block)
        for layer in range(1, self.layers + 1):
            for level, (block, unit, width, ffn) in enumerate(zip(blocks, units, self.levels, self.ffn, strict=True), 1):
                of_weight = {"gate": (unit, width), "up": (unit, width), "down": (block, ffn)}
                for name in WEIGHT_NAMES:
                    rows, columns = of_weight.get(name, (block, width))
                    shapes[f"layers.{layer}.block.{level}.{name}"] = (self.weight_type, rows, columns)
        return shapes

    def check_tensors(self, where: str, tensors: Mapping[str, TensorEntry], data_start: int) -> None:
        """Names, dtypes and shapes of all tensors, and the alignment of packed matrices. Raises UserError."""
        tokens, levels = self.vocabulary, len(self.levels)
        required: dict[str, tuple[str, tuple[int, ...]]] = {
            "vocabulary.offsets": ("U32", (tokens + 1,)),
            "semcon.inverse": ("U32", (self.semcons,)),
            "focus": ("F32", (tokens,)),
            "spectrum": ("F32", (self.levels[-1],)),
        }
        optional: dict[str, tuple[str, tuple[int, ...]]] = {
            "vocabulary.cids": ("U8", (self.particles + self.semcons, CID_BYTES)),
            "gain.weights": ("F32", (levels - 1, GAIN_FEATURES)),
            "gain.bias": ("F32", (levels - 1, self.semcons + self.controls)),
        }
        for name, (dtype, shape) in (required | optional).items():
            entry = tensors.get(name)
            if entry is None and name in optional:
                continue
            if entry is None or (entry.dtype, entry.shape) != (dtype, shape):
                raise bad(where, f"tensor {name!r} must be {dtype} {list(shape)}, the file has {_describe(entry)}")
        for name in ("graph.links", "graph.hidden", "graph.valid"):
            entry = tensors.get(name)
            if entry is None or entry.dtype != "U32" or len(entry.shape) != 2 or entry.shape[1] != 3:
                raise bad(where, f"tensor {name!r} must be U32 [n, 3], the file has {_describe(entry)}")
        text = tensors.get("vocabulary.text")
        if text is None or text.dtype != "U8" or len(text.shape) != 1:
            raise bad(where, f"tensor 'vocabulary.text' must be U8 [bytes], the file has {_describe(text)}")
        if ("gain.weights" in tensors) != ("gain.bias" in tensors):
            raise bad(where, "gain.weights and gain.bias come together")
        if self.policy.get("rule") == "gain" and "gain.weights" not in tensors:
            raise bad(where, "policy: the gain rule needs gain.weights and gain.bias")
        for name, (kind, rows, columns) in self.matrices().items():
            entry, size = tensors.get(name), packed_bytes(kind, rows, columns)
            if entry is None or (entry.dtype, entry.shape) != ("U8", (size,)):
                raise bad(where, f"tensor {name!r} must be U8 [{size}] ({rows} x {columns} {kind}), the file has {_describe(entry)}")
            if (data_start + entry.begin) % ALIGNMENT:
                raise bad(where, f"tensor {name!r} does not start at a multiple of {ALIGNMENT} bytes of the file")


def packed_bytes(kind: str, rows: int, columns: int) -> int:
    """Size of a packed matrix: 16-row panels; f16, or q8 in 32-column groups with one f16 scale a row."""
    panels = -(-rows // PANEL_ROWS)
    if kind == "f16":
        return panels * PANEL_ROWS * columns * 2
    return panels * (columns // QUANT_GROUP) * (PANEL_ROWS * 2 + PANEL_ROWS * QUANT_GROUP)


def _describe(entry: TensorEntry | None) -> str:
    return "none" if entry is None else f"{entry.dtype} {list(entry.shape)}"


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class _Reader:
    """Fields of the metadata by kind; every refusal names the field."""

    def __init__(self, where: str, strings: Mapping[str, str]) -> None:
        self.where = where
        self.strings = strings

    def text(self, key: str, limit: int) -> str:
        if key not in self.strings:
            raise bad(self.where, f"metadata {key!r} is missing")
        value = self.strings[key]
        if not 1 <= len(value) <= limit:
            raise bad(self.where, f"metadata {key!r} must have 1 to {limit} characters")
        return value

    def one_of(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.text(key, 80)
        if value not in choices:
            raise bad(self.where, f"metadata {key!r} is {value!r}, not one of {', '.join(choices)}")
        return value

    def _json(self, key: str, limit: int = 1 << 20) -> Any:
        return strict_json(self.where, f"metadata {key!r}", self.text(key, limit))

    def object(self, key: str) -> dict[str, Any]:
        value = self._json(key)
        if not isinstance(value, dict):
            raise bad(self.where, f"metadata {key!r} must be a JSON object")
        return value

    def count(self, key: str, low: int, high: int) -> int:
        value = self._json(key, 40)
        if type(value) is not int or not low <= value <= high:
            raise bad(self.where, f"metadata {key!r} is {str(value)[:40]}, not a count from {low} to {high}")
        return value

    def counts(self, key: str, high: int) -> tuple[int, ...]:
        value = self._json(key, 1000)
        if not isinstance(value, list) or not all(type(item) is int and 1 <= item <= high for item in value):
            raise bad(self.where, f"metadata {key!r} must be a list of counts from 1 to {high}")
        return tuple(value)

    def number(self, key: str, low: float, high: float) -> float:
        return self._in_range(key, self._json(key, 80), low, high)

    def numbers(self, key: str, low: float, high: float) -> tuple[float, ...]:
        value = self._json(key, 2000)
        if not isinstance(value, list):
            raise bad(self.where, f"metadata {key!r} must be a list of numbers")
        return tuple(self._in_range(key, item, low, high) for item in value)

    def _in_range(self, key: str, value: Any, low: float, high: float) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise bad(self.where, f"metadata {key!r} has {str(value)[:40]}, not a number from {low:g} to {high:g}")
        return float(value)
