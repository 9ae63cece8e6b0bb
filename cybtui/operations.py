"""What actions do: each asks where it must, and submits a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cybtui.screens.prompt import Confirm, Prompt
from cybtui.widgets.agents import SORTS, AgentsPane
from cybtui.widgets.inbox import InboxPane
from engine.runtime import commands as c

if TYPE_CHECKING:
    from cybtui.app import Console

RULES = ("top", "margin", "gain")
INHERITS = ("backfill", "zeros", "window:4")
PAUSED = 3
MOST = 100_000


def ask(console: Console, title: str, then: Callable[[str], None], hint: str = "", value: str = "", **options: object) -> None:
    """Asks for a line and goes on with it; an empty line or escape leaves, what cannot be read becomes a toast."""

    def answered(text: str | None) -> None:
        if not text:
            return
        try:
            then(text)
        except ValueError as error:
            console.toast(str(error))

    complete = options.get("complete")
    console.push_screen(Prompt(title, hint, value, complete if callable(complete) else None), answered)


def number(text: str, what: str, low: float, high: float) -> float:
    """A number in a range. Raises ValueError that says what was expected."""
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        raise ValueError(f"{what}: {text.strip()!r} is not a number") from None
    if not low <= value <= high:
        raise ValueError(f"{what}: {text.strip()} is not between {low:,g} and {high:,g}")
    return value


def _names(agents: tuple[int, ...]) -> str:
    return f"a{agents[0]}" if len(agents) == 1 else f"{len(agents):,} agents"


def _agents(console: Console) -> tuple[int, ...]:
    agents = console.view.chosen()
    if not agents:
        console.toast("no agent is selected")
    return agents


# ---- agents ------------------------------------------------------------------------------------------------------------


def spawn(console: Console) -> None:
    """Asks how many agents; they work on the goal under the goal tree's cursor where it has agents, else on the group's goals."""
    group = console.view.group()
    if group is None:
        return console.toast("there is no group yet")
    goal = console.view.selected_goal()
    target = goal.id if goal is not None and goal.level == 2 else -1
    hint = f"on goal {target}: {goal.title}" if goal is not None and target >= 0 else f"in group {group.name}, on its immediate goals"

    def then(text: str) -> None:
        console.send(c.Spawn(int(number(text, "agents", 1, MOST)), group.id, target))

    ask(console, "Spawn how many agents?", then, hint, "1")
    return None


def fork(console: Console) -> None:
    """Forks the selected agent."""
    if console.view.agent_row() < 0:
        return console.toast("no agent is selected")
    return console.send(c.Fork(console.view.agent))


def pause(console: Console) -> None:
    """Pauses agents; resumes them when all of them are paused."""
    agents, snapshot = _agents(console), console.view.snapshot
    if agents and snapshot is not None:
        paused = all(int(snapshot.agents.state[console.view.agent_row(agent)]) == PAUSED for agent in agents)
        console.send(c.Resume(agents) if paused else c.Pause(agents))


def kill(console: Console) -> None:
    """Kills agents after a question."""
    agents = _agents(console)

    def answered(yes: bool | None) -> None:
        if yes:
            console.send(c.Kill(agents))

    if agents:
        console.push_screen(Confirm(f"Kill {_names(agents)}? Their pages are released; this cannot be undone."), answered)


def steer(console: Console) -> None:
    """Asks for particles by label."""
    agents = _agents(console)
    if agents:
        source = console.view.source
        ask(
            console,
            f"Steer {_names(agents)} towards",
            lambda text: console.send(c.Steer(agents, text)),
            "particles by label, commas between; tab completes",
            complete=source.complete_label if source else None,
        )


def retarget(console: Console) -> None:
    """Asks for a goal; the one under the goal tree's cursor is proposed."""
    agents, snapshot = _agents(console), console.view.snapshot
    if not agents or snapshot is None:
        return
    goals = {f"{goal.id} {goal.title}": goal.id for goal in snapshot.goals if goal.level > 0}

    def then(text: str) -> None:
        console.send(c.Retarget(agents, int(number(text.split(maxsplit=1)[0], "goal", 0, MOST))))

    def complete(prefix: str) -> list[str]:
        wanted = prefix.casefold()
        return [name for name in goals if wanted in name.casefold()][:20]

    chosen = console.view.selected_goal()
    value = str(chosen.id) if chosen is not None and chosen.level > 0 else ""
    ask(console, f"Retarget {_names(agents)} to goal", then, "its number, or words of its title; tab takes", value, complete=complete)


def depth(console: Console) -> None:
    """Asks for one level or two bounds."""
    agents, snapshot = _agents(console), console.view.snapshot
    if not agents or snapshot is None:
        return
    names, levels = snapshot.model.level_names, len(snapshot.model.levels)

    def level(text: str) -> int:
        word = text.strip().casefold()
        return names.index(word) + 1 if word in names else int(number(word, "level", 0, levels))

    def then(text: str) -> None:
        low, dash, high = text.partition("-")
        console.send(c.SetDepth(agents, level(low), level(high if dash else low)))

    listed = ", ".join(f"{at} {name}" for at, name in enumerate(names, 1))
    ask(console, f"Levels of {_names(agents)}", then, f"{listed}; one pins, 1-2 bounds, 0 is the group's")


def mark(console: Console) -> None:
    """Marks or unmarks the selected agent and moves on."""
    view, pane = console.view, console.pane(AgentsPane)
    if view.agent_row() >= 0:
        view.marks.symmetric_difference_update({view.agent})
        pane.move(pane.cursor + 1)


