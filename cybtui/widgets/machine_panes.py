"""Panes of the machine: depth, page pool, bandwidth, log. Every figure comes from the runtime's counters."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from cybtui.text import fit, safe
from cybtui.widgets.pane import Pane, count, spark
from engine.runtime.snapshot import PAGE_LAYERS, Snapshot

LAYER_GLYPHS = ("S", "G", "P", "k")
LAYER_COLOURS = ("#87d787", "#5fafd7", "#d7af5f", "grey70")


class DepthPane(Pane):
    """Which level answered, with the thresholds in force and the pinned levels' measured quality beside."""

    TITLE = "5 Depth: who answered"

    def lines(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        depth, names = snapshot.depth, snapshot.model.level_names
        total, recent = max(1, sum(depth.by_level)), max(1, sum(depth.recent_by_level))
        pinned = {row.get("level", row.get("pinned")): row for row in snapshot.model.pinned_rows}
        result = [Text(fit("level      last 1,000            all   pinned MRR (held-out)", width), "dim")]
        for level, name in enumerate(names, 1):
            share = depth.recent_by_level[level - 1] / recent
            line = Text(f"{self.glyph(level)} {safe(name):<8} ", self.colour(level))
            line.append(f"{self.bar(share, 12)} {share:4.0%}  {depth.by_level[level - 1] / total:4.0%}", self.colour(level))
            if level in pinned:
                line.append(f"   {pinned[level]['mrr']:.3f} at {pinned[level]['cost']:.2f}× arithmetic", "dim")
            result.append(line)
        for group in snapshot.groups[: max(1, height // 3)]:
            values = ", ".join(f"{value:.3g}" for value in group.thresholds)
            result.append(Text(fit(f"{group.name}: {group.rule} {values} · {group.inherit}", width), "italic"))
        result.append(Text("top probability seen at each level, 0 to 1", "dim"))
        for level in range(1, len(names) + 1):
            line = Text(f"{self.glyph(level)} ", self.colour(level))
            line.append(spark(tuple(float(v) for v in depth.histogram[level - 1]), 20, self.console_app.ascii), self.colour(level))
            result.append(line)
        return result


class PoolPane(Pane):
    """The page pool as a map: one cell stands for a run of pages, coloured by the layer that holds most of it."""

    TITLE = "6 Page pool"

    def lines(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        pool = snapshot.pool
        share = pool.pages_used / max(1, pool.pages_total)
        result = [
            Text(fit(f"{pool.pages_used:,} of {pool.pages_total:,} pages {self.bar(share, 10)} {share:.1%}", width), "bold"),
            Text(fit(f"{pool.pages_shared:,} shared · {count(pool.bytes_per_agent)}B an agent · {pool.copies} copies", width)),
        ]
        legend = Text()
        for layer, name in enumerate(PAGE_LAYERS):
            legend.append(f"{LAYER_GLYPHS[layer]} {name} {pool.pages_by_layer[layer]:,}  ", LAYER_COLOURS[layer])
        result.append(legend)
        rows = max(0, height - 4)
        cells = rows * width
        if cells and pool.pages_total:
            run = -(-pool.pages_total // cells)
            padded = np.full(-(-pool.pages_total // run) * run, 9, np.uint8)
            padded[: pool.pages_total] = np.where(pool.state > 0, pool.layer, 9)
            blocks = padded.reshape(-1, run)
            votes = np.stack([(blocks == layer).sum(axis=1) for layer in range(4)])
            owner = np.where(votes.max(axis=0) > 0, votes.argmax(axis=0), 9)
            for row in range(0, len(owner), width):
                line = Text()
                for cell in owner[row : row + width].tolist():
                    line.append("·" if cell == 9 else LAYER_GLYPHS[cell], "dim" if cell == 9 else LAYER_COLOURS[cell])
                result.append(line)
            result.append(Text(f"one cell = {run:,} page{'s' if run > 1 else ''} of {count(pool.base_page_bytes)}B", "dim"))
        return result


class BandwidthPane(Pane):
    """Traffic and arithmetic, measured, against two models of other systems."""

    TITLE = "7 Bandwidth savings"

    def lines(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        b = snapshot.bandwidth
        arithmetic = b.multiply_adds / max(1, b.always_deepest_multiply_adds)
        result = [
            Text(fit(f"{b.savings:.1f}× less than N separate processes (model)", width), "bold"),
            Text(fit(f"{b.savings_vs_batched:.2f}× against one always-deepest batched server (model)", width)),
            Text(fit(f"{count(b.bytes_per_token)}B a token, measured · arithmetic {arithmetic:.2f} of always deepest", width)),
            Text(spark(b.recent_savings, max(1, width - 2), self.console_app.ascii), "cyan"),
        ]
        for level, name in enumerate(snapshot.model.level_names, 1):
            line = Text(f"{self.glyph(level)} {safe(name):<8} ", self.colour(level))
            line.append(f"{count(b.weight_bytes[level - 1])}B of weights in {b.passes[level - 1]:,} passes")
            result.append(line)
        result.append(
            Text(fit(f"KV {count(b.kv_bytes_shared)}B shared, {count(b.kv_bytes_personal)}B own, other {count(b.other_bytes)}B", width))
        )
        result.append(Text("agents   bytes a token   savings", "dim"))
        result += [Text(f"{agents:>6,} {count(per_token):>12}B {savings:>9.1f}×") for agents, per_token, savings in b.by_agents]
        return result


class LogPane(Pane):
    """What happened, newest last."""

    TITLE = "8 Log"

    def lines(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        rates = snapshot.rates
        head = f"tick {snapshot.tick:,} · step p50 {rates.step_p50 * 1e3:.0f} p99 {rates.step_p99 * 1e3:.0f} ms · {rates.seconds:.0f} s"
        result = [Text(fit(head, width), "bold")]
        return result + [Text(fit(f"{line.tick:>6} {line.kind}: {line.text}", width)) for line in snapshot.log[-(height - 1) :]]
