"""``cybtui verify``: proves a model file and the runtime on it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cybtui.commands.console import natural
from cybtui.commands.json_output import add_json_option, write_json

CLAIMS = ("nesting", "batch_invariant", "thread_invariant", "backfill", "zero_copy", "zeros_rule")


def add_parser(subparsers: Any) -> None:
    """States the options of ``verify``."""
    parser = subparsers.add_parser(
        "verify",
        help="prove a model file and the runtime on it",
        description="Checks the tensor digests of a model file and proves, bit for bit against an independent scalar reference: nesting, "
        "batch and thread invariance, back-fill, zero copy and the zeros rule.",
        allow_abbrev=False,
    )
    parser.add_argument("model", nargs="?", metavar="F.cyb", help="model file (default: the embedded model)")
    parser.add_argument("--seed", metavar="S", type=natural, default=0, help="seed of the random cases (default: 0)")
    parser.add_argument("--cases", metavar="N", type=natural, default=1000, help="random agents and queries a claim (default: 1000)")
    parser.add_argument("--claim", metavar="NAME", choices=CLAIMS, action="append", help=f"prove this only: {', '.join(CLAIMS)}")
    parser.add_argument("--mutate", metavar="NAME", help="plant a fault first (test builds): verification must fail")
    add_json_option(parser)
    parser.set_defaults(usage_error=parser.error)


def run(args: argparse.Namespace) -> int:
    """Verifies; status 1 unless everything holds."""
    if args.cases < 1:
        args.usage_error("--cases: at least one is needed to prove anything")
    from engine.model.model import Model
    from engine.native import mutate
    from engine.proof.proofs import verify

    model = Model.open(args.model)
    if args.mutate:
        mutate(args.mutate)

    def finished(proof: Any, seconds: float) -> None:
        state = "ok  " if proof.holds else "FAIL"
        sys.stderr.write(f"{state} {proof.claim}: {proof.checks:,} checks, {proof.compared:,} compared, {seconds:.1f} s\n")

    result = verify(model, args.seed, args.cases, args.claim or CLAIMS, finished)
    if args.mutate:
        result["mutation"] = args.mutate
    if args.json:
        write_json(args.json, result)
    else:
        for failure in result["failures"]:
            print(failure)
        verdict = "all hold" if not result["failures"] else "NOT proven"
        print(f"{model.name}: {result['checks']:,} checks in {result['seconds']:.1f} s, {verdict}")
    return 1 if result["failures"] else 0
