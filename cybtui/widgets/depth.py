"""Depth: which level answered, what the pinned levels are worth, and how sure each level was."""

from __future__ import annotations

from cybtui.text import fit, percent, safe
from cybtui.widgets.pane import Line, Pane
from engine.runtime.snapshot import Snapshot


class DepthPane(Pane):
    """The dynamic row stands beside the pinned ones; quality was measured when the model was compiled, shares are live."""

    TITLE = "Depth: who answers"
    NUMBER = 5

    def head(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        p, g, depth, model = self.view.palette, self.view.glyphs, snapshot.depth, snapshot.model
        levels = len(model.levels)
        pinned = {int(row.get("level", 0)): row for row in model.pinned_rows}
        recent, total = max(1, sum(depth.recent_by_level)), max(1, sum(depth.by_level))
        wide = width >= 41
        bar = max(4, width - (38 if wide else 26))
        title = fit("level", 11) + fit("last 1,000", bar + 6) + fit("all", 5, right=True)
        if wide:
            title += fit("MRR", 8, right=True) + fit("cost", 6, right=True)
        lines: list[Line] = [[(title, p.dim)]]
        for level, name in enumerate(model.level_names, 1):
            style, share = p.level(level, levels), depth.recent_by_level[level - 1] / recent
            line: Line = [(f"{g.level(level, levels)} ", style), (fit(name, 9), style), (g.meter(share, bar), style)]
            line += [(f" {percent(share)}", p.text), (f"  {percent(depth.by_level[level - 1] / total)}", p.dim)]
            if wide:
                row = pinned.get(level, {})
                line.append((_figure(row.get("mrr"), 8, 3) + _figure(row.get("cost"), 6, 2), p.dim))
            lines.append(line)
        b = snapshot.bandwidth
        ratio = b.multiply_adds / b.always_deepest_multiply_adds if b.always_deepest_multiply_adds else float("nan")
        cost = "–" if ratio != ratio else f"{ratio:.2f}"
        if wide:
            note = fit("as it runs now", bar + 19)
            lines.append([(fit("  dynamic", 11), p.accent), (note, p.dim), (fit(cost, 6, right=True), p.accent)])
        else:
            lines.append([("  dynamic", p.accent), (f"  arithmetic {cost} of deepest", p.text)])
        if wide and height > levels + 8:
            lines.append([("MRR as compiled; cost 1 is the deepest", p.faint)])
        lines += self._rule(width)
        lines += self._histogram(snapshot, width, height - len(lines))
        return lines + self._groups(snapshot, width, height - len(lines))

    def _groups(self, snapshot: Snapshot, width: int, room: int) -> list[Line]:
        if room < 4 or width < 60:
            return []
        p = self.view.palette
        name = width - 58
        title = (
            fit("group", name)
            + fit("agents", 7, right=True)
            + "  "
            + fit("rule", 8)
            + fit("thresholds", 24)
            + fit("holes", 10)
            + fit("temp.", 7)
        )
        lines: list[Line] = [[], [(title, p.dim)]]
        for group in snapshot.groups[: room - 2]:
            values = " ".join(f"{value:.3g}" for value in group.thresholds)
            line: Line = [(fit(group.name, name), p.text), (fit(f"{group.agents:,}", 7, right=True), p.text), ("  ", p.text)]
            line += [(fit(group.rule, 8), p.text), (fit(values, 24), p.strong), (fit(group.inherit, 10), p.dim)]
            lines.append([*line, (fit(f"{group.temperature:g}", 7), p.dim)])
        return lines

    def _rule(self, width: int) -> list[Line]:
        p, group = self.view.palette, self.view.group()
        if group is None:
            return []
        values = " ".join(f"{value:.3g}" for value in group.thresholds)
        rule: Line = [(fit("rule", 11), p.dim), (f"{safe(group.rule)}  ", p.strong), (values, p.strong)]
        return [rule, [(fit("group", 11), p.dim), (safe(group.name), p.text), (f"  holes {safe(group.inherit)}", p.dim)]]

    def _histogram(self, snapshot: Snapshot, width: int, room: int) -> list[Line]:
        p, g, levels = self.view.palette, self.view.glyphs, len(snapshot.model.levels)
        if room < levels:
            return []
        lines: list[Line] = []
        if room > levels:
            lines.append([(fit("confidence 0", 12), p.dim), (fit("1", 19, right=True), p.dim), ("  deeper", p.dim)])
        visits = snapshot.depth.histogram.sum(axis=1)
        for level in range(1, levels + 1):
            style = p.level(level, levels)
            counts = [float(value) for value in snapshot.depth.histogram[level - 1]]
            recent = sum(snapshot.depth.recent_by_level)
            past = snapshot.depth.escalated[level - 1] / recent if recent else float("nan")
            spark = g.sparkline(counts, 20, 0.0) if visits[level - 1] else ""
            name = snapshot.model.level_names[level - 1]
            lines.append(
                [(f"{g.level(level, levels)} ", style), (fit(name, 9), style), (fit(spark, 20), style), (f"    {percent(past)}", p.dim)]
            )
        return lines


def _figure(value: object, cells: int, digits: int) -> str:
    return fit(f"{value:.{digits}f}" if isinstance(value, int | float) else "–", cells, right=True)
