"""Themes: one TOML file each, ours from the package and the operator's from the configuration folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

from platformdirs import user_config_path
from textual.theme import Theme


def theme_folders() -> list[Path]:
    """Shipped themes beside the package (or in the checkout), then the operator's."""
    here = Path(__file__).parent
    return [folder for folder in (here / "themes", here.parent / "themes", user_config_path("cybtui") / "themes") if folder.is_dir()]


def load_themes() -> tuple[list[Theme], list[str]]:
    """Themes and what was wrong with those that could not be read; a broken file never stops the console."""
    themes: dict[str, Theme] = {}
    problems = []
    for folder in theme_folders():
        for path in sorted(folder.glob("*.toml")):
            try:
                values = tomllib.loads(path.read_text(encoding="utf-8"))
                theme = Theme(**{key: value for key, value in values.items() if isinstance(value, str | bool)})
                theme.to_color_system().generate()
                themes[theme.name] = theme
            except Exception as error:  # whatever is wrong in a file that people write
                problems.append(f"theme {path.name}: {error}")
    return list(themes.values()), problems
