"""Accountants of one composition beside each other: the tighter is never above the looser."""

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from dpaudit import PureDP
from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon
from dpaudit.accountants.composition.composition import Composition
from dpaudit.accountants.curves import curves as curves_module
from dpaudit.accountants.curves.curves import (
    ImpliedProfile,
    LeastProfile,
    LossProfile,
    gdp_profile,
    pld_profile,
    rdp_profile,
)
from dpaudit.accountants.pairs import adaptive_ranges
from dpaudit.accountants.privacy_loss import Bracket
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import (
    AnyMechanism,
    Exponential,
    FixedSizeSampled,
    MixtureOfGaussians,
    OpaquePureDP,
    RandomizedResponse,
    TruncatedPoissonSampled,
)
from tests import make
from tests.sweeps import sweep

LAPLACE = make.laplace(1.0)
IN_TABLES = (
    make.discrete_gaussian(2.0),
    make.discrete_laplace(3.0, 2.0),
    RandomizedResponse(epsilon=0.5, categories=4),
    FixedSizeSampled(size=2, units=9, mechanism=make.gaussian(2.0)),
    MixtureOfGaussians(sigma=2.0, sensitivities=(0.0, 1.0), probabilities=(0.9, 0.1)),
)
FAR = [*itertools.product(IN_TABLES, (1e-26, 1e-43, 1e-44, 1e-275, 1e-290, 3e-300, 1e-300, 1e-307))]


@sweep(
    "runs, delta",
    [
        ([(make.poisson(LAPLACE, 0.01), 1)], 1e-6),
        ([(make.poisson(LAPLACE, 0.01), 2)], 1e-6),
        ([(make.poisson(LAPLACE, 0.01), 10)], 1e-12),
        ([(make.poisson(LAPLACE, 1e-6), 1)], 1e-300),
        ([(make.poisson(make.gaussian(0.3), 1e-9), 10**9)], 1e-300),
        ([(make.poisson(make.gaussian(0.2), 1e-3), 1000)], 1e-30),
        (
            [(make.poisson(LAPLACE, 0.5), 5), (make.gaussian(3.0), 2), (RandomizedResponse(epsilon=0.5), 3)],
            1e-9,
        ),
        ([(make.poisson(LAPLACE, 0.5), 100), (LAPLACE, 3)], 1e-100),
        ([(LAPLACE, 10)], 1e-30),
        ([(make.discrete_laplace(3.0, 2.0), 7)], 1e-20),
        ([(OpaquePureDP(epsilon=0.3, justification="x"), 3), (LAPLACE, 1)], 1e-15),
    ],
    everyday=(0, 5, 9),
)
def test_the_exact_curve_is_never_above_that_of_divergences(
    runs: list[tuple[AnyMechanism, int]], delta: float
) -> None:
    pairs, renyi = pld_profile(make.composition(*runs)), rdp_profile(make.composition(*runs))
    assert pairs.epsilon(delta) <= renyi.epsilon(delta) * (1.0 + 1e-13)
    for share in (0.25, 0.8, 0.99):
        epsilon = share * renyi.epsilon(delta)
        assert pairs.delta(epsilon) <= renyi.delta(epsilon) * (1.0 + 1e-9)


