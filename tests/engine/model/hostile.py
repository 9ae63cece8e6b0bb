"""Damages model files on purpose: edits a header and seals it again with a right checksum, so that only the damage is wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from engine.model.cyb_file import family_digest

Document = dict[str, Any]


def split(raw: bytes) -> tuple[Document, bytes]:
    """Header object and data of a file's bytes."""
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def join(document: Document, data: bytes, reseal: bool = True) -> bytes:
    """A file's bytes; with ``reseal`` family and checksum are made to fit the document."""
    if reseal:
        metadata = document["__metadata__"]
        if "tensor_digests" in metadata:
            try:
                metadata["family"] = family_digest(metadata, json.loads(metadata["tensor_digests"]))
            except (ValueError, KeyError, AttributeError):
                pass
        metadata.pop("checksum", None)
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        metadata["checksum"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    header = text.encode()
    header += b" " * (-(8 + len(header)) % 4096)
    return len(header).to_bytes(8, "little") + header + data


def edit(raw: bytes, change: Callable[[Document], None]) -> bytes:
    """The file with its header changed and sealed again."""
    document, data = split(raw)
    change(document)
    return join(document, data)


def overwrite(raw: bytes, tensor: str, offset: int, value: bytes) -> bytes:
    """The file with bytes of one tensor replaced (its digest is not looked at when a file is opened)."""
    length = int.from_bytes(raw[:8], "little")
    document, _ = split(raw)
    start = 8 + length + document[tensor]["data_offsets"][0] + offset
    return raw[:start] + value + raw[start + len(value) :]
