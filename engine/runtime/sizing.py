"""How large a pool a swarm needs, and how large it may be here.

An agent holds PRIVATE_PAGES pages of positions of its own (personal layer and walk), each of up to D_K/D_1 base pages once
every block is filled; a fork's or a new episode's pages overlap the old ones for a moment. Contexts: one system page, and
CONTEXT_PAGES for each group version, of which a few live at once. Verification borrows SCORE_QUERIES queries' worth. The pool
is that, but at most half of the machine's memory (its size, not what happens to be free: the same run must be the same under
load); beyond it agents are preempted and resumed. What does not even leave room for one agent is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import UserError
from engine.machine import this_machine

if TYPE_CHECKING:
    from engine.model.model import Model
    from engine.native import EngineConfig

PRIVATE_PAGES = 2
CONTEXT_PAGES = 3
GROUPS = 32
GROUP_VERSIONS = 3
SCORE_QUERIES = 256
POSITIONS = 256  # most an agent holds, context included
PAGE_POSITIONS = 16


def base_page_bytes(model: Model) -> int:
    """16 positions × layers × (K, V) × D1 × f16."""
    return PAGE_POSITIONS * model.layers * 2 * model.widths[0] * 2


def pages_needed(model: Model, agents: int) -> int:
    """Base pages for ``agents`` agents that are all filled to the deepest level."""
    ratio = -(-model.widths[-1] // model.widths[0])
    contexts = 1 + CONTEXT_PAGES * (1 + GROUPS * GROUP_VERSIONS)
    private = PRIVATE_PAGES * (agents + agents // 4 + 1)
    return ratio * (contexts + private + PRIVATE_PAGES * SCORE_QUERIES)


def engine_config(model: Model, agents: int, seed: int, threads: int = 0, low_priority: bool = False, step_rows: int = 0) -> EngineConfig:
    """Sizes for a swarm of at most ``agents`` agents on this machine. Raises UserError where not even a few fit."""
    from engine.native import EngineConfig

    pages = pages_needed(model, agents)
    total = this_machine().memory_total
    if total:
        affordable = total // 2 // base_page_bytes(model)
        least = pages_needed(model, 1)
        if affordable < least:
            raise UserError(
                f"this machine has {total >> 20} MiB of memory; {model.name} needs a pool of at least "
                f"{least * base_page_bytes(model) >> 20} MiB and half the memory must hold it: choose a narrower model"
            )
        pages = min(pages, affordable)
    return EngineConfig(
        pages=pages,
        agents=agents,
        groups=GROUPS,
        positions=POSITIONS,
        threads=threads,
        step_rows=step_rows,
        low_priority=low_priority,
        seed=seed,
    )
