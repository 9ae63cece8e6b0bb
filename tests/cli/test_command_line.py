"""The command line as a process: messages, exit statuses, no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cybtui.cli import COMMANDS
from tests.engine.model.hostile import overwrite
from tests.engine.random_model import write_random_model

ROOT = Path(__file__).parent.parent.parent


def cybtui(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TERM": "xterm-256color", **options.pop("environment", {})}
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("capture_output", True)
    command = [sys.executable, "-m", "cybtui", *arguments]
    return subprocess.run(command, text=True, timeout=60, env=environment, cwd=ROOT, check=False, **options)


def test_help_names_every_command() -> None:
    done = cybtui("--help")
    assert done.returncode == 0
    for name, summary in COMMANDS.items():
        assert name in done.stdout
        assert summary.split(",", maxsplit=1)[0] in " ".join(done.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = cybtui(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"cybtui {name}" in done.stdout
    assert "--json" in done.stdout


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_light(name: str) -> None:
    """No heavy package is imported to print help."""
    code = (
        "import sys; from cybtui.cli import main\n"
        "try: main([name for name in sys.argv[1:] if name] + ['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'textual', 'rich', 'cffi', 'mlx', 'engine.native'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert done.stderr.strip() == "heavy: []"


def test_version() -> None:
    done = cybtui("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("cybtui ")


@pytest.mark.parametrize("arguments", [("nonsense",), ("--agents", "0"), ("--agents", "x"), ("--seed", "-1"), ("doctor", "--nonsense")])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    done = cybtui(*arguments)
    assert done.returncode == 2
    assert "usage: cybtui" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("term", ["xterm", "dumb", ""])
def test_console_without_a_terminal(term: str) -> None:
    done = cybtui(environment={"TERM": term})
    assert done.returncode == 1
    assert done.stdout == ""
    assert "cybtui run" in done.stderr
    assert done.stderr.count("\n") == 1


def test_console_on_a_dumb_terminal() -> None:
    leader, follower = os.openpty()
    try:
        done = cybtui(environment={"TERM": "dumb"}, stdin=follower, stdout=follower, stderr=subprocess.PIPE, capture_output=False)
    finally:
        os.close(follower)
        os.close(leader)
    assert done.returncode == 1
    assert "TERM=dumb" in done.stderr
    assert "cybtui run" in done.stderr


def test_doctor_reports_a_bad_model(tmp_path: Path) -> None:
    bad = tmp_path / "bad.cyb"
    bad.write_bytes(b"nothing of the kind")
    output = tmp_path / "doctor.json"
    done = cybtui("doctor", "--model", str(bad), "--json", str(output))
    assert done.returncode == 1
    assert str(bad) in done.stdout
    assert "Traceback" not in done.stderr
    report = json.loads(output.read_text())
    assert report["model"] == {"path": str(bad), "sound": False}
    assert any(problem["fatal"] and str(bad) in problem["what"] for problem in report["problems"])
    assert report["machine"]["cores"] >= 1
    assert set(tmp_path.iterdir()) == {bad, output}


@pytest.mark.parametrize("damage", ["truncated", "flipped", "nan", "empty", "missing", "folder"])
def test_run_refuses_a_bad_model(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.cyb"
    raw = write_random_model(tmp_path / "good.cyb").read_bytes()
    if damage == "truncated":
        path.write_bytes(raw[:-4096])
    elif damage == "flipped":
        path.write_bytes(raw[:300] + bytes([raw[300] ^ 4]) + raw[301:])
    elif damage == "nan":
        path.write_bytes(overwrite(raw, "embedding.1", 0, b"\xff\x7f"))
    elif damage == "empty":
        path.touch()
    elif damage == "folder":
        path.mkdir()
    done = cybtui("run", "--model", str(path), "--agents", "2", "--steps", "2", "--json", "-")
    assert done.returncode == 1
    assert done.stdout == ""
    assert str(path) in done.stderr
    assert done.stderr.count("\n") == 1


def test_json_on_standard_output_is_only_json() -> None:
    done = cybtui("doctor", "--json", "-")
    report = json.loads(done.stdout)
    assert {"version", "python", "machine", "native", "model", "mlx", "terminal", "folders", "compiler", "problems"} == set(report)
    assert done.returncode == (1 if any(problem["fatal"] for problem in report["problems"]) else 0)


def test_json_that_cannot_be_written(tmp_path: Path) -> None:
    done = cybtui("doctor", "--json", str(tmp_path / "no" / "such" / "folder.json"))
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_full_standard_output() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("w") as stream:
        done = cybtui("doctor", "--json", "-", stdout=stream, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 1
    assert done.stderr == "cybtui: standard output: No space left on device\n"


def test_closed_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m cybtui doctor | true; {sys.executable} -m cybtui --help | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert done.stderr == ""


def test_closed_streams() -> None:
    command = f"{sys.executable} -m cybtui --version >&-; {sys.executable} -m cybtui <&- >&-; echo $?"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert done.stdout == "1\n"
    assert done.stderr.startswith("cybtui: the console needs a terminal")
    assert done.stderr.count("\n") == 1


def test_a_locale_that_cannot_show_it() -> None:
    done = cybtui("doctor", "--model", "näme⁻¹", environment={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1
    assert "n?me" in done.stdout
    assert "Traceback" not in done.stderr


CRASHING = """
import sys, time
from types import ModuleType
import cybtui.cli as cli
module = ModuleType("cybtui.commands.doctor")
module.add_parser = lambda subparsers: subparsers.add_parser("doctor")
def run(args):
    if sys.argv[1] == "wait":
        print("waiting", flush=True)
        time.sleep(30)
    raise {"user": cli.UserError("the message"), "native": cli.NativeError(3, "the pool is full"),
           "invariant": cli.NativeError(7, "chunk 3"), "bug": RuntimeError("boom\\nagain")}[sys.argv[1]]
module.run = run
sys.modules["cybtui.commands.doctor"] = module
sys.exit(cli.main(["doctor", *sys.argv[2:]]))
"""


def crashing(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CRASHING, *arguments]
    settings = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, env=settings, check=False)


def test_messages_for_people() -> None:
    assert crashing("user").stderr == "cybtui: the message\n"
    assert crashing("native").stderr == "cybtui: the pool is full\n"
    assert crashing("user").returncode == crashing("native").returncode == 1


@pytest.mark.parametrize("failure", ["bug", "invariant"])
def test_a_fault_leaves_a_report(failure: str, tmp_path: Path) -> None:
    done = crashing(failure, XDG_STATE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    report = next(tmp_path.rglob("crash-*.txt"))
    assert str(report) in done.stderr
    assert "Traceback" in report.read_text()


def test_debug_shows_the_traceback() -> None:
    done = crashing("bug", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_interrupt() -> None:
    command = [sys.executable, "-c", CRASHING, "wait"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == "cybtui: interrupted\n"
