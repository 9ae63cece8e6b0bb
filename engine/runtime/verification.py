"""From evidence to a probability that a proposed link is true.

Evidence: what the deepest level says about the link and about its inverse reading, paths of at most three links in the visible
graph, whether things like the source and the target play these roles, how many agents came to it by themselves, and what the
operator has decided about the same semcon. A logistic combines them; its coefficients are data. The links hidden from training
are no part of it: they only measure what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.model.policy import default_policy
from engine.runtime.context_layers import ContextLayers
from engine.runtime.proposals import Entry
from engine.runtime.world import World

if TYPE_CHECKING:
    from engine.native import Engine

FEATURES = (
    "constant",
    "forward log-odds",  # ln p/(1-p) of target given (source, semcon), known targets' mass taken out, in ±LOG_ODDS_LIMIT
    "inverse log-odds",  # the same of source given (target, inverse semcon)
    "forward rank",  # 1 / rank among particles, known targets left out
    "inverse rank",
    "paths of 2",  # ln(1 + number)
    "paths of 3",
    "source role",  # share of particles like the source that play this role
    "target role",
    "agreement",  # ln of the number of agents that walked the link
    "operator",  # ln (1+accepted)/(1+rejected) of the operator's decisions on this semcon
)
LOG_ODDS_LIMIT = 8.0
KNOWN_TARGETS = 16  # at most so many known targets have their mass taken out of a query
NODES_PER_STEP = 32
REJECT_BELOW = 0.05  # live, so little is not worth the operator's time


@dataclass(frozen=True)
class Logistic:
    """probability = 1 / (1 + exp(-coefficients · features)), in the order of FEATURES."""

    coefficients: tuple[float, ...]
    calibrated: bool
    provenance: str

    def __post_init__(self) -> None:
        if len(self.coefficients) != len(FEATURES):
            raise ValueError(f"{len(FEATURES)} coefficients are needed, one for each of {', '.join(FEATURES)}")

    def probability(self, features: Sequence[float]) -> float:
        """Of one link, in (0, 1)."""
        score = math.fsum(weight * value for weight, value in zip(self.coefficients, features, strict=True))
        return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))

    def to_json(self) -> dict[str, object]:
        """For sessions and ledgers."""
        named = dict(zip(FEATURES, self.coefficients, strict=True))
        return {"coefficients": named, "calibrated": self.calibrated, "provenance": self.provenance}


UNCALIBRATED = Logistic(
    (-0.6, 0.45, 0.25, 0.6, 0.6, 0.15, 0.05, 0.5, 0.5, 0.3, 0.5),
    calibrated=False,
    provenance="set by hand: both readings weigh most; not fitted to data, so read it as an order, not as a frequency",
)


def _log_odds(log_probabilities: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the first target of each row, once the mass of the row's others is taken out of the distribution, (rows,)."""
    mass = np.exp(np.asarray(log_probabilities, np.float64))
    first = mass[offsets[:-1]]
    rest = np.maximum(1 - (np.add.reduceat(mass, offsets[:-1]) - first), 1e-9)
    share = np.clip(first / rest, 1e-9, 1 - 1e-9)
    return np.asarray(np.clip(np.log(share) - np.log1p(-share), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT), np.float64)


def paths(world: World, source: int, target: int) -> tuple[int, int, tuple[int, ...]]:
    """Paths of two and of three links (over at most NODES_PER_STEP neighbours a step), and the first one found."""
    near_source, near_target = world.neighbours(source), world.neighbours(target)
    two = [node for node in near_source if node in near_target and node not in (source, target)]
    three = 0
    first_three: tuple[int, ...] = ()
    for node in list(near_source)[:NODES_PER_STEP]:
        if node == target:
            continue
        for other in list(world.neighbours(node))[:NODES_PER_STEP]:
            if other in near_target and other not in (source, target):
                three += 1
                first_three = first_three or (source, node, other, target)
    return len(two), three, (source, two[0], target) if two else first_three


