"""A pane: one widget that draws lines from the latest snapshot, only when there is a newer one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from engine.runtime.snapshot import Snapshot

if TYPE_CHECKING:
    from cybtui.app import Console

LEVEL_GLYPHS = "·▁▄█▆▇▅▂▃"
LEVEL_ASCII = ".-+#=%*@&"
LEVEL_COLOURS = ("grey62", "#5fafd7", "#d7af5f", "#d75f87", "#87d787", "#af87ff", "#ffaf87", "#87ffd7", "#d7d7d7")


class Pane(Widget, can_focus=True):
    """Subclasses set ``TITLE`` and build their lines in ``lines(snapshot, width, height)``."""

    TITLE = ""
    DEFAULT_CSS = """
    Pane { border: round $panel-lighten-2; border-title-color: $text-muted; padding: 0 1; height: 1fr; width: 1fr; }
    Pane:focus { border: round $accent; border-title-color: $accent; border-title-style: bold; }
    """

    def on_mount(self) -> None:
        self.border_title = self.TITLE

    @property
    def console_app(self) -> Console:
        """The app, typed."""
        return cast("Console", self.app)

    def lines(self, snapshot: Snapshot, width: int, height: int) -> list[Text]:
        """At most ``height`` lines of at most ``width`` cells."""
        raise AssertionError("a pane draws itself")

    def render(self) -> Text:
        snapshot = self.console_app.shown
        width, height = self.size.width, self.size.height
        if snapshot is None:
            return Text("loading the model …", style="dim")
        result = Text(no_wrap=True, overflow="crop", end="")
        for number, line in enumerate(self.lines(snapshot, width, height)[:height]):
            if number:
                result.append("\n")
            line.truncate(width)
            result.append_text(line)
        return result

    def glyph(self, level: int) -> str:
        """The level's own sign, so that colour is not needed."""
        return (LEVEL_ASCII if self.console_app.ascii else LEVEL_GLYPHS)[min(level, 8)]

    def colour(self, level: int) -> Style:
        """The level's colour; plain where NO_COLOR is set."""
        return Style() if self.console_app.no_color else Style(color=LEVEL_COLOURS[min(level, 8)])

    def bar(self, share: float, width: int) -> str:
        """A bar of ``width`` cells."""
        share = min(1.0, max(0.0, share if share == share else 0.0))
        full = round(share * width)
        return ("#" if self.console_app.ascii else "█") * full + ("." if self.console_app.ascii else "░") * (width - full)


def count(value: float) -> str:
    """1,234 · 12.3 k · 4.56 M · 7.89 G."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            return f"{value / (limit if unit != ' k' else 1e3):.3g}{unit}"
    return f"{value:,.0f}"


def spark(values: tuple[float, ...], width: int, ascii_only: bool) -> str:
    """The last ``width`` values as a line of blocks, scaled to their own range."""
    values = tuple(v for v in values[-width:] if v == v)
    if not values:
        return ""
    low, high = min(values), max(values)
    blocks = "_.-=*#" if ascii_only else "▁▂▃▄▅▆▇█"
    return "".join(blocks[round((v - low) / ((high - low) or 1) * (len(blocks) - 1))] for v in values)
