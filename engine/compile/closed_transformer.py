"""The nested transformer of the closed form: attention that reads the particle before a semcon, through the map of the semcon's group.

A layer is a group of semcons whose maps are alike. Its attention is open for the semcons of its group and shut for all others, and its
output map is P of the group's links. The construction, coordinate by coordinate:

- The last coordinates of block 1 are *codes*: one says "control", one a layer says "semcon of this group", the rest spell out how a
  semcon differs from its group. Control and semcon tokens hold codes only; values leave codes out, so such tokens are read as zero.
- A head's slowest rotary pair hardly turns. Its query is minus the semcon's own group code plus all others, its key the control and
  semcon codes: an open layer turns away from such tokens and towards particles, a shut one rests on them.
- The other pairs prefer the position before: the query is turned back by one position, the key is the leading eigenvector's
  coordinate, which has one sign for all particles of a component (Perron–Frobenius).
- The FFN of the last layer rescales each coordinate by what the semcon's own map does to it against its group's: gates ±a, so that
  silu(a) − silu(−a) = a multiplies exactly.

What it leaves out is in its figures: they are reported beside the direct score, never instead of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

SHUT = 10.0  # score by which a shut layer prefers control tokens
NEAR = 3.0  # score by which the position before is preferred, for a leading coordinate of 1
SEMCON_NORM = 1.0  # of a semcon's input, against √width of a particle's: what is read outweighs it
PROBES, ROUNDS = 64, 20


@dataclass(frozen=True)
class Codes:
    """Coordinates of block 1 that hold codes: ``control``, ``first_group`` + layer, ``first_detail`` + rank, up to ``end``."""

    control: int
    first_group: int
    first_detail: int
    end: int

    @classmethod
    def of(cls, width: int, layers: int) -> Codes:
        """A quarter of the first width at most, for 1 control code, the groups, and the details of rank up to 8."""
        details = int(np.clip(width // 4 - 1 - layers, 0, 8))
        control = width - 1 - layers - details
        return cls(control, control + 1, control + 1 + layers, width)


def sketches(vectors: Matrix, links: NDArray[np.int64], inverse: NDArray[np.int64], levels: tuple[int, ...], seed: int) -> Matrix:
    """(semcons, D, probes): the map of each semcon times random vectors, which tells maps apart without forming them. Rows of block k
    see columns below D_k, and each block has probes of its own, so that deeper levels change nothing."""
    result = np.zeros((len(inverse), levels[-1], PROBES), np.float32)
    probes: list[Matrix] = []
    for block, (begin, end) in enumerate(zip((0, *levels[:-1]), levels, strict=True)):
        probes.append(np.random.default_rng([seed, 0x50524F42, block]).standard_normal((end - begin, PROBES)).astype(np.float32))
        seen = np.ascontiguousarray(vectors[:, :end]) @ np.concatenate(probes)
        own = np.ascontiguousarray(vectors[:, begin:end])
        for semcon in np.unique(links[:, 1]).tolist():
            mine = links[links[:, 1] == semcon]
            result[semcon, begin:end] += own[mine[:, 2]].T @ seen[mine[:, 0]]
            result[inverse[semcon], begin:end] += own[mine[:, 0]].T @ seen[mine[:, 2]]
    return result


def group_semcons(sketch: Matrix, readings: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """(semcons,) the group of each, by spherical k-means weighted by readings; started from the most read semcon, then the least alike.
    Groups are numbered by their readings, ascending, so that the most read group has the last layer."""
    flat = sketch.reshape(len(sketch), -1).astype(np.float64)
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-30)
    centres = [flat[int(np.argmax(readings))]]
    while len(centres) < groups:
        alike = np.max(flat @ np.array(centres).T, axis=1)
        centres.append(flat[int(np.argmax((1 - alike) * np.sqrt(readings)))])
    table = np.array(centres)
    group = np.zeros(len(flat), np.int64)
    for _ in range(ROUNDS):
        following = np.argmax(flat @ table.T, axis=1)
        for number in range(groups):
            mine = following == number
            if readings[mine].sum():
                table[number] = readings[mine] @ flat[mine]
        table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)
        if np.array_equal(following, group):
            break
        group = following
    order = np.argsort(np.bincount(group, readings, groups), kind="stable")
    return np.argsort(order)[group]


def details(sketch: Matrix, group: NDArray[np.int64], codes: Codes, levels: tuple[int, ...]) -> tuple[Matrix, Matrix]:
    """How semcons differ from their groups: codes (semcons, rank) of norm ≤ 1, read off block 1, and (rank, D) with codes @ factors ≈ the
    relative change of each coordinate of what the group's map gives."""
    semcons, width, _ = sketch.shape
    first = levels[0]
    rank = min(codes.end - codes.first_detail, semcons, first)
    change = np.zeros((semcons, width))
    for number in np.unique(group).tolist():
        mine = np.flatnonzero(group == number)
        whole = sketch[mine].sum(axis=0, dtype=np.float64)
        power = np.maximum((whole**2).sum(axis=1), 1e-30)
        for semcon in mine.tolist():
            share = (sketch[semcon] * whole).sum(axis=1) / power
            mean = share[:first].mean()
            if mean > 1e-9:
                change[semcon] = np.clip(share / mean - 1, -1, 3)
    left, values, _ = np.linalg.svd(change[:, :first], full_matrices=False)
    spelled = left[:, :rank] * values[:rank]
    spelled /= max(float(np.linalg.norm(spelled, axis=1).max(initial=0.0)), 1e-12)
    solve = np.linalg.pinv(spelled)
    parts = [solve @ np.ascontiguousarray(change[:, begin:end]) for begin, end in zip((0, *levels[:-1]), levels, strict=True)]
    factors = np.concatenate(parts, axis=1)
    factors[:, codes.control : codes.end] = 0
    return spelled.astype(np.float32), factors.astype(np.float32)