class Verifier:
    """Scores the new proposals of a tick in one native call, at the deepest level, under the neutral context."""

    def __init__(self, engine: Engine, world: World, layers: ContextLayers, logistic: Logistic = UNCALIBRATED) -> None:
        self.engine = engine
        self.world = world
        self.layers = layers
        self.logistic = logistic
        self.operator: dict[int, list[int]] = {}  # semcon → the operator's [accepted, rejected]
        self.tokens = 0

    def features(self, entries: Sequence[Entry]) -> list[tuple[float, ...]]:
        """Features of each entry, in the order of FEATURES; fills ``entry.path``."""
        if not entries:
            return []
        world = self.world
        personal = self.layers.personal(())
        link = np.array([(entry.source, entry.semcon, entry.target) for entry in entries], np.int64)
        source, semcon, target = link.T
        # rows 2i and 2i+1: the link as stated, and its inverse reading
        subject = np.stack([source, target], axis=1).reshape(-1)
        relation = np.stack([semcon, world.inverse[semcon]], axis=1).reshape(-1)
        wanted = np.stack([target, source], axis=1).reshape(-1).tolist()
        queries = [[*personal, p, world.particles + s] for p, s in zip(subject.tolist(), relation.tolist(), strict=True)]
        known = world.targets(subject, relation, KNOWN_TARGETS + 1)
        targets = [
            [answer, *[other for other in row if other != answer][:KNOWN_TARGETS]] for answer, row in zip(wanted, known, strict=True)
        ]
        levels = self.engine.levels
        result = self.engine.score(
            queries,
            default_policy(levels).pinned(levels),
            context=self.layers.neutral,
            personal=len(personal),
            targets=targets,
            filters=[row[1:] for row in targets],
            candidates=world.particles,
            purpose=0,
        )
        self.tokens += sum(map(len, queries))
        assert result.target_logprob is not None
        assert result.target_rank is not None
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in targets])])
        odds = _log_odds(result.target_logprob, offsets).reshape(-1, 2).tolist()
        ranks = (1 / np.maximum(result.target_rank[offsets[:-1]], 1.0)).reshape(-1, 2).tolist()
        rows = np.arange(len(entries))
        source_role = world.expectation(source)[rows, semcon].tolist()
        target_role = world.expectation(target)[rows, world.inverse[semcon]].tolist()
        features: list[tuple[float, ...]] = []
        for number, entry in enumerate(entries):
            two, three, entry.path = paths(world, entry.source, entry.target)
            accepted, rejected = self.operator.get(min(entry.semcon, int(world.inverse[entry.semcon])), (0, 0))
            features.append((
                1.0, *odds[number], *ranks[number], math.log1p(two), math.log1p(three),
                source_role[number], target_role[number],
                math.log(max(1, len(entry.agents))), math.log((1 + accepted) / (1 + rejected)),
            ))  # fmt: skip
        return features

    def agreed(self, entry: Entry) -> tuple[float, tuple[float, ...]]:
        """Probability and features once another agent has walked the same link."""
        features = list(entry.features)
        features[FEATURES.index("agreement")] = math.log(max(1, len(entry.agents)))
        return self.logistic.probability(features), tuple(features)

    def learn(self, semcon: int, accepted: bool, amount: int = 1) -> None:
        """Counts a decision of the operator on a semcon, whichever way it is read; ``amount`` -1 takes one back."""
        counts = self.operator.setdefault(min(semcon, int(self.world.inverse[semcon])), [0, 0])
        counts[0 if accepted else 1] += amount


def evidence_text(world: World, label: Callable[[int], str], entry: Entry, logistic: Logistic) -> tuple[tuple[str, str], ...]:
    """The evidence for people: (kind, text) pairs. ``label`` turns a token id into text."""
    if not entry.features:
        return ()
    value = dict(zip(FEATURES, entry.features, strict=True))

    def probability(odds: float) -> str:
        return f"{100 / (1 + math.exp(-odds)):.1f} %"

    def rank(inverse: float) -> str:
        return f"rank {round(1 / inverse) if inverse > 0 else world.particles:,} of {world.particles:,}"

    lines = [
        ("deepest level", f"{probability(value['forward log-odds'])}, {rank(value['forward rank'])}"),
        ("inverse reading", f"{probability(value['inverse log-odds'])}, {rank(value['inverse rank'])}"),
    ]
    if entry.path:
        words = [label(entry.path[0])]
        for here, there in zip(entry.path, entry.path[1:], strict=False):
            semcon = world.neighbours(here).get(there)
            words.append(f" —{label(world.particles + semcon) if semcon is not None else '?'}→ {label(there)}")
        lines.append(("path", "".join(words)))
        two, three = round(math.expm1(value["paths of 2"])), round(math.expm1(value["paths of 3"]))
        lines.append(("paths", f"{two} of two links, {three} of three"))
    lines.append(("roles", f"source {value['source role']:.0%}, target {value['target role']:.0%} of their like"))
    if len(entry.agents) > 1:
        lines.append(("agreement", f"{len(entry.agents)} agents"))
    lines.append(("probability", "calibrated" if logistic.calibrated else "uncalibrated"))
    return tuple(lines)
