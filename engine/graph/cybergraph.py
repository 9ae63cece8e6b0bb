"""The cybergraph: particles joined by directed, typed, weighted cyberlinks (design §2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserError


@dataclass(frozen=True)
class Cybergraph:
    """A graph in struct-of-arrays form.

    Every semcon has an inverse among the semcons (itself when symmetric). A link is stored once, in its source's direction;
    ``directed`` gives both readings. ``n`` is the number of stored links.
    """

    particles: tuple[str, ...]
    semcons: tuple[str, ...]
    inverse: NDArray[np.int64]  # (semcons,) index of the inverse semcon
    links: NDArray[np.int64]  # (n, 3) source particle, semcon, target particle
    weights: NDArray[np.float32]  # (n,) > 0
    neurons: tuple[str, ...] = ()
    neuron: NDArray[np.int32] | None = None  # (n,) index into neurons
    source_name: str = ""
    notices: tuple[str, ...] = field(default=())  # what a reader could not use, for people
    names: tuple[tuple[str, ...], ...] = ()  # all names of each particle (synonyms, aliases); () = the label alone

    def __post_init__(self) -> None:
        if self.links.ndim != 2 or self.links.shape[1] != 3:
            raise UserError("links must be an (n, 3) array of source, semcon, target")
        if len(self.weights) != len(self.links):
            raise UserError("there must be one weight a link")

    @property
    def particle_count(self) -> int:
        return len(self.particles)

    @property
    def semcon_count(self) -> int:
        return len(self.semcons)

    def directed(self) -> NDArray[np.int64]:
        """All links in both directions, (≤ 2n, 3), without duplicates, in ascending (source, semcon, target) order."""
        return both_directions(self.links, self.inverse)

    def with_links(self, links: NDArray[np.int64], weights: NDArray[np.float32] | None = None) -> Cybergraph:
        """The same particles and semcons with other links (weights default to 1)."""
        if weights is None:
            weights = np.ones(len(links), np.float32)
        return replace(self, links=links, weights=weights, neurons=(), neuron=None)


def both_directions(links: NDArray[np.int64], inverse: NDArray[np.int64]) -> NDArray[np.int64]:
    """Links and their inverse readings, without duplicates, sorted. ``links`` is (n, 3); ``inverse`` is (semcons,)."""
    if len(links) == 0:
        return np.zeros((0, 3), np.int64)
    back = np.stack([links[:, 2], inverse[links[:, 1]], links[:, 0]], axis=1)
    return np.unique(np.concatenate([links, back]), axis=0)


def canonical_links(links: NDArray[np.int64], inverse: NDArray[np.int64]) -> NDArray[np.int64]:
    """One stored direction for each link: the lower semcon of a pair, the lower particle first where it is symmetric; unique, sorted."""
    if len(links) == 0:
        return np.zeros((0, 3), np.int64)
    links = np.asarray(links, np.int64)
    other = inverse[links[:, 1]]
    turn = (other < links[:, 1]) | ((other == links[:, 1]) & (links[:, 0] > links[:, 2]))
    turned = np.stack([links[:, 2], other, links[:, 0]], axis=1)
    return np.unique(np.where(turn[:, None], turned, links), axis=0)


def graph_from_triples(
    triples: Iterable[tuple[str, str, str]],
    symmetric: Sequence[str] = (),
    source_name: str = "",
    notices: Sequence[str] = (),
) -> Cybergraph:
    """A graph whose semcons get an inverse of their own, named ``<semcon>⁻¹``, unless listed in ``symmetric``.

    Particles and semcons keep the order of first appearance; duplicate triples add to the weight.
    """
    particle_ids: dict[str, int] = {}
    semcon_ids: dict[str, int] = {}
    counts: dict[tuple[int, int, int], int] = {}
    for source, semcon, target in triples:
        key = (
            particle_ids.setdefault(source, len(particle_ids)),
            semcon_ids.setdefault(semcon, len(semcon_ids)),
            particle_ids.setdefault(target, len(particle_ids)),
        )
        counts[key] = counts.get(key, 0) + 1
    forward = list(semcon_ids)
    semcons, inverse = list(forward), [0] * len(forward)
    for index, name in enumerate(forward):
        if name in symmetric:
            inverse[index] = index
        else:
            inverse[index] = len(semcons)
            inverse.append(index)
            semcons.append(f"{name}⁻¹")
    links = np.array(list(counts), np.int64).reshape(-1, 3)
    return Cybergraph(
        tuple(particle_ids),
        tuple(semcons),
        np.array(inverse, np.int64),
        links,
        np.fromiter(counts.values(), np.float32, len(counts)),
        source_name=source_name,
        notices=tuple(notices),
    )
