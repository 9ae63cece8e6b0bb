"""The console as a process: what goes wrong at its start and its end is told, and the terminal is given back."""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cybtui.commands import console
from engine.errors import UserError
from tests.console.synthetic_source import SyntheticSource

RESTORED = b"\x1b[?1049l"
PATIENCE = 60.0
ROOT = Path(__file__).parents[2]


class Session:
    """``cybtui`` on a terminal of its own."""

    def __init__(self, data: Path | str, *arguments: str, size: tuple[int, int] = (120, 40)) -> None:
        self.output = b""
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.chdir(ROOT)
            # An explicit environment: readline, which pytest loads, puts COLUMNS and LINES where os.environ does not see them.
            given = {"TERM": "xterm-256color", "XDG_DATA_HOME": str(data), "PYTHONPATH": str(ROOT)}
            environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | given
            os.execve(sys.executable, [sys.executable, "-m", "cybtui", *arguments], environment)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def until(self, text: bytes) -> None:
        """Reads until ``text`` was written."""
        end = time.monotonic() + PATIENCE
        while text not in self.output:
            assert self._read(), self.output[-2000:]
            assert time.monotonic() < end, self.output[-2000:]

    def _read(self) -> bool:
        if not select.select([self._terminal], [], [], PATIENCE)[0]:
            return False
        try:
            part = os.read(self._terminal, 1 << 16)
        except OSError:  # Linux says so when the other end is closed
            return False
        self.output += part
        return bool(part)

    def type(self, keys: bytes) -> None:
        """Presses keys."""
        os.write(self._terminal, keys)

    def end(self) -> int:
        """Reads what is left; the exit status, negative for a signal."""
        while self._read():
            pass
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def last_words(self) -> str:
        """What was written after the terminal was restored."""
        return self.output.rpartition(RESTORED)[2].decode()


def test_a_truncated_model_is_told_on_a_restored_terminal(tmp_path: Path) -> None:
    broken = tmp_path / "broken.cyb"
    broken.write_bytes((ROOT / "engine/data/default.cyb").read_bytes()[:100_000])
    session = Session(tmp_path, "--model", str(broken))
    assert session.end() == 1
    assert session.output.count(RESTORED) == 1
    assert f"cybtui: {broken}: the tensors take" in session.last_words
    assert "Traceback" not in session.last_words


def test_an_unwritable_data_folder_is_told_twice() -> None:
    session = Session("/dev/null/nowhere", "--agents", "8")
    session.until(b"/dev/null/nowhere")
    session.type(b"q")
    assert session.end() == 0
    assert "in memory only: /dev/null/nowhere" in session.last_words


@pytest.mark.parametrize(("number", "size"), [(signal.SIGTERM, (120, 40)), (signal.SIGHUP, (40, 10)), (signal.SIGINT, (30, 8))])
def test_signals_leave_as_quit_does(tmp_path: Path, number: signal.Signals, size: tuple[int, int]) -> None:
    session = Session(tmp_path, "--agents", "8", "--session", "kept", size=size)
    session.until(b"The swarm goes on." if size[0] < 40 else b"running")
    os.kill(session.pid, number)
    assert session.end() == 128 + number
    assert session.output.count(RESTORED) == 1
    assert (tmp_path / "cybtui/sessions/kept.session").exists() or size[0] < 40


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts the plain console through pipes, in a terminal that can do nothing."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start(data: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "XDG_DATA_HOME": str(data), "TERM": "dumb", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "cybtui", "--screen-reader", "--agents", "8", "--session", "k"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)


def test_plain_text_goes_through_pipes_and_a_killed_session_resumes(plain: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    first = start(tmp_path)
    plain.append(first)
    assert first.stdin is not None
    assert first.stdout is not None
    first.stdin.write("spawn 3\nsave\n")
    first.stdin.flush()
    for line in first.stdout:
        if line.startswith("SaveSession: applied"):
            break
    first.kill()
    second = start(tmp_path)
    plain.append(second)
    said, _ = second.communicate("report\nspawn 100000\n", PATIENCE)
    assert second.returncode == 0
    assert "resumed k at tick" in said
    assert "11 agents, running" in said
    assert "Spawn: refused" in said  # the receipt came after the end of input
    assert "do not fit" in said


def arguments(**options: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    console.add_arguments(parser)
    args = parser.parse_args([])
    vars(args).update(options)
    return args


@pytest.mark.parametrize("term", ["dumb", "", "unknown"])
def test_a_terminal_that_cannot_draw_is_refused(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", term)
    with pytest.raises(UserError, match=r"cannot draw on this terminal.*cybtui run"):
        console.run(arguments())


def test_without_a_terminal_the_headless_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match=r"standard input.* is not one.*cybtui run"):
        console.run(arguments())


def test_plain_text_asks_for_no_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr("cybtui.console.factory_of", lambda args: SyntheticSource)
    assert console.run(arguments(screen_reader=True)) == 0
    assert "Ready" in capsys.readouterr().out
