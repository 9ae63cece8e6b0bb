"""The console: panes over one snapshot, commands to one source. It knows ``Source`` and nothing of the runtime behind it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from textual import events, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.containers import Grid
from textual.screen import Screen
from textual.widgets import Footer, Static

from cybtui.actions import ACTIONS
from cybtui.screens.prompt import Help, Prompt
from cybtui.text import safe
from cybtui.theme_files import load_themes
from cybtui.widgets.machine_panes import BandwidthPane, DepthPane, LogPane, PoolPane
from cybtui.widgets.pane import Pane
from cybtui.widgets.swarm_panes import SORTS, AgentsPane, GoalsPane, InboxPane, StreamPane
from engine.errors import UserError
from engine.runtime import commands as c
from engine.runtime.snapshot import Snapshot, TokenRecord

SourceFactory = Callable[[], c.Source]
PANES = ("inbox", "agents", "goals", "stream", "depth", "pool", "bandwidth", "log")
WIDE, TALL, NARROWEST, LOWEST = 110, 30, 40, 10
RULES = ("top", "margin", "gain")
INHERITS = ("backfill", "zeros", "window:16")


class Console(App[int]):
    """``source_factory`` opens the runtime; it runs in a thread so that the first frame does not wait for it."""

    TITLE = "cybtui"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[Any]] = [
        *(Binding(a.keys, a.name, a.title, show=a.footer) for a in ACTIONS),
        *(Binding(str(n), f"pane({n})", show=False) for n in range(1, 9)),
    ]
    CSS = """
    Screen { layers: base note; }
    #grid { grid-size: 3 3; grid-columns: 4fr 4fr 3fr; grid-rows: 4fr 4fr 3fr; height: 1fr; }
    #grid.single { grid-size: 1 1; grid-columns: 1fr; grid-rows: 1fr; }
    #grid.single > Pane { display: none; }
    #grid.single > Pane.shown { display: block; }
    #agents { row-span: 2; }
    #status { height: 1; background: $panel; color: $text-muted; padding: 0 1; }
    #small { display: none; }
    .tiny #grid, .tiny #status, .tiny Footer { display: none; }
    .tiny #small { display: block; }
    """

    def __init__(self, source_factory: SourceFactory, theme: str = "", ascii_only: bool = False) -> None:
        super().__init__()
        self.source_factory = source_factory
        self.source: c.Source | None = None
        self.shown: Snapshot | None = None
        self.ascii = ascii_only
        self.no_color = bool(os.environ.get("NO_COLOR"))
        self.wanted_theme = theme
        self.failure = ""
        self.zoomed = False
        self.receipts: list[c.Receipt] = []
        self.note = "opening the model …"
        self.status_text = ""

    def compose(self) -> ComposeResult:
        with Grid(id="grid"):
            yield AgentsPane()
            yield InboxPane()
            yield DepthPane(id="depth")
            yield StreamPane(id="stream")
            yield PoolPane(id="pool")
            yield GoalsPane(id="goals")
            yield BandwidthPane(id="bandwidth")
            yield LogPane(id="log")
        yield Static("", id="status", markup=False)
        yield Static(f"cybtui needs {NARROWEST}×{LOWEST} cells.\nThe swarm goes on.", id="small", markup=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        themes, problems = load_themes()
        for theme in themes:
            self.register_theme(theme)
        for problem in problems:
            self.notify(safe(problem), severity="warning")
        names = [theme.name for theme in themes]
        wanted = self.wanted_theme or ("cybtui-mono" if self.no_color else "cybtui-dark")
        if wanted in self.available_themes:
            self.theme = wanted
        else:
            self.notify(f"theme {safe(wanted)} is not known: {', '.join(names)}", severity="warning")
        self.query_one(AgentsPane).focus()
        self.set_interval(0.2, self.poll)
        self.open_source()

    @work(thread=True, exclusive=True)
    def open_source(self) -> None:
        """Opens the model and starts the runtime."""
        try:
            source = self.source_factory()
        except UserError as error:
            self.call_from_thread(self.fail, error.message)
        except Exception as error:
            self.call_from_thread(self.fail, f"{type(error).__name__}: {error}")
        else:
            self.call_from_thread(self.use, source)

    def use(self, source: c.Source) -> None:
        """Takes the source that was opened."""
        self.source = source
        self.note = "? help · ctrl+p palette · 1-8 panes"

    def fail(self, message: str) -> None:
        """Leaves with a message for the terminal."""
        self.failure = message
        self.exit(1)

    # ---- pictures ---------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Takes the newest snapshot, if there is one."""
        if self.source is None:
            return
        for receipt in [r for r in self.receipts if r.status != "requested"]:
            self.receipts.remove(receipt)
            name = type(receipt.command).__name__
            if receipt.status == "applied":
                self.note = f"{name}: applied at tick {receipt.tick} {receipt.message}"
            else:
                self.note = f"{name}: refused"
                self.notify(safe(f"{name}: {receipt.message}"), severity="warning", markup=False)
        snapshot = self.source.snapshot()
        if snapshot is not self.shown:
            self.shown = snapshot
            self.redraw()
        error = f"stopped: {snapshot.error}" if snapshot.error else ("paused" if not snapshot.running else "running")
        text = safe(f"{snapshot.model.name} · tick {snapshot.tick:,} · {error} · {self.note}")
        if text != self.status_text:
            self.status_text = text
            for status in self.screen_stack[0].query("#status").results(Static):  # gone while the app closes
                status.update(text, layout=False)

    def redraw(self) -> None:
        """Draws the panes that can be seen."""
        for pane in self.screen_stack[0].query(Pane):
            if pane.display:
                pane.refresh()

    def label(self, token: int) -> str:
        """Label of a token."""
        return self.source.label(token) if self.source else ""

    def stream(self, agent: int, limit: int) -> list[TokenRecord]:
        """Latest tokens of an agent."""
        return self.source.stream(agent, limit) if self.source else []

    @property
    def selected_agent(self) -> int:
        """Id of the selected agent, -1 for none."""
        return self.screen_stack[0].query_one(AgentsPane).selected

    def selected_group(self) -> int:
        """Group of the selected agent, the first otherwise."""
        if self.shown is None or not self.shown.groups:
            return 0
        rows = [r for r, agent in enumerate(self.shown.agents.id.tolist()) if agent == self.selected_agent]
        return self.shown.groups[int(self.shown.agents.group[rows[0]])].id if rows else self.shown.groups[0].id

    # ---- layout -----------------------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self.arrange(event.size.width, event.size.height)

    def arrange(self, width: int, height: int) -> None:
        """All panes where there is room, else the focused one."""
        base = self.screen_stack[0]
        base.set_class(width < NARROWEST or height < LOWEST, "tiny")
        single = self.zoomed or width < WIDE or height < TALL
        base.query_one("#grid").set_class(single, "single")
        focused = base.focused if isinstance(base.focused, Pane) else base.query_one(AgentsPane)
        for pane in base.query(Pane):
            pane.set_class(pane is focused, "shown")

    def action_pane(self, number: int) -> None:
        """Focuses a pane by its number."""
        pane = self.screen_stack[0].query_one(f"#{PANES[number - 1]}", Pane)
        for other in self.screen_stack[0].query(Pane):
            other.set_class(other is pane, "shown")
        pane.focus()
        self.redraw()

    def action_zoom(self) -> None:
        """The focused pane alone, or all."""
        self.zoomed = not self.zoomed
        self.arrange(self.size.width, self.size.height)
        self.redraw()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action is in the palette."""
        yield from super().get_system_commands(screen)
        for action in ACTIONS:
            yield SystemCommand(action.title, action.help, getattr(self, f"action_{action.name}"))

    # ---- commands ---------------------------------------------------------------------------------------------------

    def send(self, command: c.Command) -> None:
        """Submits a command; its receipt is shown when it is applied or refused."""
        if self.source is None:
            return
        self.receipts.append(self.source.submit(command))
        self.note = f"{type(command).__name__}: requested"

    def ask(self, question: str, then: Callable[[str], None], value: str = "", complete: bool = False) -> None:
        """Asks for a line and goes on with it unless it was left empty."""

        def answered(text: str | None) -> None:
            if text:
                try:
                    then(text)
                except ValueError as error:
                    self.notify(safe(str(error)), severity="warning", markup=False)

        self.push_screen(Prompt(question, value, self.source.complete_label if complete and self.source else None), answered)

    def chosen(self) -> tuple[int, ...]:
        """The selected agent as a tuple, empty with a note when there is none."""
        if self.selected_agent < 0:
            self.notify("select an agent first", severity="warning")
            return ()
        return (self.selected_agent,)

    def action_help(self) -> None:
        """Shows the help page."""
        self.push_screen(Help())

    def action_spawn(self) -> None:
        """Asks how many agents to add."""
        self.ask("spawn how many agents?", lambda text: self.send(c.Spawn(max(1, int(text)), self.selected_group())), "1")

    def action_fork(self) -> None:
        """Forks the selected agent."""
        for agent in self.chosen():
            self.send(c.Fork(agent))

    def action_pause(self) -> None:
        """Pauses the selected agent, or resumes it."""
        agents = self.chosen()
        if agents and self.shown is not None:
            paused = [int(i) for i, state in zip(self.shown.agents.id, self.shown.agents.state, strict=True) if state == 3]
            self.send(c.Resume(agents) if agents[0] in paused else c.Pause(agents))

    def action_pause_all(self) -> None:
        """Halts the step loop or lets it go on."""
        if self.shown is not None:
            self.send(c.SetRunning(not self.shown.running))

    def action_kill(self) -> None:
        """Kills the selected agent after a confirmation."""
        agents = self.chosen()
        if agents:
            self.ask(f"kill a{agents[0]}? it cannot be undone: type yes", lambda text: self.send(c.Kill(agents)) if text == "yes" else None)

    def action_steer(self) -> None:
        """Asks for particles the selected agent should look at."""
        agents = self.chosen()
        if agents:
            self.ask("steer towards which particles? (labels, comma between)", lambda text: self.send(c.Steer(agents, text)), complete=True)

    def action_retarget(self) -> None:
        """Gives the selected agent another goal."""
        agents = self.chosen()
        if agents:
            self.ask("retarget to which goal? (its number in the goal tree)", lambda text: self.send(c.Retarget(agents, int(text))))

    def action_new_goal(self) -> None:
        """Asks for particles a new immediate goal is about."""
        if self.shown is not None:
            parent = next((g.id for g in self.shown.goals if g.level == 1), -1)
            self.ask("new goal around which particles?", lambda text: self.send(c.CreateGoal(parent, text)), complete=True)

    def action_depth(self) -> None:
        """Asks for the selected agent's levels."""
        agents = self.chosen()

        def then(text: str) -> None:
            low, _, high = text.partition("-")
            self.send(c.SetDepth(agents, int(low), int(high or low)))

        if agents:
            self.ask("levels: 1-3 bounds, 2 pins, 0 is the group's", then)

    def action_thresholds(self) -> None:
        """Asks for the thresholds of the selected agent's group."""
        group = self.selected_group()
        if self.shown is not None and self.shown.groups:
            now = next(g for g in self.shown.groups if g.id == group)
            text = ",".join(f"{value:g}" for value in now.thresholds)
            self.ask(
                f"thresholds of {safe(now.name)} ({now.rule})",
                lambda answer: self.send(c.SetPolicy(group, thresholds=tuple(float(part) for part in answer.split(",")))),
                text,
            )

    def _cycle(self, field: str, choices: tuple[str, ...]) -> None:
        group = self.selected_group()
        if self.shown is not None and self.shown.groups:
            now = getattr(next(g for g in self.shown.groups if g.id == group), field)
            following = choices[(choices.index(now) + 1) % len(choices)] if now in choices else choices[0]
            self.send(c.SetPolicy(group, **{field: following}))

    def action_rule(self) -> None:
        """Next confidence rule."""
        self._cycle("rule", RULES)

    def action_inherit(self) -> None:
        """Next inheritance policy."""
        self._cycle("inherit", INHERITS)

    def _proposal(self) -> int:
        return self.screen_stack[0].query_one(InboxPane).selected

    def action_accept(self) -> None:
        """Accepts the selected proposal."""
        if self._proposal() >= 0:
            self.send(c.Accept(self._proposal()))

    def action_reject(self) -> None:
        """Rejects the selected proposal."""
        if self._proposal() >= 0:
            self.send(c.Reject(self._proposal()))

    def action_filter(self) -> None:
        """Asks for the agents to show."""
        pane = self.screen_stack[0].query_one(AgentsPane)

        def answered(text: str | None) -> None:
            if text is not None:
                pane.filter = text
                self.redraw()

        self.push_screen(Prompt("show agents that hold (empty: all)", pane.filter), answered)

    def action_sort(self) -> None:
        """Next order of the agents."""
        pane = self.screen_stack[0].query_one(AgentsPane)
        pane.sort = (pane.sort + 1) % len(SORTS)
        self.note = f"agents by {SORTS[pane.sort]}"
        self.redraw()

    def action_save(self) -> None:
        """Saves the session under a name."""
        self.ask("save the session as", lambda text: self.send(c.SaveSession(text)))

    def action_next_theme(self) -> None:
        """Next theme of ours."""
        names = sorted(name for name in self.available_themes if name.startswith("cybtui-"))
        if names:
            self.theme = names[(names.index(self.theme) + 1) % len(names)] if self.theme in names else names[0]

    async def action_quit(self) -> None:
        """Closes the source and leaves."""
        if self.source is not None:
            threading.Thread(target=self.source.close, daemon=True).start()
        self.exit(0)


def run_console(args: Any) -> int:
    """Opens the console with the parsed arguments; returns the exit status."""
    if args.record:
        raise UserError("--record is not in this release")
    if args.screen_reader:
        raise UserError("--screen-reader is not in this release; without a screen, use `cybtui run`")

    def factory() -> c.Source:
        from engine.runtime.loop import Settings, open_runtime

        options: dict[str, Any] = {"seed": args.seed, "swarm": not args.no_swarm}
        if args.agents:
            options["agents"] = args.agents
        if args.session:
            options["session"] = args.session
        return open_runtime(args.model, Settings(**options))

    app = Console(factory, args.theme or "", args.ascii)
    status = app.run()
    if app.source is not None:
        app.source.close()
        wait = getattr(app.source, "wait_closed", None)
        if wait is not None:
            wait(10)
    if app.failure:
        raise UserError(app.failure)
    return int(status or 0)