def mark_all(console: Console) -> None:
    """Marks every agent that passes the filter; unmarks all where any is marked."""
    view = console.view
    view.marks = set() if view.marks else set(console.pane(AgentsPane).order)
    view.changed()


def filter_agents(console: Console) -> None:
    """Asks for words that the agents shown must hold."""
    pane = console.pane(AgentsPane)

    def answered(text: str | None) -> None:
        if text is not None:
            pane.filter, pane.resort = text, True
            console.view.changed()

    hint = "words of name, group, goal or state, or marked; empty shows all"
    console.push_screen(Prompt("Show agents with", hint, pane.filter), answered)


def sort(console: Console) -> None:
    """Next order of the agents; in the inbox, ranks proposals anew."""
    if console.focused_pane == "inbox":
        console.pane(InboxPane).resort = True
        return console.view.changed()
    pane = console.pane(AgentsPane)
    pane.sort, pane.resort = (pane.sort + 1) % len(SORTS), True
    console.note(f"agents by {SORTS[pane.sort]}")
    return console.view.changed()


# ---- proposals, goals, policies ------------------------------------------------------------------------------------------


def _proposal(console: Console, decide: Callable[[int], c.Command]) -> None:
    if console.focused_pane != "inbox":  # what is decided must be in view, and rest
        console.focus_pane("inbox")
        return console.note("once more decides on the selected proposal", "wait")
    one = console.view.selected_proposal()
    if one is None:
        return console.toast("no proposal is selected")
    console.send(decide(one.id))
    return console.pane(InboxPane).step()


def accept(console: Console) -> None:
    """Accepts the selected proposal."""
    _proposal(console, c.Accept)


def reject(console: Console) -> None:
    """Rejects the selected proposal."""
    _proposal(console, c.Reject)


def new_goal(console: Console) -> None:
    """Asks for the particles of a goal below the selected one; an immediate goal's parent takes it."""
    snapshot, source = console.view.snapshot, console.view.source
    if snapshot is None or source is None or not snapshot.goals:
        return
    by_id = {goal.id: goal for goal in snapshot.goals}
    parent = console.view.selected_goal() or snapshot.goals[0]
    if parent.level == 2:
        parent = by_id.get(parent.parent, parent)
    ask(
        console,
        "New goal around",
        lambda text: console.send(c.CreateGoal(parent.id, text)),
        f"under {parent.title}: particles by label, commas between; tab completes",
        complete=source.complete_label,
    )


def thresholds(console: Console) -> None:
    """Asks for the thresholds of the selected agent's group."""
    group = console.view.group()
    if group is None:
        return

    def then(text: str) -> None:
        values = tuple(number(part, "threshold", -1e9, 1e9) for part in text.split(","))
        console.send(c.SetPolicy(group.id, thresholds=values))

    now = ", ".join(f"{value:.6g}" for value in group.thresholds)
    hint = f"rule {group.rule}: one a level but the deepest, commas between"
    source = console.view.snapshot
    levels = len(source.model.levels) - 1 if source else 0
    ask(console, f"Thresholds of {group.name} ({levels})", then, hint, now)


def _choose(console: Console, field: str, title: str, choices: tuple[str, ...], hint: str) -> None:
    group = console.view.group()
    if group is None:
        return
    now = str(getattr(group, field))

    def complete(prefix: str) -> list[str]:
        return [choice for choice in choices if choice != now and choice.startswith(prefix if prefix != now else "")]

    ask(
        console,
        f"{title} of {group.name}",
        lambda text: console.send(c.SetPolicy(group.id, **{field: text})),  # type: ignore[arg-type]
        hint,
        now,
        complete=complete,
    )


def rule(console: Console) -> None:
    """Asks for the group's confidence rule."""
    _choose(console, "rule", "Rule", RULES, "how sure a level must be to answer; down picks, enter takes")


def inherit(console: Console) -> None:
    """Asks for the group's policy for holes."""
    _choose(console, "inherit", "Holes", INHERITS, "backfill computes missing KV, zeros leaves it out, window:N computes the last N")


def temperature(console: Console) -> None:
    """Asks for the group's temperature."""
    group = console.view.group()
    if group is not None:
        ask(
            console,
            f"Temperature of {group.name}",
            lambda text: console.send(c.SetPolicy(group.id, temperature=number(text, "temperature", 0, 100))),
            "of sampling; lower is surer",
            f"{group.temperature:g}",
        )


# ---- console -------------------------------------------------------------------------------------------------------------


def pause_all(console: Console) -> None:
    """Halts the step loop, or lets it go on."""
    if console.view.snapshot is not None:
        console.send(c.SetRunning(not console.view.snapshot.running))


def save(console: Console) -> None:
    """Asks for a name and saves."""
    snapshot = console.view.snapshot
    name = str(snapshot.extra.get("session", "")) if snapshot else ""
    ask(console, "Save the session as", lambda text: console.send(c.SaveSession(text)), "letters, digits, - and _", name)


def zoom(console: Console) -> None:
    """The focused pane alone, or all panes."""
    console.zoom()


def next_pane(console: Console) -> None:
    """Focus goes to the next pane."""
    console.go(1)


def previous_pane(console: Console) -> None:
    """Focus goes to the pane before."""
    console.go(-1)


def theme(console: Console) -> None:
    """Next theme."""
    console.next_theme()


def palette(console: Console) -> None:
    """Opens the command palette."""
    console.action_command_palette()


def show_help(console: Console) -> None:
    """Opens the help page."""
    console.show_help()


def leave(console: Console) -> None:
    """Closes the source and leaves."""
    console.leave()
