"""Name features: what related names share, and when names say nothing."""

from __future__ import annotations

import numpy as np

from engine.compile.names import name_features

NAMES = [["run"], ["runner"], ["happy"], ["unhappy"], ["guide_dog"], ["dog", "domestic_dog"], ["table"], ["tables"]]


def similarity() -> np.ndarray:
    features = name_features(NAMES, 1000)
    assert features is not None
    dense = features.dense()
    return dense @ dense.T


def test_related_names_are_nearest() -> None:
    near = similarity() - 2 * np.eye(len(NAMES), dtype=np.float32)
    assert near.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4, 7, 6]


def test_rows_have_length_one_or_nothing() -> None:
    length = np.diag(similarity())
    assert np.all(np.isclose(length, 1, atol=1e-5) | (length == 0))


def test_limit_keeps_the_features_of_most_particles() -> None:
    features = name_features(NAMES, 3)
    assert features is None or features.count == 3


def test_codes_are_no_names() -> None:
    assert name_features([[f"{number:08d}"] for number in range(100)], 1000) is None
