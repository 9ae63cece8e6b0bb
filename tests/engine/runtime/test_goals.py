"""The goal tree: three levels, terminal goals that never change, drift."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UserError
from engine.runtime.goals import DRIFT_WINDOW, HISTORY, IMMEDIATE, INSTRUMENTAL, TERMINAL, GoalTree, default_domains
from engine.runtime.world import World


def chain(particles: int = 40) -> World:
    links = np.array([[p, 0, p + 1] for p in range(particles - 1)], np.int64)
    return World.of_links(particles, 2, np.array([1, 0]), links, np.linspace(2, 1, particles))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 12), st.integers(0, 39), st.booleans()), max_size=12))
def test_whatever_is_added_the_tree_stays_a_tree_of_three_levels(steps: list[tuple[int, int, bool]]) -> None:
    tree = GoalTree(chain(), str)
    terminal = [(goal.title, goal.kind, goal.level) for goal in tree.goals[:2]]
    for parent, centre, domain in steps:
        with contextlib.suppress(UserError):
            goal = tree.add_domain([centre], 0, parent) if domain else tree.add_immediate(parent, [centre])
            assert centre in goal.domain
            assert tree[goal.parent].level == goal.level - 1
    assert [(goal.title, goal.kind, goal.level) for goal in tree.goals[:2]] == terminal
    assert sum(goal.level == TERMINAL for goal in tree.goals) == 2
    infos = tree.infos(np.ones(len(tree), np.int64))
    assert sorted(info.id for info in infos) == list(range(len(tree)))
    seen: set[int] = set()
    for info in infos:
        assert info.parent in seen or info.parent == -1
        seen.add(info.id)
    assert sum(info.agents for info in infos if info.parent == -1) == len(tree)


def test_drift_is_progress_while_a_terminal_measure_worsens() -> None:
    tree = GoalTree(chain(), str)
    immediate = tree.add_immediate(tree.add_domain([3], 0).id, [3])
    for step in range(DRIFT_WINDOW + 5):
        immediate.progress = step / 100
        tree.divergence.measures = (("nats", 1.0 - step / 1000),)
        tree.sample()
    assert not immediate.drift
    for step in range(DRIFT_WINDOW):
        immediate.progress += 0.01
        tree.divergence.measures = (("nats", 1.0 + step / 100),)
        tree.sample()
    assert immediate.drift
    assert tree.drift_alerts() == 1
    for _ in range(DRIFT_WINDOW):
        tree.sample()
    assert not immediate.drift
    assert len(tree.divergence.history) <= HISTORY


def test_tasks_of_a_goal() -> None:
    tree = GoalTree(chain(), str)
    domain = tree.add_domain([3], 0)
    first, second = tree.add_immediate(domain.id, [3]), tree.add_immediate(domain.id, [4])
    assert (domain.level, first.level) == (INSTRUMENTAL, IMMEDIATE)
    assert tree.immediate_of(domain.id) == tree.immediate_of(0) == [first.id, second.id]
    assert tree.immediate_of(second.id) == [second.id]
    assert tree.immediate_of(1) == []
    with pytest.raises(UserError, match="not in the tree"):
        tree[99]


@pytest.mark.parametrize("groups", [1, 3, 12])
def test_default_domains_come_from_the_graph(model: Any, groups: int) -> None:
    world = World.of_model(model)
    domains = default_domains(world, groups, 4)
    assert 1 <= len(domains) <= groups
    centres = [centre for centre, _ in domains]
    assert len(set(centres)) == len(centres)
    assert all(1 <= len(inner) <= 4 for _, inner in domains)
    assert default_domains(world, groups, 4) == domains
    lonely = World.of_links(3, 2, np.array([1, 0]), np.zeros((0, 3), np.int64), np.ones(3))
    assert len(default_domains(lonely, groups, 4)) == 1