@sweep(
    "mechanism, delta",
    FAR,
    everyday=[
        at
        for at, (mechanism, delta) in enumerate(FAR)
        if delta == (1e-44 if isinstance(mechanism, MixtureOfGaussians) else 3e-300)
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_nor_is_it_where_the_tails_of_tables_weigh(mechanism: Any, delta: float) -> None:
    """Tables leave out 1e-300 a run, those of mixtures 1e-45; divergences know some without a tail."""
    pairs, renyi = (
        pld_profile(make.composition((mechanism, 3))),
        rdp_profile(make.composition((mechanism, 3))),
    )
    try:
        known = renyi.epsilon(delta)
    except CannotBound:
        return
    assert pairs.epsilon(delta) <= known * (1.0 + 1e-12)
    assert pairs.bracket(delta).lower <= pairs.bracket(delta).upper == pairs.epsilon(delta)
    assert pairs.delta(known * (1.0 + 1e-12)) <= renyi.delta(known) * (1.0 + 1e-9)


def test_one_sampled_laplace_release_has_its_closed_form() -> None:
    found = pld_profile(make.composition((make.poisson(LAPLACE, 0.01), 1)))
    assert isinstance(found, LossProfile)
    assert found.bracket(1e-6) == pytest.approx([0.01703151876] * 2, abs=5e-12)


@dataclass(frozen=True)
class Fixed:
    """A privacy loss, or a profile, with the same figures everywhere."""

    lower: float
    upper: float

    def epsilon(self, delta: float) -> Bracket:
        return Bracket(self.lower, self.upper)

    delta = epsilon


@pytest.mark.parametrize(
    ("exposures", "below", "instead", "expected"),
    [
        ([(1.0, 2.0), (3.0, 3.5)], [], [], (3.0, 3.5)),
        ([(3.0, 3.5), (1.0, 5.0)], [], [], (3.0, 5.0)),
        ([(1.0, 2.0), (3.0, 3.5)], [(3.2, 9.0), (2.0, 9.0)], [], (3.2, 3.5)),
        ([(1.0, 2.0)], [(0.5, 0.7)], [], (0.5, 2.0)),
        ([(1.0, 2.0)], [(2.5, 9.0)], [], (2.0, 2.0)),
        ([(1.0, 3.0), (1.0, 2.0)], [], [(0.0, 2.5), (0.0, 1.5)], (1.0, 2.5)),
        ([(1.0, 2.0)], [], [(0.0, 2.5)], (1.0, 2.0)),
        ([(1.0, 2.0)], [], [(0.0, 0.5)], (0.5, 0.5)),
    ],
)
def test_the_worst_exposure_counts_and_the_better_of_two_pairs(
    exposures: Any, below: Any, instead: Any, expected: Bracket
) -> None:
    found = LossProfile(*([Fixed(*ends) for ends in some] for some in (exposures, below, instead)))
    assert found.bracket(1e-6) == expected
    assert found.epsilon(1e-6) == found.delta(1.0) == expected[1]


@dataclass(frozen=True)
class Divergences:
    """A curve without a lower end."""

    upper: float

    def epsilon(self, delta: float) -> float:
        return self.upper


def test_divergences_lower_the_upper_end_where_tails_weigh_and_know_no_lower_one() -> None:
    found: Any = LossProfile([Fixed(0.2, 5.0)], divergences=[lambda: Divergences(3.0)])
    assert found.bracket(1e-280) == (0.2, 3.0)
    assert found.epsilon(1e-280) == 3.0
    assert found.bracket(1e-260) == (0.2, 5.0)


def test_the_least_of_several_curves_counts_and_one_may_refuse() -> None:
    class Refusing:
        def __init__(self, number: int) -> None:
            self.number = number

        def epsilon(self, delta: float) -> float:
            raise CannotBound(f"number {self.number}", where="test")

        def delta(self, epsilon: float) -> float:
            return 1.0

    curves: Any = [ImpliedProfile(PureDP(epsilon=e)) for e in (0.5, 0.3, 0.4)]
    together = LeastProfile([Refusing(1), *curves], "all")
    assert together.epsilon(1e-9) == curves[1].epsilon(1e-9) < 0.3
    assert together.delta(0.1) == curves[1].delta(0.1)
    with pytest.raises(CannotBound, match="number 1"):
        LeastProfile([Refusing(1), Refusing(2)], "none").epsilon(1e-9)


def test_which_accountant_refuses_and_which_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = make.composition((make.gaussian(3.0), 7))
    assert 7 / Fraction(3) ** 2 <= Fraction(gdp_profile(found).guarantee.mu) ** 2
    assert pld_profile(found).method == "pld"
    assert (
        pld_profile(make.composition((Exponential(epsilon=0.5), 1), (make.gaussian(3.0), 2))).method
        == "pld+rdp"
    )

    # What no accountant bounds has the last one's reason.
    def refusing(reason: str) -> Any:
        def accountant(made: Composition) -> Any:
            raise CannotBound(reason, where="test")

        return accountant

    monkeypatch.setattr(curves_module, "ACCOUNTANTS", (refusing("the first"), refusing("the last")))
    with pytest.raises(CannotBound, match="the last"):
        curves_module.profiles(found)


def in_parts(number: int) -> Composition:
    return make.composition(*(make.release(make.gaussian(10.0 + k), part=str(k)) for k in range(number)))


def test_as_many_exposures_are_composed_as_cost_a_minute() -> None:
    assert pld_profile(in_parts(64)).epsilon(1e-6) == pytest.approx(
        gaussian_epsilon(1e-6, 1.0 / 10.0), rel=1e-9
    )
    with pytest.raises(CannotBound, match="65 ways"):
        pld_profile(in_parts(65))


def test_equal_choices_are_composed_together_up_to_four_different_ones() -> None:
    """A hundred choices of 0.1 cost 2.262 at 1e-6, docs/proving/accountants.md says; by their pairs more."""
    [together] = pld_profile(make.composition((Exponential(epsilon=0.1), 100))).profiles[0].exposures
    assert together.epsilon(1e-6).upper == pytest.approx(2.2615, abs=5e-4)


def test_different_choices_are_composed_one_by_one_past_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are made once are not counted, and nor is what is no choice."""
    together: list[int] = []
    monkeypatch.setattr(adaptive_ranges, "adaptive_terms", lambda _, count: together.append(count) or [])

    def composed(*counts: int) -> list[int]:
        together.clear()
        choices = [(Exponential(epsilon=(number + 1) / 8), count) for number, count in enumerate(counts)]
        [exposure] = make.composition(*choices, (OpaquePureDP(epsilon=0.3, justification="x"), 3)).exposures()
        list(curves_module._terms(exposure, {mechanism: [] for mechanism in exposure.others()}))
        return sorted(together)

    assert composed(2, 2, 2, 2, 1) == [1, 2, 2, 2, 2]
    assert composed(2, 2, 2, 2, 2) == []


def test_noise_that_is_lost_beside_its_sensitivity_is_refused() -> None:
    lost = make.gaussian(1e-200, 1e200)
    with pytest.raises(CannotBound, match="sensitivity / scale"):
        pld_profile(make.composition((lost, 1), (make.gaussian(1.0), 1)))


MIXTURE = MixtureOfGaussians(sigma=2.0, sensitivities=(0.0, 1.0), probabilities=(0.9, 0.1))
CUT = TruncatedPoissonSampled(rate=0.3, most=2, units=9, mechanism=make.gaussian(2.0), contribution=1.0)


def test_tables_are_composed_in_both_orders_and_truncated_samples_by_a_pair_of_both() -> None:
    def numbers(*runs: tuple[AnyMechanism, int]) -> tuple[int, int, int]:
        found = pld_profile(make.composition(*runs))
        assert isinstance(found, LossProfile)
        return len(found.exposures), len(found.below), len(found.instead)

    assert numbers((make.gaussian(1.0), 1)) == (1, 0, 0)
    assert numbers((MIXTURE, 1)) == (2, 1, 0)
    assert numbers((CUT, 1)) == (2, 1, 1)
    assert numbers((CUT, 1), (MIXTURE, 1)) == (2, 1, 0)
    # What is beside them changes nothing.
    assert numbers((MIXTURE, 1), (RandomizedResponse(epsilon=0.5), 1)) == (2, 1, 0)
    assert numbers((CUT, 1), (RandomizedResponse(epsilon=0.5), 1)) == (2, 1, 1)
