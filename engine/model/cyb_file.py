"""``.cyb`` model files (docs/cyb-format.md): written whole or not at all, opened as a mapping, validated before use.

Opening reads the header and the small tensors. The packed matrices stay on disk until they are used; their numbers are checked
at opening in files below ``EAGER_BYTES``, else by ``check_matrices`` (``cybtui verify``), so that demand paging stays lazy.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserError
from engine.files import write_atomically
from engine.model.cyb_contents import check_contents, check_matrix
from engine.model.cyb_header import (
    ALIGNMENT,
    PAD_PREFIX,
    TensorEntry,
    bad,
    canonical,
    format_header,
    header_length,
    parse_header,
    strict_json,
)
from engine.model.cyb_metadata import Metadata

EAGER_BYTES = 64 << 20
_NUMPY: dict[str, np.dtype[Any]] = {"U8": np.dtype("u1"), "U32": np.dtype("<u4"), "F32": np.dtype("<f4")}
_DTYPE = {value: key for key, value in _NUMPY.items()}
_ORDER = (
    "focus",
    "spectrum",
    "vocabulary.offsets",
    "semcon.inverse",
    "graph.links",
    "graph.hidden",
    "graph.valid",
    "gain.weights",
    "gain.bias",
)


def family_digest(metadata: Mapping[str, str], digests: Mapping[str, str]) -> str:
    """Hex SHA-256, equal where KV is compatible: over the weights' digests in name order and the numbers that shape KV."""
    lines = [f"{name}:{digests[name]}" for name in sorted(digests) if name.startswith(("embedding.", "layers."))]
    lines += [f"{key}:{metadata[key]}" for key in ("epsilon", "head_size", "input_scale", "levels", "rope_base")]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_cyb_file(path: Path | str, metadata: Metadata, tensors: Mapping[str, NDArray[Any]]) -> str:
    """Writes a model file and returns its checksum (hex). The same input gives the same bytes.

    ``tensors`` maps the names of docs/cyb-format.md to arrays: uint8, uint32 or float32 of the shapes stated there, packed
    matrices as (bytes,) uint8. The file is validated before it is written. Raises UserError for contents that the reader would
    refuse and when the file cannot be written.
    """
    path, where = Path(path), str(path)
    matrices = metadata.matrices()
    arrays = {name: _as_stored(where, name, array) for name, array in tensors.items()}
    plain = [name for name in _ORDER if name in arrays]
    others = sorted(set(arrays) - set(plain) - set(matrices), key=lambda name: (arrays[name].dtype.itemsize == 1, name))
    entries: dict[str, TensorEntry] = {}
    parts: list[NDArray[Any]] = []
    end = 0

    def place(name: str, array: NDArray[Any]) -> None:
        nonlocal end
        entries[name] = TensorEntry(_DTYPE[array.dtype], array.shape, end, end + array.nbytes)
        parts.append(array)
        end += array.nbytes

    for name in [*plain, *others]:
        place(name, arrays[name])
    pads = 0
    for name in matrices:
        if name not in arrays:
            raise UserError(f"{where}: tensor {name!r} is missing")
        if gap := -end % ALIGNMENT:
            place(f"{PAD_PREFIX}{pads}", np.zeros(gap, np.uint8))
            pads += 1
        place(name, arrays[name])

    digests = {name: hashlib.sha256(_bytes(array)).hexdigest() for name, array in arrays.items()}
    strings = metadata.to_strings()
    strings["tensor_digests"] = canonical(where, digests).decode()
    strings["family"] = family_digest(strings, digests)
    Metadata.from_strings(where, strings).check_tensors(where, entries, 0)
    check_contents(where, metadata, arrays.__getitem__, arrays.__contains__)
    for name, (kind, rows, columns) in matrices.items():
        check_matrix(where, name, kind, rows, columns, arrays[name])
    header, digest = format_header(where, strings, entries)

    def chunks() -> Iterator[bytes | memoryview]:
        yield header
        yield from map(_bytes, parts)

    try:
        write_atomically(path, chunks())
    except OSError as error:
        raise UserError(f"{where}: cannot be written ({error.strerror or error})") from None
    return digest


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _as_stored(where: str, name: str, array: NDArray[Any]) -> NDArray[Any]:
    stored = np.ascontiguousarray(array, np.asarray(array).dtype.newbyteorder("<"))
    if stored.dtype not in _DTYPE:
        raise UserError(f"{where}: tensor {name!r} is {stored.dtype}; a .cyb file holds uint8, uint32 and float32")
    return stored


class CybFile:
    """A validated, mapped model file. Arrays are read-only views of the mapping and keep it alive.

    The file may be replaced (as ``write_cyb_file`` does) while it is open; it must not be shortened in place.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        where = self.where = str(path)
        if "\0" in where:
            raise UserError(f"{where!r}: a file name has no null byte")
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise UserError(f"{where}: not a regular file: name a .cyb model file")
            with open(path, "rb") as stream:
                self.size = os.fstat(stream.fileno()).st_size
                length = header_length(where, stream.read(8), self.size)
                header = parse_header(where, stream.read(length), self.size)
                self._map = mmap.mmap(stream.fileno(), self.size, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UserError(f"{where}: cannot be opened ({error.strerror or error})") from None
        self.strings = header.metadata
        self.checksum = header.metadata["checksum"]
        self.tensors = header.tensors
        self._data_start = header.data_start
        self.metadata = Metadata.from_strings(where, header.metadata)
        self.metadata.check_tensors(where, self.tensors, self._data_start)
        self.digests = self._read_digests()
        check_contents(where, self.metadata, self.array, self.tensors.__contains__)
        if self.size < EAGER_BYTES:
            self.check_matrices()

    def _read_digests(self) -> dict[str, str]:
        digests = strict_json(self.where, "metadata 'tensor_digests'", self.strings.get("tensor_digests", ""))
        names = {name for name in self.tensors if not name.startswith(PAD_PREFIX)}
        if not isinstance(digests, dict) or set(digests) != names or not all(isinstance(value, str) for value in digests.values()):
            raise bad(self.where, "metadata 'tensor_digests' must have one digest for each tensor")
        if self.strings.get("family") != family_digest(self.strings, digests):
            raise bad(self.where, "metadata 'family' does not follow from the tensor digests")
        return digests

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def array(self, name: str) -> NDArray[Any]:
        """A tensor as a read-only view of the mapping. Raises KeyError for a name that is not there."""
        entry = self.tensors[name]
        count = (entry.end - entry.begin) // _NUMPY[entry.dtype].itemsize
        if count == 0:
            return np.zeros(entry.shape, _NUMPY[entry.dtype])
        flat: NDArray[Any] = np.frombuffer(self._map, _NUMPY[entry.dtype], count, self._data_start + entry.begin)
        return flat.reshape(entry.shape)

    def check_matrices(self) -> None:
        """The packed matrices hold finite numbers; reads the whole file. Raises UserError."""
        for name, (kind, rows, columns) in self.metadata.matrices().items():
            check_matrix(self.where, name, kind, rows, columns, self.array(name))

    def wrong_digests(self) -> list[str]:
        """Names of tensors whose bytes do not have the header's digest, and of pads that are not zero; reads the whole file."""
        wrong = []
        for name in sorted(self.tensors):
            array = self.array(name)
            if name.startswith(PAD_PREFIX):
                if array.any():
                    wrong.append(name)
            elif hashlib.sha256(_bytes(array)).hexdigest() != self.digests[name]:
                wrong.append(name)
        return wrong
