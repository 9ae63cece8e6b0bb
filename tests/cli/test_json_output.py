"""JSON results: plain values, whole files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cybtui.commands.json_output import plain, write_json
from cybtui.terminal import colours_of
from engine.errors import UserError
from engine.files import write_atomically


def test_plain() -> None:
    value = {"a": np.float32(0.5), "b": np.arange(3), "c": (1, float("nan")), "d": b"\x01\xff", 5: Path("x"), "e": np.True_}
    assert plain(value) == {"a": 0.5, "b": [0, 1, 2], "c": [1, None], "d": "01ff", "5": "x", "e": True}


def test_write(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    write_json(str(path), {"é": 1})
    assert json.loads(path.read_text(encoding="utf-8")) == {"é": 1}
    with pytest.raises(UserError, match="cannot be written"):
        write_json(str(tmp_path), {})


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def parts():  # type: ignore[no-untyped-def]
        yield b"new"
        raise ValueError

    with pytest.raises(ValueError):
        write_atomically(path, parts())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({}, 0),
        ({"TERM": "dumb"}, 0),
        ({"TERM": "xterm"}, 16),
        ({"TERM": "screen-256color"}, 256),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, 1 << 24),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, 0),
    ],
)
def test_colours(environment: dict[str, str], colours: int) -> None:
    assert colours_of(environment) == colours
