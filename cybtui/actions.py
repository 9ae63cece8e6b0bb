"""Every action of the console, once: keys, what it says and which method of the app does it. Bindings, help and palette come from here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """``name`` is the app's ``action_<name>``; ``keys`` are Textual key names; ``footer`` puts it in the bottom line."""

    name: str
    keys: str
    title: str
    help: str
    footer: bool = False


ACTIONS = (
    Action("help", "question_mark", "Help", "what the panes show and what keys do", True),
    Action("spawn", "s", "Spawn", "new agents: how many", True),
    Action("fork", "f", "Fork", "a copy of the selected agent that shares its pages", True),
    Action("pause", "space", "Pause/resume", "the selected agent", True),
    Action("pause_all", "P", "Pause all", "halts or goes on with the whole swarm between ticks"),
    Action("kill", "K", "Kill", "the selected agent, after a confirmation"),
    Action("steer", "t", "Steer", "names particles that the selected agent should look at", True),
    Action("retarget", "g", "Retarget", "gives the selected agent another goal, by its number"),
    Action("new_goal", "G", "New goal", "a new immediate goal around named particles"),
    Action("depth", "d", "Bound depth", "pins or bounds the levels of the selected agent: 1-3, 2, or 0 for the group's"),
    Action("thresholds", "h", "Thresholds", "of the selected agent's group, one a level but the deepest", True),
    Action("rule", "r", "Rule", "next confidence rule of the group: top, margin, gain"),
    Action("inherit", "i", "Inheritance", "next policy for holes of the group: backfill, zeros, window:16"),
    Action("accept", "a", "Accept", "the selected proposal", True),
    Action("reject", "x", "Reject", "the selected proposal", True),
    Action("filter", "slash", "Filter", "shows agents whose name, group or state holds the text"),
    Action("sort", "o", "Sort", "next order of the agents"),
    Action("zoom", "z", "Zoom", "the focused pane alone, or all", True),
    Action("save", "w", "Save session", "under a name"),
    Action("next_theme", "T", "Theme", "next colour theme"),
    Action("quit", "q", "Quit", "saves the session and leaves", True),
)
