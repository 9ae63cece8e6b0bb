"""`verify` on a small random model: every claim holds, cases are what their seed says, failures say how to see them again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.model.cyb_file import CybFile
from engine.model.model import Model
from engine.proof import kv_proofs, run_proofs
from engine.proof.proof import FAILURES_SHOWN, Proof, compare_kv, expected_kv
from engine.proof.proofs import CASES, PROOFS, verify
from engine.proof.sequences import AGENTS, Swarm, random_case
from tests.engine.random_model import random_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return random_model(tmp_path_factory.mktemp("model"))


def test_a_thousand_cases_a_claim_are_the_default() -> None:
    assert CASES >= 1000


@pytest.mark.parametrize("claim", PROOFS)
def test_every_claim_holds(model: Model, claim: str) -> None:
    proof = PROOFS[claim](model, 0, 80)
    assert proof.claim == claim
    assert proof.failures == []
    assert proof.holds
    assert proof.checks >= 80
    assert proof.compared >= proof.checks


@pytest.mark.parametrize("shape", [{"levels": (32,)}, {"levels": (32, 96), "embedding_type": "f16", "weight_type": "f16"}])
def test_other_shapes_hold_too(tmp_path: Path, shape: dict[str, Any]) -> None:
    result = verify(random_model(tmp_path, particles=100, layers=1, **shape), seed=3, cases=24)
    assert result["failures"] == []
    assert all(result[claim] for claim in PROOFS)


def test_the_object_has_the_keys_of_the_command_line(model: Model) -> None:
    heard: list[str] = []
    result = verify(model, cases=10, finished=lambda proof, seconds: heard.append(proof.claim))
    assert heard == list(PROOFS)
    assert {"digests", "checks", "failures", *PROOFS} <= set(result)
    assert result["checks"] == sum(result["checks_by_claim"].values()) >= 60


def test_the_seed_decides_a_case(model: Model) -> None:
    assert random_case(model, 5) == random_case(model, 5)
    assert random_case(model, 5) != random_case(model, 6)
    assert len(random_case(model, 5).walks) == AGENTS


def test_cases_reach_every_level_several_chunks_and_all_rules(model: Model) -> None:
    """What is never drawn is never proven."""
    depths: set[int] = set()
    longest, rules, temperatures = 0, set(), set()
    for seed in range(12):
        case = random_case(model, seed)
        rules.add(case.policy.rule)
        temperatures.add(case.policy.temperature)
        with Swarm(model, case) as swarm:
            swarm.run()
            for index in range(len(case.walks)):
                depths |= set(swarm.stream(index)[1]) - {0}
                longest = max(longest, int(swarm.sequence(index)[1][-1]) // 16)
    assert depths == {1, 2, 3}
    assert longest >= 4
    assert rules == {"top", "margin"}
    assert temperatures == {0.0, 0.7, 1.0}


@pytest.mark.parametrize("inherit", ["backfill", "zeros"])
def test_preemption_really_happens_in_the_small_pool(model: Model, inherit: str) -> None:
    """The variation would prove nothing in a pool where everybody fits."""
    preempted = 0
    for seed in range(3):
        case = random_case(model, seed, inherit=(inherit,))
        with Swarm(model, case, replace(case.config, pages=run_proofs.small_pool_pages(model, case))) as swarm:
            swarm.run()
            preempted += swarm.engine.counters().preemptions
    assert preempted > 0


@pytest.mark.parametrize("name", [*run_proofs.BATCHES, *run_proofs.THREADS])
@pytest.mark.parametrize("inherit", ["backfill", "zeros", "window:3"])
def test_every_variation_gives_the_same_streams(model: Model, name: str, inherit: str) -> None:
    case = random_case(model, 17, 12, inherit=(inherit,))
    with Swarm(model, case) as swarm:
        swarm.run()
        expected = [swarm.stream(index) for index in range(len(case.walks))]
    variation = {**run_proofs.BATCHES, **run_proofs.THREADS}[name]
    assert variation(model, case) == expected


def test_a_wrong_row_is_found_and_named(model: Model) -> None:
    case = random_case(model, 1, 3)
    with Swarm(model, case) as swarm:
        swarm.run()
        expected = expected_kv(swarm, [2])[0]
        expected.kv[-1, 1, -1, 0] ^= 1
        wrong, compared, _ = compare_kv(swarm, 2, expected, range(len(expected.positions)))
    assert compared > len(expected.positions)
    assert wrong == [f"agent 2, position {expected.positions[-1]}, block 1: KV differs from the reference"]


def test_failures_are_counted_and_a_few_are_shown() -> None:
    proof = Proof("nesting")
    proof.check([], 3, 7, 24)
    for _ in range(FAILURES_SHOWN + 2):
        assert not proof.settled or proof.failed >= FAILURES_SHOWN
        proof.check(["agent 0, position 1, block 2: KV differs from the reference", "another"], 1, 7, 24)
    assert (proof.checks, proof.failed, len(proof.failures)) == (FAILURES_SHOWN + 3, FAILURES_SHOWN + 2, FAILURES_SHOWN)
    assert "and 1 more" in proof.failures[0]
    assert "--claim nesting --seed 7 --cases 24" in proof.failures[0]
    assert not proof.holds


def test_nothing_checked_is_nothing_proven() -> None:
    assert not Proof("nesting").holds


def test_logits_are_compared_pinned_and_escalated(model: Model) -> None:
    proof = Proof("nesting")
    kv_proofs._compare_logits(proof, model, 3)
    assert proof.holds
    assert proof.checks == 2 * model.levels * kv_proofs.QUERIES


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    """In a weight: the header's checksum covers digests, not bytes, so opening does not see it."""
    model = random_model(tmp_path, particles=60)
    entry = model.file.tensors["layers.1.block.2.v"]
    data = bytearray(model.path.read_bytes())
    start = len(data) - max(each.end for each in model.file.tensors.values())
    data[start + entry.begin + 40] ^= 1
    changed = tmp_path / "changed.cyb"
    changed.write_bytes(bytes(data))
    assert CybFile(changed).wrong_digests() == ["layers.1.block.2.v"]
    result = verify(Model.open(changed), cases=2)
    assert not result["digests"]
    assert "layers.1.block.2.v" in result["failures"][0]


def test_the_reference_runs_in_parallel_and_in_order(model: Model) -> None:
    case = random_case(model, 2, 6)
    with Swarm(model, case) as swarm:
        swarm.run()
        together = expected_kv(swarm, range(6))
        for index in range(6):
            assert np.array_equal(together[index].kv, expected_kv(swarm, [index])[0].kv)
