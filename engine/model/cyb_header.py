"""The header of a ``.cyb`` file: strict JSON, tensors that lie back to back, a checksum (docs/cyb-format.md).

Everything here judges bytes from a stranger: no arithmetic can overflow (Python integers), every length is bounded before it is
used, and every refusal is a UserError that names the file and the field.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import UserError

HEADER_BYTES_MAX = 16 << 20
TENSORS_MAX = 100_000
DIMENSIONS_MAX = 4
NAME_MAX = 200
ALIGNMENT = 4096
DTYPE_BYTES = {"U8": 1, "U32": 4, "F32": 4}
PAD_PREFIX = "__pad."


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies: ``begin`` and ``end`` are bytes from the start of the data section."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """A well-formed header. ``data_start`` is the file offset of the data section."""

    metadata: dict[str, str]
    tensors: dict[str, TensorEntry]
    data_start: int


def bad(where: str, what: str) -> UserError:
    """The UserError for a damaged or foreign file."""
    return UserError(f"{where}: {what}; the file is damaged or not a cyb/1 model: fetch or compile it again")


def header_length(where: str, first: bytes, file_size: int) -> int:
    """The header's length from the first 8 bytes of a file of ``file_size`` bytes. Raises UserError."""
    if len(first) < 8 or file_size < 8:
        raise bad(where, f"the file has {file_size} bytes, too few for a header")
    length = int.from_bytes(first[:8], "little")
    if not 2 <= length <= HEADER_BYTES_MAX:
        raise bad(where, f"header length {length} is not between 2 and {HEADER_BYTES_MAX}")
    if length > file_size - 8:
        raise bad(where, f"header length {length} exceeds the file, which has {file_size} bytes")
    return length


def strict_json(where: str, field: str, text: str | bytes) -> Any:
    """JSON without duplicate keys, NaN or Infinity. Raises UserError."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise bad(where, f"{field} is not well-formed JSON ({_short(error)})") from None


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate name {twice[:80]!r}")
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not allowed")


def _short(error: BaseException) -> str:
    text = str(error).replace("\n", " ") or type(error).__name__
    return text if len(text) <= 160 else text[:160] + "…"


def parse_header(where: str, raw: bytes, file_size: int) -> Header:
    """Reads the header's bytes (without the length) and checks structure, offsets and checksum. Raises UserError."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad(where, f"the header is not UTF-8 ({error.reason} at byte {error.start})") from None
    if not text.startswith("{"):
        raise bad(where, "the header does not start with {")
    document = strict_json(where, "header", text)
    if len(document) > TENSORS_MAX:
        raise bad(where, f"{len(document)} tensors are more than {TENSORS_MAX}")
    metadata = document.get("__metadata__")
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise bad(where, "__metadata__ must be an object of texts")
    data_start = 8 + len(raw)
    tensors = {name: _entry(where, name, value) for name, value in document.items() if name != "__metadata__"}
    _check_layout(where, tensors, file_size - data_start)
    if metadata.get("format") != "cyb/1":
        raise UserError(f"{where}: format {metadata.get('format', 'none')!r:.80} is not cyb/1, the one this version reads")
    stated = metadata.get("checksum", "")
    if stated != (actual := checksum(where, document)):
        raise bad(where, f"checksum {stated[:16]!r}… does not match the header ({actual[:16]}…)")
    return Header(metadata, tensors, data_start)


def _entry(where: str, name: str, value: Any) -> TensorEntry:
    label = f"tensor {name[:80]!r}"
    if not name or len(name) > NAME_MAX:
        raise bad(where, f"{label}: a name has 1 to {NAME_MAX} characters")
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise bad(where, f"{label}: dtype, shape and data_offsets are wanted, nothing else")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise bad(where, f"{label}: dtype {str(dtype)[:40]!r} is not one of {', '.join(DTYPE_BYTES)}")
    if not _counts(shape) or len(shape) > DIMENSIONS_MAX:
        raise bad(where, f"{label}: the shape must be at most {DIMENSIONS_MAX} counts")
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise bad(where, f"{label}: data_offsets must be two ascending counts")
    size = DTYPE_BYTES[dtype]
    for dimension in shape:
        size *= dimension
    if offsets[1] - offsets[0] != size:
        raise bad(where, f"{label}: shape {shape} needs {size} bytes, data_offsets span {offsets[1] - offsets[0]}")
    return TensorEntry(dtype, tuple(shape), offsets[0], offsets[1])


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 53 for item in value)


def _check_layout(where: str, tensors: Mapping[str, TensorEntry], data_bytes: int) -> None:
    end = 0
    for name, entry in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != end:
            what = "overlaps the one before it" if entry.begin < end else "leaves a gap before it"
            raise bad(where, f"tensor {name[:80]!r} at {entry.begin} {what} (expected {end})")
        if entry.begin % DTYPE_BYTES[entry.dtype]:
            raise bad(where, f"tensor {name[:80]!r} at {entry.begin} is not aligned to its numbers")
        end = entry.end
    if end != data_bytes:
        raise bad(where, f"the tensors take {end} bytes, the file holds {data_bytes}")


def checksum(where: str, document: Mapping[str, Any]) -> str:
    """Hex SHA-256 of the canonical header without its own checksum."""
    metadata = {key: value for key, value in document["__metadata__"].items() if key != "checksum"}
    return hashlib.sha256(canonical(where, {**document, "__metadata__": metadata})).hexdigest()


def canonical(where: str, document: Mapping[str, Any]) -> bytes:
    """Sorted keys, no spaces, UTF-8 without escapes."""
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise bad(where, "the header holds text that is not Unicode") from None


def format_header(where: str, metadata: Mapping[str, str], tensors: Mapping[str, TensorEntry]) -> tuple[bytes, str]:
    """The length, the header with its checksum and spaces up to the alignment; and the checksum."""
    document: dict[str, Any] = {
        name: {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [entry.begin, entry.end]}
        for name, entry in tensors.items()
    }
    document["__metadata__"] = dict(metadata)
    digest = checksum(where, document)
    document["__metadata__"]["checksum"] = digest
    text = canonical(where, document)
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > HEADER_BYTES_MAX:
        raise UserError(f"{where}: the header would take {len(text)} bytes, more than {HEADER_BYTES_MAX}: shorten the provenance")
    return len(text).to_bytes(8, "little") + text, digest
