"""``cybtui bench``: speed and traffic of agents on a model of some shape, beside what the machine could do."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cybtui.commands.console import natural, positive
from cybtui.commands.json_output import add_json_option, write_json

if TYPE_CHECKING:
    from engine.native import NativeModel

SHAPES = ("default", "1b", "3b", "7b", "7b-wide")
PEERS = ("llama.cpp",)
AGENTS = (1, 16, 64, 256, 1000)
SHARES = (0.0, 0.1, 0.5, 1.0)
AGENTS_MAX = 100_000
HEADER = "agents   deep   tokens/s  weights/token   KV/token  savings vs batched  roofline"


def add_parser(subparsers: Any) -> None:
    """States the options of ``bench``."""
    parser = subparsers.add_parser(
        "bench",
        help="speed and traffic, beside the machine's roofline",
        description="Measures the machine's roofline, then tokens a second and bytes a token for each number of agents and each share of "
        "tokens at the deepest level. Shapes other than default run on random weights, kept in a cache folder. A point that can't fit "
        "is refused and listed.",
        allow_abbrev=False,
    )
    parser.add_argument("--shape", choices=SHAPES, default="default", help="default (the embedded model), 1b, 3b, 7b or 7b-wide")
    parser.add_argument("--agents", metavar="N,…", type=_agents, default=AGENTS, help="numbers of agents (default: 1,16,64,256,1000)")
    parser.add_argument(
        "--depth-share", metavar="S,…", type=_shares, default=SHARES, help="shares of tokens at the deepest level (default: 0,0.1,0.5,1)"
    )
    parser.add_argument("--steps", metavar="M", type=positive, default=8, help="measured tokens an agent (default: 8)")
    parser.add_argument("--seed", metavar="S", type=natural, default=0, help="seed of prompts and depths (default: 0)")
    parser.add_argument("--threads", metavar="T", type=positive, default=0, help="worker threads (default: the cores there are)")
    parser.add_argument("--limit", metavar="SECONDS", type=positive, default=600, help="longest a point may take (default: 600)")
    parser.add_argument("--folder", metavar="DIR", type=Path, help="where files of random weights are kept (default: the cache folder)")
    parser.add_argument("--peer", choices=PEERS, help="measure this too, if it is installed")
    parser.add_argument("--peer-model", metavar="F.gguf", type=Path, help="model for the peer")
    add_json_option(parser)
    parser.set_defaults(usage_error=parser.error)


def _agents(text: str) -> tuple[int, ...]:
    values = tuple(positive(part) for part in text.split(","))
    if max(values) > AGENTS_MAX:
        raise argparse.ArgumentTypeError(f"{max(values)} agents are more than {AGENTS_MAX:,}")
    return values


def _shares(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write shares from 0 to 1 with commas between, as in 0,0.1,1") from None
    if not all(0 <= value <= 1 for value in values):
        raise argparse.ArgumentTypeError(f"{text}: a share lies between 0 and 1")
    return values


def run(args: argparse.Namespace) -> int:
    """Measures, prints a table and writes ``--json``."""
    from dataclasses import asdict

    from engine.bench.measure import PRIVATE, SHARED, Plan, measure_all, stored_bytes
    from engine.bench.peer import measure_peer
    from engine.machine import this_machine
    from engine.native import measure_roofline

    machine = this_machine()
    _tell(machine.text)
    roofline = measure_roofline(args.threads)
    _tell(
        f"roofline: {roofline.dram_bytes_per_second / 1e9:.1f} GB/s from memory, {roofline.f32_flops / 1e9:.0f} GFLOP/s, "
        f"{roofline.int8_ops / 1e9:.0f} G int8 operations/s"
    )
    model = _open(args)
    arrays = model.arrays
    _tell(
        f"{args.shape}: widths {', '.join(map(str, arrays.widths))}, {arrays.layers} layers, vocabulary {arrays.vocabulary:,}, "
        f"{stored_bytes(model) / 1e9:.2f} GB; {SHARED} shared and {PRIVATE} private positions an agent"
    )
    _tell("share 0 pins the first level, 1 the deepest; between them a token that goes deep passes every level, and back-fill counts")
    _tell(HEADER)
    plan = Plan(args.steps, args.threads, args.seed, float(args.limit))
    rows, refused = measure_all(model, roofline, args.agents, args.depth_share, plan, lambda row: _tell(_line(row)))
    result: dict[str, Any] = {
        "roofline": asdict(roofline),
        "machine": machine.text,
        "model": {
            "shape": args.shape, "levels": arrays.widths, "layers": arrays.layers, "vocabulary": arrays.vocabulary,
            "bytes": stored_bytes(model),
        },
        "positions": {"shared": SHARED, "private": PRIVATE},
        "steps": args.steps,
        "seed": args.seed,
        "rows": rows,
        "refused": refused,
        "peer": None,
    }  # fmt: skip
    if args.peer:
        result["peer"] = measure_peer(args.peer_model, args.agents, args.threads, float(args.limit))
        for row in result["peer"]["rows"]:
            _tell(f"{args.peer}: {row['agents']} sequences, {row['tokens_per_second']:,.0f} tokens/s")
        if "reason" in result["peer"]:
            _tell(f"{args.peer}: {result['peer']['reason']}")
    if args.json:
        write_json(args.json, result)
    return 0


def _open(args: argparse.Namespace) -> NativeModel:
    if args.shape == "default":
        from engine.model.model import Model

        return Model.open(None).native
    import platformdirs

    from engine.bench.shapes import SHAPES as KNOWN
    from engine.bench.shapes import open_shape

    folder = args.folder or Path(platformdirs.user_cache_dir("cybtui", appauthor=False))
    shape = KNOWN[args.shape]
    _tell(f"{shape.name}: {shape.file_bytes / 1e9:.2f} GB of random weights in {folder}")
    return open_shape(shape, folder)


def _line(row: dict[str, Any]) -> str:
    start = f"{row['agents']:>6} {row['depth_share']:>6g}"
    if "reason" in row:
        return f"{start} refused: {row['reason']}"
    return (
        f"{start} {row['tokens_per_second']:>10,.1f} {_bytes(row['weight_bytes_per_token']):>14} {_bytes(row['kv_bytes_per_token']):>10} "
        f"{row['savings']:>8.1f} {row['savings_vs_batched']:>10.2f} {row['fraction_of_roofline']:>9.0%}"
    )


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
