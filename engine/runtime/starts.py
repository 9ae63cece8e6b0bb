"""Where episodes start: at the likeliest gaps of the goal's domain, then of the wider ones (design §8).

A gap is a role that a particle lacks though its like play it. If a share e of its like play it, and a link is missing from the
graph with a small probability h, then the role is lacking because its link is missing with odds of about h·e/(1 − e): so gaps
are asked in the order of e/(1 − e), each once. Choices depend on (seed, agent, episode), on the visit
counts and on the order of the agents within a tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.runtime import chance
from engine.runtime.agents import Population
from engine.runtime.world import World, gap_odds

WALK_CANDIDATES = 8
BARE_PROMPT_SHARE = 4  # one episode in so many goes where few have been and leaves the semcon to the model
GAP_FLOOR = 0.05  # odds below which a gap is not worth a question
NARROWING = 4.0  # a gap of the goal's own domain counts so many times as much as one of the next wider domain

_START, _BARE = 1, 2  # streams of chance; 3 is the length of walks

Domain = NDArray[np.int64]


@dataclass
class _Frontier:
    """Gaps of one domain, the likeliest first; those before ``next`` have all been asked."""

    domain: Domain  # held, so that its id stays its own
    gaps: NDArray[np.int64]  # numbers particle·G + rank
    next: int = 0
    first: int = -1  # the gap at ``next``, -1 behind the last
    odds: float = 0.0


class Starts:
    """Chooses the prompts of new episodes."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.seed = seed
        self.visits = np.zeros(world.particles, np.int32)
        """(P,) How often walks passed through a particle."""
        semcons, weights = world.gaps
        self._width = semcons.shape[1]
        self._semcon = semcons.reshape(-1)
        self._odds = gap_odds(weights.reshape(-1))
        self.asked = np.zeros(len(self._odds), bool)
        """(P·G,) Gaps that were prompts."""
        self._frontiers: dict[int, _Frontier] = {}

    def choose(self, agents: Population, slots: Sequence[int], domains: Sequence[Sequence[Domain]]) -> list[list[int]]:
        """A prompt an agent, [particle] or [particle, semcon token]; counts the visits. ``domains``: from the narrowest, none empty."""
        rows = np.asarray(slots, np.int64)
        bare = (chance.below(self.seed, BARE_PROMPT_SHARE, _BARE, agents.id[rows], agents.episode[rows]) == 0).tolist()
        unique = {id(chain): chain for chain in domains}
        chains = {key: [self._frontier(domain) for domain in chain] for key, chain in unique.items()}
        gaps = [-1 if alone else self._take(chains[id(chain)]) for alone, chain in zip(bare, domains, strict=True)]
        without = np.flatnonzero(np.array(gaps, np.int64) < 0)
        seldom = dict(
            zip(without.tolist(), self._seldom_visited(agents, rows[without], [domains[row][0] for row in without.tolist()]), strict=True)
        )
        prompts = []
        for row, gap in enumerate(gaps):
            particle = seldom[row] if gap < 0 else gap // self._width
            prompts.append([particle] if gap < 0 else [particle, self.world.particles + int(self._semcon[gap])])
        np.add.at(self.visits, [prompt[0] for prompt in prompts], 1)
        return prompts

    def observe(self, particles: NDArray[np.int64]) -> None:
        """Counts particles that walks passed through."""
        np.add.at(self.visits, particles, 1)

    def _take(self, frontiers: Sequence[_Frontier]) -> int:
        """The best gap not asked yet, domains from the narrowest; -1 where none is worth asking."""
        best, worth, weight = -1, GAP_FLOOR, 1.0
        asked = self.asked
        for frontier in frontiers:
            while frontier.first >= 0 and asked[frontier.first]:
                self._point(frontier, frontier.next + 1)
            if weight * frontier.odds > worth:
                best, worth = frontier.first, weight * frontier.odds
            weight /= NARROWING
        if best >= 0:
            asked[best] = True
        return best

    def _frontier(self, domain: Domain) -> _Frontier:
        frontier = self._frontiers.get(id(domain))
        if frontier is None:
            gaps = (domain[:, None] * self._width + np.arange(self._width)).reshape(-1)
            gaps = gaps[self._odds[gaps] > GAP_FLOOR]
            gaps = gaps[np.argsort(-self._odds[gaps], kind="stable")]
            frontier = self._frontiers[id(domain)] = _Frontier(domain, gaps)
            self._point(frontier, 0)
        return frontier

    def _point(self, frontier: _Frontier, at: int) -> None:
        frontier.next = at
        frontier.first = int(frontier.gaps[at]) if at < len(frontier.gaps) else -1
        frontier.odds = float(self._odds[frontier.first]) if frontier.first >= 0 else 0.0

    def _seldom_visited(self, agents: Population, rows: NDArray[np.int64], domains: Sequence[Domain]) -> list[int]:
        """Of WALK_CANDIDATES particles drawn from each domain, the one visited least."""
        if not len(rows):
            return []
        sizes = np.array([len(domain) for domain in domains], np.int64)[:, None]
        counters = agents.id[rows][:, None], agents.episode[rows][:, None], np.arange(WALK_CANDIDATES)[None, :]
        draws = chance.below(self.seed, sizes, _START, *counters)
        candidates = np.stack([domain[drawn] for domain, drawn in zip(domains, draws, strict=True)])
        least: list[int] = candidates[np.arange(len(rows)), np.argmin(self.visits[candidates], axis=1)].tolist()
        return least
