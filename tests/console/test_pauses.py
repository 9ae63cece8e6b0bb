"""Garbage collections come while nobody types, and are given back when the console ends."""

from __future__ import annotations

import gc
import sys

import pytest

from cybtui import pauses
from cybtui.app import Console
from tests.console.driver import press, ready, until
from tests.console.synthetic_source import SyntheticSource


def test_collections_wait_for_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    now, runs = [100.0], []
    monkeypatch.setattr(pauses.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pauses.gc, "collect", lambda: runs.append(now[0]))
    keeper = pauses.Pauses()
    try:
        keeper.rest()
        keeper.begin()
        for step in range(100):  # ten seconds: keys in the first four
            now[0] = 100.0 + step / 10
            if step < 40:
                keeper.key()
            keeper.rest()
    finally:
        keeper.end()
    assert len(runs) == 3
    assert min(runs) > 104.5


async def test_the_interpreter_is_left_as_it_was() -> None:
    before = gc.get_threshold(), sys.getswitchinterval()
    app = Console(SyntheticSource)
    async with app.run_test(size=(120, 40)):
        await ready(app)
        assert gc.get_threshold() == pauses.THRESHOLDS
    assert (gc.get_threshold(), sys.getswitchinterval()) == before
    assert gc.get_freeze_count() == 0


async def test_what_follows_a_selection_is_drawn_a_moment_later() -> None:
    app = Console(SyntheticSource)
    async with app.run_test(size=(160, 50)):
        await ready(app)
        await press(app, "1", "down")
        chosen = app.view.agent
        await until(lambda: str(app._main.query_one("#stream").border_title).endswith(f"a{chosen}"))
