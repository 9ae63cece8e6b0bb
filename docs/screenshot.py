"""Regenerates docs/screenshot.svg: the console on the embedded model after a few seconds of work. Usage: python docs/screenshot.py"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from cybtui.app import Console
from cybtui.console import close
from engine.runtime.loop import Settings, open_runtime

SIZE, TICKS, AGENTS = (160, 50), 60, 100


async def main() -> None:
    """Runs the console without a terminal and writes what it shows."""
    with tempfile.TemporaryDirectory() as folder:
        app = Console(lambda: open_runtime(None, Settings(agents=AGENTS, seed=3, folder=Path(folder))))
        async with app.run_test(size=SIZE) as pilot:
            for _ in range(240):
                await pilot.pause(0.25)
                if app.view.snapshot is not None and app.view.snapshot.tick >= TICKS:
                    break
            await pilot.pause(0.5)
            svg = app.export_screenshot(title="cybtui").replace("<text ", '<text xml:space="preserve" ')
            Path(__file__).with_name("screenshot.svg").write_text(svg, encoding="utf-8")
            close(app.source)


asyncio.run(main())
