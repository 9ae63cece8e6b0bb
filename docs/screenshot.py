"""Regenerates docs/screenshot.svg: the console on the embedded model after a few seconds of work. Usage: python docs/screenshot.py"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from cybtui.app import Console
from engine.runtime.loop import Settings, open_runtime


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = Console(lambda: open_runtime(None, Settings(agents=100, seed=3, folder=Path(folder))))
        async with app.run_test(size=(160, 50)) as pilot:
            for _ in range(120):
                await pilot.pause(0.25)
                if app.shown is not None and app.shown.tick >= 40:
                    break
            svg = app.export_screenshot(title="cybtui")
            Path(__file__).with_name("screenshot.svg").write_text(svg, encoding="utf-8")
            if app.source is not None:
                app.source.close()
                app.source.wait_closed(10)  # type: ignore[attr-defined]


asyncio.run(main())
