"""The headless run: the same swarm as the console's, for a number of tokens an agent, then one object of figures (cli.md)."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.runtime import baselines
from engine.runtime.picture import bytes_per_agent
from engine.runtime.sizing import engine_config
from engine.runtime.swarm import DEFAULT_BUDGET, Swarm, Tick
from engine.runtime.telemetry import moved_bytes, percentiles, ratio

if TYPE_CHECKING:
    from engine.model.model import Model
    from engine.model.policy import Policy
    from engine.native import Counters, Engine

STALLED_TICKS = 1000  # ticks without a token, after which something is wrong with the engine
Progress = Callable[[int, int, int], None]  # tick, tokens generated, tokens wanted


def digest(history: Sequence[Tick]) -> str:
    """SHA-256 over all agents in order of id: each one's generated tokens (u32, little-endian), then their depths (u8)."""
    agents = np.concatenate([np.zeros(0, np.int64), *(tick.agents for tick in history)])
    tokens = np.concatenate([np.zeros(0, "<u4"), *(tick.tokens["token"] for tick in history)]).astype("<u4")
    depths = np.concatenate([np.zeros(0, np.uint8), *(tick.tokens["depth"] for tick in history)]).astype(np.uint8)
    order = np.argsort(agents, kind="stable")
    agents, tokens, depths = agents[order], tokens[order], depths[order]
    hashed = hashlib.sha256()
    bounds = np.flatnonzero(np.diff(agents, prepend=-1, append=-1)) if len(agents) else np.zeros(0, np.int64)
    for low, high in itertools.pairwise(bounds.tolist()):
        hashed.update(tokens[low:high].tobytes())
        hashed.update(depths[low:high].tobytes())
    return hashed.hexdigest()


def run(
    model: Model,
    agents: int,
    steps: int,
    seed: int = 0,
    *,
    policy: Policy | None = None,
    budget: int = DEFAULT_BUDGET,
    threads: int = 0,
    step_rows: int = 0,
    progress: Progress | None = None,
    make_engine: Callable[[Model, Any], Engine] | None = None,
) -> dict[str, Any]:
    """Runs ``agents`` agents until each has generated ``steps`` tokens. ``policy`` None is the file's.

    Returns the object of ``run --json``. Verified proposals are accepted from probability 0.5; each agent makes at most
    ``budget``. Raises UserError where the pool cannot be made, NativeError where the native runtime fails.
    """
    config = engine_config(model, agents, seed, threads, step_rows=step_rows)
    if make_engine is None:
        from engine.native import Engine

        engine = Engine(model.native, config)
    else:
        engine = make_engine(model, config)
    try:
        swarm = Swarm(model, engine, seed=seed, budget=budget)
        swarm.history = []
        swarm.limit = steps
        swarm.add_default_groups(agents, policy)
        swarm.spawn(agents)
        seconds, durations = drive(swarm, agents * steps, progress)
        return report(swarm, seconds, durations, steps, threads or _cores())
    finally:
        engine.close()


def drive(swarm: Swarm, wanted: int, progress: Progress | None = None) -> tuple[float, list[float]]:
    """Steps until every agent rests. Returns wall seconds from the first step to the last, and of each step."""
    durations: list[float] = []
    generated = empty = 0
    begun = time.perf_counter()
    while swarm.running:
        start = time.perf_counter()
        tick = swarm.step()
        durations.append(time.perf_counter() - start)
        generated += len(tick.tokens)
        empty = 0 if len(tick.tokens) else empty + 1
        if empty > STALLED_TICKS:
            raise RuntimeError(f"no agent took a token in {STALLED_TICKS} ticks")
        if progress is not None:
            progress(swarm.tick, generated, wanted)
    return time.perf_counter() - begun, durations


