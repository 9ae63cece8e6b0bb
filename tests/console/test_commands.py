"""Each action of the console reaches the source as the right command."""

from __future__ import annotations

from cybtui.actions import ACTIONS
from cybtui.app import Console
from engine.runtime import commands as c
from tests.console.driver import key, press, ready, until
from tests.console.synthetic_source import SyntheticSource

FLOWS: list[tuple[str, list[str], c.Command]] = [
    ("spawn", ["1", "s", "backspace", "3", "enter"], c.Spawn(3, 1, -1)),
    ("spawn on a goal", ["3", "down", "down", "s", "enter"], c.Spawn(1, 1, 2)),
    ("fork", ["1", "f"], c.Fork(1)),
    ("pause", ["1", "down", "space"], c.Pause((2,))),
    ("pause marked", ["1", "m", "m", "space"], c.Pause((1, 2))),
    ("kill", ["1", "K", "y"], c.Kill((1,))),
    ("steer", ["1", "t", "d", "o", "g", "enter"], c.Steer((1,), "dog")),
    ("steer by completion", ["1", "t", "c", "tab", "enter"], c.Steer((1,), "cat")),
    ("retarget", ["1", "g", "3", "enter"], c.Retarget((1,), 3)),
    ("new goal", ["3", "down", "n", "d", "o", "g", "enter"], c.CreateGoal(1, "dog")),
    ("pin", ["1", "d", "2", "enter"], c.SetDepth((1,), 2, 2)),
    ("bound", ["1", "d", "1", "minus", *"domain", "enter"], c.SetDepth((1,), 1, 2)),
    ("thresholds", ["1", "h", "enter"], c.SetPolicy(1, thresholds=(0.6, 0.7))),
    ("rule", ["1", "r", "down", "enter"], c.SetPolicy(1, rule="margin")),
    ("inherit", ["1", "i", "down", "enter"], c.SetPolicy(1, inherit="zeros")),
    ("temperature", ["1", "e", "enter"], c.SetPolicy(1, temperature=0.7)),
    ("accept from elsewhere", ["1", "a", "a"], c.Accept(0)),
    ("accept", ["2", "a"], c.Accept(0)),
    ("reject", ["2", "down", "x"], c.Reject(1)),
    ("halt", ["p"], c.SetRunning(False)),
    ("save", ["w", "n", "enter"], c.SaveSession("n")),
]


async def test_keys_become_commands() -> None:
    source = SyntheticSource()
    app = Console(lambda: source)
    async with app.run_test(size=(100, 32)):
        await ready(app)
        for name, keys, command in FLOWS:
            source.sent.clear()
            app.view.agent, app.view.goal, app.view.proposal = 1, 0, 0
            app.view.marks.clear()
            app.view.changed()
            app.redraw()
            await press(app, *keys)
            assert source.sent == [command], name


FAST = [
    (["1", "s", "backspace", "1", "5", "enter"], c.Spawn(15, 1, -1)),
    (["w", *"mine", "backspace", "d", "enter"], c.SaveSession("mind")),
    (["1", "h", *["backspace"] * 8, *"1,2", "enter"], c.SetPolicy(1, thresholds=(1.0, 2.0))),
    (["1", "K", "y"], c.Kill((1,))),
    (["1", "t", *"x, ca", "tab", "enter"], c.Steer((1,), "x, cat")),
]


async def test_keys_typed_ahead_stay_in_order() -> None:
    source = SyntheticSource()
    app = Console(lambda: source)
    async with app.run_test(size=(100, 32)):
        await ready(app)
        app.view.agent = 1
        for keys, _ in FAST:
            for name in keys:
                app.post_message(key(name))
        await until(lambda: len(source.sent) >= len(FAST))
        assert source.sent == [command for _, command in FAST]


async def test_escape_and_no_send_nothing() -> None:
    source = SyntheticSource()
    app = Console(lambda: source)
    async with app.run_test(size=(120, 40)):
        await ready(app)
        await press(app, "1", "s", "escape", "K", "n", "t", "enter", "d", "x", "enter")
        assert source.sent == []


async def test_refusal_is_told() -> None:
    source = SyntheticSource(refuse="no place is free [here]")
    app = Console(lambda: source)
    async with app.run_test(size=(120, 40)):
        await ready(app)
        await press(app, "f")
        await until(lambda: any("no place is free" in note.message for note in app._notifications))


def test_registry_has_no_clash() -> None:
    keys = [key for action in ACTIONS for key in action.keys.split(",")]
    assert len(keys) == len(set(keys))
    assert not set(keys) & set("12345678")
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
