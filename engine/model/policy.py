"""When a token goes deeper, and what happens to the holes then (design §6): the policy of a group, as people write it.

Text forms: inheritance ``backfill``, ``window:N`` or ``zeros``; rule ``top``, ``margin`` or ``gain``; thresholds ``0.9,0.85``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import UserError

INHERITANCES = ("backfill", "window", "zeros")
RULES = ("top", "margin", "gain")
SEED_THRESHOLDS = (0.9, 0.85)
WINDOW_MAX = 1 << 30


def level_names(levels: int) -> tuple[str, ...]:
    """Names of levels 1..K: router, domain, general where there are three, else level-1, level-2, …"""
    if levels == 3:
        return ("router", "domain", "general")
    return tuple(f"level-{level}" for level in range(1, levels + 1))


def parse_inherit(text: str) -> tuple[str, int]:
    """``backfill`` → ("backfill", 0), ``window:64`` → ("window", 64), ``zeros`` → ("zeros", 0). Raises UserError."""
    name, colon, number = text.strip().lower().partition(":")
    if name == "window" and colon:
        if number.isascii() and number.isdecimal() and 1 <= int(number[:12]) <= WINDOW_MAX:
            return "window", int(number)
        raise UserError(f"inheritance {text!r}: the window is a count of holes from 1 to {WINDOW_MAX}, as in window:64")
    if name in ("backfill", "zeros") and not colon:
        return name, 0
    raise UserError(f"inheritance {text!r} is not known: use backfill, window:N or zeros")


def format_inherit(inherit: str, window: int = 0) -> str:
    """The inverse of ``parse_inherit``."""
    return f"window:{window}" if inherit == "window" else inherit


def parse_thresholds(text: str, levels: int | None = None) -> tuple[float, ...]:
    """``0.9,0.85`` → (0.9, 0.85). With ``levels``, exactly levels-1 numbers are wanted. Raises UserError."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"thresholds {text!r}: write numbers with commas between, as in 0.9,0.85") from None
    return check_thresholds(values, levels)


def format_thresholds(thresholds: Sequence[float]) -> str:
    """(0.9, 0.85) → ``0.9,0.85``."""
    return ",".join(f"{value:g}" for value in thresholds)


def check_thresholds(values: Sequence[float], levels: int | None = None) -> tuple[float, ...]:
    """The thresholds as a tuple, or UserError: they must be finite, one for each level but the deepest."""
    if not all(math.isfinite(value) for value in values):
        raise UserError(f"thresholds {format_thresholds(values)}: every threshold must be a finite number")
    if levels is not None and len(values) != levels - 1:
        raise UserError(f"thresholds {format_thresholds(values)}: this model has {levels} levels and needs {levels - 1} thresholds")
    return tuple(float(value) for value in values)


@dataclass(frozen=True, slots=True)
class Policy:
    """Inheritance, confidence rule, depth bounds and sampling temperature of a group.

    ``thresholds`` holds one number for each level but the deepest: probabilities under ``top`` and ``margin``; under ``gain``
    the least expected improvement worth going deeper for. ``depth_min == depth_max`` pins the level; 0 in ``depth_max`` means
    the deepest. ``temperature`` 0 takes the most probable token.
    """

    inherit: str = "backfill"
    window: int = 0
    rule: str = "top"
    thresholds: tuple[float, ...] = SEED_THRESHOLDS
    depth_min: int = 1
    depth_max: int = 0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.inherit not in INHERITANCES:
            raise UserError(f"inheritance {self.inherit!r} is not known: use backfill, window:N or zeros")
        if self.inherit == "window" and not 1 <= self.window <= WINDOW_MAX:
            raise UserError(f"inheritance window:{self.window}: the window is a count of holes from 1 to {WINDOW_MAX}")
        if self.rule not in RULES:
            raise UserError(f"rule {self.rule!r} is not known: use top, margin or gain")
        check_thresholds(self.thresholds)
        if self.depth_min < 1 or self.depth_max < 0 or (self.depth_max and self.depth_max < self.depth_min):
            raise UserError(f"depth {self.depth_min} to {self.depth_max}: levels count from 1 and the bounds must be in order")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UserError(f"temperature {self.temperature}: it must be 0 or a positive number")

    @property
    def inherit_text(self) -> str:
        """``backfill``, ``window:N`` or ``zeros``."""
        return format_inherit(self.inherit, self.window)

    @property
    def thresholds_text(self) -> str:
        """``0.9,0.85``."""
        return format_thresholds(self.thresholds)

    def with_inherit(self, text: str) -> Policy:
        """The same policy with the inheritance written as ``text``."""
        inherit, window = parse_inherit(text)
        return replace(self, inherit=inherit, window=window)

    def pinned(self, level: int) -> Policy:
        """The same policy, always answering at ``level`` (from 1)."""
        return replace(self, depth_min=level, depth_max=level)

    def for_levels(self, levels: int) -> Policy:
        """The same policy with ``depth_max`` resolved and everything checked against a model of ``levels`` levels."""
        check_thresholds(self.thresholds, levels)
        deepest = self.depth_max or levels
        if deepest > levels:
            raise UserError(f"depth {deepest}: this model has {levels} levels")
        return replace(self, depth_max=deepest)

    def to_json(self) -> dict[str, Any]:
        """``inherit``, ``rule``, ``thresholds`` as the file's stored policy has them."""
        return {"inherit": self.inherit_text, "rule": self.rule, "thresholds": list(self.thresholds)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], levels: int) -> Policy:
        """The stored policy of a file; UserError names what is wrong with it."""
        inherit, rule, thresholds = stored.get("inherit"), stored.get("rule"), stored.get("thresholds")
        if not isinstance(inherit, str) or not isinstance(rule, str) or not isinstance(thresholds, list):
            raise UserError("policy: inherit and rule must be texts and thresholds a list")
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in thresholds):
            raise UserError("policy: thresholds must be numbers")
        if any(abs(value) > 1e30 for value in thresholds):
            raise UserError("policy: a threshold is out of range")
        name, window = parse_inherit(inherit[:80])
        return cls(name, window, rule[:80], check_thresholds([float(value) for value in thresholds], levels))


def default_policy(levels: int) -> Policy:
    """Back-fill under the seed's thresholds (0.9, then 0.85 for every further level)."""
    thresholds = tuple(SEED_THRESHOLDS[min(level, 1)] for level in range(levels - 1))
    return Policy(thresholds=thresholds)
