"""Fitting the verification logistic."""

from __future__ import annotations

import numpy as np
import pytest

from engine.runtime.calibration import calibration_error, fit
from engine.runtime.verification import FEATURES, UNCALIBRATED


def test_a_fit_recovers_the_coefficients_that_made_the_labels() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((20_000, len(FEATURES)))
    x[:, 0] = 1
    true = random.standard_normal(len(FEATURES)) / 2
    labels = random.random(len(x)) < 1 / (1 + np.exp(-x @ true))
    fitted = fit(x, labels)
    assert np.abs(np.array(fitted.coefficients) - true).max() < 0.1
    assert fitted.calibrated
    probabilities = [fitted.probability(row) for row in x]
    assert calibration_error(probabilities, labels.tolist()) < 0.02
    by_hand = [UNCALIBRATED.probability(row) for row in x]
    assert calibration_error(by_hand, labels.tolist()) > 0.05


def test_a_strong_prior_stays_where_it_is() -> None:
    x = np.random.default_rng(1).standard_normal((10, len(FEATURES)))
    fitted = fit(x, np.arange(10) % 2 == 0, strength=1e9)
    assert fitted.coefficients == pytest.approx(UNCALIBRATED.coefficients, abs=1e-5)


def test_labels_of_one_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="both true and false"):
        fit(np.ones((3, len(FEATURES))), np.ones(3, bool))
    with pytest.raises(ValueError, match="features must be"):
        fit(np.ones((3, 2)), np.ones(3, bool))
