"""The peer: llama.cpp's own batched benchmark, with a shared prompt of the same length and the same number of sequences."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.bench.measure import PRIVATE, SHARED

PROGRAM = "llama-batched-bench"
PEERS = ("llama.cpp",)


def measure_peer(model: Path | None, agents: Sequence[int], threads: int, limit: float) -> dict[str, Any]:
    """{name, version, rows} and, where there are no rows, the reason. Never raises: a missing peer is a result."""
    peer: dict[str, Any] = {"name": PEERS[0], "version": None, "rows": []}
    program = shutil.which(PROGRAM)
    if program is None:
        return {**peer, "reason": f"{PROGRAM} is not installed (not found on PATH)"}
    peer["version"] = _version(program)
    if model is None or not model.is_file():
        return {**peer, "reason": f"{PROGRAM} needs a model of its own: name one of the same size with --peer-model FILE.gguf"}
    most = max(agents)
    command = [
        program, "-m", str(model), "-c", str(SHARED + most * (PRIVATE + 16)), "-npp", str(SHARED), "-ntg", str(PRIVATE),
        "-npl", ",".join(map(str, sorted(set(agents)))), "-pps", "--output-format", "jsonl",
        *(("-t", str(threads)) if threads else ()),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit * len(set(agents)), check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {**peer, "reason": f"{PROGRAM} did not finish: {error}"}
    peer["rows"] = rows_of(done.stdout)
    if not peer["rows"]:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        peer["reason"] = f"{PROGRAM} measured nothing (status {done.returncode}): {last}"
    return peer


def rows_of(output: str) -> list[dict[str, Any]]:
    """Rows of the peer's JSON lines: sequences, tokens generated a second, seconds."""
    rows = []
    for line in output.splitlines():
        try:
            found = json.loads(line)
            rows.append({"agents": int(found["pl"]), "tokens_per_second": float(found["speed_tg"]), "seconds": float(found["t_tg"])})
        except (ValueError, KeyError, TypeError):
            continue  # the program's other output
    return rows


def _version(program: str) -> str | None:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout + done.stderr).strip().splitlines()
    return next((line.strip() for line in lines if "version" in line), None)
