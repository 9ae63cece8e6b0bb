"""The console on a live runtime over a small random model: frames, keys and commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from cybtui.app import Console
from cybtui.text import fit
from cybtui.widgets.swarm_panes import AgentsPane
from engine.errors import UserError
from engine.runtime import commands as c
from engine.runtime.loop import Settings, open_runtime
from tests.engine.random_model import write_random_model

HOSTILE = ["\x1b[31mred\x1b[0m", "a\u202eb", "zero\u200bwidth", "e\u0301", "漢字" * 40, "x" * 10_000, "\x00\x07"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model") / "random.cyb")


def console(model: Path, folder: Path, agents: int = 20) -> Console:
    return Console(lambda: open_runtime(model, Settings(agents=agents, seed=1, folder=folder)))


async def until(pilot: Any, app: Console, ticks: int) -> None:
    for _ in range(600):
        await pilot.pause(0.05)
        if app.shown is not None and app.shown.tick >= ticks:
            return
    raise AssertionError("the swarm did not run")


def close(app: Console) -> None:
    if app.source is not None:
        app.source.close()
        app.source.wait_closed(10)  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [(160, 50), (80, 24), (20, 5)])
async def test_sizes(model: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    app = console(model, tmp_path)
    async with app.run_test(size=size) as pilot:
        await until(pilot, app, 2)
        app.action_pause_all()
        await pilot.pause(0.5)
        for number in range(1, 9):
            app.action_pane(number)
        await pilot.pause(0.3)
        assert app.export_screenshot()
        close(app)


async def test_commands_reach_the_source(model: Path, tmp_path: Path) -> None:
    app = console(model, tmp_path)
    sent: list[c.Command] = []
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, app, 2)
        assert app.source is not None
        submit = app.source.submit
        app.source.submit = lambda command: (sent.append(command), submit(command))[1]  # type: ignore[method-assign]
        app.query_one(AgentsPane).focus()
        app.action_pause_all()  # the swarm rests between ticks, so that the picture does
        await pilot.pause(0.5)
        await pilot.press("down", "f", "space", "r", "i")
        await pilot.press("s", "backspace", "3", "enter")
        await pilot.press("d", "2", "enter")
        await pilot.press("h", "enter")
        await pilot.press("t", *"thing", "enter")
        await pilot.press("K", *"yes", "enter")
        await pilot.pause(1.0)
        close(app)
    kinds = [type(command).__name__ for command in sent]
    expected = ["SetRunning", "Fork", "Pause", "SetPolicy", "SetPolicy", "Spawn", "SetDepth", "SetPolicy", "Steer", "Kill"]
    assert kinds == expected
    assert c.Spawn(3, sent[5].group) == sent[5]  # type: ignore[attr-defined]


async def test_a_model_that_cannot_be_opened_ends_with_a_message() -> None:
    def factory() -> c.Source:
        raise UserError("no such model")

    app = Console(factory)
    async with app.run_test() as pilot:
        await pilot.pause(0.3)
    assert app.failure == "no such model"
    assert app.return_value == 1


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [0, 1, 7, 40])
def test_text_is_neutralised_and_fits(text: str, width: int) -> None:
    shown = fit(text, width)
    assert cell_len(shown) == width
    assert "\x1b" not in shown
    assert "\u202e" not in shown
