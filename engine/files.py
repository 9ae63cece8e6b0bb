"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_atomically(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Replaces ``path`` by the joined ``parts``: a temporary file in the same folder, fsync, rename, fsync of the folder.

    On any error the old file is untouched and the temporary one removed. Raises OSError. An existing file keeps its mode;
    a symbolic link is followed; a device or pipe (``/dev/stdout``) is written to directly.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with open(path, "wb") as stream:
            for part in parts:
                stream.write(part)
        return
    folder = path.parent
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            for part in parts:
                stream.write(part)
            stream.flush()
            os.fchmod(stream.fileno(), _mode(path))
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return  # a folder that may be written but not read: the rename itself is done
    try:
        with contextlib.suppress(OSError):  # not every file system can sync a folder
            os.fsync(handle)
    finally:
        os.close(handle)
