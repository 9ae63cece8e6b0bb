"""What ``cybtui verify`` proves, and the object it prints (cli.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from engine.model.model import Model
from engine.proof.kv_proofs import prove_backfill, prove_nesting, prove_zeros
from engine.proof.proof import Proof
from engine.proof.run_proofs import prove_batch_invariance, prove_thread_invariance, prove_zero_copy

CASES = 1000
Prove = Callable[[Model, int, int], Proof]
PROOFS: dict[str, Prove] = {
    "nesting": prove_nesting,
    "batch_invariant": prove_batch_invariance,
    "thread_invariant": prove_thread_invariance,
    "backfill": prove_backfill,
    "zero_copy": prove_zero_copy,
    "zeros_rule": prove_zeros,
}


def verify(
    model: Model,
    seed: int = 0,
    cases: int = CASES,
    claims: Sequence[str] = tuple(PROOFS),
    finished: Callable[[Proof, float], None] | None = None,
) -> dict[str, Any]:
    """Checks the tensor digests and proves each claim on at least ``cases`` random agents and queries.

    ``finished`` hears of each proof and the seconds it took. The object is as in cli.md; what failed says how to see it again.
    """
    started = time.monotonic()
    model.file.check_matrices()
    failures = [f"tensor {name}: its bytes do not have the digest of the header" for name in model.file.wrong_digests()]
    result: dict[str, Any] = {"model": {"name": model.name, "digest": model.digest}, "digests": not failures}
    proofs = {}
    for claim in claims:
        begin = time.monotonic()
        proofs[claim] = PROOFS[claim](model, seed, cases)
        result[claim] = proofs[claim].holds
        failures += proofs[claim].failures
        if finished:
            finished(proofs[claim], time.monotonic() - begin)
    result["checks"] = sum(proof.checks for proof in proofs.values())
    result["compared"] = sum(proof.compared for proof in proofs.values())
    result["checks_by_claim"] = {claim: proof.checks for claim, proof in proofs.items()}
    return {**result, "failures": failures, "seed": seed, "seconds": time.monotonic() - started}
