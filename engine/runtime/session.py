"""Sessions: what a swarm needs to go on exactly where it stopped, in one file that is written whole or not at all.

``<name>.session`` is a zip of arrays (numpy's .npz) with the state as JSON in it; beside it lies ``<name>.ledger``. Nothing
native is stored: pages are recomputed from tokens. How a walk goes on: its tokens so far become the prompt where holes are
back-filled (bitwise the same); under ``window`` and ``zeros``, where KV remembers which tokens went deep, the walk is drawn
again from its own prompt, which gives the same tokens, depths and holes.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from engine.errors import UserError
from engine.files import write_atomically
from engine.model.policy import Policy
from engine.runtime import ledger
from engine.runtime.agents import Population, agent_cid
from engine.runtime.context_layers import Group
from engine.runtime.goals import IMMEDIATE, Goal
from engine.runtime.proposals import ACCEPTED, REJECTED, Entry

if TYPE_CHECKING:
    from engine.runtime.swarm import Swarm

SCHEMA = 2
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,63}")
_ROW_FIELDS = tuple(name for name, _, _ in Population.FIELDS)


def sessions_folder() -> Path:
    """Where sessions live: under the platform's data folder."""
    return Path(platformdirs.user_data_dir("cybtui", appauthor=False)) / "sessions"


def session_path(name: str, folder: Path | None = None) -> Path:
    """The file of a session. Raises UserError for a name that is none."""
    if not NAME.fullmatch(name) or name.endswith((".", " ")):
        raise UserError(f"session name {name!r}: use letters, digits, space, . _ -, beginning with a letter or digit, at most 64")
    return (folder or sessions_folder()) / f"{name}.session"


def ledger_path(path: Path) -> Path:
    """The ledger beside a session file."""
    return path.with_suffix(".ledger")


def ledger_records(path: Path) -> list[dict[str, Any]]:
    """What the ledger beside a session file holds; empty where it cannot be read."""
    try:
        return ledger.read(ledger_path(path))[0]
    except OSError:
        return []


# ---- saving -------------------------------------------------------------------------------------------------------------


def state_of(swarm: Swarm) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Everything a resume needs, as JSON and arrays. Call between ticks."""
    agents = swarm.agents
    rows = agents.slots
    walks = [_walk(swarm, int(slot)) for slot in rows]
    lengths = np.array([len(tokens) for tokens, _ in walks], np.int64)
    arrays: dict[str, NDArray[Any]] = {f"agents.{name}": getattr(agents, name)[rows] for name in _ROW_FIELDS}
    arrays["agents.by_level"] = agents.by_level[rows]
    arrays["walks.lengths"] = lengths
    arrays["walks.tokens"] = np.concatenate([_NO_WALK[0], *(tokens for tokens, _ in walks)]).astype(np.uint32)
    arrays["walks.depths"] = np.concatenate([_NO_WALK[1], *(depths for _, depths in walks)]).astype(np.uint8)
    arrays["visits"] = swarm.starts.visits.copy()
    arrays["asked"] = np.packbits(swarm.starts.asked)
    arrays["found_wanting"] = np.sort(np.fromiter(swarm.claims.found_wanting, np.int64, len(swarm.claims.found_wanting)))
    arrays["weight"] = swarm.measures.weight.copy()
    state = {
        "schema": SCHEMA,
        "model": {"digest": swarm.model.digest, "name": swarm.model.name},
        "seed": swarm.seed,
        "budget": swarm.budget,
        "live": swarm.live,
        "tick": swarm.tick,
        "limit": swarm.limit,
        "next_agent": agents.next_id,
        "agents": [
            {
                "personal": agents.personal.get(slot, []),
                "prompt": agents.prompt.get(slot, []),
                "steering": list(agents.steering.get(slot, ())),
            }
            for slot in rows.tolist()
        ],
        "goals": [_goal_state(goal) for goal in swarm.goals.goals],
        "groups": [_group_state(group) for group in swarm.groups],
        "proposals": [_entry_state(entry) for entry in swarm.proposals],
        "claims_floor": swarm.claims.floor,
        "claims": [[*_entry_state(claim), claim.promise] for claim in swarm.claims],
        "decided": list(swarm.proposals.decided),
        "operator": {str(semcon): list(counts) for semcon, counts in swarm.verifier.operator.items()},
        "ledger_records": swarm.ledger.count,
    }
    return state, arrays


def _walk(swarm: Swarm, slot: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Tokens and depths of the present walk; not those of a tick that failed half-way."""
    if not swarm.agents.episode[slot]:
        return _NO_WALK
    length = int(swarm.agents.walk_length[slot])
    tokens, depths = swarm.engine.agent_tokens(slot)
    return tokens[:length], depths[:length]


