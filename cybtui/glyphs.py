"""Signs that carry meaning without colour, in Unicode and in ASCII."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """``levels`` has the sign of a given token first, then those of levels in rising order; ``states`` follow AGENT_STATES."""

    levels: str
    states: str
    full: str
    empty: str
    parts: str
    spark: str
    branch: str
    last: str
    bar: str
    pointer: str
    mark: str
    arrow: str
    drift: str
    decided: str
    separator: str
    sorted: str
    ellipsis: str
    dash: str
    times: str

    def level(self, level: int, levels: int) -> str:
        """The sign of one of ``levels`` levels; 0 is a given token."""
        if level <= 0:
            return self.levels[0]
        rising = self.levels[1:]
        last = len(rising) - 1
        return rising[min(last, round((level - 1) * last / max(1, levels - 1)))]

    def meter(self, share: float, width: int) -> str:
        """A bar of exactly ``width`` cells, filled by ``share`` to an eighth of a cell where the signs allow it."""
        share = min(1.0, max(0.0, share)) if share == share else 0.0
        steps = len(self.parts) + 1
        eighths = round(share * width * steps)
        whole, rest = divmod(eighths, steps)
        text = self.full * whole + (self.parts[rest - 1] if rest else "")
        return text + self.empty * (width - len(text))

    def sparkline(self, values: Sequence[float], width: int, low: float | None = None) -> str:
        """The last ``width`` values, scaled to their own range (from ``low`` when given); nan is a space."""
        values = values[-width:] if width > 0 else ()
        known = [v for v in values if v == v]
        if not known:
            return ""
        floor = min(known) if low is None else low
        span = (max(known) - floor) or 1.0
        top = len(self.spark) - 1
        return "".join(self.spark[max(0, min(top, round((v - floor) / span * top)))] if v == v else " " for v in values)


UNICODE = Glyphs(
    levels="›▂▃▄▅▆▇█",
    states=" ○●‖◇",
    full="█",
    empty="·",
    parts="▏▎▍▌▋▊▉",
    spark="▁▂▃▄▅▆▇█",
    branch="├ ",
    last="└ ",
    bar="│ ",
    pointer="▌",
    mark="✓",
    arrow="→",
    drift="▲ drift",
    decided="· ✓✗",
    separator=" · ",
    sorted="▾",
    ellipsis="…",
    dash="–",
    times="×",
)
ASCII = Glyphs(
    levels=">.:-=+*#",
    states=" o*=?",
    full="#",
    empty=".",
    parts="",
    spark="_.-=+*#",
    branch="|-",
    last="`-",
    bar="| ",
    pointer=">",
    mark="+",
    arrow="->",
    drift="! drift",
    decided=". +x",
    separator=" | ",
    sorted="v",
    ellipsis="~",
    dash="-",
    times="x",
)
