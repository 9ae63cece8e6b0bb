"""Speed and traffic of agents on one model at forced depths.

A point is a number of agents and the share of their tokens that the deepest level answers. Agents share SHARED positions of
context and start with PRIVATE of their own. Share 0 pins the router and share 1 the deepest level; between them a token goes
where a hash of (seed, agent, step) sends it, and one that goes deep passes every level on its way, as a token that nothing
satisfies does. Back-fill of holes counts. Prompts, and the shared context at the levels that will be used, come before the clock.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import NativeError
from engine.machine import memory_available
from engine.model.policy import Policy
from engine.native import CID_BYTES, LAYER_SYSTEM, PAGE_POSITIONS, Counters, Engine, EngineConfig, NativeModel, Roofline
from engine.runtime import chance

SHARED, PRIVATE = 256, 16
FILL_ROWS = 512  # of one pass, as the native runtime has it
SPARE_BYTES = 256 << 20
EFFICIENCY = 0.4  # of the roofline, to foretell how long a point takes


@dataclass(frozen=True, slots=True)
class Plan:
    """What is the same for all points."""

    steps: int = 8
    threads: int = 0
    seed: int = 0
    limit: float = 600.0  # seconds that a point may be expected to take


def goes_deep(seed: int, agents: int, step: int, share: float) -> NDArray[np.bool_]:
    """Which agents' tokens of a step are among the ``share`` that goes to the deepest level, (agents,): by their counters alone."""
    drawn = chance.draw(seed, np.arange(agents), step) >> np.uint64(11)
    return np.asarray(drawn.astype(np.float64) / (1 << 53) < share, bool)


def multiply_adds(model: NativeModel, level: int) -> int:
    """Products of one position at ``level``, all layers, attention and output left out."""
    return sum(matrix.rows * matrix.columns for layer in model.arrays.weights for block in layer[:level] for matrix in block)


def stored_bytes(model: NativeModel) -> int:
    """Packed weights and E."""
    arrays = model.arrays
    tables = sum(matrix.data.nbytes for matrix in arrays.embedding)
    return tables + sum(matrix.data.nbytes for layer in arrays.weights for block in layer for matrix in block)


