"""Samples of which one loses a zeroed record and another gains it: bounds against two binned outputs."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit import RDP, ApproxDP, Neighbouring, PoissonSampled, Release
from dpaudit.accountants.calibration.calibration import scale_ledger
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.accountants.curves.curves import PrivacyProfile, pld_profile, rdp_profile
from dpaudit.accountants.interval.interval_bounds import interval_bound
from tests import make

Masses = NDArray[np.float64]

SHIFT, EPSILON = 2.0, 1.9
RATES = (0.1, 0.99)


def masses(moved: float) -> Masses:
    """Laplace noise of scale 1 around `moved`, in bins: what a post-processing of the output has."""
    edges = np.linspace(0.0, SHIFT, 401) - moved
    below = np.where(edges < 0.0, 0.5 * np.exp(np.minimum(edges, 0.0)), 1.0 - 0.5 * np.exp(-np.abs(edges)))
    return np.diff(below, prepend=0.0, append=1.0)


def delta(crossed: bool) -> float:
    """The delta of the binned outputs at `EPSILON`: at most that of the outputs themselves."""
    without = masses(0.0)
    first, second = ((1.0 - rate) * without + rate * masses(SHIFT) for rate in RATES)
    pairs = [(second, without), (without, first)] if crossed else [(second, without), (first, without)]
    p, q = (np.outer(one, other) for one, other in zip(*pairs, strict=True))
    return float(np.maximum(p - np.exp(EPSILON) * q, 0.0).sum())


def releases(by: str) -> list[Release]:
    noise = make.laplace(1.0, SHIFT)
    return [
        Release.model_validate(
            {
                "label": f"part {rate}",
                "mechanism": PoissonSampled(rate=rate, mechanism=noise),
                "partition": {"part": str(rate), "by": by},
            }
        )
        for rate in RATES
    ]


@pytest.mark.parametrize("profile", [pld_profile, rdp_profile])
def test_a_record_that_leaves_one_sample_and_enters_another_is_bounded(
    profile: Callable[[Composition], PrivacyProfile],
) -> None:
    assert delta(crossed=True) > 1.4 * delta(crossed=False)  # so that composing in one order would not do
    bound = profile(compose(releases("values"), Neighbouring.ZERO_OUT))
    assert bound.delta(EPSILON) >= delta(crossed=True)
    assert bound.epsilon(0.05) > EPSILON


def test_an_enclosure_holds_both_orders_too() -> None:
    composition = compose(releases("values"), Neighbouring.ZERO_OUT)
    bound = interval_bound(composition, ApproxDP(epsilon=EPSILON, delta=0.05))
    assert isinstance(bound.guarantee, ApproxDP)
    assert bound.guarantee.epsilon > EPSILON
    divergence = interval_bound(composition, RDP(alpha=4.0, epsilon=1.0)).guarantee
    assert isinstance(divergence, RDP)
    innocent = interval_bound(
        compose(releases("position"), Neighbouring.ZERO_OUT), ApproxDP(epsilon=EPSILON, delta=0.05)
    )
    assert isinstance(innocent.guarantee, ApproxDP)
    assert innocent.guarantee.epsilon < EPSILON


@pytest.mark.nightly
def test_noise_is_calibrated_to_both_orders() -> None:
    found = scale_ledger(
        releases("values"), ApproxDP(epsilon=EPSILON, delta=0.05), neighbouring=Neighbouring.ZERO_OUT
    )
    assert found.factor > 1.0


@pytest.mark.parametrize("neighbouring", [Neighbouring.ZERO_OUT, Neighbouring.ADD_OR_REMOVE_ONE])
def test_samples_that_no_record_crosses_keep_their_amplification(neighbouring: Neighbouring) -> None:
    by = "position" if neighbouring is Neighbouring.ZERO_OUT else "values"
    composition = compose(releases(by), neighbouring)
    assert composition.sampling_relation is neighbouring
    common = [one.model_copy(update={"partition": None}) for one in releases("position")]
    plain = make.release(common[0].mechanism.mechanism, part="a", by="values", label="p")
    assert compose([*common, plain], neighbouring).sampling_relation is neighbouring
