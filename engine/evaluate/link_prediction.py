"""Filtered link prediction (Bordes et al., 2013) through the native runtime, at every level and at dynamic depth.

A query is laid out as an agent's context is: system layer, empty group, empty personal layer, then the particle and the semcon. Ranks
are over all candidates, ties take their mean rank; a candidate that the model does not know scores −∞, below all it knows. The cost of
a row is its multiply-adds over those of the deepest level on the same queries: prefill, fills and the output product included. Queries
that the model cannot be asked (see ``QuerySet``) count in every figure, with no arithmetic and no share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.evaluate.queries import QuerySet
from engine.model.context import ControlTokens, group_tokens, personal_tokens, system_tokens
from engine.model.model import Model
from engine.model.policy import Policy, default_policy
from engine.native import Engine, EngineConfig

BATCH = 2048
Progress = Callable[[str, float], None]
LAYER_SYSTEM, LAYER_GROUP = 0, 1


@dataclass(frozen=True)
class Outcome:
    """``ranks`` (queries,), ``depth`` (queries,) answering level, ``features`` (queries, levels, 6) if asked for, multiply-adds spent."""

    ranks: NDArray[np.float64]
    depth: NDArray[np.uint32]
    features: NDArray[np.float32] | None
    multiply_adds: int


def metrics(ranks: NDArray[np.float64]) -> dict[str, float]:
    """Mean reciprocal rank and hits at 1, 3, 10."""
    if len(ranks) == 0:
        return {"mrr": 0.0, "hits1": 0.0, "hits3": 0.0, "hits10": 0.0}
    return {
        "mrr": float((1 / ranks).mean()),
        "hits1": float((ranks <= 1).mean()),
        "hits3": float((ranks <= 3).mean()),
        "hits10": float((ranks <= 10).mean()),
    }


class Evaluator:
    """Scores query sets on one model. A context manager: it owns a native engine."""

    def __init__(self, model: Model, threads: int = 0) -> None:
        self.model = model
        pages = 512 * model.widths[-1] // model.widths[0] + 1024
        self.engine = Engine(
            model.native,
            EngineConfig(pages=pages, agents=1, groups=1, positions=256, threads=threads, rows=256),
        )
        control = ControlTokens(model.particles + model.semcons)
        system = self.engine.create_context(0, LAYER_SYSTEM, system_tokens(control))
        self.context = self.engine.create_context(system, LAYER_GROUP, group_tokens(control))
        self.personal = personal_tokens(control)

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def run(self, queries: QuerySet, policy: Policy, features: bool = False, progress: Progress | None = None, title: str = "") -> Outcome:
        """Ranks of the scoreable queries under a policy, in their order."""
        before = self.engine.counters().multiply_adds
        ranks, depths, kept = [], [], []
        n = len(queries.sources)
        for begin in range(0, n, BATCH):
            part = slice(begin, begin + BATCH)
            rows = [
                [*self.personal, int(source), int(semcon) + self.model.particles]
                for source, semcon in zip(queries.sources[part], queries.semcons[part], strict=True)
            ]
            result = self.engine.score(
                rows,
                policy,
                context=self.context,
                personal=len(self.personal),
                targets=[[int(answer)] for answer in queries.answers[part]],
                filters=queries.filters[part],
                want=("gain_features",) if features else (),
            )
            ranks.append(np.asarray(result.target_rank, np.float64))
            depths.append(np.asarray(result.depth))
            if features:
                kept.append(np.asarray(result.gain_features))
            if progress:
                progress(title, min(1.0, (begin + BATCH) / n))
        spent = self.engine.counters().multiply_adds - before
        return Outcome(
            np.concatenate(ranks) if ranks else np.zeros(0),
            np.concatenate(depths) if depths else np.zeros(0, np.uint32),
            np.concatenate(kept) if kept else None,
            spent,
        )


def by_semcon(model: Model, queries: QuerySet, outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Mean reciprocal ranks of the pinned levels for each semcon asked about, the most frequent first."""
    count = np.bincount(queries.semcons, minlength=model.semcons)
    means = [np.bincount(queries.semcons, 1 / outcome.ranks, minlength=model.semcons) / np.maximum(count, 1) for outcome in outcomes]
    label = model.vocabulary.label
    return [
        {"semcon": label(model.particles + semcon), "queries": int(count[semcon]), "mrr": [float(mean[semcon]) for mean in means]}
        for semcon in np.argsort(-count, kind="stable").tolist()
        if count[semcon]
    ]