def report(swarm: Swarm, seconds: float, durations: list[float], steps: int, threads: int) -> dict[str, Any]:
    """The object of ``run --json`` for a swarm that has come to rest."""
    model, engine, counters = swarm.model, swarm.engine, swarm.engine.counters()
    policy = swarm.groups[0].policy if swarm.groups else swarm.default_policy
    if swarm.measures.hidden and swarm.measures.baselines is None:
        vectors = baselines.router_vectors
        swarm.measures.baselines = baselines.compute(swarm.world, model.hidden, lambda: vectors(model))
    swarm.measure()
    p50, p95, p99 = percentiles(durations)
    return {
        "model": {
            "name": model.name, "digest": model.digest, "basis": model.basis, "levels": list(model.widths),
            "layers": model.layers, "vocabulary": len(model.vocabulary), "bytes": model.bytes,
        },
        "agents": len(swarm.agents),
        "groups": len(swarm.groups),
        "steps": steps,
        "seconds": seconds,
        "threads": threads,
        "seed": swarm.seed,
        "inherit": policy.inherit_text,
        "rule": policy.rule,
        "tokens": {
            "generated": counters.generated, "by_level": list(counters.by_level), "prompt": counters.prompt,
            "filled": list(counters.filled), "verify": counters.verify,
        },
        "tokens_per_second": ratio(counters.generated, seconds),
        "step_seconds": {"p50": p50, "p95": p95, "p99": p99},
        "arithmetic": {
            "multiply_adds": counters.multiply_adds,
            "always_deepest_multiply_adds": counters.always_deepest_multiply_adds,
            "ratio": ratio(counters.multiply_adds, counters.always_deepest_multiply_adds),
        },
        "pool": _pool(engine, len(swarm.agents), counters),
        "bandwidth": _bandwidth(counters),
        "goals": {
            "terminal": {
                "quality": swarm.measures.quality(swarm.proposals.counts["proposed"]), "kl": swarm.measures.divergence(),
            },
            "drift_alerts": swarm.goals.drift_alerts(),
        },
        "links": _links(swarm),
        "digest": digest(swarm.history or []),
    }  # fmt: skip


def _pool(engine: Engine, agents: int, counters: Counters) -> dict[str, Any]:
    pool = engine.pool()
    by_layer = [pages * pool.base_page_bytes for pages in pool.pages_by_layer]
    return {
        "base_page_bytes": pool.base_page_bytes,
        "pages_total": pool.pages_total,
        "pages_used": pool.pages_used,
        "pages_shared": pool.pages_shared,
        "bytes_by_layer": dict(zip(("system", "group", "personal", "kv"), by_layer, strict=True)),
        "bytes_per_agent": bytes_per_agent(pool, agents),
        "copies": counters.copies,
    }


def _bandwidth(counters: Counters) -> dict[str, Any]:
    tokens, moved = counters.generated, moved_bytes(counters)
    return {
        "weight_bytes": list(counters.weight_bytes),
        "passes": list(counters.passes),
        "kv_bytes_shared": counters.kv_bytes_shared,
        "kv_bytes_personal": counters.kv_bytes_personal,
        "other_bytes": counters.other_bytes,
        "bytes_per_token": ratio(moved, tokens),
        "standard_bytes_per_token": ratio(counters.standard_bytes, tokens),
        "savings": ratio(counters.standard_bytes, moved),
        "batched_bytes_per_token": ratio(counters.batched_bytes, tokens),
        "savings_vs_batched": ratio(counters.batched_bytes, moved),
    }


def _links(swarm: Swarm) -> dict[str, Any]:
    """found, precision and recall count accepted links; the baselines get as many proposals as the swarm made."""
    counts, measures = swarm.proposals.counts, swarm.measures
    found = measures.accepted_hits
    hits = measures.baselines.at(counts["proposed"]) if measures.baselines else dict.fromkeys(baselines.NAMES, 0)
    return {
        "proposed": counts["proposed"],
        "verified": counts["verified"],
        "accepted": counts["accepted"],
        "rejected": counts["rejected"],
        "hidden": measures.hidden,
        "found": found,
        "precision": ratio(found, counts["accepted"]),
        "recall": ratio(found, measures.hidden),
        "budget": swarm.budget,
        "calibrated": swarm.verifier.logistic.calibrated,
        "baselines": hits,
    }


def _cores() -> int:
    from engine.machine import this_machine

    return this_machine().cores
