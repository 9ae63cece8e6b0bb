"""Panes of the swarm: agents, goals, the focused agent's token stream, and the inbox of proposals."""

from __future__ import annotations

import numpy as np
from rich.text import Text
from textual import events

from cybtui.text import fit, safe
from cybtui.widgets.pane import Pane, spark
from engine.runtime.snapshot import AGENT_STATES, Snapshot

SORTS = ("id", "confidence", "generated", "accepted")


class AgentsPane(Pane):
    """Thousands of rows, of which those in view are drawn; selection is by agent id."""

    TITLE = "2 Agents"

    def __init__(self) -> None:
        super().__init__(id="agents")
        self.selected = -1
        self.filter = ""
        self.sort = 0
        self.top = 0
        self.rows: list[int] = []

    def order(self, snapshot: Snapshot) -> list[int]:
        """Row numbers of the agent table that pass the filter, sorted."""
        table = snapshot.agents
        rows = list(range(len(table.id)))
        if self.filter:
            wanted = self.filter.casefold()
            rows = [
                r
                for r in rows
                if wanted in f"{table.name[r]} {snapshot.groups[table.group[r]].name} {AGENT_STATES[table.state[r]]}".casefold()
            ]
        if self.sort:
            key = {"confidence": table.confidence, "generated": table.generated, "accepted": table.accepted}[SORTS[self.sort]]
            rows.sort(key=lambda r: (-float(key[r]), int(table.id[r])))
        return rows

    def lines(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        table = snapshot.agents
        self.rows = self.order(snapshot)
        ids = table.id[self.rows] if self.rows else np.zeros(0, np.int64)
        at = np.flatnonzero(ids == self.selected)
        cursor = int(at[0]) if len(at) else 0
        if len(ids) and not len(at):
            self.selected = int(ids[0])
        body = max(1, height - 2)
        self.top = max(0, min(max(self.top, cursor - body + 1), cursor, max(0, len(ids) - body)))
        running = int((table.state == 2).sum())
        summary = f"{len(table.id):,} agents, {running:,} running, {snapshot.rates.tokens_per_second:,.0f} tokens/s"
        if self.filter:
            summary += f", filter {self.filter!r} {len(ids):,}"
        result = [
            Text(fit(summary, width), style="bold"),
            Text(fit("agent   state     depth conf  tokens  pages own+shared  last", width), "dim"),
        ]
        for row in self.rows[self.top : self.top + body]:
            depth = int(table.depth[row])
            token = int(table.last_token[row])
            line = Text(f"{safe(table.name[row])[:7]:<7} {AGENT_STATES[table.state[row]]:<9} ")
            line.append(f"{self.glyph(depth)} {depth}", self.colour(depth))
            pages = f"{table.pages_private[row]}+{table.pages_shared[row]}"
            label = safe(self.console_app.label(token)) if token >= 0 else ""
            line.append(f"   {table.confidence[row]:.2f} {table.generated[row]:>7,}  {pages:<16} {label}")
            if int(table.id[row]) == self.selected:
                line.stylize("reverse")
            result.append(line)
        return result

    def move(self, step: int) -> None:
        """Moves the selection among the rows shown."""
        snapshot = self.console_app.shown
        if snapshot is None or not self.rows:
            return
        ids = [int(snapshot.agents.id[r]) for r in self.rows if r < len(snapshot.agents.id)]
        at = ids.index(self.selected) if self.selected in ids else 0
        self.selected = ids[max(0, min(len(ids) - 1, at + step))]
        self.console_app.redraw()

    def on_key(self, event: events.Key) -> None:
        steps = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": 20, "pageup": -20, "home": -(1 << 30), "end": 1 << 30}
        if event.key in steps:
            self.move(steps[event.key])
            event.stop()

    def on_click(self, event: events.Click) -> None:
        snapshot, row = self.console_app.shown, self.top + event.y - 3
        if snapshot is not None and 0 <= row < len(self.rows) and event.y >= 3:
            self.selected = int(snapshot.agents.id[self.rows[row]])
            self.console_app.redraw()


class InboxPane(Pane):
    """Proposals, the most probable first; below them the evidence of the selected one."""

    TITLE = "1 Inbox: proposed links"

    def __init__(self) -> None:
        super().__init__(id="inbox")
        self.selected = -1

    def lines(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        counts = snapshot.proposal_counts
        open_ones = [p for p in snapshot.proposals if p.status in ("new", "verified")]
        if open_ones and self.selected not in {p.id for p in snapshot.proposals}:
            self.selected = open_ones[0].id
        head = ", ".join(f"{counts.get(name, 0):,} {name}" for name in ("proposed", "verified", "accepted", "rejected"))
        result = [Text(fit(head, width), style="bold")]
        chosen = next((p for p in snapshot.proposals if p.id == self.selected), None)
        evidence = [] if chosen is None else [*chosen.evidence, ("status", f"{chosen.status} {chosen.reason}")]
        room = max(1, height - 2 - min(len(evidence), max(0, height // 3)))
        shown = list(snapshot.proposals)
        at = next((i for i, p in enumerate(shown) if p.id == self.selected), 0)
        for proposal in shown[max(0, at - room + 1) :][:room]:
            chance = proposal.probability
            text = f"{'  ? ' if chance != chance else f'{chance:4.0%}'} {self.bar(chance, 5)} "
            line = Text(text)
            line.append(fit(f"{proposal.source} — {proposal.semcon} → {proposal.target}", max(8, width - 20)))
            line.append(f" {proposal.status[:8]}", "dim")
            if proposal.id == self.selected:
                line.stylize("reverse")
            result.append(line)
        if evidence:
            result.append(Text("why", style="dim"))
            result += [Text(fit(f"{kind}: {text}", width), style="italic") for kind, text in evidence]
        return result

    def on_key(self, event: events.Key) -> None:
        steps = {"down": 1, "j": 1, "up": -1, "k": -1}
        snapshot = self.console_app.shown
        if event.key in steps and snapshot is not None and snapshot.proposals:
            ids = [p.id for p in snapshot.proposals]
            at = ids.index(self.selected) if self.selected in ids else 0
            self.selected = ids[max(0, min(len(ids) - 1, at + steps[event.key]))]
            self.console_app.redraw()
            event.stop()


class GoalsPane(Pane):
    """Three levels of goals with their measures."""

    TITLE = "3 Goal tree"

    def lines(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        result = []
        for goal in snapshot.goals:
            mark = ("◆", "▸", "·")[goal.level] if not self.console_app.ascii else ("*", ">", "-")[goal.level]
            line = Text(f"{'  ' * goal.level}{mark} ", style="bold" if goal.level == 0 else "")
            line.append(f"{goal.id} {safe(goal.title)}")
            measures = "  ".join(f"{safe(name)} {value:.3g}" for name, value in goal.measures if value == value)
            line.append(f"  {goal.agents or ''} {measures} {spark(goal.history, 12, self.console_app.ascii)}", "dim")
            if goal.drift:
                line.append("  DRIFT", "bold red")
            result.append(line)
        return result


class StreamPane(Pane):
    """Tokens of the selected agent as they come: colour and glyph say which level answered."""

    TITLE = "4 Token stream: depth of each token"

    def lines(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        agent = self.console_app.selected_agent
        records = self.console_app.stream(agent, 4 * height) if agent >= 0 else []
        names = snapshot.model.level_names
        legend = Text()
        for level, name in enumerate(names, 1):
            legend.append(f"{self.glyph(level)} {name}  ", self.colour(level))
        legend.append(f"a{agent}" if agent >= 0 else "no agent selected", "dim")
        result = [legend]
        for record in records[-(height - 1) :]:
            if record.depth:
                line = Text(f"{self.glyph(record.depth)} ", self.colour(record.depth))
                line.append(fit(record.text, min(34, max(10, width - 30))), self.colour(record.depth))
                others = ", ".join(f"{safe(text)} {p:.0%}" for text, p in record.alternatives[:2])
                line.append(f" {record.probability:4.0%}  {others}", "dim")
            else:
                line = Text("> " if record.starts_episode else "  ", "dim")
                line.append(safe(record.text), "dim")
            result.append(line)
        return result
