"""Policies as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UserError
from engine.model.policy import Policy, default_policy, format_inherit, level_names, parse_inherit, parse_thresholds


@pytest.mark.parametrize("text", ["backfill", "zeros", "window:1", "window:64"])
def test_inherit_round_trip(text: str) -> None:
    assert format_inherit(*parse_inherit(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "window", "window:", "window:0", "window:-1", "window:x", "window:9999999999999", "zeros:1", "fill", "window:٣"],
)
def test_inherit_refused(text: str) -> None:
    with pytest.raises(UserError, match="inheritance"):
        parse_inherit(text)


def test_thresholds() -> None:
    assert parse_thresholds("0.9, 0.85", 3) == (0.9, 0.85)
    for text in ("", "a", "0.9,,1", "nan", "inf,0.5"):
        with pytest.raises(UserError, match="threshold"):
            parse_thresholds(text)
    with pytest.raises(UserError, match="needs 2 thresholds"):
        parse_thresholds("0.9", 3)


def test_level_names() -> None:
    assert level_names(3) == ("router", "domain", "general")
    assert level_names(2) == ("level-1", "level-2")


def test_defaults_are_the_seeds() -> None:
    policy = default_policy(3)
    assert (policy.inherit_text, policy.rule, policy.thresholds_text) == ("backfill", "top", "0.9,0.85")
    assert policy.for_levels(3).depth_max == 3
    assert default_policy(1).thresholds == ()
    assert default_policy(5).thresholds == (0.9, 0.85, 0.85, 0.85)


@pytest.mark.parametrize(
    "fields",
    [
        {"inherit": "all"},
        {"inherit": "window"},
        {"rule": "best"},
        {"thresholds": (float("nan"), 0.5)},
        {"depth_min": 0},
        {"depth_min": 3, "depth_max": 2},
        {"temperature": -1.0},
        {"temperature": float("inf")},
    ],
)
def test_bad_policies(fields: dict[str, object]) -> None:
    with pytest.raises(UserError):
        Policy(**fields)  # type: ignore[arg-type]


def test_a_level_that_is_not_there() -> None:
    with pytest.raises(UserError, match="2 levels"):
        default_policy(2).pinned(3).for_levels(2)


@given(
    st.sampled_from(["backfill", "zeros", "window:7"]),
    st.sampled_from(["top", "margin", "gain"]),
    st.lists(st.floats(-10, 10), min_size=2, max_size=2),
)
def test_json_round_trip(inherit: str, rule: str, thresholds: list[float]) -> None:
    policy = Policy(rule=rule, thresholds=tuple(thresholds)).with_inherit(inherit)
    assert Policy.from_json(policy.to_json(), 3) == policy
