"""Text from graphs and models cannot reach the terminal, and every line is as wide as its pane."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from cybtui.text import LONGEST, amount, count, fit, safe
from cybtui.widgets.pane import stable, strip_of
from tests.console.synthetic_source import HOSTILE

texts = st.one_of(st.text(max_size=60), st.sampled_from(HOSTILE))


@given(texts)
@settings(max_examples=150, deadline=None)
def test_safe_text_has_nothing_that_acts(text: str) -> None:
    shown = safe(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp", "Mn", "Me", "Mc") for c in shown)
    assert all(cell_len(c) > 0 for c in shown)
    assert safe(shown) == shown
    assert len(shown) <= LONGEST


@given(texts, st.integers(0, 90), st.booleans())
@settings(max_examples=150, deadline=None)
def test_fit_is_exact(text: str, width: int, right: bool) -> None:
    assert cell_len(fit(text, width, right)) == width


@given(st.lists(texts.map(safe), max_size=6), st.integers(1, 90), st.booleans())
@settings(max_examples=200, deadline=None)
def test_strips_are_exact(parts: list[str], width: int, ascii_only: bool) -> None:
    strip = strip_of([(part, Style()) for part in parts], width, Style(), Style(bold=True), ascii_only)
    assert sum(cell_len(segment.text) for segment in strip) == width == strip.cell_length


@given(st.lists(st.integers(0, 20), unique=True), st.lists(st.integers(0, 20), unique=True))
def test_order_rests(previous: list[int], wanted: list[int]) -> None:
    order = stable(previous, wanted)
    assert sorted(order) == sorted(wanted)
    kept = [item for item in order if item in set(previous)]
    assert kept == [item for item in previous if item in set(wanted)]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (999, "999"), (9_999, "9,999"), (12_345, "12.3k"), (1e6, "1.0M"), (2e12, "2.0T"), (float("nan"), "–")]
)
def test_counts(value: float, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (950_000, "950 kB"), (12.5e6, "12.5 MB"), (float("nan"), "–")])
def test_amounts(value: float, text: str) -> None:
    assert amount(value) == text
