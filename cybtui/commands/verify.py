"""``cybtui verify``: proves a model file and the runtime on it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cybtui.commands.console import natural
from cybtui.commands.json_output import add_json_option, write_json


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
    parser.add_argument("--seed", metavar="S", type=natural, default=0, help="seed of the randomised cases (default: 0)")
    parser.add_argument("--mutate", metavar="NAME", help="plant a fault first (test builds): verification must fail")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Verifies; status 1 unless everything holds."""
    import time

    from engine import native_library
    from engine.model.model import Model
    from engine.proof.proofs import PROOFS

    model = Model.open(args.model)
    started = time.monotonic()
    failures = [f"tensor {name} does not match its digest" for name in model.file.wrong_digests()]
    model.file.check_matrices()
    result: dict[str, Any] = {"model": {"name": model.name, "digest": model.digest}, "digests": not failures}
    if args.mutate:
        native_library.mutate(args.mutate)
    checks = 0
    for name, (prove, cases) in PROOFS.items():
        proof = prove(model, args.seed, cases)
        key = {"batch_invariance": "batch_invariant", "thread_invariance": "thread_invariant"}.get(name, name)
        result[key] = proof.holds
        checks += proof.checks
        failures += proof.failures
        sys.stderr.write(f"{'ok  ' if proof.holds else 'FAIL'} {key}: {proof.checks:,} checks\n")
    result.update(checks=checks, failures=failures, seed=args.seed, seconds=time.monotonic() - started)
    if args.json:
        write_json(args.json, result)
    else:
        for failure in failures:
            print(failure)
        print(f"{model.name}: {checks:,} checks in {result['seconds']:.1f} s, {'all hold' if not failures else 'NOT proven'}")
    return 1 if failures else 0
