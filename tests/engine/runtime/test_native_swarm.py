"""The swarm on the native engine: digests, shared pages, exact resume, figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.model.model import Model
from engine.model.policy import Policy
from engine.native import HOLE, LAYER_GROUP, LAYER_KV, LAYER_SYSTEM, Engine
from engine.runtime import session
from engine.runtime.agents import agent_cid
from engine.runtime.run import digest, run
from engine.runtime.sizing import engine_config
from engine.runtime.swarm import Swarm

KEYS = {
    "model": ("name", "digest", "basis", "levels", "layers", "vocabulary", "bytes"),
    "tokens": ("generated", "by_level", "prompt", "filled", "verify"),
    "step_seconds": ("p50", "p95", "p99"),
    "arithmetic": ("multiply_adds", "always_deepest_multiply_adds", "ratio"),
    "pool": (
        "base_page_bytes", "pages_total", "pages_used", "pages_shared", "bytes_by_layer", "bytes_per_agent", "copies",
    ),
    "bandwidth": (
        "weight_bytes", "passes", "kv_bytes_shared", "kv_bytes_personal", "other_bytes", "bytes_per_token",
        "standard_bytes_per_token", "savings", "batched_bytes_per_token", "savings_vs_batched",
    ),
    "goals": ("terminal", "drift_alerts"),
    "links": (
        "proposed", "verified", "accepted", "rejected", "hidden", "found", "precision", "recall", "budget", "calibrated", "baselines",
    ),
}  # fmt: skip
PLAIN = ("agents", "groups", "steps", "seconds", "threads", "seed", "inherit", "rule", "tokens_per_second", "digest")


def swarm_of(model: Model, agents: int = 10, seed: int = 5, inherit: str = "backfill", groups: bool = True) -> Swarm:
    engine = Engine(model.native, engine_config(model, agents + 4, seed, threads=1))
    swarm = Swarm(model, engine, seed=seed)
    swarm.history = []
    swarm.default_policy = Policy(thresholds=(0.3, 0.3)).with_inherit(inherit)
    if groups:
        swarm.add_default_groups(agents)
        swarm.spawn(agents)
    return swarm


def test_the_object_of_a_run_has_the_promised_keys(model: Model) -> None:
    result = run(model, 6, 12, 7, threads=1)
    assert set(result) == {*KEYS, *PLAIN}
    for name, keys in KEYS.items():
        assert set(result[name]) == set(keys), name
    assert set(result["pool"]["bytes_by_layer"]) == {"system", "group", "personal", "kv"}
    assert set(result["goals"]["terminal"]) == {"quality", "kl"}
    assert set(result["links"]["baselines"]) == {"adamic_adar", "embedding", "random_walk"}
    assert result["tokens"]["generated"] == sum(result["tokens"]["by_level"]) == 6 * 12
    assert result["pool"]["copies"] == 0
    links = result["links"]
    assert links["proposed"] == links["verified"] == links["accepted"] + links["rejected"]
    assert links["hidden"] == len(model.hidden)
    assert (result["tokens"]["verify"] > 0) == (links["proposed"] > 0)
    json.dumps(result)


@pytest.mark.parametrize("inherit", ["backfill", "zeros", "window:8"])
def test_the_digest_does_not_depend_on_threads_or_bounds(model: Model, inherit: str) -> None:
    policy = Policy(thresholds=(0.3, 0.3)).with_inherit(inherit)
    digests = {
        run(model, 9, 15, 7, policy=policy, threads=threads, step_rows=rows)["digest"]
        for threads, rows in ((1, 0), (2, 0), (1, 5), (2, 64))
    }
    assert len(digests) == 1
    assert run(model, 9, 15, 8, policy=policy, threads=1)["digest"] not in digests


def test_a_pool_that_is_too_small_preempts_and_changes_no_token(model: Model) -> None:
    def with_pages(pages: int) -> dict[str, Any]:
        return run(model, 20, 12, 7, threads=1, make_engine=lambda model, config: Engine(model.native, replace(config, pages=pages)))

    results = with_pages(2000), with_pages(60)
    assert results[0]["digest"] == results[1]["digest"]
    assert results[0]["links"] == results[1]["links"]
    assert results[1]["pool"]["pages_used"] <= 60


def test_agents_of_a_group_map_the_same_pages_and_a_fork_copies_none(model: Model) -> None:
    swarm = swarm_of(model)
    for _ in range(3):
        swarm.step()
    first = swarm.agents.slot_of[1]
    second = next(int(slot) for slot in swarm.agents.slots if slot != first and swarm.agents.version[slot] == swarm.agents.version[first])
    shared = 0
    for chunk in range(swarm.engine.agent(first).kv_slice[1]):
        ids, addresses, layer = swarm.engine.agent_pages(first, chunk)
        others, other_addresses, other_layer = swarm.engine.agent_pages(second, chunk)
        if layer in (LAYER_SYSTEM, LAYER_GROUP):
            assert layer == other_layer
            assert ids.tolist() == others.tolist()
            assert addresses.tolist() == other_addresses.tolist()
            assert (ids != HOLE).any()
            shared += 1
        elif layer == LAYER_KV:
            assert not set(ids[ids != HOLE].tolist()) & set(others[others != HOLE].tolist())
            break
    assert shared >= 2
    swarm.engine.fork(first, agent_cid(5, 99), 99)
    swarm.engine.tick()
    swarm.engine.check()
    assert swarm.engine.counters().copies == 0
    swarm.engine.close()


@pytest.mark.parametrize("inherit", ["backfill", "zeros", "window:8"])
def test_a_session_resumed_natively_has_the_digest_of_one_never_stopped(model: Model, tmp_path: Path, inherit: str) -> None:
    whole, parts = swarm_of(model, inherit=inherit), swarm_of(model, inherit=inherit)
    for tick in range(30):
        if tick in (4, 17):
            session.save(parts, tmp_path / "a.session")
            history = parts.history
            parts.engine.close()
            parts = swarm_of(model, groups=False)
            assert session.resume(parts, *session.read(tmp_path / "a.session")) == []
            parts.history = history
        whole.step()
        parts.step()
    assert digest(whole.history or []) == digest(parts.history or [])
    for swarm in (whole, parts):
        swarm.engine.check()
        swarm.engine.close()


def test_changing_only_the_goal_tokens_changes_what_is_predicted(model: Model) -> None:
    swarm = swarm_of(model, agents=2)
    particles = swarm.world.particles
    personal = swarm.layers.personal(())
    queries = [[*personal, particle, particles] for particle in range(0, particles, 10)]
    logits = []
    for group in swarm.groups[:2]:
        result: Any = swarm.engine.score(
            queries, Policy().pinned(3), context=group.version.context, personal=len(personal), want=("logits",)
        )
        logits.append(result.logits)
    assert np.abs(logits[0] - logits[1]).max() > 0
    swarm.engine.close()


def test_bytes_per_agent_do_not_grow_with_the_number_of_agents(model: Model) -> None:
    few, many = (run(model, agents, 10, 1, threads=1)["pool"]["bytes_per_agent"] for agents in (20, 100))
    assert many <= 1.1 * few
