"""Banded strategies on Poisson samples: what they are worth, and what the theorem does not cover."""

import math

import pytest
from scipy import integrate, stats

from dpaudit import GDP, PoissonSampled, SampledMatrix
from dpaudit.accountants.accounting import bounds
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import AnyMechanism
from tests import make
from tests.sweeps import sweep

COLUMN = math.sqrt(1.0 + 0.25 + 0.140625)


def sampled(steps: int = 100, rate: float = 0.02, separation: int = 10, **own: float) -> SampledMatrix:
    noise = make.banded(1.0, steps, (1.0, 0.5, 0.375), separation=separation)
    return SampledMatrix(rate=rate, mechanism=noise, **own)


def found(
    mechanism: AnyMechanism, count: int, relation: Neighbouring, delta: float = 1e-6
) -> dict[str, float]:
    return make.figures(make.composition((mechanism, count), relation=relation), delta)


@pytest.mark.parametrize("relation", list(Neighbouring))
@sweep("own", [{}, {"contribution": 0.5}], everyday=(1,))
def test_it_is_worth_one_sampled_gaussian_a_turn(relation: Neighbouring, own: dict[str, float]) -> None:
    """101 steps, a turn every 10: eleven turns at most, each of a column's norm."""
    scaled = {name: COLUMN * value for name, value in own.items()}
    plain = PoissonSampled(rate=0.02, mechanism=make.gaussian(1.0, COLUMN), **scaled)
    expected = found(plain, 22, relation)
    assert set(expected) >= {"pld", "rdp"}
    for method, epsilon in found(sampled(101, **own), 2, relation).items():
        assert epsilon == pytest.approx(expected[method], rel=1e-9)


def test_one_turn_is_the_mixture_that_a_unit_makes_of_the_answers() -> None:
    """Three answers, (1 - q) N(0, I) + q N(c, I) against N(0, I), integrated along and across c."""
    rate, epsilon = 0.3, 0.4

    def excess(z: float) -> float:
        ratio = 1.0 - rate + rate * math.exp(COLUMN * z - COLUMN**2 / 2)
        return float(stats.norm.pdf(z)) * max(0.0, ratio - math.exp(epsilon))

    corner = (math.log((math.exp(epsilon) - 1.0 + rate) / rate) + COLUMN**2 / 2) / COLUMN
    delta = integrate.quad(excess, corner, 12.0, epsabs=1e-14)[0]
    answer = found(sampled(3, rate, 3), 1, Neighbouring.ADD_OR_REMOVE_ONE, delta)
    assert epsilon <= answer["pld"] <= epsilon * (1 + 1e-6)


def test_sampling_always_is_the_stream_itself() -> None:
    whole = sampled(100, 1.0, 10)
    stream = whole.mechanism.model_copy(update={"participations": 10})
    one, other = (found(m, 1, Neighbouring.ADD_OR_REMOVE_ONE)["pld"] for m in (whole, stream))
    assert one == pytest.approx(other, rel=1e-9)


def test_more_bands_than_the_separation_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="3 bands for a separation of 2 steps"):
        sampled(10, 0.1, 2)


@pytest.mark.parametrize("rate", [0.0, 1.5, -0.1, math.nan])
def test_what_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(InvalidParameter):
        sampled(10, rate)


def test_no_single_gaussian_and_no_group_is_claimed() -> None:
    with pytest.raises(CannotBound):
        bounds(make.composition(sampled(), relation=Neighbouring.REPLACE_ONE), GDP(mu=0.0))
    assert sampled().for_group(2, lambda figure, factor: figure * factor) is None
