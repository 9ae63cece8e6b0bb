"""Content ids: CIDv1 with the raw codec and sha2-256, as bytes (36) and as base32 text (multibase ``b``)."""

from __future__ import annotations

import base64
import hashlib

from engine.errors import UserError

PREFIX = bytes((0x01, 0x55, 0x12, 0x20))  # version 1, raw, sha2-256, 32 bytes
CID_BYTES = 36


def cid_of(content: bytes) -> bytes:
    """The CID of some bytes, 36 bytes."""
    return PREFIX + hashlib.sha256(content).digest()


def label_cid(label: str) -> bytes:
    """The CID of a label: of its UTF-8 bytes."""
    return cid_of(label.encode())


def cid_text(cid: bytes) -> str:
    """Base32, lower case, without padding: ``bafkrei…``."""
    return "b" + base64.b32encode(cid).decode().lower().rstrip("=")


def parse_cid(text: str) -> bytes:
    """The bytes of a CID in base32. Raises UserError for anything but CIDv1, raw, sha2-256."""
    try:
        body = text[1:].upper()
        cid = base64.b32decode(body + "=" * (-len(body) % 8))
    except ValueError as error:
        raise UserError(f"{text!r} is not a CID in base32") from error
    if len(cid) != CID_BYTES or not cid.startswith(PREFIX) or cid_text(cid) != text:
        raise UserError(f"{text!r} is not a CIDv1 of raw content by sha2-256")
    return cid
