"""The console for screen readers: plain lines in reading order, one announcement each, no motion and no graphics.

Lines of input are commands: ``help`` lists them. A report is given on request and at most every ten seconds of news. Input and
output may be pipes; at the end of input the receipts that are still out are awaited and told.
"""

from __future__ import annotations

import io
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TextIO

from cybtui.text import amount, safe
from cybtui.view import UNDECIDED
from engine.runtime import commands as c
from engine.runtime.commands import Source
from engine.runtime.snapshot import Snapshot

POLL_SECONDS, NEWS_SECONDS, CLOSE_SECONDS = 0.2, 10.0, 10.0
START_SECONDS, RECEIPT_SECONDS, WAIT_MOST = 30.0, 30.0, 3600
NUMBERED = ("why", "stream", "spawn", "fork", "pause", "resume", "kill", "accept", "reject", "steer")
HELP = (
    "report: how the swarm does. inbox: the five best proposals. why N: evidence of proposal N. accept N, reject N.",
    "agents: the first ten agents. stream N: last ten tokens of agent N. goals: the goal tree.",
    "spawn N. fork N. pause N. resume N. kill N. steer N LABEL. halt, go: the whole swarm. save NAME.",
    "wait N: says nothing but news for N seconds. quit.",
)


def report(snapshot: Snapshot) -> list[str]:
    """Where the swarm stands, in sentences."""
    b, counts = snapshot.bandwidth, snapshot.proposal_counts
    shares = sum(snapshot.depth.recent_by_level) or 1
    depths = ", ".join(
        f"{name} {value / shares:.0%}" for name, value in zip(snapshot.model.level_names, snapshot.depth.recent_by_level, strict=True)
    )
    lines = [
        f"Tick {snapshot.tick}, {len(snapshot.agents.id)} agents, {'running' if snapshot.running else 'halted'}, "
        f"{snapshot.rates.tokens_per_second:.0f} tokens a second.",
        f"Of the last thousand tokens: {depths}." if any(snapshot.depth.recent_by_level) else "No tokens yet.",
        f"Pool: {snapshot.pool.pages_used} pages used, {snapshot.pool.pages_shared} shared, {snapshot.pool.copies} copies.",
    ]
    if b.savings == b.savings and any(b.passes):
        lines.append(
            f"{amount(b.bytes_per_token)} a token, {b.savings:.1f} times less than separate processes by model, "
            f"{b.savings_vs_batched:.2f} times against one batched server by model."
        )
    lines.append(f"Links: {', '.join(f'{value} {name}' for name, value in counts.items())}.")
    return lines


def answer(words: list[str], source: Source, send: Callable[[c.Command], None]) -> Iterable[str]:
    """Lines that answer one line of input. Raises ValueError where a number is missing."""
    snapshot, name, rest = source.snapshot(), words[0].casefold(), words[1:]
    waiting = [one for one in snapshot.proposals if one.status in UNDECIDED]
    if name == "help":
        return HELP
    if name == "report":
        return report(snapshot)
    if name == "inbox":
        return [f"{p.id}: {p.probability:.0%}, {safe(p.source)}, {safe(p.semcon)}, {safe(p.target)}." for p in waiting[:5]] or ["Empty."]
    if name == "goals":
        return [f"{g.id}, level {g.level}: {safe(g.title)}, {g.agents} agents{', drifting' if g.drift else ''}." for g in snapshot.goals]
    if name == "agents":
        table = snapshot.agents
        return [f"{safe(table.name[i])}: depth {table.depth[i]}, {table.generated[i]} tokens." for i in range(min(10, len(table.id)))]
    if name in ("halt", "go"):
        send(c.SetRunning(name == "go"))
        return []
    if name == "save":
        send(c.SaveSession(" ".join(rest)))
        return []
    if name not in NUMBERED:
        raise ValueError(f"{safe(name, 40)} is not a command; type help")
    if not rest or not rest[0].lstrip("a").isdecimal():
        raise ValueError(f"{safe(name, 40)}: give a number after it, or type help")
    number = int(rest[0].lstrip("a"))
    if name == "why":
        return [f"{safe(k)}: {safe(t)}." for p in snapshot.proposals if p.id == number for k, t in p.evidence] or ["Not there."]
    if name == "stream":
        tokens = source.stream(number, 10)
        return [f"{safe(t.text)}, {f'level {t.depth}, {t.probability:.0%}' if t.depth else 'given'}." for t in tokens]
    commands: dict[str, c.Command] = {
        "spawn": c.Spawn(number), "fork": c.Fork(number), "pause": c.Pause((number,)), "resume": c.Resume((number,)),
        "kill": c.Kill((number,)), "accept": c.Accept(number), "reject": c.Reject(number), "steer": c.Steer((number,), " ".join(rest[1:])),
    }  # fmt: skip
    send(commands[name])
    return []


