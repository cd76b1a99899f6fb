"""Every point that is tested for a claim follows from it; the epsilon at the reported delta is rounded up."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpaudit.auditors.statistics.claim_points import DEFAULT_DELTA, ClaimedPoints, claimed_points
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP, ApproxDP, Guarantee, PureDP
from dpaudit.errors import InvalidParameter

CLAIM = Claim(GDP(mu=1.0))


def laplace(epsilon: float) -> float:
    """The curve of Laplace noise of scale 1, which is 0 from epsilon = 1 on."""
    return max(0.0, -math.expm1((epsilon - 1.0) / 2.0))


@pytest.mark.parametrize(
    ("guarantee", "delta", "point", "reported"),
    [
        (PureDP(epsilon=0.7), None, (0.7, 0.0), (0.0, 0.7)),
        (PureDP(epsilon=0.7), 0.1, (0.7, 0.0), (0.1, 0.7)),
        (ApproxDP(epsilon=0.5, delta=0.01), None, (0.5, 0.01), (0.01, 0.5)),
        (ApproxDP(epsilon=0.5, delta=0.01), 0.02, (0.5, 0.01), (0.02, 0.5)),
        (ApproxDP(epsilon=0.5, delta=0.01), 0.005, (0.5, 0.01), (0.005, None)),
    ],
)
def test_one_claimed_point_holds_at_larger_deltas_too(
    guarantee: Guarantee,
    delta: float | None,
    point: tuple[float, float],
    reported: tuple[float, float | None],
) -> None:
    found = claimed_points(Claim(guarantee), None, delta)
    assert found.pairs == [point]
    assert (found.report_delta, found.report_epsilon) == reported


def test_without_a_claim_epsilon_is_bounded_at_a_delta() -> None:
    assert claimed_points(None, None, None).pairs == [(0.0, DEFAULT_DELTA)]
    assert claimed_points(None, None, 0.0).pairs == [(0.0, 0.0)]
    assert claimed_points(None, None, 0.3).report_epsilon is None
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidParameter):
            claimed_points(None, None, delta)


@pytest.mark.parametrize("delta", [0.3, 0.1, 1e-5])
def test_all_points_lie_on_the_curve_and_the_reported_one_is_among_them(delta: float) -> None:
    found = claimed_points(CLAIM, laplace, delta)
    *others, last = found.pairs
    assert all(at == laplace(epsilon) for epsilon, at in others)
    assert len(others) > 300
    assert (min(others)[0], max(others)[0], len(set(others))) == (0.0, 1.0, len(others))
    assert last == (found.report_epsilon, found.report_delta) == (found.report_epsilon, delta)
    least = 1.0 + 2.0 * math.log1p(-delta)
    assert least * (1 - 1e-15) <= last[0] <= least * (1 + 1e-12)
    assert laplace(last[0]) <= delta


def test_where_the_curve_never_falls_so_far_no_epsilon_is_claimed() -> None:
    found = claimed_points(CLAIM, lambda epsilon: 0.5, 0.1)
    assert found.report_epsilon is None
    assert set(found.deltas.tolist()) == {0.5}
    assert claimed_points(CLAIM, lambda epsilon: 0.5, 0.5).report_epsilon == 0.0
    assert claimed_points(CLAIM, laplace, 0.4).report_epsilon == 0.0
    for end, stated in ((8e3, 8e3), (9e3, None)):
        claimed = claimed_points(CLAIM, lambda epsilon, end=end: 0.5 * (epsilon < end), 0.1).report_epsilon  # type: ignore[misc]
        assert claimed == (stated and pytest.approx(stated, rel=1e-12))


def test_points_reach_as_far_as_the_curve_is_above_a_trifle() -> None:
    for falls, last in ((30.0, 512.0), (1.0, 32.0), (0.05, 2.0)):
        found = claimed_points(CLAIM, lambda epsilon, falls=falls: 0.5 * math.exp(-epsilon / falls), 0.6)  # type: ignore[misc]
        assert max(found.epsilons) == last
    assert max(claimed_points(CLAIM, lambda epsilon: 0.5, 0.1).epsilons) == 512.0


def test_a_delta_of_1_says_nothing() -> None:
    found = claimed_points(CLAIM, lambda epsilon: 1.0 if epsilon < 0.5 else laplace(epsilon), 0.01)
    assert found.deltas.max() < 1.0
    assert found.epsilons.min() >= 0.5
    with pytest.raises(InvalidParameter, match="delta = 1 at every epsilon"):
        claimed_points(CLAIM, lambda epsilon: 1.0, 0.01)


@pytest.mark.parametrize(
    ("curve", "what"),
    [
        (lambda epsilon: math.nan, "is nan"),
        (lambda epsilon: -1e-300, "is -1e-300"),
        (lambda epsilon: 1.0 + 2.0**-52, "is 1.0000"),
        (lambda epsilon: 0.4 + 1e-6 * min(1.0, epsilon), "increases"),
        (None, "without its curve"),
    ],
)
def test_what_is_no_curve_is_refused(curve: Callable[[float], float] | None, what: str) -> None:
    with pytest.raises(InvalidParameter, match=what):
        claimed_points(CLAIM, curve, 0.01)
    # What rounding may do to a curve is none of that.
    claimed_points(CLAIM, lambda epsilon: 0.4 + 1e-11 * min(1.0, epsilon), 0.01)


def test_the_ceiling_is_the_least_line_over_all_points() -> None:
    points = ClaimedPoints(np.array([0.0, 1.0, 800.0]), np.array([0.3, 0.1, 0.0]), 0.1, None)
    shares = [0.0, 1e-9, 0.05, 0.116, 0.12, 0.5, 1.0]
    ceiling = points.ceiling(np.array(shares))
    for q, most in zip(shares, ceiling.tolist(), strict=True):
        lines = (q + 0.3, math.e * q + 0.1, math.inf if q else 0.0)
        assert most == pytest.approx(min(lines), rel=1e-14, abs=1e-300)
