"""The shared library and cffi: where it is found, how its failures become exceptions, how its structs become numpy dtypes.

Only ``engine/native*.py`` know cffi; everyone else imports ``engine.native``.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import engine
from engine.errors import OK, NativeError, UserError

LIBRARY_NAME = "libcyb.dylib" if sys.platform == "darwin" else "libcyb.so"


def library_path() -> Path:
    """Where the shared library is: ``CYBTUI_LIBRARY`` if set, else beside the engine package. Raises UserError."""
    named = os.environ.get("CYBTUI_LIBRARY")
    if named:
        if not Path(named).is_file():
            raise UserError(f"CYBTUI_LIBRARY names {named}, which is not a file: unset it or name a built {LIBRARY_NAME}")
        return Path(named)
    for folder in engine.__path__:
        candidate = Path(folder) / LIBRARY_NAME
        if candidate.is_file():
            return candidate
    raise UserError(f"the native library {LIBRARY_NAME} is not installed beside the engine package: run `pip install .` again")


def _open() -> tuple[Any, Any]:
    try:
        ffi = importlib.import_module("engine._cyb_cdef").ffi
    except ImportError:
        raise UserError("engine._cyb_cdef is missing: cybtui was not installed completely, run `pip install .` again") from None
    path = library_path()
    try:
        return ffi, ffi.dlopen(str(path))
    except (OSError, AttributeError) as error:
        raise UserError(f"the native library {path} cannot be loaded ({error}): install cybtui again on this machine") from None


ffi, lib = _open()


def last_error() -> str:
    """The native runtime's sentence about its last failure on this thread."""
    return str(ffi.string(lib.cyb_last_error()).decode("utf-8", "replace"))


def check(status: int) -> None:
    """Raises NativeError unless ``status`` is OK."""
    if status != OK:
        raise NativeError(int(status), last_error())


def pointer(ctype: str, array: NDArray[Any] | None) -> Any:
    """The array's memory as ``ctype`` (e.g. ``uint32_t[]``), or NULL. The array must be C-contiguous and outlive the use."""
    if array is None:
        return ffi.NULL
    return ffi.from_buffer(ctype, array)


def u32(values: Any) -> NDArray[np.uint32]:
    """A C-contiguous uint32 array of ``values``; the same array when it is one already."""
    return np.ascontiguousarray(values, dtype=np.uint32)


_SCALARS = {
    "uint8_t": np.uint8,
    "uint16_t": np.uint16,
    "uint32_t": np.uint32,
    "uint64_t": np.uint64,
    "int32_t": np.int32,
    "float": np.float32,
    "double": np.float64,
}


def struct_dtype(name: str) -> np.dtype[Any]:
    """The numpy structured dtype with the very layout of a C struct of numbers and arrays of numbers."""
    ctype = ffi.typeof(name)
    names: list[str] = []
    formats: list[tuple[Any, tuple[int, ...]]] = []
    offsets: list[int] = []
    for field_name, field in ctype.fields:
        kind = field.type
        if kind.kind == "array":
            formats.append((_SCALARS[kind.item.cname], (kind.length,)))
        else:
            formats.append((_SCALARS[kind.cname], ()))
        names.append(field_name)
        offsets.append(field.offset)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": ffi.sizeof(ctype)})


def struct_values(struct: Any, levels: int) -> dict[str, Any]:
    """Fields of a C struct of numbers as Python numbers; arrays by level become tuples of ``levels`` entries."""
    values: dict[str, Any] = {}
    for name, field in ffi.typeof(struct).item.fields:
        value = getattr(struct, name)
        values[name] = tuple(value[index] for index in range(min(levels, field.type.length))) if field.type.kind == "array" else value
    return values


# ---- instruction sets and the build ---------------------------------------------------------------------------------

ISA_AUTO, ISA_REFERENCE, ISA_AVX2, ISA_NEON = range(4)


def version() -> str:
    """Version of the native runtime."""
    return str(ffi.string(lib.cyb_version()).decode())


def isa_best() -> int:
    """The best instruction set this machine and build offer."""
    return int(lib.cyb_isa_best())


def isa_supported(isa: int) -> bool:
    """Whether kernels for ``isa`` run here."""
    return bool(lib.cyb_isa_supported(isa))


def isa_name(isa: int) -> str:
    """``reference``, ``avx2`` or ``neon``."""
    return str(ffi.string(lib.cyb_isa_name(isa)).decode())


def isa_number(name: str) -> int:
    """The inverse of ``isa_name``; ``auto`` is 0. Raises UserError for a name that is not known."""
    names = {"auto": ISA_AUTO, "reference": ISA_REFERENCE, "avx2": ISA_AVX2, "neon": ISA_NEON}
    if name not in names:
        raise UserError(f"instruction set {name!r} is not known: use {', '.join(names)}")
    return names[name]


MUTATIONS = ("none", "summation_order", "merge_order", "zeros_shares_filled", "stale_tape", "straddling_group")


def mutate(name: str) -> None:
    """Plants a fault in a test build (``none`` takes it out). UserError for an unknown name; NativeError in ordinary builds."""
    known = name.lower().replace("-", "_")
    if known not in MUTATIONS:
        raise UserError(f"mutation {name!r} is not known: use one of {', '.join(MUTATIONS)}")
    check(lib.cyb_mutate(MUTATIONS.index(known)))
