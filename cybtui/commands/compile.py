"""``cybtui compile``: a graph becomes a model file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any


def _levels(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of widths like 64,256,512") from None


def add_parser(subparsers: Any) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser("compile", help="compile a graph into a .cyb model", description="Compiles a graph into a model file.")
    parser.add_argument("source", type=Path, help="a triples file, or a folder with a WordNet database")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="F.cyb", help="the model file to write")
    parser.add_argument("--levels", type=_levels, default=(64, 256, 512), metavar="A,B,C", help="widths, multiples of 32 (64,256,512)")
    parser.add_argument("--format", default="auto", help="auto, triples or wordnet")
    parser.add_argument("--hold-out", type=float, default=0.0, metavar="FRACTION", help="links to hide for evaluation, both directions")
    parser.add_argument("--valid", type=Path, metavar="FILE", help="triples for early stopping and policy (else 2 %% of the source)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--finetune", type=float, default=0.0, metavar="SECONDS", help="train in MLX for so long; 0: closed form only")
    parser.add_argument("--finetune-steps", type=int, default=0, metavar="N", help="train for exactly N steps instead")
    parser.add_argument("--particles", type=int, default=0, metavar="N", help="keep the N particles of highest focus")
    parser.set_defaults(usage_error=parser.error)
    parser.add_argument("--no-policy", action="store_true", help="leave out measuring policies and calibrating after fine-tuning")
    parser.add_argument("--name", default="", help="the model's name (else the file's)")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns its exit status."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from cybtui.commands.json_output import write_json
    from engine.compile.pipeline import CompileOptions, compile_source

    options = CompileOptions(
        source=args.source,
        output=args.output,
        levels=args.levels,
        format=args.format,
        hold_out=args.hold_out,
        valid=args.valid,
        seed=args.seed,
        finetune=args.finetune,
        finetune_steps=args.finetune_steps,
        particles=args.particles,
        name=args.name,
        measure_policy=not args.no_policy,
    )
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("read", total=1.0)

        def show(stage: str, share: float) -> None:
            bar.update(task, description=stage, completed=share)

        result = compile_source(options, show)
        if result["basis"] == "tuned" and result["valid"] and options.measure_policy:
            _calibrate(result, args.output, options.seed, show)
    if args.json:
        write_json(args.json, result)
    else:
        Console().print(
            f"{result['file']}: {result['particles']:,} particles, {result['cyberlinks']:,} links, levels "
            f"{'/'.join(map(str, result['levels']))}, {result['basis']}, "
            f"{sum(result['seconds'].values()):.1f} s, {result['hidden']:,} links hidden"
        )
        for notice in result["notices"]:
            Console(stderr=True).print(notice)
    return 0


def _calibrate(result: dict[str, Any], path: Path, seed: int, progress: Any) -> None:
    """Adds the calibrated verification to the file and to the result; a file with too few links stays uncalibrated, and says so."""
    from engine.errors import UserError
    from engine.model.model import Model
    from engine.runtime.calibrate import calibrate

    began = time.monotonic()
    try:
        stored = calibrate(path, seed, progress=progress)
        result["verification"] = {name: value for name, value in stored.items() if name != "reliability"}
    except UserError as error:
        result["notices"] = [*result["notices"], f"the verification stays uncalibrated: {error.message}"]
    result["seconds"]["calibrate"] = time.monotonic() - began
    result["digest"] = Model.open(path).digest
