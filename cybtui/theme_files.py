"""Themes: one TOML file each, ours from the package and the operator's from the configuration folder.

A file names a theme, says whether it is dark, and gives the colours of Textual's themes plus three lists of its own: ``levels``
(of a given token, then by level), ``layers`` (system, group, personal, kv) and ``signals`` (good, warning, bad).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_config_path
from rich.style import Style
from textual.color import Color
from textual.theme import Theme

DEFAULT, MONOCHROME = "cybtui-dark", "cybtui-mono"
LISTS = {"levels": 4, "layers": 4, "signals": 3}


@dataclass(frozen=True)
class Palette:
    """Styles by what they say; panes never name a colour."""

    text: Style
    dim: Style
    faint: Style
    strong: Style
    accent: Style
    cursor: Style
    cursor_idle: Style
    levels: tuple[Style, ...]
    layers: tuple[Style, ...]
    good: Style
    warning: Style
    bad: Style
    colourful: bool

    def level(self, level: int, levels: int) -> Style:
        """Style of one of ``levels`` levels; 0 is a given token."""
        if level <= 0:
            return self.levels[0]
        rising = self.levels[1:]
        return rising[min(len(rising) - 1, round((level - 1) * (len(rising) - 1) / max(1, levels - 1)))]


def palette(theme: Theme, colourful: bool = True) -> Palette:
    """The styles of a theme of ours, or of any Textual theme; without ``colourful`` only bold, dim and reverse are used."""
    if not colourful:
        plain, pale = Style(), Style(dim=True)
        return Palette(
            plain, pale, pale, Style(bold=True), Style(bold=True), Style(reverse=True), Style(underline=True),
            (pale, plain, plain, Style(bold=True)), (plain,) * 4, plain, Style(bold=True), Style(bold=True), False,
        )  # fmt: skip
    ink = Color.parse(theme.foreground or ("#d6dde4" if theme.dark else "#1c1c1c"))
    ground = Color.parse(theme.background or ("#101418" if theme.dark else "#fafafa"))
    accent = Color.parse(theme.accent or theme.primary)
    values = theme.variables

    def style(colour: Color, **more: Any) -> Style:
        return Style(color=colour.rich_color, bgcolor=ground.rich_color, **more)

    def listed(name: str, fallback: tuple[str, ...]) -> tuple[Style, ...]:
        chosen = values.get(f"cybtui-{name}", "").split() or fallback
        return tuple(style(Color.parse(item)) for item in chosen)

    dim = ink.blend(ground, 0.38)
    signals = listed("signals", (theme.success or "#87d787", theme.warning or "#d7af5f", theme.error or "#d75f5f"))
    return Palette(
        text=style(ink),
        dim=style(dim),
        faint=style(ink.blend(ground, 0.62)),
        strong=style(ink, bold=True),
        accent=style(accent, bold=True),
        cursor=Style(bgcolor=accent.blend(ground, 0.68).rich_color, bold=True),
        cursor_idle=Style(bgcolor=ink.blend(ground, 0.86).rich_color),
        levels=listed("levels", (dim.hex, "#5fafd7", "#d7af5f", "#d75f87")),
        layers=listed("layers", ("#87d787", "#5fafd7", "#d7af5f", "#8a93a0")),
        good=signals[0],
        warning=signals[1],
        bad=signals[2],
        colourful=values.get("cybtui-colourful", "yes") != "no",
    )


def parse(text: str, name: str) -> Theme:
    """One theme file. Raises ValueError that says what is wrong."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not valid TOML: {error}") from None
    return _theme(values, name)


def _theme(values: Mapping[str, Any], name: str) -> Theme:
    plain: dict[str, Any] = {}
    variables = {"cybtui-colourful": "no" if values.get("colourful") is False else "yes"}
    for key, value in values.items():
        if key in LISTS:
            if not isinstance(value, list) or len(value) < LISTS[key]:
                raise ValueError(f"{key} must be a list of at least {LISTS[key]} colours")
            variables[f"cybtui-{key}"] = " ".join(_colour(key, item) for item in value)
        elif key in ("name", "dark"):
            if not isinstance(value, str if key == "name" else bool):
                raise ValueError(f"{key} has the wrong kind of value")
            plain[key] = value
        elif key in ("primary", "secondary", "accent", "background", "surface", "panel", "foreground", "success", "warning", "error"):
            plain[key] = _colour(key, value)
        elif key != "colourful":
            raise ValueError(f"{key} is not a setting of themes")
    if "primary" not in plain:
        raise ValueError("primary is missing")
    theme = Theme(**{"name": name, **plain}, variables=variables)
    theme.to_color_system().generate()
    return theme


def _colour(key: str, value: Any) -> str:
    try:
        return Color.parse(value).hex
    except Exception:
        raise ValueError(f"{key}: {value!r} is not a colour") from None


def theme_folders() -> list[Path]:
    """Shipped themes beside the package (or in the checkout), then the operator's."""
    here = Path(__file__).parent
    return [folder for folder in (here / "themes", here.parent / "themes", user_config_path("cybtui") / "themes") if folder.is_dir()]


def load_themes(folders: list[Path] | None = None) -> tuple[list[Theme], list[str]]:
    """Themes, and what was wrong with those that could not be read; a broken file never stops the console."""
    themes: dict[str, Theme] = {}
    problems = []
    for folder in theme_folders() if folders is None else folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                theme = parse(path.read_text(encoding="utf-8"), path.stem)
                themes[theme.name] = theme
            except (OSError, ValueError) as error:
                problems.append(f"theme {path.name}: {error}")
    return list(themes.values()), problems
