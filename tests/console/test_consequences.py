"""What must not happen by accident: colours nobody wants, a failure that looks like success."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.color import ColorType

from cybtui.app import Console
from tests.console.driver import press, ready, until
from tests.console.synthetic_source import SyntheticSource


async def test_no_color_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = Console(SyntheticSource)
    async with app.run_test(size=(160, 50)):
        await ready(app)
        app.redraw()
        styles = [segment.style for line in app.screen._compositor.render_strips() for segment in line if segment.style]
    colours = [colour for style in styles for colour in (style.color, style.bgcolor) if colour is not None]
    assert colours
    assert {colour.type for colour in colours} == {ColorType.DEFAULT}


async def test_a_runtime_that_stopped_ends_with_its_reason() -> None:
    source = SyntheticSource()
    app = Console(lambda: source)
    async with app.run_test(size=(160, 50)):
        await ready(app)
        source._snapshot = replace(source.snapshot(), running=False, error="memory ran out")
        await until(lambda: app.failure)
        await press(app, "q")
    assert app.failure == "memory ran out"
    assert app.return_value == 1
