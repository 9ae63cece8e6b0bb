"""An engine in memory with the methods of ``engine.native.Engine`` and no model behind it, for tests of what is built on it.

Its tokens depend, like the real ones, only on (seed, serial, position), the context, the personal layer and the tokens so far.
"""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine.errors import BAD_STATE, POOL_FULL, NativeError
from engine.runtime import chance
from engine.runtime.world import World

TOKEN = np.dtype(
    [
        ("slot", np.uint32), ("token", np.uint32), ("position", np.uint32), ("depth", np.uint32), ("probability", np.float32),
        ("confidence", np.float32, 8), ("alternatives", np.uint32, 3), ("alternative_probability", np.float32, 3),
        ("finished", np.uint32),
    ]
)  # fmt: skip
FREE, IDLE, RUNNING, PAUSED = 0, 1, 2, 3


def rows_of(ragged: Any) -> list[list[int]]:
    """Rows of an (offsets, values) pair."""
    offsets, values = ragged
    return [row.tolist() for row in np.split(np.asarray(values), np.asarray(offsets)[1:-1])]


class FakeEngine:
    """``fail_at``: the tick whose step fails as a full pool does."""

    def __init__(self, model: Any, config: Any, fail_at: int = 0) -> None:
        self.model, self.config, self.fail_at = model, config, fail_at
        self.levels = model.levels
        self.world = World.of_model(model)
        self.contexts: dict[int, list[int]] = {0: []}
        self.released: set[int] = set()
        self.policies: dict[int, Any] = {}
        self.slots: list[dict[str, Any] | None] = [None] * config.agents
        self.ticks = 0
        self.generated = 0
        self.verified = 0
        self.closed = False
        self._tokens = np.zeros(0, TOKEN)

    def close(self) -> None:
        self.closed = True

    # ---- contexts and agents --------------------------------------------------------------------------------------------

    def set_policy(self, group: int, policy: Any) -> None:
        self.policies[group] = policy.for_levels(self.levels)

    def create_context(self, parent: int, layer: int, tokens: Any) -> int:
        context = len(self.contexts)
        self.contexts[context] = [*self.contexts[parent], *tokens]
        return context

    def release_context(self, context: int) -> None:
        assert context not in self.released
        self.released.add(context)

    def create_agent(self, group: int, cid: bytes, goal: int = 0, serial: int = 0) -> int:
        assert len(cid) == 36
        for slot, agent in enumerate(self.slots):
            if agent is None:
                self.slots[slot] = {
                    "group": group, "goal": goal, "serial": serial, "state": IDLE, "tokens": [], "depths": [], "start": 0,
                    "bounds": (0, 0), "generated": 0, "salt": b"", "last": 0, "episode": 0,
                }  # fmt: skip
                return slot
        raise NativeError(BAD_STATE, "no slot is free")

    def _agent(self, slot: int) -> dict[str, Any]:
        agent = self.slots[slot]
        if agent is None:
            raise NativeError(BAD_STATE, f"slot {slot} is free")
        return agent

    def begin(self, slot: int, context: int, personal: Any, prompt: Any, stop_after: int = 0) -> None:
        agent = self._agent(slot)
        assert context not in self.released
        assert len(prompt)
        assert agent["state"] != PAUSED
        agent["episode"] += 1
        text = repr((self.contexts[context], list(personal), agent["episode"]))
        agent.update(tokens=list(prompt), depths=[0] * len(prompt), start=32, state=RUNNING, salt=hashlib.sha256(text.encode()).digest())

    def begin_many(self, slots: Any, contexts: Any, personal: Any, prompts: Any) -> None:
        for slot, context, layer, prompt in zip(slots.tolist(), contexts.tolist(), personal, prompts, strict=True):
            self.begin(slot, context, layer, prompt)

    def pause(self, slot: int) -> None:
        agent = self._agent(slot)
        if agent["state"] != RUNNING:
            raise NativeError(BAD_STATE, f"slot {slot} is not running")
        agent["state"] = PAUSED

    def resume(self, slot: int) -> None:
        agent = self._agent(slot)
        if agent["state"] != PAUSED:
            raise NativeError(BAD_STATE, f"slot {slot} is not paused")
        agent["state"] = RUNNING

    def kill(self, slot: int) -> None:
        self._agent(slot)
        self.slots[slot] = None

    def fork(self, slot: int, cid: bytes, serial: int) -> int:
        origin = self._agent(slot)
        fork = self.create_agent(origin["group"], cid, origin["goal"], serial)
        copied = {key: origin[key] for key in ("state", "start", "bounds", "episode", "salt", "last")}
        self._agent(fork).update(copied, tokens=list(origin["tokens"]), depths=list(origin["depths"]))
        return fork

    def set_depth(self, slot: int, low: int, high: int) -> None:
        self._agent(slot)["bounds"] = (low, high)

    def set_goal(self, slot: int, goal: int) -> None:
        self._agent(slot)["goal"] = goal

    def set_next_episode(self, slot: int, episode: int) -> None:
        self._agent(slot)["episode"] = episode - 1

    def set_group(self, slot: int, group: int) -> None:
        self._agent(slot)["group"] = group

    def agent_tokens(self, slot: int) -> tuple[Any, Any]:
        agent = self._agent(slot)
        return np.array(agent["tokens"], np.uint32), np.array(agent["depths"], np.uint8)

    # ---- step ---------------------------------------------------------------------------------------------------------------

    def tick(self) -> Any:
        self.ticks += 1
        if self.fail_at and self.ticks >= self.fail_at:
            raise NativeError(POOL_FULL, "the pool is full and not one agent fits")
        rows = []
        for slot, agent in enumerate(self.slots):
            if agent is not None and agent["state"] == RUNNING:
                token, depth, probability = self._next(agent)
                agent["tokens"].append(token)
                agent["depths"].append(depth)
                agent["generated"] += 1
                agent["last"] = token
                confidence = [probability] * depth + [0.0] * (8 - depth)
                rows.append((slot, token, 32 + len(agent["tokens"]), depth, probability, confidence, [token] * 3, [probability] * 3, 0))
        self._tokens = np.array(rows, TOKEN)
        self.generated += len(rows)
        return SimpleNamespace(tick_complete=True, tick=self.ticks, generated=len(rows), rows=len(rows), preempted=0, seconds=0.0)

    def _next(self, agent: dict[str, Any]) -> tuple[int, int, float]:
        world, last = self.world, agent["tokens"][-1]
        salt = int.from_bytes(hashlib.sha256(agent["salt"] + repr(agent["tokens"]).encode()).digest()[:8], "little") >> 1
        draws = chance.below(self.config.seed, 1000, agent["serial"], len(agent["tokens"]), salt, np.arange(4)).tolist()
        depth = 1 + draws[3] % self.levels
        if draws[0] < 50:
            token = (draws[1] * 1000 + draws[2]) % (world.particles + world.semcons)
        elif last < world.particles:
            token = world.particles + draws[1] % world.semcons
        else:
            known = list(world.neighbours(agent["tokens"][-2])) if len(agent["tokens"]) > 1 else []
            token = known[draws[2] % len(known)] if known and draws[1] < 500 else (draws[1] * 1000 + draws[2]) % world.particles
        return int(token), depth, (1 + draws[2]) / 1001

    def tick_tokens(self) -> Any:
        return self._tokens.copy()

    def score(self, queries: Any, policy: Any, **options: Any) -> Any:
        queries, targets, filters = (rows_of(ragged) for ragged in (queries, options["targets"], options["filters"]))
        assert len(queries) == len(targets) == len(filters)
        assert policy.depth_min == policy.depth_max == self.levels
        self.verified += sum(map(len, queries))
        logprob, rank = [], []
        for query, row in zip(queries, targets, strict=True):
            for target in row:
                share = float(chance.below(0, 1000, query[-2], query[-1], target)) / 1000
                logprob.append(np.log(max(share, 1e-3) / len(row)))
                rank.append(1 + int(1 / max(share, 1e-3)))
        return SimpleNamespace(target_logprob=np.array(logprob, np.float32), target_rank=np.array(rank, np.float32))

    # ---- figures ------------------------------------------------------------------------------------------------------------

    def counters(self) -> Any:
        zeros = (0,) * self.levels
        return SimpleNamespace(
            generated=self.generated, prompt=0, verify=self.verified, evaluated=0, by_level=(self.generated, *zeros[1:]),
            filled=zeros, passes=(self.ticks, *zeros[1:]), weight_bytes=(1000 * self.ticks, *zeros[1:]), kv_bytes_shared=10,
            kv_bytes_personal=10, other_bytes=10, multiply_adds=100 * self.generated,
            always_deepest_multiply_adds=300 * self.generated, standard_bytes=3000 * self.generated,
            batched_bytes=2000 * self.ticks, copies=0, preemptions=0, refused=0, events_lost=0, ticks=self.ticks,
            steps=self.ticks, seconds_by_level=(0.0,) * self.levels,
        )  # fmt: skip

    def pool(self) -> Any:
        live = sum(agent is not None for agent in self.slots)
        return SimpleNamespace(
            base_page_bytes=4096, pages_total=64, pages_used=live, pages_shared=1, pages_by_layer=(1, 1, live, live),
            agent_state_bytes=100 * live, agents=live,
        )  # fmt: skip

    def pool_map(self) -> Any:
        return SimpleNamespace(state=np.zeros(64, np.uint8), layer=np.zeros(64, np.uint8), holders=np.zeros(64, np.uint32))

    def snapshot(self) -> Any:
        n = len(self.slots)
        arrays = {
            name: np.zeros(n, np.uint32)
            for name in ("group", "goal", "last_token", "generated", "positions", "pages_private", "pages_shared")
        }
        arrays |= {name: np.zeros(n, np.uint8) for name in ("state", "depth", "depth_min", "depth_max")}
        for slot, agent in enumerate(self.slots):
            if agent is not None:
                arrays["state"][slot] = agent["state"]
                arrays["depth"][slot] = agent["depths"][-1] if agent["depths"] else 0
                arrays["last_token"][slot] = agent["last"]
                arrays["depth_min"][slot], arrays["depth_max"][slot] = agent["bounds"]
        return SimpleNamespace(**arrays, confidence=np.zeros(n, np.float32))

    def events(self, capacity: int = 1024) -> Any:
        return np.zeros(0, [("kind", np.uint32), ("slot", np.uint32)])
