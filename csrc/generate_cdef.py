"""Turns csrc/include/cyb.h into the cffi module through which Python sees the native runtime (out-of-line ABI mode).

Usage: python generate_cdef.py cyb.h _cyb_cdef.py
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cffi import FFI


def declarations(header: str) -> str:
    """The header without preprocessor lines and comments: what cffi's parser reads."""
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", " ", text)
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def main(header: Path, output: Path) -> None:
    ffi = FFI()
    ffi.cdef(declarations(header.read_text(encoding="utf-8")))
    ffi.set_source("engine._cyb_cdef", None)
    ffi.emit_python_code(str(output))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
