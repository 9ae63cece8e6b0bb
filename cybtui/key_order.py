"""Keys one after another, however fast they come.

Textual hands a key to the focused widget without waiting for what the key before it did. Printable characters are put into a line
at once while backspace and enter travel up to the app first, so that ``backspace 5 enter``, typed while a paint takes its time, becomes
``5 backspace enter``; and what is typed right after a key that opens a question goes to the pane behind it, where ``x`` rejects.
Here the next key waits until everybody between the focused widget and the app has seen the one before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from textual import events
from textual.app import App
from textual.message_pump import MessagePump

HOP_SECONDS = 1.0  # a widget that is being taken away answers nobody
ROUNDS = 2  # the key's way up to its action; then the messages and the screen that the action made


class KeyOrder:
    """``put`` takes keys and pastes in order; ``handle`` gets each when the one before it is done."""

    def __init__(self, app: App[Any], handle: Callable[[events.Event], Awaitable[None]]) -> None:
        self.app = app
        self.handle = handle
        self._waiting: asyncio.Queue[events.Event] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins; call with the app's loop running."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Ends; keys that wait are dropped."""
        if self._task is not None:
            self._task.cancel()

    def put(self, event: events.Event) -> None:
        """Queues a key or a paste."""
        self._waiting.put_nowait(event)

    async def done(self) -> None:
        """Waits until every key so far has done what it does."""
        await _reached(self.app)
        await self._waiting.join()

    async def _run(self) -> None:
        while True:
            event = await self._waiting.get()
            await self.handle(event)
            for _ in range(ROUNDS):
                for node in (self.app.focused or self.app.screen).ancestors_with_self:
                    await _reached(node)
            self._waiting.task_done()


async def _reached(node: MessagePump) -> None:
    """Waits until a widget has handled what is in its queue now."""
    done = asyncio.Event()
    if node.call_later(done.set):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), HOP_SECONDS)