def code_rows(codes: Codes, group: NDArray[np.int64], spelled: Matrix, controls: int, width: int) -> tuple[Matrix, Matrix]:
    """Inputs x_0 of the semcons (semcons, D) and of the control tokens (controls, D)."""
    semcons = np.zeros((len(group), width), np.float32)
    semcons[np.arange(len(group)), codes.first_group + group] = 1
    semcons[:, codes.first_detail : codes.first_detail + spelled.shape[1]] = spelled
    semcons *= SEMCON_NORM / np.linalg.norm(semcons, axis=1, keepdims=True)
    control = np.zeros((controls, width), np.float32)
    control[:, codes.control] = SEMCON_NORM
    return semcons, control


def layer(
    number: int,
    layers: int,
    mapping: Matrix,
    factors: Matrix | None,
    levels: tuple[int, ...],
    head: int,
    codes: Codes,
    rope_base: float,
) -> list[dict[str, Matrix]]:
    """Weights of one layer, a dict a block. ``mapping`` (D, D) block-lower-triangular; ``factors`` only in the last layer."""
    width, half = levels[-1], head // 2
    groups = np.arange(codes.first_group, codes.first_group + layers)
    sign = np.ones(layers, np.float32)
    sign[number] = -1
    angle = rope_base ** (-np.arange(half - 1) / half)
    read = np.eye(width, dtype=np.float32)
    read[codes.control : codes.end] = 0
    written = mapping.copy()
    written[codes.control : codes.end] = 0
    blocks = []
    for begin, end in zip((0, *levels[:-1]), levels, strict=True):
        rows, own = slice(begin, end), end - begin
        query, key = np.zeros((own, end), np.float32), np.zeros((own, end), np.float32)
        # inputs of code tokens are √(D_k) in size, all in one or two coordinates; scores are divided by √head at export
        shut = np.float32(np.sqrt(SHUT * np.sqrt(2 * head) / end))
        near = np.float32(NEAR * np.sqrt(head) / (half - 1) / np.sqrt(end / 2))
        for start in range(0, own, head):
            query[start + half - 1, groups] = shut * sign
            key[start + half - 1, [codes.control, *groups]] = shut
            for pair in range(half - 1):
                query[start + pair, groups] = near * np.cos(angle[pair])
                query[start + half + pair, groups] = -near * np.sin(angle[pair])
                key[start + pair, 0] = 1
        gate, up = np.zeros((2 * own, end), np.float32), np.zeros((2 * own, end), np.float32)
        down = np.zeros((own, 2 * end), np.float32)
        if factors is not None:
            spelled = slice(codes.first_detail, codes.first_detail + len(factors))
            gate[:own, spelled] = factors[:, rows].T * np.float32(np.sqrt(2) / SEMCON_NORM)
            gate[own:] = -gate[:own]
            up[:own] = up[own:] = np.eye(own, end, begin, dtype=np.float32)
            # hidden units are stored block by block: those of this block begin at 2·begin
            down[:, 2 * begin : 2 * begin + own] = np.eye(own, dtype=np.float32)
            down[:, 2 * begin + own : 2 * end] = -np.eye(own, dtype=np.float32)
        arrays = (query, key, read[rows, :end], written[rows, :end], gate, up, down)
        blocks.append(dict(zip(("q", "k", "v", "o", "gate", "up", "down"), map(np.ascontiguousarray, arrays), strict=True)))
    return blocks