_NO_WALK = (np.zeros(0, np.uint32), np.zeros(0, np.uint8))


def _goal_state(goal: Goal) -> dict[str, Any]:
    return {
        "parent": goal.parent, "level": goal.level, "kind": goal.kind, "title": goal.title, "semcons": list(goal.semcons),
        "particles": list(goal.particles), "domain": goal.domain.tolist(), "group": goal.group,
        "history": list(goal.history), "progress": list(goal.progress_history),
    }  # fmt: skip


def _group_state(group: Group) -> dict[str, Any]:
    policy = group.policy
    return {
        "name": group.name, "goal": group.goal, "memory": list(group.memory), "changed": group.changed, "newest": group.newest,
        "policy": {**policy.to_json(), "depth_min": policy.depth_min, "depth_max": policy.depth_max,
                   "temperature": policy.temperature},
        "versions": [
            {"number": version.number, "tokens": version.tokens, "facts": version.facts} for version in group.versions.values()
        ],
    }  # fmt: skip


_ENTRY_FIELDS = (
    "agent", "group", "goal", "source", "semcon", "target", "tick", "depth", "walked", "status", "reason", "probability",
    "features", "path", "decided_tick",
)  # fmt: skip


def _entry_state(entry: Entry) -> list[Any]:
    return [*(getattr(entry, name) for name in _ENTRY_FIELDS), sorted(entry.agents)]


def save(swarm: Swarm, path: Path) -> None:
    """Writes the session, whole or not at all. Raises OSError."""
    state, arrays = state_of(swarm)
    swarm.ledger.sync()
    write(path, state, arrays)


