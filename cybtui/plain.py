"""The console for screen readers: plain lines in reading order, one announcement each, no motion and no graphics.

Lines of input are commands: ``help`` lists them. A report is given on request and at most every ten seconds of news.
"""

from __future__ import annotations

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
HELP = (
    "report: how the swarm does. inbox: the five best proposals. why N: evidence of proposal N. accept N, reject N.",
    "agents: the first ten agents. stream N: last ten tokens of agent N. goals: the goal tree.",
    "spawn N. fork N. pause N. resume N. kill N. steer N LABEL. halt, go: the whole swarm. save NAME. quit.",
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
        f"Of the last thousand tokens: {depths}.",
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
    if name not in commands:
        raise ValueError(f"{safe(name, 40)} is not a command; type help")
    send(commands[name])
    return []


def run_plain(factory: Callable[[], Source], stdin: TextIO | None = None, stdout: TextIO | None = None) -> int:
    """Runs until ``quit`` or the end of input; returns the exit status. Raises UserError from the factory."""
    out = stdout or sys.stdout
    lines: queue.Queue[str | None] = queue.Queue()

    def say(text: str) -> None:
        print(text, file=out, flush=True)

    say("Loading the model.")
    source = factory()
    reader = stdin or sys.stdin

    def read() -> None:
        for line in reader:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    say("Ready. Type help for commands.")
    receipts: list[c.Receipt] = []
    try:
        seen, news_at = 0, time.monotonic()
        while True:
            try:
                line = lines.get(timeout=POLL_SECONDS)
            except queue.Empty:
                line = ""
            words = (line or "").split()
            if line is None or words[:1] == ["quit"]:
                return 0
            if words:
                try:
                    for text in answer(words, source, lambda command: receipts.append(source.submit(command))):
                        say(text)
                except ValueError as error:
                    say(str(error))
            for receipt in [r for r in receipts if r.status != "requested"]:
                receipts.remove(receipt)
                say(f"{type(receipt.command).__name__}: {receipt.status} at tick {receipt.tick}. {safe(receipt.message)}")
            snapshot = source.snapshot()
            if snapshot.error:
                say(f"Stopped: {safe(snapshot.error)}")
                return 1
            for entry in snapshot.log:
                if entry.sequence > seen and entry.kind not in ("applied", "refused"):
                    say(f"{safe(entry.kind)}: {safe(entry.text)}")
                seen = max(seen, entry.sequence)
            if snapshot.running and time.monotonic() - news_at > NEWS_SECONDS:
                news_at = time.monotonic()
                say(report(snapshot)[0])
    finally:
        source.close()
        wait = getattr(source, "wait_closed", None)
        if wait is not None:
            wait(CLOSE_SECONDS)
