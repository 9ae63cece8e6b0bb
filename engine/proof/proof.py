"""The record of a proof: independent random cases checked, values compared, and what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.machine import this_machine
from engine.model.model import Model
from engine.native import reference_forward
from engine.proof.sequences import Swarm

FAILURES_SHOWN = 5
T = TypeVar("T")
R = TypeVar("R")
Sequenced = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]


@dataclass
class Proof:
    """Checks made of one claim. A check is one random agent or query, all that it holds compared bit for bit; ``compared`` counts the
    rows of numbers that took (the KV of a position and block, a distribution, a stream, a page)."""

    claim: str
    checks: int = 0
    compared: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    def check(self, wrong: Sequence[str], compared: int, seed: int, cases: int) -> None:
        """Counts one check of ``compared`` rows; ``wrong`` says where they differ, ``seed`` and ``cases`` how to see it again."""
        self.checks += 1
        self.compared += compared
        if wrong:
            self.failed += 1
            if len(self.failures) < FAILURES_SHOWN:
                more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
                self.failures.append(f"{self.claim}: {wrong[0]}{more} (again: --claim {self.claim} --seed {seed} --cases {cases})")

    @property
    def holds(self) -> bool:
        """Whether every check passed, and there were some."""
        return self.checks > 0 and self.failed == 0

    @property
    def settled(self) -> bool:
        """Whether enough failed that more checks would tell nothing new."""
        return self.failed >= FAILURES_SHOWN


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results of ``work`` on each item, in order; native calls let go of the GIL."""
    with ThreadPoolExecutor(max(1, this_machine().cores)) as pool:
        yield from pool.map(work, items)


def blocks_of(model: Model) -> list[tuple[int, int]]:
    """(begin, end) columns of each block."""
    return list(zip((0, *model.widths[:-1]), model.widths, strict=True))


@dataclass(frozen=True)
class Expected:
    """What the reference holds of one agent: ``kv`` f16 bits (layers, 2, n, D_level), ``positions`` (n,), ``levels`` (n,) computed at."""

    level: int
    kv: NDArray[np.uint16]
    positions: NDArray[np.uint32]
    levels: NDArray[np.int64]


def expected_kv(swarm: Swarm, indices: Sequence[int], zeros: bool = False, level: int = 0) -> list[Expected]:
    """The reference on the sequences of some agents, at ``level``, 0: the deepest that each reached; under ``zeros`` with holes where it
    was shallow."""
    model = swarm.model
    every = np.arange(1, model.levels + 1)

    def one(sequence: Sequenced) -> Expected:
        tokens, positions, levels = sequence
        holes = (levels[:, None] < every[None, :]).astype(np.uint8) if zeros else None
        reached = level or int(levels.max())
        kv, _ = reference_forward(model.native, reached, tokens, positions, holes, zeros_rule=zeros, want_logits=False)
        assert kv is not None
        return Expected(reached, kv, positions, levels)

    sequences = [swarm.sequence(index) for index in indices]  # one thread at a time may ask an engine
    return list(in_parallel(one, sequences))


def compare_kv(swarm: Swarm, index: int, expected: Expected, rows: Sequence[int], deepest: int = 0) -> tuple[list[str], int, int]:
    """What differs between the KV an agent holds of blocks 1..deepest (0: all that are expected) and the reference's; rows compared, and
    how many of them above block 1."""
    wrong, compared, deep = [], 0, 0
    for row in rows:
        position = int(expected.positions[row])
        for block, (begin, end) in enumerate(blocks_of(swarm.model)[: deepest or expected.level], 1):
            held = swarm.engine.agent_kv(swarm.slots[index], position, block)
            if held is None:
                continue
            compared += 1
            deep += block > 1
            if not np.array_equal(held, expected.kv[:, :, row, begin:end]):
                wrong.append(f"agent {index}, position {position}, block {block}: KV differs from the reference")
    return wrong, compared, deep
