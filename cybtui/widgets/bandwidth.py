"""Bandwidth: bytes and arithmetic a token, measured, beside two models of other systems."""

from __future__ import annotations

from cybtui.text import amount, count, fit
from cybtui.widgets.pane import Line, Pane
from engine.runtime.snapshot import Snapshot


class BandwidthPane(Pane):
    """The two comparisons are computed, not run, and say so; whatever is ours is counted by the runtime."""

    TITLE = "Bandwidth savings"
    NUMBER = 7

    def head(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        p, g, b = self.view.palette, self.view.glyphs, snapshot.bandwidth
        agents, times = len(snapshot.agents.id), g.times
        if b.bytes_per_token != b.bytes_per_token or not sum(b.passes):
            return [[("no tokens yet", p.dim)]]
        lines: list[Line] = [
            [
                (f"{b.savings:.1f}{times}", p.accent),
                (f" less traffic than {agents:,} processes{' (model)' if width >= 48 else ''}", p.text),
            ]
        ]
        top = max(b.bytes_per_token, b.standard_bytes_per_token, b.batched_bytes_per_token, 1.0)
        bar = max(3, width - 33)
        rows = (
            ("this console", b.bytes_per_token, "", p.accent),
            (f"{count(agents)} processes", b.standard_bytes_per_token, "model", p.dim),
            ("one batched", b.batched_bytes_per_token, "model", p.dim),
        )
        for name, value, note, style in rows:
            shown = fit(amount(value), 8, right=True)
            line: Line = [(fit(name, 14), p.text if not note else p.dim), (shown, p.text), (" ", p.text)]
            lines.append([*line, (g.meter(value / top, bar), style), (f"  {note or 'measured'}", p.dim)])
        ratio = b.multiply_adds / max(1, b.always_deepest_multiply_adds)
        versus = p.good if b.savings_vs_batched >= 1 else p.warning
        less = b.savings_vs_batched >= 1
        factor = b.savings_vs_batched if less else 1 / max(1e-9, b.savings_vs_batched)
        batched: Line = [(f"{factor:.1f}{times}", versus), (f" {'less' if less else 'more'} traffic than one batched server", p.text)]
        arithmetic: Line = [(f"{ratio:.2f}", p.strong), (" of always-deepest arithmetic", p.text)]
        lines += [batched, arithmetic]
        if height >= 8:
            lines.append([("savings ", p.dim), (g.sparkline(b.recent_savings, width - 9), p.accent)])
        lines += self._levels(snapshot, width)
        if height > len(lines) + 2 and b.by_agents:
            lines.append([(fit("agents", 8, right=True) + fit("bytes/token", 14, right=True) + fit("savings", 10, right=True), p.dim)])
            for running, per_token, savings in b.by_agents[-(height - len(lines)) :]:
                text = fit(f"{running:,}", 8, right=True) + fit(amount(per_token), 14, right=True)
                lines.append([(text, p.text), (fit(f"{savings:.1f}{times}", 10, right=True), p.accent)])
        return lines

    def _levels(self, snapshot: Snapshot, width: int) -> list[Line]:
        p, g, b, levels = self.view.palette, self.view.glyphs, snapshot.bandwidth, len(snapshot.model.levels)
        total = max(1, sum(b.weight_bytes) + b.kv_bytes_shared + b.kv_bytes_personal + b.other_bytes)
        lines: list[Line] = []
        for level, name in enumerate(snapshot.model.level_names, 1):
            style, size = p.level(level, levels), b.weight_bytes[level - 1]
            line: Line = [(f"{g.level(level, levels)} ", style), (fit(name, 13), style), (fit(amount(size), 9, right=True), p.text)]
            lines.append([*line, (f" {size / total:4.0%}  {count(b.passes[level - 1])} passes", p.dim)])
        for name, size in (("KV shared", b.kv_bytes_shared), ("KV own", b.kv_bytes_personal), ("activations", b.other_bytes)):
            lines.append([(fit(f"  {name}", 15), p.dim), (fit(amount(size), 9, right=True), p.text), (f" {size / total:4.0%}", p.dim)])
        return lines
