"""Panes at every size, with hostile labels, many agents and large pools."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from cybtui.actions import ACTIONS
from cybtui.app import Console
from cybtui.screens.main import ORDER, places
from cybtui.theme_files import load_themes, palette, parse
from cybtui.widgets.pane import Pane
from cybtui.widgets.pool import cells_of
from engine.errors import UserError
from engine.runtime import commands as c
from tests.console.driver import key, press, ready, resize, until
from tests.console.synthetic_source import SyntheticSource, snapshot_of


def text_of(app: Console) -> str:
    return "\n".join("".join(segment.text for segment in strip) for pane in app._main.panes() for strip in pane._strips)


SIZES = [(160, 50), (120, 40), (80, 24), (40, 10), (400, 100)]


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_lines_are_as_wide_as_panes(ascii_only: bool) -> None:
    app = Console(lambda: SyntheticSource(50, hostile=True), ascii_only=ascii_only)
    async with app.run_test(size=SIZES[0]):
        await ready(app)
        for size in SIZES:
            await resize(app, *size)
            for number in "12345678":
                await press(app, number)
                pane = app._main.panes()[int(number) - 1]
                assert pane.has_focus
                await until(lambda pane=pane: pane.id in app._main.shown_panes() and len(pane._strips) == pane.inner.height > 0)
                assert {strip.cell_length for strip in pane._strips} == {pane.inner.width}
            assert app.export_screenshot()
        assert "\x1b" not in text_of(app)


@pytest.mark.parametrize("size", [(160, 50), (120, 40)])
async def test_all_panes_show_what_they_are_for(size: tuple[int, int]) -> None:
    app = Console(SyntheticSource)
    async with app.run_test(size=size):
        await ready(app)
        for word in (
            "20 agents",
            "30 to decide",
            "raise knowledge quality",
            "router",
            "of 4,000 pages",
            "0 copies",
            "15.0×",
            "model",
            "token 39",
        ):
            await until(lambda word=word: word in text_of(app), word)


async def test_a_tiny_terminal_is_told_and_goes_on() -> None:
    source = SyntheticSource()
    app = Console(lambda: source)
    async with app.run_test(size=(30, 8)):
        await until(lambda: app.source is not None and app._main.has_class("tiny"))
        await resize(app, 120, 40)
        await until(lambda: not app._main.has_class("tiny"))
        await resize(app, 2, 1)
        await press(app, "p")
        assert source.sent == [c.SetRunning(False)]


async def test_widgets_do_not_grow_with_agents() -> None:
    counts = []
    for agents in (3, 5_000):
        app = Console(lambda agents=agents: SyntheticSource(agents, pages=100_000))
        async with app.run_test(size=(160, 50)):
            await ready(app)
            await press(app, "1", "end")
            assert app.view.agent == agents
            await press(app, "home", "o", "o")
            counts.append(len(list(app._main.walk_children())))
    assert counts[0] == counts[1]


async def test_selection_stays_with_the_agent() -> None:
    source = SyntheticSource(30)
    app = Console(lambda: source)
    async with app.run_test(size=(160, 50)):
        await ready(app)
        await press(app, "1", "o", "down", "down", "down")
        chosen, order = app.view.agent, app.pane_order()
        source.advance(40)
        await until(lambda: len(app.pane_order()) == 40)
        assert app.view.agent == chosen
        assert app.pane_order()[:30] == order


async def test_random_keys_never_stop_the_console() -> None:
    source = SyntheticSource(60, hostile=True)
    app = Console(lambda: source)
    dice = random.Random(5)
    leaving = {"quit", "palette"}
    keys = [key for action in ACTIONS if action.id not in leaving for key in action.keys.split(",")]
    keys += ["escape"] * 6 + ["enter", "y", "n", "down", "up", "pageup", "pagedown", "home", "end", *"12345678", "backspace", "comma"]
    sizes = [(160, 50), (120, 40), (80, 24), (30, 8), (41, 11)]
    async with app.run_test(size=(120, 40)):
        await ready(app)
        for number in range(300):
            app.post_message(key(dice.choice(keys)))
            if number % 10 == 0:
                await app.keys.done()
            if number % 50 == 0:
                source.advance(dice.randrange(0, 200), number)
                await resize(app, *dice.choice(sizes))
        await app.keys.done()
        assert app.is_running
    assert not app.failure


@pytest.mark.parametrize("error", [UserError("no such model"), RuntimeError("broken")])
async def test_a_model_that_cannot_be_opened_ends_with_a_message(error: Exception) -> None:
    def factory() -> c.Source:
        raise error

    app = Console(factory)
    async with app.run_test():
        await until(lambda: app.failure)
    assert str(error) in app.failure
    assert app.return_value == 1


async def test_an_unknown_theme_is_told() -> None:
    app = Console(SyntheticSource, theme="no-such-theme")
    async with app.run_test(size=(120, 40)):
        await ready(app)
        assert app.theme == "cybtui-dark"
        assert any("no-such-theme" in note.message for note in app._notifications)
        names = set()
        for _ in range(5):
            await press(app, "T")
            names.add(app.theme)
        assert names >= {"cybtui-dark", "cybtui-light", "cybtui-mono", "cybtui-high-contrast", "cybtui-colour-blind"}


def test_broken_theme_files_become_messages(tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text('primary = "#112233"\n', encoding="utf-8")
    for name, text in {
        "syntax": "= 1",
        "colour": 'primary = "#zz"',
        "list": 'primary = "red"\nlevels = ["red"]',
        "key": "what = 1",
    }.items():
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    themes, problems = load_themes([tmp_path])
    assert [theme.name for theme in themes] == ["good"]
    assert len(problems) == 5
    assert palette(themes[0]).levels
    assert not palette(parse('primary = "red"\ncolourful = false', "plain")).colourful


@pytest.mark.parametrize("width", [1, 39, 40, 80, 99, 100, 149, 150, 400])
@pytest.mark.parametrize("height", [1, 10, 29, 30, 40, 100])
def test_places_cover_the_screen_once(width: int, height: int) -> None:
    cover = np.zeros((height, width), int)
    for region in places(width, height).values():
        cover[region.y : region.bottom, region.x : region.right] += 1
    assert (cover == 1).all()
    assert set(places(width, height)) <= set(ORDER)


@pytest.mark.parametrize("pages", [1, 7, 4_000, 100_000])
@pytest.mark.parametrize("cells", [1, 30, 2_000])
def test_the_pool_fits(pages: int, cells: int) -> None:
    pool = snapshot_of(3, pages).pool
    kinds, run, span = cells_of(pool, cells)
    assert len(kinds) <= cells
    assert len(kinds) * run >= span
    assert span <= pages


def test_panes_have_numbers_in_order() -> None:
    assert [kind.NUMBER for kind in sorted(Pane.__subclasses__(), key=lambda kind: kind.NUMBER)] == list(range(1, 9))


async def test_the_mouse_selects_and_acts() -> None:
    source = SyntheticSource(20)
    app = Console(lambda: source)
    async with app.run_test(size=(160, 50)) as pilot:
        await ready(app)
        await pilot.click("#agents", offset=(5, 5))
        assert app.view.agent == 3
        await pilot.click("#goals", offset=(5, 3))
        assert app._main.current == "goals"
        assert app.view.goal == 1
        await pilot.click("#keys", offset=(2, 0))
        await until(lambda: len(app.screen_stack) == 2)


async def test_quitting_closes_the_source() -> None:
    source = SyntheticSource()
    app = Console(lambda: source)
    async with app.run_test(size=(120, 40)):
        await ready(app)
        await press(app, "q")
    assert source.closed
    assert app.return_value == 0


async def test_no_color_uses_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = Console(SyntheticSource)
    async with app.run_test(size=(120, 40)):
        await ready(app)
        styles = [segment.style for pane in app._main.panes() for strip in pane._strips for segment in strip]
        assert not any(style and (style.color or style.bgcolor) for style in styles)
