"""The live runtime: a thread that steps a swarm, applies the operator's commands between ticks, and publishes snapshots.

From its first tick on the thread runs below the interface's priority; it lets go of the GIL inside native calls. Readers get
immutable pictures and never wait for it. Whatever fails stops the loop cleanly: the last picture stays, with ``Snapshot.error`` saying why.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import NativeError, UserError
from engine.model.model import Model
from engine.model.policy import Policy
from engine.runtime import baselines, session
from engine.runtime.commands import Accept, Command, Receipt, Reject
from engine.runtime.ledger import Ledger
from engine.runtime.operator import Operator
from engine.runtime.picture import Picture, empty_snapshot
from engine.runtime.recovery import recover
from engine.runtime.sizing import engine_config
from engine.runtime.snapshot import LogLine, Snapshot, TokenRecord
from engine.runtime.streams import Streams
from engine.runtime.swarm import DEFAULT_BUDGET, Swarm
from engine.runtime.telemetry import Telemetry

if TYPE_CHECKING:
    from engine.native import Engine

SNAPSHOT_SECONDS = 0.05
IDLE_SECONDS = 0.05
AUTOSAVE_SECONDS = 60.0
BASELINE_AFTER_TICKS = 100
CLOSE_SECONDS = 0.9
EXIT_SECONDS = 10.0
STEP_ROWS = 2048
LOG_LINES = 200
DEFAULT_AGENTS = 64
CAPACITY = 1024  # agents the pool is made for, at least
UNNAMED = "last"
LOGGED_EVENTS = ("preempted", "refused")
STEP_NICE = 5  # as the native workers: a thread that is lower than its team, or than other programs, keeps the GIL for long
HELPER_NICE = 10


@dataclass(frozen=True)
class Settings:
    """How a live runtime is set up. ``session`` "" keeps the session as ``last`` and starts afresh."""

    agents: int = DEFAULT_AGENTS
    seed: int = 0
    budget: int = DEFAULT_BUDGET
    threads: int = 0
    session: str = ""
    swarm: bool = True
    policy: Policy | None = None
    folder: Path | None = None  # where sessions live; None = the platform's data folder


def open_runtime(model: str | Path | None = None, settings: Settings | None = None) -> Runtime:
    """Opens a model (None = the embedded one) and its session, and starts the step thread. Raises UserError."""
    return Runtime(Model.open(model), settings or Settings())


class Runtime:
    """Implements ``commands.Source``. ``make_engine`` replaces the native engine in tests."""

    def __init__(
        self, model: Model, settings: Settings, make_engine: Callable[[Model, Any], Engine] | None = None, start: bool = True
    ) -> None:
        self.model = model
        self.settings = settings
        self._make_engine = make_engine or _native_engine
        self._state: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._path = session.session_path(settings.session or UNNAMED, settings.folder)
        if settings.session and self._path.exists():
            self._state = session.read(self._path)
            session.check_model(self._state[0], self._path, model.digest, model.name)
        self._commands: deque[Receipt] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = False
        self._stopped = False
        self._running = True
        self._log: deque[LogLine] = deque(maxlen=LOG_LINES)
        self._log_count = 0
        self._error = ""
        self._streams = Streams(model.vocabulary.label, model.vocabulary.kind)
        self._snapshot = empty_snapshot(model)
        self._swarm: Swarm | None = None
        self._versions: dict[int, int] = {}
        self._saved = time.monotonic()
        self._thread = threading.Thread(target=self._main, name="cybtui step", daemon=True)
        if start:
            self._thread.start()
            atexit.register(self._at_exit)

    # ---- Source ----------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Latest picture; the same object until there is a newer one."""
        return self._snapshot

    def stream(self, agent: int, limit: int = 500) -> list[TokenRecord]:
        """Latest tokens of one agent, oldest first."""
        return self._streams.read(agent, limit)

    def label(self, token: int) -> str:
        """The label of a token id, safe to show."""
        return self.model.vocabulary.label(token)

    def complete_label(self, prefix: str, limit: int = 20) -> list[str]:
        """Labels of particles that start with or contain ``prefix``."""
        vocabulary = self.model.vocabulary
        return [vocabulary.label(token) for token in vocabulary.complete(prefix, limit)]

    def submit(self, command: Command) -> Receipt:
        """Queues a command; the step thread fills in the receipt between ticks."""
        receipt = Receipt(command)
        with self._lock:
            if self._stop or self._stopped:
                self._refuse(receipt)
            else:
                self._commands.append(receipt)
        self._wake.set()
        return receipt

    def close(self) -> None:
        """Stops the loop after the tick at hand; saves the session. Idempotent; returns within a second."""
        with self._lock:
            self._stop = True
        self._wake.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_SECONDS)

    def wait_closed(self, timeout: float | None = None) -> bool:
        """Waits until the session is saved and the engine freed; False when ``timeout`` seconds were not enough."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _at_exit(self) -> None:
        """The interpreter ends: what is still being saved gets the time it needs."""
        self.close()
        self._thread.join(EXIT_SECONDS)

    # ---- the step thread --------------------------------------------------------------------------------------------------

    def _main(self) -> None:
        engine: Engine | None = None
        try:
            resumed = len(self._state[0]["agents"]) if self._state else 0
            seed = self._state[0]["seed"] if self._state else self.settings.seed
            capacity = max(CAPACITY, 2 * self.settings.agents, 2 * resumed)
            config = engine_config(self.model, capacity, seed, self.settings.threads, low_priority=True, step_rows=STEP_ROWS)
            engine = self._make_engine(self.model, config)
            self._work(engine, seed)
        except (NativeError, UserError) as error:
            self._fail(error.text if isinstance(error, NativeError) else error.message)
        except MemoryError:
            self._fail("memory ran out")
        except Exception as error:  # the interface must outlive whatever happens here
            self._fail(f"a fault in the runtime: {type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._stopped = True
                for receipt in self._commands:
                    self._refuse(receipt)
                self._commands.clear()
            if engine is not None:
                engine.close()
            atexit.unregister(self._at_exit)

    def _work(self, engine: Engine, seed: int) -> None:
        with contextlib.closing(self._open_ledger()) as ledger:
            self._work_with(engine, seed, ledger)

    def _work_with(self, engine: Engine, seed: int, ledger: Ledger) -> None:
        swarm = Swarm(self.model, engine, seed=seed, budget=self.settings.budget, live=True, ledger=ledger)
        if self.settings.policy is not None:
            swarm.default_policy = self.settings.policy
        self._swarm = swarm
        if ledger.warning:
            self._say("warning", ledger.warning)
        if self._state is not None:
            for notice in session.resume(swarm, *self._state):
                self._say("session", notice)
            recovered = recover(swarm, session.ledger_records(self._path), self._state[0]["ledger_records"])
            if recovered:
                self._say("session", f"{recovered} decisions of yours since the last save were taken from the ledger")
            self._say("session", f"resumed {self._path.stem} at tick {swarm.tick}: {len(swarm.agents)} agents")
            self._state = None
        else:
            swarm.add_default_groups(max(1, self.settings.agents))
            if self.settings.swarm:
                swarm.spawn(self.settings.agents)
                self._say("spawn", f"{self.settings.agents} agents in {len(swarm.groups)} groups")
        telemetry = Telemetry(engine.levels)
        picture = Picture(swarm, telemetry)
        operator = Operator(swarm, self._save_as, self._set_running)
        try:
            self._loop(swarm, engine, telemetry, picture, operator)
        finally:
            self._save(swarm)

    def _loop(self, swarm: Swarm, engine: Engine, telemetry: Telemetry, picture: Picture, operator: Operator) -> None:
        self._snapshot = picture.take(self._running, self._log, engine.counters(), **self._texts(swarm))
        published = 0.0
        stale = True
        lowered = False
        while True:
            stale |= self._apply(operator)
            if self._stop:
                return
            if self._running and swarm.running:
                start = time.perf_counter()
                tick = swarm.step()
                end = time.perf_counter()
                telemetry.step(end, end - start, len(tick.tokens), tick.tokens, engine.counters())
                self._streams.feed(tick)
                self._report(swarm, engine)
                stale = True
                if not lowered:
                    lowered = _lower_priority(STEP_NICE)
            elif not stale:
                self._wake.wait(IDLE_SECONDS)
            self._wake.clear()
            now = time.perf_counter()
            if stale and now - published >= SNAPSHOT_SECONDS:
                self._snapshot = picture.take(self._running, self._log, engine.counters(), **self._texts(swarm))
                published, stale = now, False
            if time.monotonic() - self._saved > AUTOSAVE_SECONDS:
                self._autosave(swarm)

    def _texts(self, swarm: Swarm) -> dict[str, str]:
        """What is shown to people and not fed to the model."""
        layers = swarm.layers
        return {"session": self._path.stem, "hardware": layers.hardware, "output_format": layers.output_format}

    def _apply(self, operator: Operator) -> bool:
        """Applies waiting commands in order of submission."""
        any_applied = False
        while True:
            with self._lock:
                if not self._commands:
                    return any_applied
                receipt = self._commands.popleft()
            operator.apply(receipt)
            any_applied = True
            self._say(receipt.status, f"{type(receipt.command).__name__.lower()}: {receipt.message}")
            if isinstance(receipt.command, Accept | Reject) and receipt.status == "applied":
                self._saved = min(self._saved, time.monotonic() - AUTOSAVE_SECONDS + 5)

    def _report(self, swarm: Swarm, engine: Engine) -> None:
        for group in swarm.groups:
            if self._versions.get(group.id, group.newest) != group.newest:
                self._say("context", f"{group.name}: version {group.newest}, {len(group.version.facts)} facts in memory")
            self._versions[group.id] = group.newest
        for kind, count in zip(*np.unique(engine.events()["kind"], return_counts=True), strict=True):
            name = _event_name(int(kind))
            if name in LOGGED_EVENTS:
                self._say(name, f"{count} agents: the pool is full")
        if swarm.tick == BASELINE_AFTER_TICKS or (swarm.tick > BASELINE_AFTER_TICKS and swarm.measures.baselines is None):
            self._start_baselines(swarm)

    _baseline_thread: threading.Thread | None = None

    def _start_baselines(self, swarm: Swarm) -> None:
        if self._baseline_thread is not None or not swarm.measures.hidden:
            return
        # a world of its own: the step thread's caches and accepted links stay untouched
        world = replace(swarm.world, added=set(), _added_keys=None)

        def compute() -> None:
            _lower_priority()
            began = [time.perf_counter()]

            def breathe() -> None:
                if self._stop:
                    raise InterruptedError
                time.sleep(min(0.2, 2 * (time.perf_counter() - began[0])))
                began[0] = time.perf_counter()

            try:
                vectors = baselines.router_vectors(self.model)
                swarm.measures.baselines = baselines.compute(world, self.model.hidden, lambda: vectors, breathe=breathe)
            except InterruptedError:
                return  # closing
            except Exception as error:  # the swarm goes on without this measure
                self._say("warning", f"the baselines could not be computed, so quality stays unknown: {error}")

        self._baseline_thread = threading.Thread(target=compute, name="cybtui baselines", daemon=True)
        self._baseline_thread.start()

    # ---- sessions, log, failure ---------------------------------------------------------------------------------------------

    def _open_ledger(self) -> Ledger:
        """The session's ledger; an unnamed session takes the first name no other process uses."""
        for number in range(1, 10):
            ledger = Ledger(session.ledger_path(self._path))
            if self.settings.session or not ledger.warning.count("another cybtui"):
                return ledger
            self._path = session.session_path(f"{UNNAMED}-{number + 1}", self.settings.folder)
        return Ledger()

    def _save_as(self, name: str) -> str:
        assert self._swarm is not None
        path = session.session_path(name, self.settings.folder) if name else self._path
        try:
            session.save(self._swarm, path)
        except OSError as error:
            raise UserError(f"{path}: the session cannot be written ({error.strerror or error})") from None
        return f"saved {path.stem} at tick {self._swarm.tick}"

    _writer: threading.Thread | None = None

    def _autosave(self, swarm: Swarm) -> None:
        """Takes the state here, between ticks, and writes it on another thread, so that no step waits for the disk."""
        self._saved = time.monotonic()
        if self._writer is not None and self._writer.is_alive():
            return
        state, arrays = session.state_of(swarm)

        def write() -> None:
            _lower_priority()
            try:
                session.write(self._path, state, arrays)
            except OSError as error:
                self._unsaved(error)

        self._writer = threading.Thread(target=write, name="cybtui save", daemon=True)
        self._writer.start()

    def _save(self, swarm: Swarm) -> None:
        """The last save, when the loop ends."""
        if self._writer is not None:
            self._writer.join()
        try:
            session.save(swarm, self._path)
        except (OSError, NativeError) as error:
            self._unsaved(error)

    def _unsaved(self, error: Exception) -> None:
        self._say("warning", f"the session is in memory only: {self._path} cannot be written ({error})")
        self._snapshot = replace(self._snapshot, log=tuple(self._log))  # the loop may have ended: nobody takes another picture

    def _set_running(self, running: bool) -> None:
        self._running = running

    def _say(self, kind: str, text: str) -> None:
        self._log_count += 1
        self._log.append(LogLine(self._log_count, self._swarm.tick if self._swarm else 0, kind, text))

    def _fail(self, text: str) -> None:
        self._error = text
        self._say("error", text)
        self._running = False
        self._snapshot = replace(self._snapshot, running=False, error=text, log=tuple(self._log))

    def _refuse(self, receipt: Receipt) -> None:
        receipt.status = "refused"
        receipt.tick = self._swarm.tick if self._swarm else 0
        receipt.message = f"the runtime has stopped{': ' + self._error if self._error else ''}"


def _native_engine(model: Model, config: Any) -> Engine:
    from engine.native import Engine

    return Engine(model.native, config)


def _event_name(kind: int) -> str:
    from engine.native import EVENT_KINDS

    return EVENT_KINDS[kind] if 0 <= kind < len(EVENT_KINDS) else ""


def _lower_priority(nice: int = HELPER_NICE) -> bool:
    """Puts this thread below the interface's, where the system has priorities by thread; True, so that it is not tried again."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
    return True
