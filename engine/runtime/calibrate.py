"""Calibrates a model file's verification on its validation links: ``python -m engine.runtime.calibrate F.cyb``.

What a probability means then. A swarm works on the graph as compiled, which is without the withheld links (validation and
hidden). Of the claims it verifies there, with evidence like this claim's, the probability is the share that the source states
and the graph was compiled without. Two things follow:

- Only hits among the validation links are seen. Both kinds of withheld links are drawn alike, so one such hit stands for
  (validation + hidden) / validation withheld ones. Claims that state a hidden link are left out: nothing is learnt from them,
  and they are no counter-examples either. Every other claim counts as false.
- A claim that is true, but which the source does not state, counts as false. So the figure is a lower bound of how often a
  claim is true, and it holds for graphs that lack about as many links as were withheld.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.compile.export import rewrite
from engine.errors import UserError
from engine.model.model import Model
from engine.runtime.calibration import calibration_error, cross_fitted, fit, reliability
from engine.runtime.sizing import engine_config
from engine.runtime.swarm import Swarm
from engine.runtime.verification import FEATURES, REJECT_BELOW

if TYPE_CHECKING:
    from engine.native import Engine

AGENTS, STEPS = 256, 100
LEAST_FACTS = 10
UNBOUNDED = 1 << 30
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Labelled:
    """Verified claims of a swarm, without those that state a hidden link. C claims."""

    features: NDArray[np.float64]  # (C, FEATURES)
    facts: NDArray[np.bool_]  # (C,) states a validation link
    weights: NDArray[np.float64]  # (C,) how many claims it stands for
    pairs: NDArray[np.int64]  # (C,) number of the unordered pair it joins


def gather(
    model: Model,
    agents: int = AGENTS,
    steps: int = STEPS,
    seed: int = 0,
    threads: int = 0,
    make_engine: Callable[[Model, Any], Engine] | None = None,
    progress: Progress | None = None,
) -> Labelled:
    """Runs a swarm that accepts nothing and verifies every claim, and labels what it claimed."""
    if make_engine is None:
        from engine.native import Engine

        def make_engine(model: Model, config: Any) -> Engine:
            return Engine(model.native, config)

    engine = make_engine(model, engine_config(model, agents, seed, threads))
    try:
        swarm = Swarm(model, engine, seed=seed, budget=UNBOUNDED, live=True)
        swarm.audit = []
        swarm.agents_per_verification = 1
        swarm.add_default_groups(agents)
        swarm.spawn(agents)
        for step in range(steps):
            swarm.step()
            if progress is not None:
                progress("claims", (step + 1) / steps)
        swarm.verify_waiting()
    finally:
        engine.close()
    world = swarm.world
    links = np.array([(claim.source, claim.semcon, claim.target) for claim, _ in swarm.audit], np.int64).reshape(-1, 3)
    features = np.array([row for _, row in swarm.audit], np.float64).reshape(-1, len(FEATURES))
    keys = world.canonical_keys(*links.T)
    valid, hidden = (np.unique(world.canonical_keys(*withheld.T)) for withheld in (model.valid, model.hidden))
    facts, known = np.isin(keys, valid), ~np.isin(keys, hidden)
    weights = np.where(facts, (len(valid) + len(hidden)) / max(1, len(valid)), 1.0)
    pairs = np.minimum(links[:, 0], links[:, 2]) * world.particles + np.maximum(links[:, 0], links[:, 2])
    return Labelled(features[known], facts[known], weights[known], pairs[known])


def calibrate(path: Path, seed: int = 0, threads: int = 0, progress: Progress | None = None, **swarm: Any) -> dict[str, Any]:
    """Fits the verification and writes it into the file. Returns what is stored, with the reliability by bins added.

    ``swarm``: further arguments of ``gather``. Raises UserError where the validation links do not suffice or the file cannot be
    written.
    """
    model = Model.open(path)
    if not len(model.valid):
        raise UserError(f"{path}: it holds no validation links to calibrate the verification on; compile it with --finetune or --valid")
    data = gather(model, seed=seed, threads=threads, progress=progress, **swarm)
    if data.facts.sum() < LEAST_FACTS or data.facts.all():
        raise UserError(
            f"{path}: {int(data.facts.sum())} of {len(data.facts)} claims are validation links; "
            f"at least {LEAST_FACTS} are needed to calibrate the verification"
        )
    foretold = cross_fitted(data.features, data.facts, data.pairs, data.weights)
    worth = foretold >= REJECT_BELOW
    fitted = fit(data.features, data.facts, source="validation links", weights=data.weights)
    stored = {
        **fitted.to_json(),
        "claims": len(data.facts),
        "facts": int(data.facts.sum()),
        "facts_stand_for": round(float(data.weights.max()), 4),
        "base_rate": round(float(data.weights[data.facts].sum() / data.weights.sum()), 6),
        "error": round(calibration_error(foretold, data.facts, weights=data.weights), 6),
        "error_of_proposals": round(calibration_error(foretold[worth], data.facts[worth], weights=data.weights[worth]), 6),
    }
    rewrite(path, verification=stored)
    return {**stored, "reliability": reliability(foretold, data.facts, data.weights)}


def main(arguments: list[str] | None = None) -> int:
    """``python -m engine.runtime.calibrate``; exit status 0, or 1 with a message."""
    parser = argparse.ArgumentParser(prog="python -m engine.runtime.calibrate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="model file, rewritten in place")
    parser.add_argument("--seed", type=int, default=0, help="seed of the swarm that makes the claims (default: 0)")
    parser.add_argument("--threads", type=int, default=0, help="worker threads (default: the cores there are)")
    args = parser.parse_args(arguments)
    try:
        stored = calibrate(args.file, args.seed, args.threads, lambda title, share: print(f"{title}: {share:.0%}", file=sys.stderr))
    except UserError as error:
        print(error.message, file=sys.stderr)
        return 1
    for name, coefficient in stored["coefficients"].items():
        print(f"{name:20} {coefficient:8.3f}")
    print(f"{stored['claims']} claims, {stored['facts']} validation links, each for {stored['facts_stand_for']:.3f} withheld ones")
    print("cross-fitted:  probability  share of withheld links  claims")
    for mean, share, weight in stored["reliability"]:
        print(f"               {mean:11.3f}  {share:23.3f}  {weight:6.0f}")
    print(f"expected calibration error {stored['error']:.4f}; of what is worth proposing {stored['error_of_proposals']:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
