"""Claims about whole runs: the same tokens in any company and on any number of threads, and nothing copied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from engine.errors import NativeError
from engine.model.model import Model
from engine.model.policy import default_policy
from engine.native import HOLE, ISA_REFERENCE, LAYER_GROUP, Engine
from engine.proof.proof import Proof, compare_kv, expected_kv
from engine.proof.sequences import AGENTS, NO_ID, Case, Stream, Swarm, random_case

INHERITANCES = ("backfill", "backfill", "zeros", "window:3")
SMALL_POOL = 14  # chunks at the deepest level
ANCHORED = 4  # agents of a swarm whose KV is compared with the reference as well
Variation = Callable[[Model, Case], list[Stream]]


def _streams(swarm: Swarm) -> list[Stream]:
    swarm.engine.check()
    return [swarm.stream(index) for index in range(len(swarm.case.walks))]


def _configured(**changes: int) -> Variation:
    def run(model: Model, case: Case) -> list[Stream]:
        with Swarm(model, case, replace(case.config, **changes)) as swarm:  # type: ignore[arg-type]
            return _streams(swarm.run())

    return run


def small_pool_pages(model: Model, case: Case) -> int:
    """Base pages for the shared layers and a few agents of a case."""
    return case.config.pages if case.policy.inherit == "window" else SMALL_POOL * model.widths[-1] // model.widths[0]


def _small_pool(model: Model, case: Case) -> list[Stream]:
    """Not everybody fits: agents are preempted and come back (under a window nobody can be, so everybody must fit)."""
    with Swarm(model, case, replace(case.config, pages=small_pool_pages(model, case))) as swarm:
        return _streams(swarm.run())


def _reversed(model: Model, case: Case) -> list[Stream]:
    with Swarm(model, case, order=range(len(case.walks) - 1, -1, -1)) as swarm:
        return _streams(swarm.run())


def _latecomers(model: Model, case: Case) -> list[Stream]:
    """Every other agent joins a tick later and finishes a tick later."""
    with Swarm(model, case, order=range(0, len(case.walks), 2)) as swarm:
        swarm.run(1)
        for index in range(1, len(case.walks), 2):
            swarm.join(index)
        return _streams(swarm.run())


def _interrupted(model: Model, case: Case) -> list[Stream]:
    """Pages of every third agent are taken away between ticks (not under a window: its holes depend on when they were filled)."""
    with Swarm(model, case) as swarm:
        for tick in range(case.ticks):
            for index in range(tick % 3, len(case.walks), 3):
                if tick and case.policy.inherit != "window":
                    swarm.engine.release_pages(swarm.slots[index])
            swarm.run(1)
        return _streams(swarm)


def _strangers(model: Model, case: Case) -> list[Stream]:
    """Agents of another policy on the same contexts."""
    with Swarm(model, case) as swarm:
        swarm.engine.set_policy(1, default_policy(model.levels).pinned(model.levels))
        for walk in case.walks[: len(case.walks) // 2]:
            stranger = swarm.engine.create_agent(1, NO_ID, 0, 5000 + walk.serial)
            swarm.engine.begin(stranger, swarm.group, walk.personal, walk.prompt, 0)
        return _streams(swarm.run())


def _alone(model: Model, case: Case) -> list[Stream]:
    result = []
    for index in range(len(case.walks)):
        with Swarm(model, case, order=(index,)) as swarm:
            result.append(swarm.run().stream(index))
    return result


BATCHES: dict[str, Variation] = {
    "one row a pass": _configured(rows=1),
    "five rows a pass": _configured(rows=5),
    "two rows a call": _configured(step_rows=2),
    "a small pool": _small_pool,
    "in reverse order": _reversed,
    "half of them later": _latecomers,
    "pages taken away": _interrupted,
    "among strangers": _strangers,
    "each alone": _alone,
}
THREADS: dict[str, Variation] = {
    **{f"{threads} threads": _configured(threads=threads) for threads in (1, 3, 5)},
    "2 threads, scalar kernels": _configured(isa=ISA_REFERENCE),
}


def _prove_invariance(claim: str, model: Model, seed: int, cases: int, variations: dict[str, Variation], each: int) -> Proof:
    proof = Proof(claim)
    names = list(variations)
    while proof.checks < cases and not proof.settled:
        case = random_case(model, seed, min(AGENTS, cases), inherit=INHERITANCES)
        with Swarm(model, case) as swarm:
            expected = _streams(swarm.run())
            anchors = range(min(ANCHORED, len(case.walks))) if case.policy.inherit == "backfill" else range(0)
            for index, wanted in zip(anchors, expected_kv(swarm, anchors), strict=True):
                wrong, compared, _ = compare_kv(swarm, index, wanted, range(len(wanted.positions)))
                proof.check(wrong, compared, seed, AGENTS)
        for offset in range(each):
            name = names[(seed * each + offset) % len(names)]
            try:
                streams = variations[name](model, case)
            except NativeError as error:
                proof.check([f"{name}: {error.text}"], 0, seed, AGENTS)
                continue
            for index, stream in enumerate(streams):
                wrong = [] if stream == expected[index] else [f"agent {index}, {name}: tokens or depths differ"]
                proof.check(wrong, 1, seed, AGENTS)
        seed += 1
    return proof


def prove_batch_invariance(model: Model, seed: int, cases: int) -> Proof:
    """Tokens and depths are the same whatever the rows a pass, the bound a call, the pool, the order and the company."""
    return _prove_invariance("batch_invariant", model, seed, cases, BATCHES, 4)


def prove_thread_invariance(model: Model, seed: int, cases: int) -> Proof:
    """Tokens and depths are the same for 1, 2, 3 and 5 threads, and on the scalar kernels."""
    return _prove_invariance("thread_invariant", model, seed, cases, THREADS, 4)


def _shared_pages(engine: Engine, slot: int, first: int) -> tuple[list[str], int, int]:
    """What differs between the shared chunks of two agents, pages compared, and chunks that were shared."""
    wrong, compared, shared = [], 0, 0
    for chunk in range(engine.agent(first).kv_slice[1]):
        ids, addresses, layer = engine.agent_pages(first, chunk)
        if layer > LAYER_GROUP:
            break
        other_ids, other_addresses, other_layer = engine.agent_pages(slot, chunk)
        shared += 1
        compared += len(ids)
        if not (np.array_equal(ids, other_ids) and np.array_equal(addresses, other_addresses) and layer == other_layer):
            wrong.append(f"agents in slots {first} and {slot} map different pages of shared chunk {chunk}")
        if ids[0] == HOLE:
            wrong.append(f"shared chunk {chunk} has no page of block 1")
    return wrong, compared, shared


def prove_zero_copy(model: Model, seed: int, cases: int) -> Proof:
    """Agents of a group map the same physical pages of shared layers, fork copies nothing, and no page is ever copied."""
    proof = Proof("zero_copy")
    while proof.checks < cases and not proof.settled:
        case = random_case(model, seed, max(2, min(AGENTS, cases)))
        with Swarm(model, case) as swarm:
            engine = swarm.run().engine
            first = swarm.slots[0]
            for index in range(1, len(case.walks)):
                wrong, compared, shared = _shared_pages(engine, swarm.slots[index], first)
                if shared < 2:
                    wrong.append(f"agent {index}: system and group are not both mapped")
                proof.check(wrong, compared, seed, AGENTS)
            for index in range(0, len(case.walks), 4):
                used, origin = engine.pool().pages_used, swarm.slots[index]
                child = engine.fork(origin, NO_ID, 9000 + index)
                wrong = [] if engine.pool().pages_used == used else [f"agent {index}: fork took pages"]
                compared = 0
                for chunk in range(engine.agent(child).kv_slice[1]):
                    ids, _, _ = engine.agent_pages(origin, chunk)
                    fork_ids, _, _ = engine.agent_pages(child, chunk)
                    compared += len(ids)
                    if not np.array_equal(fork_ids[fork_ids != HOLE], ids[fork_ids != HOLE]):
                        wrong.append(f"agent {index}, chunk {chunk}: the fork maps other pages")
                proof.check(wrong, compared, seed, AGENTS)
            swarm.run(1)
            engine.check()
            copies = engine.counters().copies
            proof.check([f"{copies} pages were copied"] if copies else [], 1, seed, AGENTS)
        seed += 1
    return proof
