"""Who computes a level (design §6, Placement): one interface, the native runtime everywhere, others where they are faster.

An executor answers whole queries at one level. Only an exact one may share KV and depth decisions with the native runtime: its bits are
the scalar reference's. One that is not exact computes levels of its own from the tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserError
from engine.model.model import Model


class LevelExecutor(Protocol):
    """Computes levels of one model."""

    @property
    def name(self) -> str:
        """``native`` or ``mlx``."""

    @property
    def exact(self) -> bool:
        """Whether its bits are those of the scalar reference."""

    @property
    def device(self) -> str:
        """What it runs on, for people."""

    def logits(self, tokens: NDArray[np.integer], level: int) -> NDArray[np.float32]:
        """(queries, vocabulary) logits behind the last token. ``tokens`` (queries, n) at positions 0..n-1; ``level`` from 1."""

    def close(self) -> None:
        """Gives back what it holds."""


EXECUTORS = ("native", "mlx")


def open_executor(name: str, model: Model) -> LevelExecutor:
    """An executor by name. Raises UserError for an unknown one, and where it cannot run here."""
    if name == "native":
        from engine.backends.native import NativeExecutor

        return NativeExecutor(model)
    if name == "mlx":
        from engine.backends.mlx import MlxExecutor

        return MlxExecutor(model)
    raise UserError(f"executor {name!r} is not known: use {' or '.join(EXECUTORS)}")


@dataclass(frozen=True)
class Placement:
    """Which executor computes which level: ``by_level`` one for each, the first level first. A context manager."""

    by_level: tuple[LevelExecutor, ...]

    @classmethod
    def of(cls, model: Model, choice: Mapping[int, str] | None = None) -> Placement:
        """The native runtime for every level but those that ``choice`` (level from 1 → name) places elsewhere. Raises UserError."""
        names = ["native"] * model.levels
        for level, name in (choice or {}).items():
            if not 1 <= level <= model.levels:
                raise UserError(f"level {level} cannot be placed: {model.name} has levels 1 to {model.levels}")
            names[level - 1] = name
        opened: dict[str, LevelExecutor] = {}
        try:
            for name in names:
                if name not in opened:
                    opened[name] = open_executor(name, model)
        except BaseException:
            for executor in opened.values():
                executor.close()
            raise
        return cls(tuple(opened[name] for name in names))

    def __enter__(self) -> Placement:
        return self

    def __exit__(self, *_: object) -> None:
        for executor in {id(each): each for each in self.by_level}.values():
            executor.close()

    def executor(self, level: int) -> LevelExecutor:
        """Who computes ``level`` (from 1)."""
        return self.by_level[level - 1]

    def logits(self, tokens: NDArray[np.integer], level: int) -> NDArray[np.float32]:
        """As ``LevelExecutor.logits``, by whoever computes the level."""
        return self.executor(level).logits(tokens, level)
