"""What `verify` proves: each claim by randomised cases, compared bit for bit with the independent scalar reference or among runs.

A check is one randomised comparison: the KV of one position, block and layer set, one distribution, one agent's whole stream. Failures
say how to see them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from engine.model.model import Model
from engine.model.policy import default_policy
from engine.native import EngineConfig, reference_forward
from engine.proof.sequences import LAYER_GROUP, Case, Swarm, random_case

FAILURES_SHOWN = 10


@dataclass
class Proof:
    """Checks made of one claim, and what failed."""

    name: str
    checks: int = 0
    failures: list[str] = field(default_factory=list)

    def check(self, holds: bool, where: str) -> None:
        """Counts one check."""
        self.checks += 1
        if not holds and len(self.failures) < FAILURES_SHOWN:
            self.failures.append(f"{self.name}: {where}")

    @property
    def holds(self) -> bool:
        """Whether every check passed (and there was one)."""
        return self.checks > 0 and not self.failures


def _blocks(model: Model) -> list[tuple[int, int]]:
    return list(zip((0, *model.widths[:-1]), model.widths, strict=True))


def _compare_kv(
    proof: Proof, swarm: Swarm, index: int, kv: NDArray[np.uint16], positions: NDArray[np.uint32], deepest: int, where: str
) -> int:
    """Compares every KV row the agent holds with the reference's; returns how many of blocks above the first there were."""
    deep = 0
    for row, position in enumerate(positions.tolist()):
        for block, (begin, end) in enumerate(_blocks(swarm.model)[:deepest], 1):
            held = swarm.engine.agent_kv(swarm.slots[index], position, block)
            if held is None:
                continue
            deep += block > 1
            expected = kv[:, :, row, begin:end]
            same = np.array_equal(np.asarray(held).reshape(expected.shape), expected)
            proof.check(same, f"{where}, position {position}, block {block}: KV differs from the reference")
    return deep


def prove_nesting(model: Model, seed: int, cases: int) -> Proof:
    """KV and logits of level k are the same computed alone or inside a deeper level."""
    proof = Proof("nesting")
    for number in range(cases):
        case = random_case(model, seed + number, agents=2, ticks=1)
        policies = [default_policy(model.levels).pinned(level) for level in range(1, model.levels + 1)]
        with Swarm(model, case, policy=policies[-1]) as deepest:
            deepest.run()
            tokens, positions, _ = deepest.sequence(0)
            for level, policy in enumerate(policies, 1):
                kv, logits = reference_forward(model.native, level, tokens, positions, want_logits=number % 4 == 0)
                assert kv is not None
                where = f"case {case.seed}, level {level}"
                _compare_kv(proof, deepest, 0, kv, positions, level, f"{where} inside the deepest")
                with Swarm(model, case, policy=policy) as alone:
                    alone.run()
                    if level < model.levels:
                        _compare_kv(proof, alone, 0, kv, positions, level, f"{where} alone")
                if logits is not None:
                    query = [*case.walks[0].personal, *case.walks[0].prompt]
                    scored = deepest.engine.score(
                        [query], policy, context=deepest.group, personal=len(case.walks[0].personal), want=("logits",)
                    ).logits
                    assert scored is not None
                    row = len(tokens) - 1
                    proof.check(np.array_equal(scored[0], logits[row]), f"{where}: logits differ from the reference")
    return proof


def prove_backfill(model: Model, seed: int, cases: int) -> Proof:
    """Back-filled KV equals never having been shallow: agents of mixed depth against the reference at the deepest level."""
    proof = Proof("backfill")
    deep = 0
    for number in range(cases):
        case = random_case(model, seed + number)
        with Swarm(model, case) as swarm:
            swarm.run()
            for index in range(len(case.walks)):
                tokens, positions, _ = swarm.sequence(index)
                kv, _ = reference_forward(model.native, model.levels, tokens, positions, want_logits=False)
                assert kv is not None
                deep += _compare_kv(proof, swarm, index, kv, positions, model.levels, f"case {case.seed}, agent {index}")
            swarm.engine.check()
    if model.levels > 1:
        proof.check(deep > 0, "no case went past the router, so nothing was back-filled")
    return proof


def prove_zeros(model: Model, seed: int, cases: int) -> Proof:
    """Under `zeros` a hole is K = V = 0 and takes exp(0); shared positions are holes even when neighbours filled them."""
    proof = Proof("zeros_rule")
    for number in range(cases):
        case = random_case(model, seed + number, agents=4)
        with Swarm(model, case, policy=case.policy.with_inherit("zeros")) as swarm:
            engine = swarm.engine
            engine.set_policy(1, default_policy(model.levels).pinned(model.levels))
            filler = engine.create_agent(1, bytes(36), 0, 1000)  # a neighbour that fills the shared pages at every block
            engine.begin(filler, swarm.group, case.walks[0].personal, case.walks[0].prompt, 0)
            swarm.run()
            for index in range(len(case.walks)):
                tokens, positions, levels = swarm.sequence(index)
                holes = (levels[:, None] < np.arange(1, model.levels + 1)[None, :]).astype(np.uint8)
                kv, _ = reference_forward(model.native, model.levels, tokens, positions, holes, zeros_rule=True, want_logits=False)
                assert kv is not None
                shared = len(case.system) + len(case.group)
                for row, position in list(enumerate(positions.tolist()))[shared:]:
                    for block, (begin, end) in enumerate(_blocks(model), 1):
                        held = engine.agent_kv(swarm.slots[index], position, block)
                        where = f"case {case.seed}, agent {index}, position {position}, block {block}"
                        if holes[row, block - 1]:
                            proof.check(held is None, f"{where}: a hole holds KV")
                        elif held is None:
                            proof.check(False, f"{where}: KV is missing")
                        else:
                            expected = kv[:, :, row, begin:end]
                            same = np.array_equal(np.asarray(held).reshape(expected.shape), expected)
                            proof.check(same, f"{where}: KV differs from the reference")
            engine.check()
    return proof