def write(path: Path, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Writes what ``state_of`` gave, on any thread. Raises OSError."""
    buffer = io.BytesIO()
    text = json.dumps(state, ensure_ascii=False).encode("utf-8")
    np.savez_compressed(buffer, state=np.frombuffer(text, np.uint8), **arrays)  # type: ignore[arg-type]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, [buffer.getvalue()])


# ---- resuming -----------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The state of a session file. Raises UserError where it can't be read."""
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        state = json.loads(arrays.pop("state").tobytes().decode("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such session") from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise UserError(f"{path}: not a session file, or damaged ({error}): move it away to start afresh") from None
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        found = state.get("schema") if isinstance(state, dict) else "none"
        raise UserError(f"{path}: session format {found}, and this cybtui reads format {SCHEMA}: start another session")
    return state, arrays


def check_model(state: dict[str, Any], path: Path, digest: str, name: str) -> None:
    """Raises UserError when the session belongs to another model."""
    saved = state["model"]
    if saved["digest"] != digest:
        raise UserError(
            f"{path}: this session belongs to the model {saved['name']} ({saved['digest'][:12]}…), and {name} ({digest[:12]}…) "
            "is open: name that model file with --model, or another session"
        )


def resume(swarm: Swarm, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> list[str]:
    """Puts a fresh swarm (no groups, no agents) of the same model and seed where the session stopped. Returns notices."""
    swarm.budget, swarm.live, swarm.tick, swarm.limit = state["budget"], state["live"], state["tick"], state["limit"]
    _resume_goals(swarm, state)
    _resume_groups(swarm, state)
    _resume_proposals(swarm, state)
    swarm.starts.visits[:] = arrays["visits"]
    swarm.starts.asked[:] = np.unpackbits(arrays["asked"], count=len(swarm.starts.asked))
    _resume_claims(swarm, state, arrays)
    swarm.measures.weight[:] = arrays["weight"]
    notices = _resume_agents(swarm, state, arrays)
    swarm.agents.next_id = state["next_agent"]
    return notices


def _resume_goals(swarm: Swarm, state: dict[str, Any]) -> None:
    for number, saved in enumerate(state["goals"]):
        if number >= len(swarm.goals):
            goal = Goal(number, saved["parent"], saved["level"], saved["kind"], saved["title"])
            goal.semcons, goal.particles = tuple(saved["semcons"]), tuple(saved["particles"])
            goal.domain, goal.group = np.array(saved["domain"], np.int64), saved["group"]
            swarm.goals.goals.append(goal)
        goal = swarm.goals.goals[number]
        goal.history.extend(saved["history"])
        goal.progress_history.extend(saved["progress"])
        if goal.level == IMMEDIATE:
            goal.progress = saved["progress"][-1] if saved["progress"] else 0.0


def _resume_groups(swarm: Swarm, state: dict[str, Any]) -> None:
    for number, saved in enumerate(state["groups"]):
        text = saved["policy"]
        policy = Policy(
            rule=text["rule"], thresholds=tuple(text["thresholds"]), depth_min=text["depth_min"], depth_max=text["depth_max"],
            temperature=text["temperature"],
        ).with_inherit(text["inherit"])  # fmt: skip
        swarm.engine.set_policy(number, policy)
        group = Group(number, saved["name"], saved["goal"], policy)
        group.memory.extend(_fact(fact) for fact in saved["memory"])
        swarm.groups.append(group)
        for version in sorted(saved["versions"], key=lambda version: bool(version["number"] == saved["newest"])):
            facts = tuple(_fact(fact) for fact in version["facts"])
            swarm.layers.restore(group, version["number"], version["tokens"], facts, keep_unused=True)
        group.changed = saved["changed"]


def _fact(values: list[int]) -> tuple[int, int, int]:
    return values[0], values[1], values[2]


def _resume_claims(swarm: Swarm, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    swarm.claims.found_wanting.update(arrays["found_wanting"].tolist())
    for *saved, agents, promise in state["claims"]:
        values = dict(zip(_ENTRY_FIELDS, saved, strict=True))
        values["features"], values["path"] = (), ()
        claim = Entry(id=-1, **values, promise=promise)
        claim.agents.update(agents)
        swarm.claims.add(swarm.world.canonical_key(claim.source, claim.semcon, claim.target), claim)
    swarm.claims.floor = state["claims_floor"]


def _resume_proposals(swarm: Swarm, state: dict[str, Any]) -> None:
    proposals = swarm.proposals
    for number, saved in enumerate(state["proposals"]):
        values = dict(zip(_ENTRY_FIELDS, saved, strict=False))
        values["features"], values["path"] = tuple(values["features"]), tuple(values["path"])
        status = values.pop("status")
        entry = Entry(id=number, **values)
        proposals.add(swarm.world.canonical_key(entry.source, entry.semcon, entry.target), entry)
        entry.agents.update(saved[-1])
        if entry.features:
            proposals.set_verified(entry, entry.probability, entry.features)
            swarm.measures.restored(entry)
        proposals.restore(entry, status)
        if status in (ACCEPTED, REJECTED):
            swarm.measures.by_goal.setdefault(entry.goal, [0, 0])[1] += entry.status == ACCEPTED
            swarm.measures.accepted_hits += entry.status == ACCEPTED and swarm.measures.is_hidden(entry)
    proposals.decided = list(state["decided"])
    for number in proposals.decided:
        if proposals[number].status == ACCEPTED:
            swarm.world.add(proposals[number].source, proposals[number].semcon, proposals[number].target)
    swarm.verifier.operator = {int(semcon): list(counts) for semcon, counts in state["operator"].items()}


def _resume_agents(swarm: Swarm, state: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> list[str]:
    agents, engine = swarm.agents, swarm.engine
    ends = np.cumsum(arrays["walks.lengths"])
    redraw: dict[int, tuple[list[int], list[int]]] = {}  # slot → tokens and depths to come to
    domains: dict[tuple[int, ...], NDArray[np.int64]] = {}
    for row, saved in enumerate(state["agents"]):
        values = {name: arrays[f"agents.{name}"][row] for name in _ROW_FIELDS}
        agent = int(values["id"])
        slot = engine.create_agent(int(values["group"]), agent_cid(swarm.seed, agent), int(values["goal"]) + 1, agent)
        agents.add(slot, agent, int(values["group"]), int(values["goal"]))
        for name, value in values.items():
            getattr(agents, name)[slot] = value
        agents.by_level[slot] = arrays["agents.by_level"][row]
        agents.personal[slot], agents.prompt[slot] = saved["personal"], saved["prompt"]
        if values["depth_max"]:
            engine.set_depth(slot, int(values["depth_min"]), int(values["depth_max"]))
        if saved["steering"]:
            steering = tuple(saved["steering"])
            if steering not in domains:
                domains[steering] = swarm.steering_domain(steering)
            agents.steering[slot], agents.steering_domain[slot] = steering, domains[steering]
        if not values["episode"]:
            continue
        low, high = int(ends[row] - arrays["walks.lengths"][row]), int(ends[row])
        tokens, depths = arrays["walks.tokens"][low:high].tolist(), arrays["walks.depths"][low:high].tolist()
        version = swarm.layers.repin(int(values["version"]))
        inherit = swarm.groups[int(values["group"])].policy.inherit
        exact = inherit == "backfill" or bool(values["needs_episode"])
        prompt = tokens if exact else tokens[: int(values["prompt_length"])]
        engine.set_next_episode(slot, int(values["episode"]))
        engine.begin(slot, version.context, saved["personal"], prompt)
        if not exact and len(prompt) < len(tokens):
            redraw[slot] = tokens, depths
        elif values["paused"]:
            engine.pause(slot)
    swarm.layers.drop_unused()
    return _redraw(swarm, redraw)


def _redraw(swarm: Swarm, walks: dict[int, tuple[list[int], list[int]]]) -> list[str]:
    """Draws walks again until each has the tokens it had; nobody else moves meanwhile."""
    if not walks:
        return []
    agents, engine = swarm.agents, swarm.engine
    others = [int(slot) for slot in agents.slots if int(slot) not in walks and agents.episode[slot] and not agents.paused[slot]]
    for slot in others:
        engine.pause(slot)
    running = set(walks)
    while running:
        engine.tick()
        for slot in sorted(running):
            if len(engine.agent_tokens(slot)[0]) >= len(walks[slot][0]):
                engine.pause(slot)
                running.discard(slot)
    different = 0
    for slot, (tokens, depths) in walks.items():
        drawn, levels = engine.agent_tokens(slot)
        if drawn.tolist() != tokens or levels.tolist() != depths:
            different += 1  # the policy changed, or a fork joined, in the middle of this walk
            version = swarm.layers.version_of(int(agents.version[slot]))
            engine.set_next_episode(slot, int(agents.episode[slot]))
            engine.begin(slot, version.context, agents.personal[slot], tokens)
            if agents.paused[slot]:
                engine.pause(slot)
        elif not agents.paused[slot]:
            engine.resume(slot)
    for slot in others:
        engine.resume(slot)
    return [f"{different} walks could not be continued bit for bit: they had changed policy or owner half-way"] if different else []
