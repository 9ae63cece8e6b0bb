"""The plain console answers lines of input in sentences."""

from __future__ import annotations

import io

import pytest

from cybtui.plain import answer, run_plain
from engine.runtime import commands as c
from tests.console.synthetic_source import SyntheticSource


def run(text: str, source: SyntheticSource) -> str:
    out = io.StringIO()
    assert run_plain(lambda: source, io.StringIO(text), out) == 0
    return out.getvalue()


def test_reports_and_commands() -> None:
    source = SyntheticSource(20)
    said = run("report\ninbox\ngoals\nagents\nstream 1\nwhy 3\naccept 3\nspawn 2\nsteer 4 dog\nhalt\nfoo\nkill\nquit\n", source)
    assert source.sent == [c.Accept(3), c.Spawn(2), c.Steer((4,), "dog"), c.SetRunning(False)]
    assert source.closed
    for words in (
        "20 agents",
        "15.0 times less",
        "0: 99%",
        "raise knowledge quality",
        "a1: depth",
        "deepest level",
        "type help",
        "give a number",
    ):
        assert words in said


def test_hostile_labels_are_neutralised() -> None:
    assert "\x1b" not in run("report\ninbox\ngoals\nagents\nstream 1\nwhy 0\nquit\n", SyntheticSource(20, hostile=True))


def test_end_of_input_leaves() -> None:
    assert "Ready" in run("", SyntheticSource())


@pytest.mark.parametrize("line", ["why", "kill x", "spawn -1", "nonsense 3"])
def test_what_cannot_be_read_is_told(line: str) -> None:
    with pytest.raises(ValueError, match="help"):
        list(answer(line.split(), SyntheticSource(), lambda _: None))
