"""Training sequences in the exact layout of an agent's context (design §4 Vocabulary, §7 Fine-tune).

Two kinds: *queries* (system, empty group, empty personal layer, one particle and a semcon: predict the particle) and *contexts*
(goals, collective memory, personal particles and a walk of several links: predict every next token of the walk).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.compile.domains import SampledDomains
from engine.model.context import PAGE_POSITIONS, ControlTokens, absolute_positions, group_tokens, personal_tokens, system_tokens

GOAL_SEMCONS, GOAL_PARTICLES, FACTS, PERSONAL_PARTICLES, HOPS = 2, 3, 5, 2, 4
GOAL_SHARE = 0.7  # of the walks
IMMEDIATE_SHARE = 0.5  # of the walks under a goal: kept to the domain of an immediate goal, not to the whole group's
EDGE_SHARE = 0.75  # of the walks under a goal: start just outside its domain, where the goal decides what comes next
STEP_CANDIDATES = 8  # links among which a walk under a goal looks for one that keeps to the domain


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


@dataclass(frozen=True, slots=True)
class Goals:
    """Goals of n walks: ``domain`` (n,) each keeps to, -1 none; ``centre`` (n,) of an immediate goal, -1 none; ``shown`` (n,) whether
    the group has a goal, with ``semcons`` (n, GOAL_SEMCONS) and ``particles`` (n, GOAL_PARTICLES)."""

    domain: NDArray[np.int64]
    centre: NDArray[np.int64]
    shown: NDArray[np.bool_]
    semcons: NDArray[np.int32]
    semcons_valid: NDArray[np.bool_]
    particles: NDArray[np.int32]
    particles_valid: NDArray[np.bool_]


class SequenceSampler:
    """Draws batches from the directed links of a graph. Deterministic in (seed, order of calls).

    ``links`` is (n, 3) in both directions: source particle, semcon index, target particle; ``focus`` is at least (particles,).
    """

    def __init__(self, links: NDArray[np.int64], particles: int, semcons: int, focus: NDArray[np.float64], seed: int) -> None:
        order = np.lexsort((links[:, 2], links[:, 1], links[:, 0]))
        self.links = links[order].astype(np.int32)
        self.particles, self.semcons = particles, semcons
        self.control = ControlTokens(particles + semcons)
        self.offsets = np.searchsorted(self.links[:, 0], np.arange(particles + 1)).astype(np.int64)
        self.random = np.random.default_rng(seed)
        self.domains = SampledDomains(
            self.links, self.offsets, semcons, focus[:particles], np.random.default_rng([seed, 1]), GOAL_PARTICLES, GOAL_SEMCONS
        )
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

    def _step(self, particle: NDArray[np.int32], domain: NDArray[np.int64], inside: bool = True) -> NDArray[np.int32]:
        """A link of each particle, (n, 3): one that leads into its ``domain``, or out of it, if a few draws find one (-1: any)."""
        drawn = self.links[self._random_link_of(np.repeat(particle[:, None], STEP_CANDIDATES, axis=1))]
        wanted = self.domains.holds(domain[:, None], drawn[..., 2]) == inside
        return np.asarray(drawn[np.arange(len(particle)), np.argmax(wanted, axis=1)], np.int32)  # the first such, else the first

    def _goals(self, n: int) -> Goals:
        """What ``n`` walks are shown as their goals, and which domains they keep to."""
        random, domains = self.random, self.domains
        under_goal = random.random(n) < GOAL_SHARE
        immediate = under_goal & (random.random(n) < IMMEDIATE_SHARE)
        domain = np.where(under_goal, random.integers(0, domains.count, n), -1)
        group = domain.copy()
        # the group of an immediate goal is about a domain that holds its centre; where a few draws find none, it shows none
        drawn = random.integers(0, domains.count, (n, 4 * STEP_CANDIDATES))
        held = domains.holds(drawn, domains.centre[domain][:, None]) & (domains.size[drawn] > domains.size[domain][:, None])
        found = held.any(axis=1) & (random.random(n) < 0.8)
        group = np.where(immediate, np.where(found, drawn[np.arange(n), np.argmax(held, axis=1)], -1), group)
        shown = group >= 0
        semcons, particles = domains.semcons[group], domains.shown[group]
        return Goals(
            domain,
            np.where(immediate, domains.centre[domain], -1),
            shown,
            semcons,
            shown[:, None] & (semcons >= 0) & (random.random((n, 1)) < 0.9),
            particles,
            shown[:, None] & (particles >= 0),
        )

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
        """``n`` walks with goals, memory and personal particles, each present or not at random. Walks under a goal keep to its domain
        where they can, which is what makes the goal's tokens worth attending to."""
        random, control = self.random, self.control
        goals = self._goals(n)
        walk = np.empty((n, 1 + 2 * HOPS), np.int32)
        first = self.links[self._next_links(n)]
        at_goal = np.flatnonzero(goals.domain >= 0)
        starts = self.domains.members(random, goals.domain[at_goal])
        edge = random.random(len(starts)) < EDGE_SHARE
        starts[edge] = self._step(starts[edge], goals.domain[at_goal][edge], inside=False)[:, 2]
        first[at_goal] = self._step(starts, goals.domain[at_goal])
        walk[:, 0], walk[:, 1], walk[:, 2] = first[:, 0], first[:, 1] + self.particles, first[:, 2]
        for hop in range(1, HOPS):
            step = self._step(walk[:, 2 * hop], goals.domain)
            walk[:, 2 * hop + 1], walk[:, 2 * hop + 2] = step[:, 1] + self.particles, step[:, 2]
        hops = random.integers(1, HOPS + 1, n)
        walk_valid = np.arange(1 + 2 * HOPS)[None, :] < (1 + 2 * hops)[:, None]

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

        # the personal layer: the immediate goal's centre, and where the walk starts
        personal = np.stack([goals.centre, walk[:, 0]], axis=1).astype(np.int32)
        no_centre = goals.centre < 0
        other = random.random(n) < 0.5  # steering names particles that have nothing to do with a goal
        personal[no_centre, 0] = self.links[self._random_link_of(walk[no_centre, 0]), 2]
        personal_valid = np.stack([~no_centre | (other & (goals.domain < 0)), random.random(n) < 0.7], axis=1)
        personal_valid &= personal_valid[:, :1] | (random.random((n, 1)) < 0.5)

        def constant(token: int, on: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
            return np.full((n, 1), token, np.int32), np.ones((n, 1), bool) if on is None else on[:, None]

        layers = [
            [constant(token) for token in system_tokens(control)],
            [
                constant(control["<group>"]),
                constant(control["<instrumental>"], goals.shown),
                (goals.semcons + self.particles, goals.semcons_valid),
                (goals.particles, goals.particles_valid),
                constant(control["<memory>"], memory),
                (facts.reshape(n, -1), np.repeat(facts_valid, 3, axis=1)),
            ],
            [
                constant(control["<personal>"]),
                constant(control["<immediate>"], np.asarray(personal_valid.any(axis=1), bool)),
                (personal, personal_valid),
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
