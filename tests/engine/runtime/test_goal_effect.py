"""Changing only the goal tokens moves walks into the goal's domain (the embedded model)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.errors import UserError
from engine.model.model import Model, embedded_model_path
from engine.native import Engine
from engine.runtime.agents import agent_cid
from engine.runtime.cycle import WALK_TOKENS
from engine.runtime.sizing import engine_config
from engine.runtime.swarm import Swarm

WALKS = 192
LIFT = 1.2


def has_embedded_model() -> bool:
    try:
        embedded_model_path()
    except UserError:
        return False
    return True


def targets_under(model: Model, goal: int, starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Particles that walks from ``starts`` come to under one group's goal, and the domains of all groups."""
    engine = Engine(model.native, engine_config(model, WALKS, seed=11))
    swarm = Swarm(model, engine, seed=11)
    swarm.add_default_groups(256)
    group = swarm.groups[goal]
    domains = [swarm.goals[other.goal].domain for other in swarm.groups]
    if not len(starts):
        engine.close()
        return starts, domains
    centre = swarm.goals[group.goal].particles[0]
    slots = []
    for number, start in enumerate(starts.tolist()):
        slot = engine.create_agent(group.id, agent_cid(11, number), 0, number)
        engine.begin(slot, group.version.context, swarm.layers.personal([centre, start]), [start])
        slots.append(slot)
    for _ in range(WALK_TOKENS - 1):
        engine.tick()
    walked = [engine.agent_tokens(slot)[0][2::2] for slot in slots]
    engine.close()
    tokens = np.concatenate(walked).astype(np.int64)
    return tokens[tokens < model.particles], domains


@pytest.mark.slow
@pytest.mark.skipif(not has_embedded_model(), reason="the embedded model is not built")
def test_walks_follow_the_goal() -> None:
    model = Model.open()
    _, domains = targets_under(model, 0, np.zeros(0, np.int64))
    first, second = domains[0], domains[1]
    only_first, only_second = np.setdiff1d(first, second), np.setdiff1d(second, first)
    inside = np.union1d(first, second)
    outside = np.setdiff1d(np.arange(model.particles), inside)
    # starts just outside both domains: what is linked to them and not in them
    links = model.graph.links
    touching = np.isin(links[:, 0], inside) ^ np.isin(links[:, 2], inside)
    edge = np.intersect1d(links[touching][:, [0, 2]].reshape(-1), outside)
    starts = np.random.default_rng(0).permutation(edge if len(edge) >= WALKS else outside)[:WALKS]
    rates = np.zeros((2, 2))
    for goal in range(2):
        targets, _ = targets_under(model, goal, starts)
        rates[goal] = np.isin(targets, only_first).mean(), np.isin(targets, only_second).mean()
    own = rates[0, 0] + rates[1, 1]
    other = rates[0, 1] + rates[1, 0]
    assert own >= LIFT * other, rates
