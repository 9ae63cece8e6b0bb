"""The ledger: what was claimed, on what evidence, by whom, and what became of it. Append-only.

A line is a JSON object whose last key ``crc`` is the CRC-32 (8 hex digits) of the line up to that key. ``sequence`` counts from
0 without gaps. Reading stops at the first line that is torn, changed or out of sequence; opening for append cuts that tail off
(kept beside the file as ``.torn``), so that nothing after a crash is ever read as if it were whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from pathlib import Path
from typing import IO, Any

SYNC_SECONDS = 5.0
_MARK = ',"crc":"'


def encode(record: dict[str, Any]) -> bytes:
    """One line, newline included."""
    body = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)[:-1]
    return f'{body}{_MARK}{zlib.crc32(body.encode("utf-8")):08x}"}}\n'.encode()


def decode(line: bytes) -> dict[str, Any] | None:
    """The record of one line without its newline, or None where it is not whole."""
    mark = _MARK.encode()
    body, found, tail = line.rpartition(mark)
    if not found or len(tail) != 10 or tail[8:] != b'"}' or f"{zlib.crc32(body):08x}".encode() != tail[:8]:
        return None
    try:
        record = json.loads(body + b"}")
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Records up to the first that is not whole or not next, and the number of bytes they take. A missing file is empty."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    records: list[dict[str, Any]] = []
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        record = decode(data[start:end])
        if record is None or record.get("sequence") != len(records):
            break
        records.append(record)
        start = end + 1
    return records, start


def lock(stream: IO[bytes]) -> bool:
    """Takes the file for this process until it is closed; False where another process has it."""
    try:
        import fcntl
    except ImportError:
        return True  # a platform without advisory locks
    try:
        fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without them
    return True


class Ledger:
    """Appends records to a file, or keeps them in memory only where there is no file (``path`` None) or it fails.

    ``warning`` says, once something could not be written, what is lost; nothing raises.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.warning = ""
        self.count = 0
        self.memory: list[dict[str, Any]] = []
        self._stream: IO[bytes] | None = None
        self._synced = time.monotonic()
        self._dirty = False
        if path is not None:
            try:
                self._open(path)
            except OSError as error:
                self._fail(error)

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = open(path, "ab")  # noqa: SIM115 - lives as long as the ledger
        if not lock(stream):
            stream.close()
            raise OSError(f"another cybtui uses {path.name}")
        records, size = read(path)
        self.count = len(records)
        if path.exists() and path.stat().st_size > size:
            with open(path, "rb") as tail:
                tail.seek(size)
                torn = tail.read()
            with open(path.with_name(path.name + ".torn"), "ab") as keep:
                keep.write(torn)
            os.truncate(path, size)
            self.warning = f"{path}: a torn tail of {len(torn)} bytes was set aside"
        self._stream = stream

    def _fail(self, error: OSError) -> None:
        self.warning = f"the ledger {self.path} cannot be written ({error.strerror or error}): decisions are kept in memory only"
        with contextlib.suppress(OSError):
            if self._stream is not None:
                self._stream.close()
        self._stream = None

    def append(self, kind: str, tick: int, neuron: str, evidence: dict[str, Any], *, durable: bool = False) -> dict[str, Any]:
        """Adds a record. ``durable``: on the disk before this returns (the operator's decisions); else within SYNC_SECONDS."""
        record = {"sequence": self.count, "tick": tick, "kind": kind, "neuron": neuron, "evidence": evidence}
        self.count += 1
        if self._stream is None:
            self.memory.append(record)
            return record
        try:
            self._stream.write(encode(record))
            self._dirty = True
        except OSError as error:
            self._fail(error)
            self.memory.append(record)
        if durable:
            self.sync()
        return record

    def sync(self) -> None:
        """Everything appended so far is on the disk."""
        if self._stream is None or not self._dirty:
            return
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            self._fail(error)
        self._dirty = False
        self._synced = time.monotonic()

    def tick(self) -> None:
        """Syncs when the last sync is SYNC_SECONDS old."""
        if self._dirty and time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def close(self) -> None:
        """Syncs and closes. Idempotent."""
        self.sync()
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
        self._stream = None
