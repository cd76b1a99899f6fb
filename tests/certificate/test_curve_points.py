import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from dpaudit.certificate.curve_points import CurvePoints, trade_off
from dpaudit.errors import InvalidParameter


def curve(points: Any) -> CurvePoints:
    return CurvePoints(method="gdp", rigour="float", points=points)


POINTS = [(step / 10, 1 / (step + 2)) for step in range(20)]


@pytest.mark.parametrize(
    "points",
    [
        POINTS[:19],
        POINTS[:10] + POINTS[9:],
        POINTS[::-1],
        [*POINTS[:-1], (5.0, 0.9)],
        [*POINTS, (5.0, -0.1)],
        [*POINTS, (5.0, math.nan)],
        [*POINTS, (math.inf, 0.0)],
        [(0.0, 1.5), *POINTS[1:]],
    ],
)
def test_points_that_are_no_curve_are_refused(points: Any) -> None:
    curve(POINTS)
    with pytest.raises(InvalidParameter):
        curve(points)


@given(mu=st.floats(0.1, 4.0), alpha=st.floats(0.0, 1.0))
def test_the_trade_off_is_never_above_the_truth_and_close_to_it(mu: float, alpha: float) -> None:
    epsilons = np.arange(1500) / 50
    deltas = ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons) * ndtr(-mu / 2 - epsilons / mu)
    points = list(zip(epsilons.tolist(), deltas.tolist(), strict=True))
    truth = float(ndtr(ndtri(1 - alpha) - mu))
    found = trade_off(points, alpha)
    assert found <= truth + 1e-12
    assert found >= truth - 2e-3


def test_pure_differential_privacy_has_two_lines() -> None:
    points = [(1.0, 0.0)]
    for alpha in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0):
        exact = max(0.0, 1 - math.e * alpha, (1 - alpha) / math.e)
        assert trade_off(points, alpha) == pytest.approx(exact, abs=1e-15)


def test_an_epsilon_past_the_doubles_says_nothing() -> None:
    assert trade_off([(1e6, 0.0)], 0.5) == 0.0
