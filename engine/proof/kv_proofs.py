"""Claims about KV and logits, proven against the scalar reference: nesting, back-fill, the zeros rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from engine.model.model import Model
from engine.model.policy import Policy, default_policy
from engine.native import reference_forward
from engine.proof.proof import Proof, blocks_of, compare_kv, expected_kv, in_parallel
from engine.proof.sequences import AGENTS, NO_ID, Swarm, random_case

ATTEMPTS = 10  # swarms, until one has an agent that goes past the first level
QUERIES = 4  # of a swarm, whose logits are compared too
LOGIT_PRODUCTS = 4_000_000_000  # multiply-adds that the reference may spend on vocabularies: a large one is seen by fewer swarms


def _through(model: Model, level: int) -> Policy:
    """Every level up to ``level`` is visited and none below it answers."""
    return replace(default_policy(model.levels), thresholds=(2.0,) * (model.levels - 1), depth_max=level)


def _shallow(model: Model, deep: int, attempts: int) -> bool:
    """Whether nothing above the first block was compared yet and more swarms may change that."""
    return model.levels > 1 and deep == 0 and attempts < ATTEMPTS


def _went_deep(proof: Proof, model: Model, deep: int, seed: int) -> None:
    """A claim about deeper blocks is not proven by agents that never went there."""
    if model.levels > 1 and deep == 0:
        proof.check(["no agent went past the first level, so nothing was filled"], 0, seed, AGENTS)


def prove_nesting(model: Model, seed: int, cases: int) -> Proof:
    """KV and logits of level k are the same computed alone or inside a deeper level."""
    proof = Proof("nesting")
    products = LOGIT_PRODUCTS
    while proof.checks < cases and not proof.settled:
        case = random_case(model, seed, min(AGENTS, cases), ticks=1)
        indices = range(len(case.walks))
        pinned = [default_policy(model.levels).pinned(level) for level in range(1, model.levels + 1)]
        with Swarm(model, case, policy=pinned[-1]) as inside:
            inside.run()
            expected = expected_kv(inside, indices, level=model.levels)
            for index in indices:
                rows = range(len(expected[index].positions))
                wrong, compared, _ = compare_kv(inside, index, expected[index], rows)
                missing = len(rows) * model.levels - compared
                proof.check([*wrong, *[f"agent {index}: KV is missing"][: min(missing, 1)]], compared, seed, AGENTS)
        for level in range(1, model.levels):
            with Swarm(model, case, policy=pinned[level - 1]) as alone:
                alone.run()
                for index in indices:
                    rows = range(len(expected[index].positions))
                    wrong, compared, _ = compare_kv(alone, index, expected[index], rows, level)
                    proof.check([f"level {level} alone, {each}" for each in wrong], compared, seed, AGENTS)
        if products > 0:
            products -= 2 * QUERIES * len(model.vocabulary) * sum(model.widths)
            _compare_logits(proof, model, seed)
        seed += 1
    return proof


def _compare_logits(proof: Proof, model: Model, seed: int) -> None:
    """Distributions of short queries at every level, pinned there and escalated to it, against the reference."""
    random = np.random.default_rng([seed, 0x4C4F4749])
    queries = random.integers(0, len(model.vocabulary), (QUERIES, 2)).astype(np.uint32)
    work = [(level, query) for level in range(1, model.levels + 1) for query in range(QUERIES)]

    def reference(item: tuple[int, int]) -> NDArray[np.float32]:
        _, logits = reference_forward(model.native, item[0], queries[item[1]], np.arange(2), want_kv=False)
        assert logits is not None
        return np.asarray(logits[-1], np.float32)

    expected = dict(zip(work, in_parallel(reference, work), strict=True))
    case = random_case(model, seed, 1)
    with Swarm(model, case, order=()) as swarm:
        for level in range(1, model.levels + 1):
            for name, policy in (("pinned", default_policy(model.levels).pinned(level)), ("escalated", _through(model, level))):
                logits = swarm.engine.score(queries.tolist(), policy, want=("logits",)).logits
                assert logits is not None
                for query in range(QUERIES):
                    where = f"query {queries[query].tolist()}, level {level} {name}: logits differ from the reference"
                    proof.check([] if np.array_equal(logits[query], expected[level, query]) else [where], 1, seed, AGENTS)


def prove_backfill(model: Model, seed: int, cases: int) -> Proof:
    """Back-filled KV equals never having been shallow: agents of mixed depth against the reference at the deepest level. Some swarms
    run under zeros or a window first: what was computed over holes must go when back-fill comes."""
    proof = Proof("backfill")
    deep, first = 0, seed
    while (proof.checks < cases or _shallow(model, deep, seed - first)) and not proof.settled:
        case = random_case(model, seed, min(AGENTS, cases), inherit=("backfill", "backfill", "zeros", "window:3"))
        with Swarm(model, case) as swarm:
            if case.policy.inherit == "backfill":
                swarm.run()
            else:
                swarm.run(1)
                swarm.engine.set_policy(0, case.policy.with_inherit("backfill"))
                swarm.run(case.ticks - 1)
            swarm.engine.check()
            expected = expected_kv(swarm, range(len(case.walks)))
            for index, wanted in enumerate(expected):
                wrong, compared, above = compare_kv(swarm, index, wanted, range(len(wanted.positions)))
                deep += above
                proof.check(wrong, compared, seed, AGENTS)
        seed += 1
    _went_deep(proof, model, deep, first)
    return proof


def prove_zeros(model: Model, seed: int, cases: int) -> Proof:
    """Under ``zeros`` a hole is K = V = 0 and takes exp(0); shared positions are holes even when neighbours filled them."""
    proof = Proof("zeros_rule")
    deep, first = 0, seed
    while (proof.checks < cases or _shallow(model, deep, seed - first)) and not proof.settled:
        case = random_case(model, seed, min(AGENTS, cases), inherit=("zeros",))
        with Swarm(model, case) as swarm:
            engine = swarm.engine
            engine.set_policy(1, default_policy(model.levels).pinned(model.levels))
            neighbour = engine.create_agent(1, NO_ID, 0, 1000)  # fills the shared pages at every block
            engine.begin(neighbour, swarm.group, case.walks[0].personal, case.walks[0].prompt, 0)
            swarm.run()
            engine.check()
            shared = len(case.system) + len(case.group)
            for index, wanted in enumerate(expected_kv(swarm, range(len(case.walks)), zeros=True)):
                own = range(shared, len(wanted.positions))
                wrong, compared, above = compare_kv(swarm, index, wanted, own)
                deep += above
                for row in own:
                    for block in range(1, len(blocks_of(model)) + 1):
                        position = int(wanted.positions[row])
                        held = engine.agent_kv(swarm.slots[index], position, block) is not None
                        if held != (wanted.levels[row] >= block):
                            what = "a hole holds KV" if held else "KV is missing"
                            wrong.append(f"agent {index}, position {position}, block {block}: {what}")
                proof.check(wrong, compared, seed, AGENTS)
        seed += 1
    _went_deep(proof, model, deep, first)
    return proof
