"""Drives the console in tests: keys that are done when ``press`` returns, conditions instead of guessed sleeps.

Textual's own pilot waits after each key until the process uses no time, a fifth of a second with a console that polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual import events
from textual.geometry import Size

from cybtui.app import Console

CHARACTERS = {"space": " ", "comma": ",", "minus": "-", "slash": "/", "full_stop": "."}
NAMES = {character: name for name, character in CHARACTERS.items()}
PATIENCE = 20.0


def key(name: str) -> events.Key:
    """The event of a key by its name or character."""
    name = NAMES.get(name, name)
    return events.Key(name, CHARACTERS.get(name, name if len(name) == 1 else None))


async def press(app: Console, *names: str) -> None:
    """Presses keys one after the other and waits until the last one has done what it does."""
    for name in names:
        app.post_message(key(name))
    await app.keys.done()


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Waits until a condition holds."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while not condition():
        assert asyncio.get_running_loop().time() < end, what or "it never came to this"
        await asyncio.sleep(0.002)


async def ready(app: Console) -> None:
    """Waits until the source is open and an agent is selected."""
    await until(lambda: app.view.agent >= 0, "the source was not opened")


async def resize(app: Console, columns: int, rows: int) -> None:
    """Gives the terminal another size and waits until the panes have theirs."""
    size = Size(columns, rows)
    app.post_message(events.Resize(size, size))
    await until(lambda: app.screen.size == size)
    await app.keys.done()


async def resting(app: Console) -> None:
    """Waits until all panes are drawn and two looks at the screen are alike."""
    before = ""
    while True:
        app.redraw()
        app._note_is_new = True
        app.poll()
        screen = app.screen
        await until(lambda screen=screen: not (screen._dirty_widgets or screen._layout_required or screen._callbacks))
        await app.keys.done()
        now = app.export_screenshot()
        if now == before:
            return
        before = now
