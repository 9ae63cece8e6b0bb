"""From evidence to a probability that a proposed link is true.

Evidence: what the deepest level says about the link and about its inverse reading, paths of at most three links in the visible
graph, whether things like the source and the target play these roles, how many agents came to it by themselves, and what the
operator has decided about the same semcon. A logistic combines them; its coefficients are data, fitted by ``calibrate`` and kept
in the model file. The links hidden from training are no part of it: they only measure what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.model.policy import default_policy
from engine.runtime.context_layers import ContextLayers
from engine.runtime.paths import count_paths, paths
from engine.runtime.proposals import Entry
from engine.runtime.world import World, gap_odds

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
    "source gap",  # ln (1 + odds) of that share where the source does not play the role yet, 0 where it does
    "target gap",
    "agreement",  # ln of the number of agents that walked the link
    "operator",  # ln (1+accepted)/(1+rejected) of the operator's decisions on this semcon
)
LOG_ODDS_LIMIT = 8.0
KNOWN_TARGETS = 16  # at most so many known targets have their mass taken out of a query
REJECT_BELOW = 0.05  # so little is neither worth proposing nor the operator's time


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

    def probabilities(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of many links, features (n, FEATURES) → (n,)."""
        score = np.clip((features * np.array(self.coefficients)).sum(axis=1), -700, 700)  # row by row, whatever the batch
        return np.asarray(1 / (1 + np.exp(-score)), np.float64)

    def to_json(self) -> dict[str, object]:
        """As the model file keeps it."""
        named = dict(zip(FEATURES, self.coefficients, strict=True))
        return {"coefficients": named, "calibrated": self.calibrated, "provenance": self.provenance}


UNCALIBRATED = Logistic(
    (-0.6, 0.45, 0.25, 0.6, 0.6, 0.15, 0.05, 0.5, 0.5, 0.3, 0.3, 0.3, 0.5),
    calibrated=False,
    provenance="set by hand: both readings weigh most; not fitted to data, so read it as an order, not as a frequency",
)


def stored_logistic(stored: Mapping[str, Any] | None) -> Logistic:
    """The verification that a model file keeps; the hand-set one, saying why, where it keeps none or one of other evidence."""
    if stored is None:
        return replace(UNCALIBRATED, provenance=f"the model file keeps no verification: {UNCALIBRATED.provenance}")
    named = stored["coefficients"]
    if set(named) != set(FEATURES):
        return replace(UNCALIBRATED, provenance=f"the model file's verification weighs other evidence: {UNCALIBRATED.provenance}")
    return Logistic(tuple(float(named[name]) for name in FEATURES), calibrated=True, provenance=stored.get("provenance", ""))


def _log_odds(log_probabilities: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the first target of each row, once the mass of the row's others is taken out of the distribution, (rows,)."""
    mass = np.exp(np.asarray(log_probabilities, np.float64))
    first = mass[offsets[:-1]]
    rest = np.maximum(1 - (np.add.reduceat(mass, offsets[:-1]) - first), 1e-9)
    share = np.clip(first / rest, 1e-9, 1 - 1e-9)
    return np.asarray(np.clip(np.log(share) - np.log1p(-share), -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT), np.float64)


class Verifier:
    """Scores the new proposals of a tick in one native call, at the deepest level, under the neutral context."""

    def __init__(self, engine: Engine, world: World, layers: ContextLayers, logistic: Logistic = UNCALIBRATED) -> None:
        self.engine = engine
        self.world = world
        self.layers = layers
        self.logistic = logistic
        self.operator: dict[int, list[int]] = {}  # semcon → the operator's [accepted, rejected]
        self.tokens = 0

    def features(self, entries: Sequence[Entry]) -> NDArray[np.float64]:
        """Features of each entry, (n, FEATURES). One native call."""
        if not entries:
            return np.zeros((0, len(FEATURES)))
        world = self.world
        link = np.array([(entry.source, entry.semcon, entry.target) for entry in entries], np.int64)
        source, semcon, target = link.T
        inverse = world.inverse[semcon]
        odds, ranks = self._readings(source, semcon, target)
        two, three = count_paths(world, source, target)
        source_role, target_role = world.expected(source, semcon), world.expected(target, inverse)
        operator = [self.operator.get(number, (0, 0)) for number in np.minimum(semcon, inverse).tolist()]
        accepted, rejected = np.array(operator, np.float64).T
        columns = (
            np.ones(len(entries)), *odds.T, *ranks.T, np.log1p(two), np.log1p(three), source_role, target_role,
            np.where(world.lacks(source, semcon), np.log1p(gap_odds(source_role)), 0),
            np.where(world.lacks(target, inverse), np.log1p(gap_odds(target_role)), 0),
            np.log([max(1, len(entry.agents)) for entry in entries]), np.log((1 + accepted) / (1 + rejected)),
        )  # fmt: skip
        return np.stack(columns, axis=1).astype(np.float64)

    def _readings(
        self, source: NDArray[np.int64], semcon: NDArray[np.int64], target: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Log-odds and reciprocal ranks, (n, 2) each: of the link as stated, and of its inverse reading."""
        world = self.world
        personal = self.layers.personal(())
        # rows 2i and 2i+1: the two readings of link i
        subject = np.stack([source, target], axis=1).reshape(-1)
        relation = np.stack([semcon, world.inverse[semcon]], axis=1).reshape(-1)
        answer = np.stack([target, source], axis=1).reshape(-1)
        queries = np.empty((len(subject), len(personal) + 2), np.uint32)
        queries[:, : len(personal)] = personal
        queries[:, -2], queries[:, -1] = subject, world.particles + relation
        known_offsets, known = world.targets(subject, relation, answer, KNOWN_TARGETS)
        # a row's targets: its answer, then what is known
        offsets = known_offsets + np.arange(len(known_offsets))
        targets = np.empty(offsets[-1], np.uint32)
        first = np.zeros(len(targets), bool)
        first[offsets[:-1]] = True
        targets[first], targets[~first] = answer, known
        levels = self.engine.levels
        result = self.engine.score(
            (np.arange(len(queries) + 1) * queries.shape[1], queries.reshape(-1)),
            default_policy(levels).pinned(levels),
            context=self.layers.neutral,
            personal=len(personal),
            targets=(offsets, targets),
            filters=(known_offsets, known),
            candidates=world.particles,
            purpose=0,
        )
        self.tokens += queries.size
        assert result.target_logprob is not None
        assert result.target_rank is not None
        ranks = 1 / np.maximum(result.target_rank[offsets[:-1]], 1.0)
        return _log_odds(result.target_logprob, offsets).reshape(-1, 2), np.asarray(ranks, np.float64).reshape(-1, 2)

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
    """The evidence for people: (kind, text) pairs. ``label`` turns a token id into text; fills ``entry.path``."""
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
    if not entry.path:  # found when it is first shown: most proposals never are
        entry.path = paths(world, entry.source, entry.target)[2]
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
