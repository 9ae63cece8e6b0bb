"""Pool: pages by layer and sharing, as a map that fits whatever the pool's size."""

from __future__ import annotations

import numpy as np

from cybtui.text import amount, count, fit
from cybtui.widgets.pane import Line, Pane
from engine.runtime.snapshot import PAGE_LAYERS, PoolInfo, Snapshot

LETTERS = "sgpk"
SHORT = ("sys", "group", "pers", "kv")
FREE = 8


def cells_of(pool: PoolInfo, cells: int) -> tuple[np.ndarray, int, int]:
    """The used span of the pool in at most ``cells`` runs of pages.

    Returns (kind of each run, uint8: layer, +4 where most of it is shared, 8 free), pages a run, and pages in the span.
    """
    used = np.flatnonzero(pool.state)
    span = int(used[-1]) + 1 if len(used) else 0
    if not span or cells <= 0:
        return np.zeros(0, np.uint8), 1, span
    run = -(-span // cells)
    rows = -(-span // run)
    kind = np.full(rows * run, FREE, np.uint8)
    kind[:span] = np.where(pool.state[:span] > 0, pool.layer[:span] + 4 * (pool.holders[:span] > 1), FREE)
    votes = np.zeros((rows, FREE + 1), np.int64)
    np.add.at(votes, (np.repeat(np.arange(rows), run), kind), 1)
    busy = votes[:, :FREE]
    return np.where(busy.sum(axis=1) > 0, busy.argmax(axis=1), FREE).astype(np.uint8), run, span


class PoolPane(Pane):
    """Colour is the layer; solid is shared. Where colour is missing the layer is a letter, a capital where shared."""

    TITLE = "Page pool"
    NUMBER = 6

    def head(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        p, g, pool = self.view.palette, self.view.glyphs, snapshot.pool
        share = pool.pages_used / max(1, pool.pages_total)
        lines: list[Line] = [
            [
                (f"{pool.pages_used:,}", p.strong),
                (f" of {count(pool.pages_total)} pages  ", p.text),
                (g.meter(share, 8 if width >= 50 else 0), p.accent),
                (f" {share:.1%}", p.text),
                (f"  {pool.pages_shared:,} shared", p.text),
            ],
            [
                (amount(pool.bytes_per_agent), p.strong),
                (" an agent  ", p.text),
                (f"{pool.copies:,} copies", p.good if pool.copies == 0 else p.bad),
                (f"  page {amount(pool.base_page_bytes)}", p.dim),
            ],
        ]
        legend: Line = []
        gap = "  " if width >= 50 else " "
        for layer, name in enumerate(PAGE_LAYERS if width >= 50 else SHORT):
            legend.append((f"{self._sign(layer + 4)} {name} {count(pool.pages_by_layer[layer])}{gap}", p.layers[layer]))
        lines.append(legend)
        rows = height - len(lines) - 1
        if rows < 1:
            return lines
        kinds, run, span = cells_of(pool, rows * width)
        signs = [self._sign(kind) for kind in range(FREE + 1)]
        styles = [*p.layers, *p.layers, p.faint]
        for start in range(0, len(kinds), width):
            lines.append([(signs[kind], styles[kind]) for kind in kinds[start : start + width].tolist()])
        solid, hollow = (signs[7], signs[3]) if self._blocks else ("capital", "small")
        note = f"cell {run:,} page{'s' if run > 1 else ''}  {solid} shared {hollow} own  {count(pool.pages_total - span)} free"
        lines += [[] for _ in range(height - 1 - len(lines))]
        lines.append([(fit(note, width), p.dim)])
        return lines

    @property
    def _blocks(self) -> bool:
        return self.view.palette.colourful and self.view.glyphs.dash != "-"

    def _sign(self, kind: int) -> str:
        if kind == FREE:
            return self.view.glyphs.empty
        if self._blocks:
            return "█" if kind >= 4 else "▓"
        return LETTERS[kind % 4].upper() if kind >= 4 else LETTERS[kind % 4]
