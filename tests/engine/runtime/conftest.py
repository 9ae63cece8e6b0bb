from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from engine.model.model import Model
from engine.runtime.swarm import Swarm
from tests.engine.random_model import random_model
from tests.engine.runtime.fake_engine import FakeEngine


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return random_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def make_swarm(model: Model) -> Callable[..., Swarm]:
    """A swarm on the fake engine: groups and agents are there, nothing has run."""

    def make(agents: int = 12, seed: int = 3, capacity: int = 40, empty: bool = False, **options: Any) -> Swarm:
        engine: Any = FakeEngine(model, SimpleNamespace(agents=capacity, groups=8, seed=seed))
        swarm = Swarm(model, engine, seed=seed, **options)
        swarm.history = []
        if not empty:
            swarm.add_default_groups(agents)
            swarm.spawn(agents)
        return swarm

    return make
