"""The console: panes over one snapshot, commands to one source. It knows ``Source`` and nothing of the runtime behind it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from textual import events, work
from textual.app import App, SystemCommand
from textual.filter import NoColor
from textual.screen import Screen

from cybtui.actions import ACTIONS, BY_ID
from cybtui.glyphs import ASCII, UNICODE
from cybtui.key_order import KeyOrder
from cybtui.pauses import Pauses
from cybtui.screens.help import Help
from cybtui.screens.main import ORDER, MainScreen
from cybtui.text import safe
from cybtui.theme_files import DEFAULT, MONOCHROME, load_themes, palette
from cybtui.view import View
from cybtui.widgets.agents import AgentsPane
from cybtui.widgets.pane import Pane
from cybtui.widgets.status import KeysLine, StatusLine
from engine.errors import UserError
from engine.runtime import commands as c
from engine.runtime.snapshot import Snapshot

SourceFactory = Callable[[], c.Source]
PaneKind = TypeVar("PaneKind", bound=Pane)
FOCUSED_SECONDS = 0.05
TURNS = 5  # panes without the focus are drawn at every fifth poll, and half of them later: one long paint would hold up a key
HALVES = (0, 2)
WARNINGS = 5  # lines at the end of the log that are looked through
AFTER_KEY_TURNS = 2  # what follows a selection is drawn so many polls after the last key, or in its turn
ERROR_TIMEOUT = 8.0
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Console(App[int]):
    """``source_factory`` opens the runtime; it runs in a thread so that the first frame does not wait for it."""

    TITLE = "cybtui"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    CSS = """
    App.ascii-only Pane { border: ascii $foreground 18%; scrollbar-size-vertical: 0; }
    App.ascii-only Pane:focus { border: ascii $accent; }
    App.ascii-only #box, App.ascii-only #page { border: ascii $accent; scrollbar-size-vertical: 0; }
    ToastRack { margin-bottom: 2; }  /* receipts stay in sight */
    Toast { background: $panel; color: $foreground; }
    """
    BINDINGS: ClassVar[list[Any]] = []

    def __init__(self, source_factory: SourceFactory, theme: str = "", ascii_only: bool = False) -> None:
        super().__init__()
        self.source_factory = source_factory
        self.wanted_theme = theme
        self.ascii_only = ascii_only
        self.failure = ""
        if self.no_color:
            self._filters = [NoColor()]  # Textual's own choice is shades of grey, which are colours too
        self.pauses = Pauses()
        self.view = View(palette(self.current_theme, not self.no_color), ASCII if ascii_only else UNICODE)
        self.receipts: list[c.Receipt] = []
        self._note, self._note_kind, self._note_is_new = "opening the model", "wait", True
        self._turn = 0
        self._following: int | None = None  # polls until what follows the selection is drawn
        self._frames: deque[float] = deque(maxlen=40)
        self._seen: tuple[object, ...] = ()
        self.keys = KeyOrder(self, super().on_event)
        self._signals: list[int] = []
        self.warned = 0  # sequence number of the last warning that was told
        self._themes: list[str] = []
        self._main = MainScreen(self.view)

    def get_default_screen(self) -> Screen[Any]:
        return self._main

    def on_mount(self) -> None:
        themes, problems = load_themes()
        for theme in themes:
            self.register_theme(theme)
        self._themes = [theme.name for theme in themes]
        for problem in problems:
            self.toast(problem)
        self.theme_changed_signal.subscribe(self, lambda _: self._use_theme())
        wanted = self.wanted_theme or (MONOCHROME if self.no_color else DEFAULT)
        if wanted not in self.available_themes:
            self.toast(f"theme {wanted} is not known; there are {', '.join(self._themes)}")
            wanted = DEFAULT
        if wanted in self.available_themes:
            self.theme = wanted
        self._use_theme()
        self.set_class(self.ascii_only, "ascii-only")
        self.keys.start()
        self._catch_signals()
        self.set_interval(FOCUSED_SECONDS, self.poll)
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
        self.pauses.begin()
        self.view.source = source
        self.note("? help, ctrl+p finds any action")

    def fail(self, message: str) -> None:
        """Leaves with a message for the terminal and exit status 1."""
        self.failure = message
        self.exit(1)

    @property
    def source(self) -> c.Source | None:
        """The source, once it is open."""
        return self.view.source

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent):
            self.pauses.key()
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self.keys.put(event)
        else:
            await super().on_event(event)

    def on_unmount(self) -> None:
        self.keys.stop()
        self.pauses.end()
        for number in self._signals:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _catch_signals(self) -> None:
        """Whoever ends the process, or closes its terminal, leaves as ``quit`` does: session saved, terminal restored."""
        with contextlib.suppress(RuntimeError, ValueError):  # not the main thread, or a system without them
            for number in SIGNALS:
                asyncio.get_running_loop().add_signal_handler(number, self.leave, 128 + number)
                self._signals.append(number)

    # ---- drawing ---------------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Takes the newest snapshot; the focused pane is drawn at once, others in turns, four times a second."""
        view, source = self.view, self.view.source
        if source is not None:
            view.snapshot = source.snapshot()
            self.failure = view.snapshot.error
            self._warn(view.snapshot)
        self._settle()
        if len(self.screen_stack) == 1:  # an open dialogue would be frozen, and never collected
            self.pauses.rest()
        main = self._main
        if not main.ready:
            return
        self._turn = (self._turn + 1) % TURNS
        if self._following is not None:
            self._following -= 1
        everything = self._following == 0
        if everything:
            self._following = None
        visible, current = main.shown_panes(), main.current
        for pane in main.panes():
            if pane.id in visible and (everything or pane.id == current or HALVES[pane.NUMBER % 2] == self._turn):
                pane.update()
        now = time.monotonic()
        seen = (id(view.snapshot), view.version)
        if seen != self._seen:
            self._frames.append(now)
        self._seen = seen
        if self._turn == 0 or self._note_is_new:
            self._note_is_new = False
            recent = [moment for moment in self._frames if moment > now - 1.0]
            main.query_one("#status", StatusLine).refresh_status(self._note, self._note_kind, len(recent))

    def redraw(self) -> None:
        """Draws every pane on show now."""
        visible = self._main.shown_panes()
        for pane in self._main.panes():
            if pane.id in visible:
                pane.update()

    def _settle(self) -> None:
        waiting = []
        for receipt in self.receipts:
            name = type(receipt.command).__name__
            if receipt.status == "requested":
                waiting.append(receipt)
            elif receipt.status == "applied":
                self.note(f"{name.lower()}: applied at tick {receipt.tick:,}  {receipt.message}", "good")
            else:
                self.note(f"{name.lower()}: refused", "bad")
                self.toast(f"{name.lower()}: {receipt.message}")
        self.receipts = waiting

    def note(self, text: str, kind: str = "") -> None:
        """Puts a text into the status line."""
        self._note, self._note_kind, self._note_is_new = text, kind, True

    def toast(self, text: str) -> None:
        """Tells of something that did not work."""
        self.notify(safe(text), severity="warning", timeout=ERROR_TIMEOUT, markup=False)

    def _warn(self, snapshot: Snapshot) -> None:
        """Warnings of the log are told wherever the log is."""
        for line in snapshot.log[-WARNINGS:]:
            if line.kind == "warning" and line.sequence > self.warned:
                self.warned = line.sequence
                self.toast(line.text)

    def send(self, command: c.Command) -> None:
        """Submits a command; its receipt is shown when it is applied or refused."""
        if self.view.source is None:
            return self.toast("the model is still being opened")
        self.receipts.append(self.view.source.submit(command))
        return self.note(f"{type(command).__name__.lower()}: requested", "wait")

    def pane(self, kind: type[PaneKind]) -> PaneKind:
        """The pane of a kind."""
        return self._main.query_one(kind)

    def pane_order(self) -> tuple[int, ...]:
        """Ids of the agents shown, in order."""
        return self.pane(AgentsPane).order

    @property
    def focused_pane(self) -> str:
        """Id of the focused pane."""
        return self._main.current

    # ---- actions ---------------------------------------------------------------------------------------------------

    def action_do(self, name: str) -> None:
        """Does an action of the registry."""
        BY_ID[name].handler(self)
        self.redraw()

    def action_pane(self, number: int) -> None:
        """Focuses a pane by its number."""
        self.focus_pane(ORDER[number - 1])

    def focus_pane(self, name: str) -> None:
        """Focuses a pane and shows it."""
        self._main.show(name)

    def on_keys_line_clicked(self, event: KeysLine.Clicked) -> None:
        self.action_do(event.action)

    def on_pane_selected(self) -> None:
        self._following = AFTER_KEY_TURNS

    def go(self, step: int) -> None:
        """Focus goes to another pane, among those on show where there are several."""
        main = self._main
        visible = [name for name in ORDER if name in main.shown_panes()]
        names = visible if len(visible) > 1 else list(ORDER)
        main.show(names[(names.index(main.current) + step) % len(names)] if main.current in names else names[0])

    def zoom(self) -> None:
        """The focused pane alone, or all."""
        self._main.zoomed = not self._main.zoomed
        self._main.arrange_panes()

    def show_help(self) -> None:
        """Opens the help page."""
        self.push_screen(Help(self.view.palette))

    def next_theme(self) -> None:
        """Next theme of ours or the operator's."""
        if self._themes:
            at = self._themes.index(self.theme) if self.theme in self._themes else -1
            self.theme = self._themes[(at + 1) % len(self._themes)]
            self.note(f"theme {self.theme}")

    def _use_theme(self) -> None:
        self.view.palette = palette(self.current_theme, not self.no_color)
        self.view.changed()
        for widget in self._main.query("Pane, OneLine"):
            widget.refresh()
        if self._main.is_mounted:
            self._main.show_lines()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action is in the palette."""
        yield from super().get_system_commands(screen)
        for action in ACTIONS:
            if action.id != "palette":
                yield SystemCommand(f"{action.group}: {action.title}", action.help, lambda name=action.id: self.action_do(name))

    def leave(self, status: int = 0) -> None:
        """Stops the runtime and leaves; the session is written while the screen closes."""
        if self.view.source is not None:
            threading.Thread(target=self.view.source.close, daemon=True).start()
        self.exit(1 if self.failure else status)

    async def action_quit(self) -> None:
        """Textual's own way out goes the same way."""
        self.leave()