class Plain:
    """One conversation: lines of input are done in order; what happens meanwhile is said between them."""

    def __init__(self, source: Source, say: Callable[[str], None]) -> None:
        self.source = source
        self.say = say
        self._receipts: list[c.Receipt] = []
        self._seen = 0
        self._news_at = time.monotonic()

    def start(self) -> bool:
        """Waits until the swarm is there; False when the runtime stopped instead."""
        end = time.monotonic() + START_SECONDS
        while not self.source.snapshot().groups and time.monotonic() < end:
            if self.source.snapshot().error:
                break
            time.sleep(POLL_SECONDS / 10)
        return self.news()

    def do(self, words: list[str]) -> None:
        """Does one line of input and says what it answers."""
        try:
            for text in answer(words, self.source, lambda command: self._receipts.append(self.source.submit(command))):
                self.say(text)
        except ValueError as error:
            self.say(str(error))

    def news(self) -> bool:
        """Says receipts, new lines of the log, and now and then how the swarm does; False when the runtime stopped."""
        for receipt in [r for r in self._receipts if r.status != "requested"]:
            self._receipts.remove(receipt)
            self.say(f"{type(receipt.command).__name__}: {receipt.status} at tick {receipt.tick}. {safe(receipt.message)}")
        snapshot = self.source.snapshot()
        if snapshot.error:
            self.say(f"Stopped: {safe(snapshot.error)}")
            return False
        for entry in snapshot.log:
            if entry.sequence > self._seen and entry.kind not in ("applied", "refused"):
                self.say(f"{safe(entry.kind)}: {safe(entry.text)}")
            self._seen = max(self._seen, entry.sequence)
        if snapshot.running and time.monotonic() - self._news_at > NEWS_SECONDS:
            self._news_at = time.monotonic()
            self.say(report(snapshot)[0])
        return True

    def wait(self, words: list[str]) -> bool:
        """``wait N``; False when the runtime stopped."""
        if len(words) != 1 or not words[0].isdecimal() or int(words[0]) > WAIT_MOST:
            self.say(f"wait: give seconds after it, 0 to {WAIT_MOST}, or type help")
            return True
        end = time.monotonic() + int(words[0])
        while time.monotonic() < end:
            time.sleep(min(POLL_SECONDS, max(0.0, end - time.monotonic())))
            if not self.news():
                return False
        return True

    def settle(self) -> bool:
        """Waits for the receipts that are still out; False when the runtime stopped."""
        end = time.monotonic() + RECEIPT_SECONDS
        while self._receipts and time.monotonic() < end:
            if not self.news():
                return False
            time.sleep(POLL_SECONDS / 10)
        return True


def _lines(reader: TextIO | None) -> queue.Queue[str | None]:
    """Lines as they come, then None; they are read on a thread, so that news need not wait for input."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        try:
            for line in reader or ():
                lines.put(line)
        except (OSError, ValueError):
            pass  # input went away: the same as its end
        finally:
            lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def run_plain(factory: Callable[[], Source], stdin: TextIO | None = None, stdout: TextIO | None = None) -> int:
    """Runs until ``quit`` or the end of input; returns the exit status. Raises UserError from the factory."""
    out = stdout or sys.stdout
    if stdin is None and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")

    def say(text: str) -> None:
        print(text, file=out, flush=True)

    say("Loading the model.")
    source = factory()
    try:
        plain = Plain(source, say)
        if not plain.start():
            return 1
        say("Ready. Type help for commands.")
        lines = _lines(stdin or sys.stdin)
        while True:
            try:
                line = lines.get(timeout=POLL_SECONDS)
            except queue.Empty:
                line = ""
            words = (line or "").split()
            if line is None or words[:1] == ["quit"]:
                return 0 if plain.settle() else 1
            if words[:1] == ["wait"]:
                alive = plain.wait(words[1:])
            else:
                if words:
                    plain.do(words)
                alive = plain.news()
            if not alive:
                return 1
    finally:
        source.close()
        wait = getattr(source, "wait_closed", None)
        if wait is not None:
            wait(CLOSE_SECONDS)
