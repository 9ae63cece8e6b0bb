"""Training sequences in the exact layout of an agent's context (design §4 Vocabulary, §7 Fine-tune).

Two kinds: *queries* (system, empty group, empty personal layer, one particle and a semcon: predict the particle) and *contexts*
(goals, collective memory, personal particles and a walk of several links: predict every next token of the walk).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.model.context import PAGE_POSITIONS, ControlTokens, absolute_positions, group_tokens, personal_tokens, system_tokens

GOAL_SEMCONS, GOAL_PARTICLES, FACTS, PERSONAL_PARTICLES, HOPS = 2, 3, 5, 2, 4


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences padded with invalid columns. Row r of ``targets`` is predicted from column ``target_column[r]`` of sequence
    ``target_sequence[r]``."""

    tokens: NDArray[np.int32]  # (sequences, columns)
    positions: NDArray[np.int32]  # (sequences, columns) absolute positions
    valid: NDArray[np.bool_]  # (sequences, columns)
    target_sequence: NDArray[np.int32]  # (rows,)
    target_column: NDArray[np.int32]  # (rows,)
    targets: NDArray[np.int32]  # (rows,) token ids


class SequenceSampler:
    """Draws batches from the directed links of a graph. Deterministic in (seed, order of calls).

    ``links`` is (n, 3) in both directions: source particle, semcon index, target particle.
    """

    def __init__(self, links: NDArray[np.int64], particles: int, semcons: int, seed: int) -> None:
        order = np.lexsort((links[:, 2], links[:, 1], links[:, 0]))
        self.links = links[order].astype(np.int32)
        self.particles, self.semcons = particles, semcons
        self.control = ControlTokens(particles + semcons)
        self.offsets = np.searchsorted(self.links[:, 0], np.arange(particles + 1)).astype(np.int64)
        self.random = np.random.default_rng(seed)
        self._queue = np.zeros(0, np.int64)

    def _next_links(self, n: int) -> NDArray[np.int64]:
        """Link numbers in epochs: every link once before any comes again."""
        while len(self._queue) < n:
            self._queue = np.concatenate([self._queue, self.random.permutation(len(self.links))])
        taken, self._queue = self._queue[:n], self._queue[n:]
        return taken

    def _random_link_of(self, particle: NDArray[np.int32]) -> NDArray[np.int64]:
        """A uniformly drawn link number of each particle (every particle asked for must have one)."""
        low, high = self.offsets[particle], self.offsets[particle + 1]
        return low + (self.random.random(particle.shape) * (high - low)).astype(np.int64)

    def queries(self, n: int, semcon_share: float = 0.06) -> Batch:
        """``n`` queries; a share of them predicts the semcon from the particle alone instead."""
        links = self.links[self._next_links(n)]
        layers = [system_tokens(self.control), group_tokens(self.control), personal_tokens(self.control), [0, 0]]
        positions = np.array([p for layer in absolute_positions(layers) for p in layer], np.int32)
        head = [token for layer in layers[:3] for token in layer]
        tokens = np.empty((n, len(positions)), np.int32)
        tokens[:, : len(head)] = head
        tokens[:, -2] = links[:, 0]
        tokens[:, -1] = links[:, 1] + self.particles
        semcon = self.random.random(n) < semcon_share
        column = np.full(n, len(positions) - 1, np.int32) - semcon
        targets = np.where(semcon, links[:, 1] + self.particles, links[:, 2])
        return Batch(
            tokens,
            np.broadcast_to(positions, tokens.shape),
            np.ones(tokens.shape, bool),
            np.arange(n, dtype=np.int32),
            column.astype(np.int32),
            targets.astype(np.int32),
        )

    def contexts(self, n: int) -> Batch:
        """``n`` walks with goals, memory and personal particles, each present or not at random."""
        random, control = self.random, self.control
        first = self.links[self._next_links(n)]
        walk = np.empty((n, 1 + 2 * HOPS), np.int32)
        walk[:, 0], walk[:, 1], walk[:, 2] = first[:, 0], first[:, 1] + self.particles, first[:, 2]
        for hop in range(1, HOPS):
            step = self.links[self._random_link_of(walk[:, 2 * hop])]
            walk[:, 2 * hop + 1], walk[:, 2 * hop + 2] = step[:, 1] + self.particles, step[:, 2]
        hops = random.integers(1, HOPS + 1, n)
        walk_valid = np.arange(1 + 2 * HOPS)[None, :] < (1 + 2 * hops)[:, None]

        def near(count: int, far: float) -> NDArray[np.int32]:
            """Particles one or two links from the walk (a share ``far`` anywhere), (n, count)."""
            node = walk[np.arange(n)[:, None], 2 * random.integers(0, hops[:, None] + 1, (n, count))]
            one = self.links[self._random_link_of(node), 2]
            two = self.links[self._random_link_of(one), 2]
            pick = np.where(random.random((n, count)) < 0.6, one, two)
            return np.where(random.random((n, count)) < far, random.integers(0, self.particles, (n, count)), pick).astype(np.int32)

        goal = random.random(n) < 0.6
        hop_semcon = walk[np.arange(n)[:, None], 1 + 2 * random.integers(0, hops[:, None], (n, GOAL_SEMCONS))]
        other = random.integers(0, self.semcons, hop_semcon.shape) + self.particles
        goal_semcons = np.where(random.random(hop_semcon.shape) < 0.2, other, hop_semcon)
        goal_semcons_valid = goal[:, None] & (np.arange(GOAL_SEMCONS) < random.integers(0, GOAL_SEMCONS + 1, n)[:, None])
        goal_particles_valid = goal[:, None] & (np.arange(GOAL_PARTICLES) < random.integers(1, GOAL_PARTICLES + 1, n)[:, None])

        memory = random.random(n) < 0.5
        anchor = walk[np.arange(n)[:, None], 2 * random.integers(0, hops[:, None] + 1, (n, FACTS))]
        facts = self.links[self._random_link_of(anchor)].copy()
        told = random.random((n, FACTS)) < 0.15  # the very link to predict: newer facts are to be used
        told_hop = random.integers(0, hops[:, None], (n, FACTS))
        rows = np.arange(n)[:, None]
        answer = np.stack([walk[rows, 2 * told_hop], walk[rows, 2 * told_hop + 1] - self.particles, walk[rows, 2 * told_hop + 2]], axis=-1)
        facts = np.where(told[..., None], answer, facts)
        facts[..., 1] += self.particles
        facts_valid = memory[:, None] & (np.arange(FACTS) < random.integers(1, FACTS + 1, n)[:, None])

        personal = random.random(n) < 0.5
        personal_valid = personal[:, None] & (np.arange(PERSONAL_PARTICLES) < random.integers(1, PERSONAL_PARTICLES + 1, n)[:, None])

        def constant(token: int, on: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
            return np.full((n, 1), token, np.int32), np.ones((n, 1), bool) if on is None else on[:, None]

        layers = [
            [constant(token) for token in system_tokens(control)],
            [
                constant(control["<group>"]),
                constant(control["<instrumental>"], goal),
                (goal_semcons, goal_semcons_valid),
                (near(GOAL_PARTICLES, 0.15), goal_particles_valid),
                constant(control["<memory>"], memory),
                (facts.reshape(n, -1), np.repeat(facts_valid, 3, axis=1)),
            ],
            [
                constant(control["<personal>"]),
                constant(control["<immediate>"], personal),
                (near(PERSONAL_PARTICLES, 0.15), personal_valid),
            ],
            [(walk, walk_valid)],
        ]
        tokens_of, valid_of, positions_of = [], [], []
        start: NDArray[np.int64] = np.zeros((n, 1), np.int64)
        for layer in layers:
            tokens, valid = (np.concatenate(columns, axis=1) for columns in zip(*layer, strict=True))
            tokens_of.append(tokens)
            valid_of.append(valid)
            positions_of.append(start + np.cumsum(valid, axis=1) - 1)
            start = start + -(-valid.sum(axis=1, keepdims=True) // PAGE_POSITIONS) * PAGE_POSITIONS
        tokens, valid = np.concatenate(tokens_of, axis=1), np.concatenate(valid_of, axis=1)
        positions = np.where(valid, np.concatenate(positions_of, axis=1), 0)
        first_column = tokens.shape[1] - walk.shape[1]
        # every next token of the walk is a target: an invalid one repeats the walk's first, so that shapes stay fixed
        column = np.arange(2 * HOPS)[None, :] * np.ones((n, 1), np.int64)
        column = np.where(column < 2 * hops[:, None], column, 1)
        sequence = np.repeat(np.arange(n), 2 * HOPS)
        column = column.reshape(-1)
        return Batch(
            tokens.astype(np.int32),
            positions.astype(np.int32),
            valid,
            sequence.astype(np.int32),
            (first_column + column).astype(np.int32),
            walk[sequence, column + 1].astype(np.int32),
        )
