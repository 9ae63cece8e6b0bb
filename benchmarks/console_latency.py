"""First frame, key to paint, and paints a second of the console on a live swarm, as one JSON object.

The app runs without a terminal on a real event loop; a paint is timed when what it writes has been rendered.
Usage: python benchmarks/console_latency.py --agents 1000 --keys 200
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from cybtui.app import Console
from cybtui.console import close
from engine.runtime.loop import Settings, open_runtime

WATCH_SECONDS = 5.0
KEY_TIMEOUT = 10.0
KEY_SECONDS = 0.03  # between a paint and the next key


class Watched(Console):
    """Notes when each paint ended, and which agent was selected by then."""

    paints: list[tuple[float, int]]

    def _display(self, screen: Any, renderable: Any) -> None:
        super()._display(screen, renderable)
        self.paints.append((time.perf_counter(), self.view.agent))


async def measure(agents: int, keys: int, model: Path | None, size: tuple[int, int]) -> dict[str, Any]:
    """Runs the console and returns the figures in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        app = Watched(lambda: open_runtime(model, Settings(agents=agents, seed=1, folder=Path(folder))))
        app.paints = []
        async with app.run_test(size=size) as pilot:
            while not app.paints:
                await asyncio.sleep(0.001)
            first = app.paints[0][0] - start
            while app.view.agent < 0 or app.view.snapshot is None or app.view.snapshot.tick < 1:
                await asyncio.sleep(0.05)
            ready = time.perf_counter() - start
            await pilot.press("1")
            tick, begin, cpu = app.view.snapshot.tick, time.perf_counter(), time.thread_time()
            await asyncio.sleep(WATCH_SECONDS)
            watched = time.perf_counter() - begin
            painted = sum(moment > begin for moment, _ in app.paints)
            share = (time.thread_time() - cpu) / watched
            ticks = app.view.snapshot.tick - tick
            span = min(20, max(1, agents - 1))
            waits = [await _press(app, "down" if number % (2 * span) < span else "up") for number in range(keys)]
            rates = app.view.snapshot.rates
            close(app.source)
    return {
        "agents": agents,
        "size": list(size),
        "first_frame_seconds": first,
        "first_agents_seconds": ready,
        "key_to_paint_seconds": {f"p{q}": float(np.percentile(waits, q)) for q in (50, 95, 99)},
        "keys": len(waits),
        "paints_per_second": painted / watched,
        "interface_thread_share": share,
        "ticks_per_second": ticks / watched,
        "tokens_per_second": rates.tokens_per_second,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


async def _press(app: Watched, key: str) -> float:
    """Seconds from the key to the paint that shows another agent selected."""
    from textual import events  # not before cybtui, which sets how often Textual paints

    before, start = app.view.agent, time.perf_counter()
    app.post_message(events.Key(key, None))
    while time.perf_counter() - start < KEY_TIMEOUT:
        for moment, agent in reversed(app.paints):
            if moment < start:
                break
            if agent != before:
                await asyncio.sleep(KEY_SECONDS)
                return min(m for m, a in app.paints if m > start and a != before) - start
        await asyncio.sleep(0.0005)
    return float("nan")


def main() -> None:
    """Reads the options and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--columns", type=int, default=160)
    parser.add_argument("--rows", type=int, default=50)
    args = parser.parse_args()
    print(json.dumps(asyncio.run(measure(args.agents, args.keys, args.model, (args.columns, args.rows))), indent=2))


if __name__ == "__main__":
    main()
