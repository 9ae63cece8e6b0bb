"""Depth policies measured on held-out links, and the calibrated ``gain`` rule stored with what it costs (design §6).

``python -m engine.compile.policy F.cyb`` fits and measures on the file's validation links and writes both into the file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.compile.export import rewrite
from engine.compile.gain import Floats, GainRule, Samples, fit_gain
from engine.errors import UserError
from engine.evaluate.link_prediction import Evaluator, Outcome, metrics
from engine.evaluate.queries import QuerySet, queries_from_links
from engine.model.context import CONTROL_TOKENS
from engine.model.model import Model
from engine.model.policy import Policy, default_policy

Progress = Callable[[str, float], None]
INHERITANCES = ("backfill", "zeros", "window:16")
PROBABILITIES = ((0.9, 0.85), (0.5, 0.5), (0.25, 0.25))


def validation_queries(model: Model, links: NDArray[np.int64] | None = None) -> QuerySet:
    """Both readings of ``links`` (n, 3), else of the file's validation links; filtered by every link the file holds."""
    chosen = model.valid if links is None else links
    if len(chosen) == 0:
        raise UserError(f"{model.path}: it holds no validation links to measure policies on; name some with --valid")
    return queries_from_links(model, chosen, [model.graph.links, model.hidden, model.valid])


def gather_samples(evaluator: Evaluator, queries: QuerySet, pinned: list[Outcome], progress: Progress | None = None) -> Samples:
    """What the gain rule is fitted on: features of every level, and what it costs to escalate to each."""
    levels = evaluator.model.levels
    through = replace(default_policy(levels), thresholds=(2.0,) * (levels - 1))  # no probability exceeds 2: always deeper
    deepest = max(pinned[-1].multiply_adds, 1)
    costs = [pinned[0].multiply_adds / deepest]
    features = np.zeros((len(queries.sources), levels, 6), np.float32)
    for level in range(2, levels + 1):
        outcome = evaluator.run(queries, replace(through, depth_max=level), level == levels, progress, f"to level {level}")
        costs.append(outcome.multiply_adds / deepest)
        if outcome.features is not None:
            features = outcome.features
    links = np.arange(len(queries.sources)) % (len(queries.sources) // 2)  # a reading and its inverse stand half the set apart
    reciprocal: Floats = np.stack([1 / outcome.ranks for outcome in pinned])
    return Samples(features, reciprocal, queries.semcons, links, np.array(costs))


def dynamic_candidates(model: Model) -> list[Policy]:
    """Rules and inheritances that the curve shows beside the pinned levels, for a file that holds a gain rule."""
    levels = model.levels
    gain = model.policy.for_levels(levels)
    policies = [gain.with_inherit(inherit) for inherit in INHERITANCES]
    for first, other in PROBABILITIES:
        thresholds = (first, *[other] * levels)[: levels - 1]
        policies += [replace(default_policy(levels), rule=rule, thresholds=thresholds) for rule in ("top", "margin")]
    return policies


def _row(policy: Policy, outcome: Outcome, deepest: int, levels: int, level: int | None = None) -> dict[str, Any]:
    share = np.bincount(outcome.depth, minlength=levels + 1)[1:] / max(len(outcome.depth), 1)
    row: dict[str, Any] = {
        "rule": policy.rule,
        "thresholds": [float(f"{value:.6g}") for value in policy.thresholds],
        "inherit": policy.inherit_text,
        "share": [round(float(value), 4) for value in share],
        "mrr": round(metrics(outcome.ranks)["mrr"], 5),
        "cost": round(outcome.multiply_adds / max(deepest, 1), 5),
    }
    if level is not None:
        row["pinned"] = level
    return row


def store_gain(path: Path, rule: GainRule) -> dict[str, Any]:
    """Writes the rule into the file, as its stored policy with back-fill. Returns that policy, its curve still empty."""
    controls = np.zeros((len(rule.bias), len(CONTROL_TOKENS)), np.float32)
    stored: dict[str, Any] = {
        "inherit": "backfill",
        "rule": "gain",
        "thresholds": list(rule.thresholds),
        "estimate": {"loss": rule.loss, "loss_error": rule.loss_error, "cost": rule.cost, "price": rule.price},
        "curve": [],
    }
    rewrite(path, stored, rule.weights, np.concatenate([rule.bias, controls], axis=1))
    return stored


def measure_and_store(
    path: Path, seed: int = 0, links: NDArray[np.int64] | None = None, threads: int = 0, progress: Progress | None = None
) -> dict[str, Any]:
    """Fits the gain rule, measures the quality–cost curve and writes both into the file. Returns the stored policy.

    ``links`` (n, 3) replaces the file's validation links. A model of one level gets a curve of one point. Raises UserError when there
    are no validation links or the file cannot be written.
    """
    model = Model.open(path)
    queries, levels = validation_queries(model, links), model.levels
    pinned_policies = [default_policy(levels).pinned(level) for level in range(1, levels + 1)]
    with Evaluator(model, threads) as evaluator:
        pinned = [
            evaluator.run(queries, policy, progress=progress, title=f"level {level}") for level, policy in enumerate(pinned_policies, 1)
        ]
        samples = gather_samples(evaluator, queries, pinned, progress) if levels > 1 else None
    deepest = pinned[-1].multiply_adds
    curve = [
        _row(policy, outcome, deepest, levels, level)
        for level, (policy, outcome) in enumerate(zip(pinned_policies, pinned, strict=True), 1)
    ]
    stored: dict[str, Any] = dict(model.stored_policy)
    if samples is not None:
        stored = store_gain(path, fit_gain(samples, model.semcons, seed))
        model = Model.open(path)
        with Evaluator(model, threads) as evaluator:
            for policy in dynamic_candidates(model):
                title = f"{policy.rule} {policy.inherit_text}"
                curve.append(_row(policy, evaluator.run(queries, policy, progress=progress, title=title), deepest, levels))
    stored["curve"] = curve
    rewrite(path, stored)
    return stored


def main(arguments: list[str] | None = None) -> int:
    """``python -m engine.compile.policy``; exit status 0, or 1 with a message."""
    parser = argparse.ArgumentParser(prog="python -m engine.compile.policy", description=__doc__)
    parser.add_argument("file", type=Path, help="model file, rewritten in place")
    parser.add_argument("--valid", metavar="T", type=Path, help="links to measure on (default: the file's validation links)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the cross-fitting (default: 0)")
    parser.add_argument("--threads", type=int, default=0, help="worker threads (default: the cores there are)")
    args = parser.parse_args(arguments)
    try:
        links = None
        if args.valid is not None:
            from engine.compile.pipeline import valid_links

            links = valid_links(args.valid, Model.open(args.file).graph)
        stored = measure_and_store(
            args.file, args.seed, links, args.threads, lambda title, share: print(f"{title}: {share:.0%}", file=sys.stderr)
        )
    except UserError as error:
        print(error.message, file=sys.stderr)
        return 1
    for row in stored["curve"]:
        name = f"pinned {row['pinned']}" if "pinned" in row else f"{row['rule']} {row['thresholds']} {row['inherit']}"
        print(f"{name:48} mrr {row['mrr']:.4f}  cost {row['cost']:.3f}  share {row['share']}")
    if "estimate" in stored:
        print("gain, cross-fitted: loses {loss:.4f} ± {loss_error:.4f} at {cost:.3f} of the arithmetic".format(**stored["estimate"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
