"""Every action of the console, once. Bindings, the line of keys, the help page and the palette come from here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cybtui import operations as o

if TYPE_CHECKING:
    from cybtui.app import Console

NAMES = {"question_mark": "?", "slash": "/", "space": "space", "left_square_bracket": "[", "right_square_bracket": "]"}


@dataclass(frozen=True, slots=True)
class Action:
    """``keys`` are Textual key names with commas between; ``panes`` are those whose line of keys shows it, () = none, ("",) = all."""

    id: str
    title: str
    keys: str
    group: str
    handler: Callable[[Console], None]
    help: str
    panes: tuple[str, ...] = ()


AGENTS, MACHINE = ("agents", "stream"), ("log", "pool", "bandwidth", "goals")
ACTIONS = (
    Action("accept", "Accept", "a", "Inbox", o.accept, "the selected proposal joins the graph", ("inbox",)),
    Action("reject", "Reject", "x", "Inbox", o.reject, "the selected proposal; agents stop proposing it", ("inbox",)),
    Action("spawn", "Spawn", "s", "Agents", o.spawn, "new agents on the selected goal", (*AGENTS, "goals")),
    Action("steer", "Steer", "t", "Agents", o.steer, "names particles that agents should look at", AGENTS),
    Action("depth", "Depth", "d", "Agents", o.depth, "pins or bounds levels: 2, 1-2, 0 for the group's", AGENTS),
    Action("pause", "Pause", "space", "Agents", o.pause, "pauses agents, or resumes them", AGENTS),
    Action("fork", "Fork", "f", "Agents", o.fork, "a copy of the selected agent that shares its pages", AGENTS),
    Action("retarget", "Retarget", "g", "Agents", o.retarget, "gives agents another goal", AGENTS),
    Action("kill", "Kill", "K", "Agents", o.kill, "ends agents, after a question", AGENTS),
    Action("mark", "Mark", "m", "Agents", o.mark, "marks the selected agent for the next commands", ("agents",)),
    Action("mark_all", "Mark all", "M", "Agents", o.mark_all, "marks every agent that passes the filter, or none"),
    Action("filter", "Filter", "slash", "Agents", o.filter_agents, "words in name, group, goal, state; or marked", ("agents",)),
    Action("sort", "Sort", "o", "Agents", o.sort, "next order of agents; in the inbox, ranks anew", ("agents", "inbox")),
    Action("new_goal", "New goal", "n", "Goals", o.new_goal, "a goal around named particles, under the selected one", ("goals",)),
    Action("thresholds", "Thresholds", "h", "Depth", o.thresholds, "of the selected agent's group, one a level", ("depth",)),
    Action("rule", "Rule", "r", "Depth", o.rule, "confidence rule of the group: top, margin, gain", ("depth",)),
    Action("inherit", "Holes", "i", "Depth", o.inherit, "policy for missing KV: backfill, zeros, window:N", ("depth",)),
    Action("temperature", "Temperature", "e", "Depth", o.temperature, "of the group's sampling", ("depth",)),
    Action("pause_all", "Pause all", "p", "Console", o.pause_all, "halts the whole swarm between ticks, or goes on", MACHINE),
    Action("save", "Save", "w", "Console", o.save, "saves the session under a name", ("log",)),
    Action("zoom", "Zoom", "z", "Console", o.zoom, "the focused pane alone, or all panes", ("",)),
    Action("next_pane", "Next pane", "tab", "Console", o.next_pane, "also 1 to 8 for a pane by its number"),
    Action("previous_pane", "Previous pane", "shift+tab", "Console", o.previous_pane, "back to the pane before"),
    Action("theme", "Theme", "T", "Console", o.theme, "next colour theme"),
    Action("palette", "Palette", "ctrl+p", "Console", o.palette, "finds any action by name"),
    Action("help", "Help", "question_mark,f1", "Console", o.show_help, "panes and keys", ("",)),
    Action("quit", "Quit", "q,ctrl+q", "Console", o.leave, "saves the session and leaves", ("",)),
)  # fmt: skip
BY_ID = {action.id: action for action in ACTIONS}


def key_names(action: Action) -> str:
    """Keys as people write them."""
    return ", ".join(NAMES.get(key, key) for key in action.keys.split(","))


def shown_for(pane: str) -> list[tuple[str, str, str]]:
    """(id, key, title) of the actions on a pane's line of keys; those of the pane first."""
    own = [a for a in ACTIONS if pane in a.panes]
    return [(a.id, key_names(a).split(",")[0], a.title) for a in (*own, *(a for a in ACTIONS if "" in a.panes))]
