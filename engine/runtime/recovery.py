"""After a crash the ledger knows more than the session: the operator's decisions since the last save are taken from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.runtime.ledger import Ledger
from engine.runtime.proposals import ACCEPTED, REJECTED, Entry
from engine.runtime.verification import FEATURES

if TYPE_CHECKING:
    from engine.runtime.swarm import Swarm


def recover(swarm: Swarm, records: list[dict[str, Any]], saved: int) -> int:
    """Applies the operator's decisions among ``records[saved:]`` to a resumed swarm. Returns how many there were.

    ``saved``: records the ledger had when the session was written. Nothing is written to the ledger again. A record that
    does not fit this model's tokens is passed over.
    """
    ledger, swarm.ledger = swarm.ledger, Ledger()
    try:
        return sum(_apply(swarm, record) for record in records[saved:] if record.get("neuron") == "operator")
    finally:
        swarm.ledger = ledger


def _apply(swarm: Swarm, record: dict[str, Any]) -> bool:
    evidence, status = record.get("evidence"), record.get("kind")
    if not isinstance(evidence, dict) or status not in (ACCEPTED, REJECTED):
        return False
    tokens: Any = evidence.get("tokens")
    features = evidence.get("features")
    if not _fits(swarm, tokens) or not isinstance(features, list) or len(features) not in (0, len(FEATURES)):
        return False
    source, semcon, target = tokens[0], tokens[1] - swarm.world.particles, tokens[2]
    key = swarm.world.canonical_key(source, semcon, target)
    entry = swarm.proposals.find(key)
    if entry is None:
        agents = [int(agent) for agent in evidence.get("agents", [])] or [0]
        group = int(evidence.get("group", 0))
        group = group if 0 <= group < len(swarm.groups) else 0
        tick = int(record.get("tick", 0))
        entry = Entry(len(swarm.proposals), agents[0], group, swarm.groups[group].goal, source, semcon, target, tick, 0, float("nan"))
        swarm.claims.forget(key)
        swarm.proposals.add(key, entry)
        entry.agents.update(agents)
        if features:
            swarm.proposals.set_verified(entry, float(evidence["probability"]), tuple(map(float, features)))
            swarm.measures.proposed(entry)
        slot = swarm.agents.slot_of.get(entry.agent)
        if slot is not None:
            swarm.agents.proposed[slot] += 1
            swarm.agents.open[slot] += 1
    if entry.status == status:
        return False
    if status == ACCEPTED:
        swarm.accept(entry, "operator", "operator")
    else:
        swarm.reject(entry, str(evidence.get("reason", "operator")), "operator")
    return True


def _fits(swarm: Swarm, tokens: Any) -> bool:
    if not isinstance(tokens, list) or len(tokens) != 3 or not all(isinstance(token, int) for token in tokens):
        return False
    particles, semcons = swarm.world.particles, swarm.world.semcons
    source, semcon, target = tokens
    return bool(0 <= source < particles and 0 <= target < particles and particles <= semcon < particles + semcons)
