"""Errors that are for people: what was wrong, where, and what to do."""

from __future__ import annotations


class UserError(Exception):
    """Bad input or environment. The message is shown as it is; the command ends with status 1."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


OK, INVALID_ARGUMENT, OUT_OF_MEMORY, POOL_FULL, NOT_FOUND, BAD_STATE, UNSUPPORTED, INTERNAL = range(8)
STATUS_NAMES = (
    "ok",
    "invalid argument",
    "out of memory",
    "pool full",
    "not found",
    "bad state",
    "unsupported",
    "internal error",
)


class NativeError(Exception):
    """A call into the native runtime failed and changed nothing. ``status`` is one of the numbers above, as in ``cyb.h``."""

    def __init__(self, status: int, text: str) -> None:
        name = STATUS_NAMES[status] if 0 <= status < len(STATUS_NAMES) else f"status {status}"
        super().__init__(f"{text} ({name})")
        self.status = status
        self.text = text
