"""The native runtime as an executor of levels: exact, and on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.model.model import Model
from engine.model.policy import default_policy
from engine.native import PAGE_POSITIONS, Engine, EngineConfig, isa_best, isa_name

QUERIES = 64  # answered together: logits of a large vocabulary take room


class NativeExecutor:
    """Answers queries pinned at a level. Owns a native engine, made for the longest query so far."""

    name = "native"
    exact = True

    def __init__(self, model: Model, threads: int = 0) -> None:
        self.model = model
        self._threads = threads
        self._positions = 0
        self._engine: Engine | None = None

    @property
    def device(self) -> str:
        """The instruction set its kernels use."""
        return isa_name(isa_best())

    def _ready(self, length: int) -> Engine:
        chunks = length // PAGE_POSITIONS + 3
        if self._engine is None or chunks * PAGE_POSITIONS > self._positions:
            self.close()
            self._positions = chunks * PAGE_POSITIONS
            pages = QUERIES * chunks * self.model.widths[-1] // self.model.widths[0]
            config = EngineConfig(pages=pages, agents=1, groups=1, positions=self._positions, threads=self._threads)
            self._engine = Engine(self.model.native, config)
        return self._engine

    def logits(self, tokens: NDArray[np.integer], level: int) -> NDArray[np.float32]:
        """See ``LevelExecutor``. Raises NativeError for tokens outside the vocabulary."""
        engine = self._ready(tokens.shape[1])
        policy = default_policy(self.model.levels).pinned(level)
        parts = [np.zeros((0, len(self.model.vocabulary)), np.float32)]
        for begin in range(0, len(tokens), QUERIES):
            found = engine.score(tokens[begin : begin + QUERIES].tolist(), policy, want=("logits",)).logits
            assert found is not None
            parts.append(found)
        return np.concatenate(parts)

    def close(self) -> None:
        """Frees the engine; the next call makes another."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None
