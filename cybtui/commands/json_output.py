"""The ``--json FILE`` option: one object, UTF-8, whole or not at all; ``-`` is standard output."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import UserError
from engine.files import write_atomically


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Adds ``--json FILE`` to a command."""
    parser.add_argument("--json", metavar="FILE", help="write the result as one JSON object to FILE (- for standard output)")


def write_json(destination: str, value: Mapping[str, Any]) -> None:
    """Writes ``value`` to the file atomically, or to standard output for ``-``. Raises UserError when it cannot be written."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, indent=2) + "\n"
    if destination == "-":
        sys.stdout.buffer.write(text.encode("utf-8"))
        sys.stdout.flush()
        return
    try:
        write_atomically(Path(destination), [text.encode("utf-8")])
    except OSError as error:
        raise UserError(f"--json {destination}: cannot be written ({error.strerror or error})") from None


def plain(value: Any) -> Any:
    """Numpy numbers and arrays, tuples and paths as JSON has them; a number that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)