def dynamic_policies(model: Model) -> list[Policy]:
    """The seed's thresholds, the stored policy and the gain rule, without repeats."""
    levels = model.levels
    wanted = [default_policy(levels), model.policy.for_levels(levels)]
    result: dict[tuple[object, ...], Policy] = {}
    for policy in wanted:
        result.setdefault((policy.rule, policy.thresholds, policy.inherit_text), policy)
    return list(result.values())


def evaluate(model: Model, queries: QuerySet, threads: int = 0, progress: Progress | None = None) -> dict[str, Any]:
    """What ``eval --json`` prints (cli.md). Levels of a spectral file are scored directly, e_pᵀ P_s e_q; ``forward`` is its
    transformer."""
    started = time.monotonic()
    unseen = np.array(queries.unseen_ranks, np.float64)
    rows: list[dict[str, Any]] = []
    dynamic: list[dict[str, Any]] = []
    with Evaluator(model, threads) as evaluator:
        spent, outcomes = [], []
        for level in range(1, model.levels + 1):
            outcome = evaluator.run(queries, default_policy(model.levels).pinned(level), progress=progress, title=f"level {level}")
            spent.append(outcome.multiply_adds)
            outcomes.append(outcome)
            rows.append({"width": model.widths[level - 1], **metrics(np.concatenate([outcome.ranks, unseen]))})
        for row, cost in zip(rows, spent, strict=True):
            row["cost"] = cost / max(spent[-1], 1)
        for policy in dynamic_policies(model) if model.levels > 1 else []:
            outcome = evaluator.run(queries, policy, progress=progress, title=policy.rule)
            share = np.bincount(outcome.depth, minlength=model.levels + 1)[1:] / max(len(outcome.depth), 1)
            figures = metrics(np.concatenate([outcome.ranks, unseen]))
            dynamic.append(
                {
                    "rule": policy.rule,
                    "thresholds": list(policy.thresholds),
                    "inherit": policy.inherit_text,
                    "mrr": figures["mrr"],
                    "hits10": figures["hits10"],
                    "share": share.tolist(),
                    "cost": outcome.multiply_adds / max(spent[-1], 1),
                }
            )
    result: dict[str, Any] = {"levels": rows, "dynamic": dynamic, "semcons": by_semcon(model, queries, outcomes)}
    if model.basis == "spectral":
        result["forward"] = rows
        result["levels"] = direct_levels(model, queries, progress)
    return {**result, "queries": queries.count, "unseen": len(unseen), "seconds": time.monotonic() - started}


def direct_levels(model: Model, queries: QuerySet, progress: Progress | None = None) -> list[dict[str, Any]]:
    """Filtered figures of e_pᵀ P_s e_q at every width, the maps made from E and the file's links."""
    from engine.compile.closed_form import direct_scores, directed_map
    from engine.native import matrix_unpack

    blocks = [matrix_unpack(matrix)[: model.particles] for matrix in model.native.arrays.embedding]
    embedding = np.ascontiguousarray(np.concatenate(blocks, axis=1))
    ranks = np.zeros((model.levels, len(queries.sources)))
    wanted = np.unique(queries.semcons)
    for number, semcon in enumerate(wanted.tolist()):
        mapping = directed_map(embedding, model.graph.links, np.asarray(model.vocabulary.inverse, np.int64), semcon, model.widths)
        mine = np.flatnonzero(queries.semcons == semcon)
        for begin in range(0, len(mine), 256):
            part = mine[begin : begin + 256]
            for level, width in enumerate(model.widths):
                scores = direct_scores(embedding, mapping, queries.sources[part], width)
                for row, query in enumerate(part.tolist()):
                    ranks[level, query] = filtered_rank(scores[row], int(queries.answers[query]), queries.filters[query])
        if progress:
            progress("direct score", (number + 1) / len(wanted))
    unseen = np.array(queries.unseen_ranks, np.float64)
    return [{"width": width, **metrics(np.concatenate([ranks[level], unseen]))} for level, width in enumerate(model.widths)]


def filtered_rank(scores: NDArray[np.float32], answer: int, known: NDArray[np.uint32]) -> float:
    """1 + better + ties/2 among candidates that are not other known answers."""
    mine = scores[answer]
    better = int((scores > mine).sum())
    equal = int((scores == mine).sum()) - 1
    others = known[known != answer]
    better -= int((scores[others] > mine).sum())
    equal -= int((scores[others] == mine).sum())
    return 1 + better + equal / 2