def _private_pages(steps: int) -> int:
    return -(-(PRIVATE + steps + 2) // PAGE_POSITIONS) + 1


def _pages(model: NativeModel, agents: int, share: float, steps: int) -> int:
    ratio = model.arrays.widths[-1] // model.arrays.widths[0] if share > 0 else 1
    return ratio * (SHARED // PAGE_POSITIONS + agents * _private_pages(steps) + 1)


def needed_bytes(model: NativeModel, agents: int, share: float, steps: int) -> int:
    """Memory of a point beside the weights: the pool and the working rows of the engine."""
    arrays = model.arrays
    d, f, layers = arrays.widths[-1], arrays.ffn_widths[-1], arrays.layers
    page = PAGE_POSITIONS * layers * 2 * arrays.widths[0] * 2
    rows = min(max(agents, 64), 1024) + FILL_ROWS
    kept = 6.125 if any(matrix.type == 0 for matrix in arrays.embedding) else 2.125  # bytes an input of products takes
    working = rows * (layers * (3 * d + f) * kept + d * (5 * 4 + kept) + f * 8)
    return int(_pages(model, agents, share, steps) * page + working)


def expected_seconds(model: NativeModel, roofline: Roofline, agents: int, share: float, plan: Plan) -> float:
    """A rough guess: prompts, fills and tokens by arithmetic, and one stream of the weights a step."""
    levels = len(model.arrays.widths)
    router, deepest = multiply_adds(model, 1), multiply_adds(model, levels)
    output = model.arrays.vocabulary * np.cumsum(np.diff((0, *model.arrays.widths)))
    tokens = agents * (plan.steps + 1)
    base = router if share < 1 else deepest
    work = float(agents * PRIVATE + SHARED) * base + tokens * (base + int(output[-1] if share == 1 else output[0]))
    if 0 < share < 1:
        visited = agents * (1 - (1 - share) ** plan.steps)
        work += (visited * (PRIVATE + plan.steps) + SHARED) * deepest + tokens * share * int(output.sum())
    streamed = stored_bytes(model) * (plan.steps + 1) * (1 if share else router / deepest)
    return float(2 * work / (roofline.int8_ops * EFFICIENCY) + streamed / (roofline.dram_bytes_per_second * EFFICIENCY))


def refusal(model: NativeModel, roofline: Roofline, agents: int, share: float, plan: Plan) -> str | None:
    """Why a point can't be measured here, or None."""
    needed, available = needed_bytes(model, agents, share, plan.steps) + SPARE_BYTES, memory_available()
    unread = stored_bytes(model)  # of the mapped file; nothing says how much of it the page cache holds already
    if available and needed + unread > available:
        return f"needs {(needed + unread) >> 20:,} MiB of memory, {available >> 20:,} MiB are free"
    seconds = expected_seconds(model, roofline, agents, share, plan)
    if seconds > plan.limit:
        return f"would take about {seconds:,.0f} s, more than the {plan.limit:,.0f} s of --limit"
    return None


def resident_bytes() -> int:
    """Memory that this process holds now (its peak, where the system does not say)."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def moved_bytes(counters: Counters) -> int:
    """All traffic that the kernels count."""
    return sum(counters.weight_bytes) + counters.kv_bytes_shared + counters.kv_bytes_personal + counters.other_bytes


ROUTER, DEEP = 0, 1  # groups


def measure(model: NativeModel, roofline: Roofline, agents: int, share: float, plan: Plan) -> dict[str, Any]:
    """One row of ``bench --json``. Raises NativeError where the engine can't be made or the pool does not do."""
    levels = len(model.arrays.widths)
    config = EngineConfig(
        pages=_pages(model, agents, share, plan.steps),
        agents=agents,
        groups=2,
        positions=SHARED + _private_pages(plan.steps) * PAGE_POSITIONS,
        threads=plan.threads,
        seed=plan.seed,
    )
    with Engine(model, config) as engine:
        router = Policy(thresholds=(2.0,) * (levels - 1), depth_max=levels)
        engine.set_policy(ROUTER, router.pinned(levels if share == 1 else 1))
        engine.set_policy(DEEP, router)
        random = np.random.default_rng(plan.seed)
        vocabulary = model.arrays.vocabulary
        context = engine.create_context(0, LAYER_SYSTEM, random.integers(0, vocabulary, SHARED))
        slots = [engine.create_agent(ROUTER, bytes(CID_BYTES), serial=agent) for agent in range(agents)]
        for slot in slots:
            engine.begin(slot, context, [], random.integers(0, vocabulary, PRIVATE))
        if 0 < share < 1:  # the first agent takes the shared context to the deepest level
            engine.set_group(slots[0], DEEP)
        engine.tick()
        before, spent, deep = engine.counters(), 0.0, np.zeros(agents, bool)
        deep[0] = 0 < share < 1
        for step in range(plan.steps):
            if 0 < share < 1:
                wanted = goes_deep(plan.seed, agents, step, share)
                for agent in np.flatnonzero(wanted != deep).tolist():
                    engine.set_group(slots[agent], DEEP if wanted[agent] else ROUTER)
                deep = wanted
            spent += engine.tick().seconds
        after = engine.counters()
        return _row(roofline, agents, share, spent, before, after)


def _row(roofline: Roofline, agents: int, share: float, spent: float, before: Counters, after: Counters) -> dict[str, Any]:
    def grown(name: str) -> Any:
        old, new = getattr(before, name), getattr(after, name)
        return [b - a for a, b in zip(old, new, strict=True)] if isinstance(old, tuple) else new - old

    tokens = max(1, grown("generated"))
    moved = moved_bytes(after) - moved_bytes(before)
    ideal = max(moved / roofline.dram_bytes_per_second, 2 * grown("multiply_adds") / roofline.int8_ops)
    return {
        "agents": agents,
        "depth_share": share,
        "tokens_per_second": tokens / spent,
        "weight_bytes_per_token": sum(grown("weight_bytes")) / tokens,
        "kv_bytes_per_token": (grown("kv_bytes_shared") + grown("kv_bytes_personal")) / tokens,
        "other_bytes_per_token": grown("other_bytes") / tokens,
        "multiply_adds_per_token": grown("multiply_adds") / tokens,
        "savings": grown("standard_bytes") / moved,
        "savings_vs_batched": grown("batched_bytes") / moved,
        "rss_bytes": resident_bytes(),
        "fraction_of_roofline": ideal / spent,
        "tokens": tokens,
        "by_level": grown("by_level"),
        "filled": grown("filled"),
        "seconds": spent,
    }


def measure_all(
    model: NativeModel,
    roofline: Roofline,
    agents: Sequence[int],
    shares: Sequence[float],
    plan: Plan,
    told: Callable[[dict[str, Any]], None] = lambda row: None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and refused points, both ordered by (agents, depth_share); ``told`` is called with each as it comes."""
    rows, refused = [], []
    for count, share in _points(agents, shares):
        reason = refusal(model, roofline, count, share, plan)
        if reason is None:
            try:
                row = measure(model, roofline, count, share, plan)
                rows.append(row)
                told(row)
                continue
            except NativeError as error:
                reason = error.text
        refused.append({"agents": count, "depth_share": share, "reason": reason})
        told(refused[-1])
    return rows, refused


def _points(agents: Sequence[int], shares: Sequence[float]) -> Iterator[tuple[int, float]]:
    for count in sorted(set(agents)):
        for share in sorted(set(shares)):
            yield count, share