def _same_streams(proof: Proof, model: Model, case: Case, configs: list[tuple[str, EngineConfig]]) -> None:
    with Swarm(model, case) as swarm:
        expected = swarm.run().streams()
    for name, config in configs:
        with Swarm(model, case, config) as swarm:
            for index, stream in enumerate(swarm.run().streams()):
                proof.check(stream == expected[index], f"case {case.seed}, agent {index}, {name}: tokens or depths differ")
            swarm.engine.check()


def prove_batch_invariance(model: Model, seed: int, cases: int) -> Proof:
    """Tokens and depths are the same whatever the rows a pass, the bound a call, the pool, and the company."""
    proof = Proof("batch_invariance")
    for number in range(cases):
        case = random_case(model, seed + number, agents=6, ticks=6)
        small = replace(case.config, pages=max(64, 24 * model.widths[-1] // model.widths[0]))
        configs = [
            ("rows of 1", replace(case.config, rows=1)),
            ("rows of 5", replace(case.config, rows=5)),
            ("calls of 2 rows", replace(case.config, step_rows=2)),
            ("no kept accumulators", replace(case.config, accumulator_bytes=0)),
            ("a small pool", small),
        ]
        _same_streams(proof, model, case, configs)
        with Swarm(model, case) as swarm:
            expected = swarm.run().streams()
        for index, walk in enumerate(case.walks):
            with Swarm(model, replace(case, walks=())) as lonely:
                slot = lonely.engine.create_agent(0, bytes(36), 0, index)
                lonely.engine.begin(slot, lonely.group, walk.personal, walk.prompt, 0)
                lonely.slots = [slot]
                proof.check(lonely.run().streams()[0] == expected[index], f"case {case.seed}, agent {index} alone: stream differs")
    return proof


def prove_thread_invariance(model: Model, seed: int, cases: int) -> Proof:
    """Tokens and depths are the same for 1, 2, 3 and 5 threads, and on the scalar kernels."""
    proof = Proof("thread_invariance")
    for number in range(cases):
        case = random_case(model, seed + number, agents=5, ticks=5)
        configs = [(f"{threads} threads", replace(case.config, threads=threads)) for threads in (1, 3, 5)]
        _same_streams(proof, model, case, configs)
    return proof


def prove_zero_copy(model: Model, seed: int, cases: int) -> Proof:
    """Agents of a group map the same physical pages of shared layers, fork copies nothing, and no page is ever copied."""
    proof = Proof("zero_copy")
    for number in range(cases):
        case = random_case(model, seed + number, agents=3, ticks=3)
        with Swarm(model, case) as swarm:
            engine = swarm.run().engine
            shared = 0
            for chunk in range(engine.agent(swarm.slots[0]).kv_slice[1]):
                ids, addresses, layer = engine.agent_pages(swarm.slots[0], chunk)
                if layer > LAYER_GROUP:
                    break
                shared += 1
                for slot in swarm.slots[1:]:
                    other_ids, other_addresses, _ = engine.agent_pages(slot, chunk)
                    same = np.array_equal(ids, other_ids) and np.array_equal(addresses, other_addresses)
                    proof.check(same, f"case {case.seed}, chunk {chunk}: agents map different pages of a shared layer")
            proof.check(shared >= 2, f"case {case.seed}: no shared chunk was mapped")
            used = engine.pool().pages_used
            child = engine.fork(swarm.slots[0], bytes(36), 999)
            proof.check(engine.pool().pages_used == used, f"case {case.seed}: fork took pages")
            for chunk in range(engine.agent(child).kv_slice[1] - 1):
                ids, _, _ = engine.agent_pages(swarm.slots[0], chunk)
                fork_ids, _, _ = engine.agent_pages(child, chunk)
                sealed = not np.all(fork_ids == 0xFFFFFFFF)
                proof.check(not sealed or np.array_equal(ids, fork_ids), f"case {case.seed}, chunk {chunk}: the fork maps other pages")
            swarm.run(2)
            proof.check(engine.counters().copies == 0, f"case {case.seed}: a page was copied")
            engine.check()
    return proof


PROOFS: dict[str, tuple[Callable[[Model, int, int], Proof], int]] = {
    "nesting": (prove_nesting, 8),
    "batch_invariance": (prove_batch_invariance, 8),
    "thread_invariance": (prove_thread_invariance, 8),
    "backfill": (prove_backfill, 8),
    "zero_copy": (prove_zero_copy, 8),
    "zeros_rule": (prove_zeros, 8),
}
