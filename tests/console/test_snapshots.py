"""Every pane at three sizes, and the pages over them, as they were last looked at and found good.

The pictures in ``snapshots`` are gzipped SVG, which browsers show as they are (``zcat F | rsvg-convert`` makes a PNG). After a change that
is meant: ``CYBTUI_UPDATE_SNAPSHOTS=1 pytest tests/console/test_snapshots.py``, then look at what changed. A picture that differs is put
beside the test's other temporary files, and the failure shows the lines of text that differ.
"""

from __future__ import annotations

import difflib
import gzip
import html
import os
import re
from collections import defaultdict
from pathlib import Path

import pytest

from cybtui.app import Console
from cybtui.screens.main import ORDER
from tests.console.driver import press, ready, resting
from tests.console.synthetic_source import SyntheticSource

FOLDER = Path(__file__).with_name("snapshots")
UPDATE = os.environ.get("CYBTUI_UPDATE_SNAPSHOTS") == "1"
BYTES_MOST = 1_500_000
CELL_WIDTH, LINE_HEIGHT = 12.2, 24.4  # of the SVG, in its units
VARYING = (
    (r"terminal-\d+", "t"),  # an id made from the content
    (r"@font-face \{.*?\}\s*", ""),
    (r"screen&#160;\d+/s", "screen&#160;0/s"),  # measured
)


def picture(app: Console) -> str:
    """The screen as SVG without what varies."""
    svg = app.export_screenshot(title="cybtui")
    for pattern, text in VARYING:
        svg = re.sub(pattern, text, svg, flags=re.DOTALL)
    return svg


def lines_of(svg: str) -> list[str]:
    """The text on the screen, line by line."""
    rows: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for x, y, text in re.findall(r'<text class="t-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        rows[round(float(y) / LINE_HEIGHT)].append((round(float(x) / CELL_WIDTH), html.unescape(text).replace("\xa0", " ")))
    lines = []
    for row in sorted(rows):
        line = ""
        for column, text in sorted(rows[row]):
            line = line.ljust(column) + text
        lines.append(line)
    return lines


def differences(golden: str, now: str) -> str:
    """What a person needs to see: changed lines of text, else that only styles changed."""
    changed = list(difflib.unified_diff(lines_of(golden), lines_of(now), "was", "is", lineterm="", n=0))
    if changed:
        return "\n".join(changed)
    was, present = (svg.replace("><", ">\n<").splitlines() for svg in (golden, now))
    styles = [line[:200] for line in difflib.unified_diff(was, present, "was", "is", lineterm="", n=0)]
    return "the text is the same, styles differ:\n" + "\n".join(styles[:20])


class Album:
    """Compares pictures with the stored ones, or stores them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []

    def check(self, name: str, svg: str) -> None:
        path = FOLDER / f"{name}.svgz"
        if UPDATE:
            FOLDER.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress(svg.encode(), 9, mtime=0))
        elif not path.exists():
            self.problems.append(f"{name}: there is no such picture yet")
        else:
            golden = gzip.decompress(path.read_bytes()).decode()
            if golden != svg:
                (self.folder / f"{name}.svg").write_text(svg, encoding="utf-8")
                self.problems.append(f"{name}: now in {self.folder / name}.svg\n{differences(golden, svg)}")

    def close(self) -> None:
        if self.problems:
            pytest.fail("\n\n".join(self.problems), pytrace=False)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_panes_look_as_they_did(size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    album, name = Album(tmp_path), f"{size[0]}x{size[1]}"
    source = SyntheticSource(60)
    app = Console(lambda: source)
    async with app.run_test(size=size):
        await ready(app)
        if size[0] > 80:
            await press(app, "1")
            await resting(app)
            album.check(f"all-{name}", picture(app))
            app.zoom()
        for number, pane in enumerate(ORDER, 1):
            await press(app, str(number))
            await resting(app)
            album.check(f"{pane}-{name}", picture(app))
        if size == (120, 40):
            for key, page in (("question_mark", "help"), ("K", "confirm")):
                await press(app, "1", key)
                await resting(app)
                album.check(f"{page}-{name}", picture(app))
                await press(app, "escape")
    album.close()


@pytest.mark.parametrize("name", ["light", "ascii", "mono"])
async def test_other_looks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    album = Album(tmp_path)
    source = SyntheticSource(60)
    app = Console(lambda: source, "" if name == "ascii" else f"cybtui-{name}", name == "ascii")
    async with app.run_test(size=(160, 50)):
        await ready(app)
        await press(app, "1")
        await resting(app)
        album.check(f"{name}-160x50", picture(app))
    album.close()


def test_pictures_are_small_and_none_is_left_over() -> None:
    pictures = list(FOLDER.glob("*"))
    assert sum(path.stat().st_size for path in pictures) < BYTES_MOST
    assert len(pictures) == 3 * len(ORDER) + 2 + 2 + 3


def test_differences_are_told_in_words() -> None:
    def text(words: str, row: float = 18.5) -> str:
        return f'<text class="t-r1" x="24.4" y="{row}" clip-path="url(#t-line-0)">{words}</text>'

    assert differences(text("40&#160;agents"), text("41&#160;agents")).splitlines()[-2:] == ["-  40 agents", "+  41 agents"]
    assert "styles differ" in differences(text("a"), text("a").replace("r1", "r2"))
