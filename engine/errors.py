"""Errors that are for people: what was wrong, where, and what to do."""

from __future__ import annotations


class UserError(Exception):
    """Bad input or environment. The message is shown as it is; the command ends with status 1."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
