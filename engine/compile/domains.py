"""Domains drawn from a graph for training: goals as the runtime makes them, around centres it might choose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.graph.domain import common_semcons, neighbourhood, shown_particles

DOMAINS_MAX = 1024
MEMBERSHIP_BYTES = 1 << 27
SIZES = (100, 300, 2000)  # a goal's neighbourhood: of steering, an immediate goal, an instrumental goal
FOCUSED_SHARE = 0.5  # of the centres: drawn by focus, as groups get theirs; the others anywhere, as people steer


class SampledDomains:
    """``count`` domains: ``centre`` (count,), ``size`` (count,), ``shown`` (count, 3) and ``semcons`` (count, 2), -1 where there are
    fewer. ``offsets`` (particles+1,) are the rows of each source in ``links`` (n, 3), which are in both directions."""

    def __init__(
        self,
        links: NDArray[np.int32],
        offsets: NDArray[np.int64],
        semcons: int,
        focus: NDArray[np.float64],
        random: np.random.Generator,
        shown: int = 3,
        common: int = 2,
    ) -> None:
        particles = len(offsets) - 1
        linked = np.flatnonzero(np.diff(offsets))
        self.count = min(DOMAINS_MAX, max(1, MEMBERSHIP_BYTES // max(1, particles)), len(linked))
        chance = focus[linked] / focus[linked].sum()
        by_focus = random.choice(linked, self.count, p=chance)
        anywhere = random.choice(linked, self.count)
        self.centre = np.where(random.random(self.count) < FOCUSED_SHARE, by_focus, anywhere).astype(np.int64)
        roles = np.zeros((particles, semcons), bool)
        roles[links[:, 0], links[:, 1]] = True
        self._inside = np.zeros((self.count, particles), bool)
        self.shown = np.full((self.count, shown), -1, np.int32)
        self.semcons = np.full((self.count, common), -1, np.int32)
        for number, centre in enumerate(self.centre.tolist()):
            limit = min(int(random.choice(SIZES)), max(2, particles // 4))
            domain = neighbourhood(offsets, links[:, 2], focus, [centre], limit)
            self._inside[number, domain] = True
            here = shown_particles(focus, domain, [centre], shown)
            usual = common_semcons(roles, domain, common)
            self.shown[number, : len(here)] = here
            self.semcons[number, : len(usual)] = usual
        self.size = self._inside.sum(axis=1)
        self._members = np.flatnonzero(self._inside) % particles
        self._first = np.cumsum(self.size) - self.size

    def holds(self, domain: NDArray[np.int64], particle: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each particle is in each domain (shapes broadcast); no particle is in domain -1."""
        return np.asarray(self._inside[domain, particle] & (domain >= 0), bool)

    def members(self, random: np.random.Generator, domain: NDArray[np.int64]) -> NDArray[np.int32]:
        """A uniformly drawn member of each domain."""
        drawn = (random.random(len(domain)) * self.size[domain]).astype(np.int64)
        return np.asarray(self._members[self._first[domain] + drawn], np.int32)
