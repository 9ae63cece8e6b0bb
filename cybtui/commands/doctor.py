"""``cybtui doctor``: what this machine offers, and what is wrong with it."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cybtui.commands.json_output import add_json_option, write_json

MLX_PROBE = "import mlx.core as mx; x = mx.ones((8, 8)); mx.eval(x @ x); print(mx.default_device())"
DISK_BYTES_MIN = 100 << 20
MEMORY_BYTES_MIN = 512 << 20


@dataclass(frozen=True, slots=True)
class Problem:
    """``fatal``: cybtui cannot work like this. ``advice`` says what to do."""

    fatal: bool
    what: str
    advice: str


def add_parser(subparsers: Any) -> None:
    """States the command's options."""
    parser = subparsers.add_parser(
        "doctor",
        help="what this machine offers, and what is wrong with it",
        description="Looks at the processor, memory, native library, model, folders, terminal and compiler. "
        "Exit status 1 when something keeps cybtui from working.",
    )
    parser.add_argument("--model", metavar="F", help="model file to check (default: the embedded model)")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the findings and returns 1 when one of them is fatal."""
    report, problems = examine(args.model)
    if args.json:
        write_json(args.json, {**report, "problems": [asdict(problem) for problem in problems]})
    if args.json != "-":
        print_report(report, problems)
    return 1 if any(problem.fatal for problem in problems) else 0


def examine(model: str | None) -> tuple[dict[str, Any], list[Problem]]:
    """All findings as the object of ``--json`` (without ``problems``), and the problems."""
    from cybtui.cli import version
    from cybtui.terminal import this_terminal
    from engine.machine import this_machine

    problems: list[Problem] = []
    machine = this_machine()
    if 0 < machine.memory_total < MEMORY_BYTES_MIN:
        problems.append(Problem(False, "there are less than 512 MiB of memory", "run fewer agents (--agents)"))
    terminal = this_terminal()
    report = {
        "version": version(),
        "python": platform.python_version(),
        "machine": asdict(machine),
        "native": _native(problems),
        "model": _model(model, problems),
        "mlx": _mlx(problems),
        "terminal": asdict(terminal),
        "folders": _folders(problems),
        "compiler": _compiler(problems),
    }
    _judge_terminal(terminal, problems)
    return report, problems


def _native(problems: list[Problem]) -> dict[str, Any]:
    from engine.errors import UserError

    try:
        from engine import native
    except UserError as error:
        problems.append(Problem(True, error.message, "install cybtui again; `pip install --verbose .` shows the compiler's words"))
        return {"library": None, "version": None, "simd": None, "supported": []}
    names = [native.isa_name(isa) for isa in (native.ISA_REFERENCE, native.ISA_AVX2, native.ISA_NEON) if native.isa_supported(isa)]
    best = native.isa_name(native.isa_best())
    if best == "reference":
        problems.append(
            Problem(False, "the processor has neither AVX2 with FMA and F16C nor NEON", "the scalar kernels work, many times slower")
        )
    return {"library": str(native.library_path()), "version": native.version(), "simd": best, "supported": names}


def _model(path: str | None, problems: list[Problem]) -> dict[str, Any]:
    from engine.errors import UserError
    from engine.model.model import Model

    try:
        model = Model.open(path)
        wrong = model.file.wrong_digests()
    except UserError as error:
        problems.append(Problem(True, error.message, "name another file with --model, or install cybtui again"))
        return {"path": path, "sound": False}
    if wrong:
        what = f"{model.path}: the contents of {', '.join(wrong[:3])} are not what the file was written with"
        problems.append(Problem(True, what, "the file is damaged: fetch or compile it again"))
    return {
        "path": str(model.path),
        "sound": not wrong,
        "name": model.name,
        "digest": model.digest,
        "basis": model.basis,
        "levels": list(model.widths),
        "bytes": model.bytes,
    }


def _mlx(problems: list[Problem]) -> dict[str, Any]:
    """Imports MLX in a process of its own: on some machines it installs but cannot be imported, or aborts."""
    from importlib.util import find_spec

    if find_spec("mlx") is None:
        if sys.platform == "darwin" and platform.machine() == "arm64":
            problems.append(Problem(False, "mlx is not installed", "`pip install mlx`: fine-tuning on the GPU needs it"))
        return {"installed": False, "device": None, "error": None}
    try:
        done = subprocess.run([sys.executable, "-c", MLX_PROBE], capture_output=True, text=True, timeout=60, check=False)
        failure = done.stderr.strip().splitlines()[-1:] if done.returncode else []
        error = (failure[0] if failure else f"exit status {done.returncode}") if done.returncode else None
        device = None if error else done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as problem:
        device, error = None, str(problem)
    if error:
        advice = "install the extra that fits: pip install 'cybtui[mlx-cpu]' or 'cybtui[mlx-cuda]'; only fine-tuning needs it"
        problems.append(Problem(False, f"mlx is installed but does not work ({error[:200]})", advice))
    return {"installed": True, "device": device, "error": error}


def _judge_terminal(terminal: Any, problems: list[Problem]) -> None:
    from cybtui.terminal import COLUMNS_MIN, ROWS_MIN

    if not terminal.interactive:
        problems.append(Problem(False, "standard input or output is not a terminal", "`cybtui run` needs none; the console does"))
        return
    if terminal.term in ("", "dumb", "unknown"):
        problems.append(Problem(False, f"TERM is {terminal.term or 'unset'}: the console cannot draw", "set TERM, or use `cybtui run`"))
    if terminal.columns < COLUMNS_MIN or terminal.rows < ROWS_MIN:
        size = f"{terminal.columns}x{terminal.rows}"
        problems.append(Problem(False, f"the terminal is {size}, less than {COLUMNS_MIN}x{ROWS_MIN}", "enlarge the window"))
    if not terminal.unicode:
        problems.append(Problem(False, "the locale is not UTF-8", "set LANG=C.UTF-8, or start the console with --ascii"))


def _folders(problems: list[Problem]) -> dict[str, Any]:
    import platformdirs

    folders = {
        "data": platformdirs.user_data_dir("cybtui", appauthor=False),
        "config": platformdirs.user_config_dir("cybtui", appauthor=False),
        "log": platformdirs.user_log_dir("cybtui", appauthor=False),
    }
    report: dict[str, Any] = {}
    for name, folder in folders.items():
        reason = why_not_writable(Path(folder))
        report[name] = {"path": folder, "writable": reason is None}
        if reason is not None and name == "data":
            advice = "make it writable or set XDG_DATA_HOME: sessions and accepted links are kept there"
            problems.append(Problem(False, f"the data folder {folder} cannot be written ({reason})", advice))
        elif reason is not None:
            problems.append(Problem(False, f"the {name} folder {folder} cannot be written ({reason})", "make it writable"))
    return report


def why_not_writable(folder: Path) -> str | None:
    """None when files can be made in the folder or it could be made itself; else the reason. Leaves nothing behind."""
    try:
        if folder.is_dir():
            with tempfile.TemporaryFile(dir=folder):
                pass
        else:
            existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
            if not existing.is_dir():
                return f"{existing} is not a folder"
            if not os.access(existing, os.W_OK | os.X_OK):
                return f"{existing} is not writable"
            folder = existing
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return error.strerror or str(error)
    return None if free >= DISK_BYTES_MIN else f"only {free >> 20} MiB are free"


def _compiler(problems: list[Problem]) -> dict[str, Any]:
    named = os.environ.get("CC", "").split()
    path = next((found for name in (*named[:1], "cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if path is None:
        problems.append(Problem(False, "there is no C compiler", "installing cybtui from source needs one: apt install gcc"))
        return {"path": None, "version": None}
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
        lines = done.stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        lines = []
    return {"path": path, "version": lines[0] if lines else None}


def print_report(report: dict[str, Any], problems: list[Problem]) -> None:
    """The findings for people."""
    machine, native, model = report["machine"], report["native"], report["model"]
    mlx, terminal, compiler = report["mlx"], report["terminal"], report["compiler"]
    gibibytes = {key: f"{machine[key] / (1 << 30):.1f} GiB" for key in ("memory_total", "memory_available")}
    rows = [
        ("cybtui", f"{report['version']} on Python {report['python']}, {machine['system']} {machine['architecture']}"),
        ("processor", f"{machine['processor']}, {machine['cores']} cores"),
        ("memory", f"{gibibytes['memory_total']}, {gibibytes['memory_available']} available"),
        ("native", f"{native['simd']} kernels, version {native['version']}" if native["library"] else "not loaded"),
        ("model", _model_line(model)),
        ("mlx", mlx["device"] or ("does not work" if mlx["installed"] else "not installed (only fine-tuning needs it)")),
        ("terminal", _terminal_line(terminal)),
        *((f"{name} folder", folder["path"]) for name, folder in report["folders"].items()),
        ("compiler", compiler["version"] or "none"),
    ]
    for name, text in rows:
        print(f"{name:14}{text}")
    print()
    if not problems:
        print("Nothing is wrong.")
    for problem in problems:
        print(f"{'wrong' if problem.fatal else 'note'}: {problem.what}\n      {problem.advice}")


def _model_line(model: dict[str, Any]) -> str:
    if not model.get("name"):
        return "not usable"
    widths = "/".join(str(width) for width in model["levels"])
    state = "sound" if model["sound"] else "damaged"
    return f"{model['name']}, {model['basis']}, {widths}, {model['bytes'] / 1e6:.1f} MB, {state}"


def _terminal_line(terminal: dict[str, Any]) -> str:
    if not terminal["columns"]:
        return "none"
    glyphs = "Unicode" if terminal["unicode"] else "ASCII"
    return f"{terminal['term'] or 'TERM unset'}, {terminal['columns']}x{terminal['rows']}, {terminal['colours']} colours, {glyphs}"
