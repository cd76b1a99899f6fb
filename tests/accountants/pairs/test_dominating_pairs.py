"""Which pair stands for each mechanism, and that it dominates, against enumeration and convolution."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit import Neighbouring
from dpaudit.accountants.pairs.dominating_pairs import losses
from dpaudit.accountants.privacy_loss import (
    ApproxTerm,
    BoundedRangeTerm,
    DiscreteTerm,
    GaussianTerm,
    LaplaceTerm,
    PrivacyLoss,
    PureTerm,
    RandomizedResponseTerm,
    SampledGaussianTerm,
    SampledLaplaceTerm,
)
from dpaudit.claims.sensitivity import Frobenius
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import (
    Exponential,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    RandomizedResponse,
    SymmetricGaussian,
    Tabulated,
)
from tests import make

ADD, ZERO, REPLACE = Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.ZERO_OUT, Neighbouring.REPLACE_ONE
GAUSSIAN = make.gaussian(2.0)
LAPLACE = make.laplace(2.0)


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (GAUSSIAN, [(GaussianTerm(0.5), 1)]),
        (SymmetricGaussian(sigma=2.0, dimension=3, sensitivity=Frobenius(1.0)), [(GaussianTerm(0.5), 1)]),
        (make.tree(2.0, 5), [(GaussianTerm(0.5), 3)]),
        (LAPLACE, [(LaplaceTerm(0.5), 1)]),
        (make.discrete_laplace(2.0), [(PureTerm(0.5), 1)]),
        (RandomizedResponse(epsilon=0.5), [(RandomizedResponseTerm(0.5), 1)]),
        (Exponential(epsilon=0.5), [(BoundedRangeTerm(0.5), 1)]),
        (make.discrete_laplace(2.0, 0.9), []),
        (OpaquePureDP(epsilon=0.5, justification="x"), [(PureTerm(0.5), 1)]),
        (OpaqueApproxDP(epsilon=0.5, delta=1e-9, justification="x"), [(ApproxTerm(0.5, 1e-9), 1)]),
        (make.discrete_gaussian(1.0, 0.0), []),
        (OpaqueZCDP(rho=0.0, justification="x"), []),
    ],
)
def test_each_mechanism_has_its_pair(mechanism: Any, expected: Any) -> None:
    for relation in Neighbouring:
        assert losses(mechanism, relation) == expected


def test_quotients_are_rounded_up() -> None:
    [(term, _)] = losses(make.gaussian(3.0), ADD)
    assert isinstance(term, GaussianTerm)
    assert Fraction(1, 3) <= Fraction(term.mu) < Fraction(1, 3) + Fraction(1, 2**54)


@pytest.mark.parametrize(
    "mechanism", [make.discrete_gaussian(1.0, 2.0), OpaqueZCDP(rho=0.1, justification="x")]
)
def test_a_bound_on_divergences_alone_gives_no_pair(mechanism: Any) -> None:
    with pytest.raises(CannotBound, match="Renyi"):
        losses(mechanism, ADD)


def test_sampling_amplifies_only_where_the_unit_is_there_or_not() -> None:
    gaussian = make.poisson(GAUSSIAN, 0.01)
    laplace = make.poisson(LAPLACE, 0.01)
    for relation in (ADD, ZERO):
        assert losses(gaussian, relation) == [(SampledGaussianTerm(0.5, 0.01), 1)]
        assert losses(laplace, relation) == [(SampledLaplaceTerm(0.5, 0.01), 1)]
    assert losses(gaussian, REPLACE) == [(GaussianTerm(0.5), 1)]
    [(term, _)] = losses(laplace, REPLACE)
    assert isinstance(term, DiscreteTerm)
    assert term.losses[-1] == pytest.approx(math.log1p(0.01 * math.expm1(0.5)), rel=1e-12)
    assert -term.losses[0] == pytest.approx(term.losses[-1], rel=1e-12)


def test_a_replaced_sampled_unit_is_within_its_pair() -> None:
    """Both contributions at the ends of the sensitivity, by quadrature: mixtures around a common third."""
    x = np.linspace(-14.0, 14.0, 200001)

    def density(mean: float) -> Any:
        return np.exp(-0.5 * (x - mean) ** 2) / math.sqrt(2.0 * math.pi)

    mu, rate = 1.5, 0.3
    for old, new in ((0.0, mu), (mu / 2, -mu / 2), (mu, 0.2)):
        p = (1 - rate) * density(0.0) + rate * density(old)
        q = (1 - rate) * density(0.0) + rate * density(new)
        for epsilon in (0.0, 0.3, 1.0):
            delta = float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), x))
            assert delta <= PrivacyLoss.compose([(GaussianTerm(mu), 1)]).delta(epsilon).upper + 1e-9


def test_a_table_counts_its_infinite_mass_and_its_largest_loss() -> None:
    yes = 1.0 / (1.0 + math.exp(-0.5))
    table = Tabulated(losses=(-0.5, 0.5), probabilities=(1.0 - yes, yes), justification="x")
    assert losses(table, ADD) == [(ApproxTerm(0.5, 0.0), 1)]
    lossy = Tabulated(losses=(0.0, 0.5, 9.0), probabilities=(0.7, 0.2, 0.0), infinity=0.1, justification="x")
    assert losses(lossy, ADD) == [(DiscreteTerm((0.0, 0.5), (0.7, 0.2), 0.1), 1)]


def test_a_response_and_integer_noise_have_all_their_losses() -> None:
    [(three, _)] = losses(RandomizedResponse(epsilon=0.5, categories=3), ADD)
    assert isinstance(three, DiscreteTerm)
    assert three.losses == (-0.5, 0.0, 0.5)
    weights = [1.0, 1.0, math.exp(0.5)]
    assert three.probabilities == pytest.approx([w / sum(weights) for w in weights], rel=1e-15)
    [(moved, _)] = losses(make.discrete_laplace(2.0, 2.0), ADD)
    assert isinstance(moved, DiscreteTerm)
    assert moved.losses == (-1.0, 0.0, 1.0)
    r = math.exp(-0.5)
    assert moved.probabilities == pytest.approx(
        [r * r / (1 + r), r * (1 - r) / (1 + r), 1 / (1 + r)], rel=1e-15
    )


def loss_grid(epsilon: float, step: float) -> Any:
    """The loss of one Laplace coordinate on multiples of a step, rounded down: masses from -n to n."""
    n = math.ceil(epsilon / step)
    edges = step * (np.arange(-n, n + 2) - 0.0)

    def below(loss: Any) -> Any:  # P(L < loss) of the continuous part and the lower atom: P(x > (e - loss)/2)
        inside = np.clip(loss, -epsilon, epsilon)
        return np.where(loss > -epsilon, np.exp(-(epsilon - inside) / 2.0) / 2.0, 0.0)

    masses = np.diff(below(edges))
    masses[math.floor(epsilon / step + 1e-12) + n] += 0.5
    assert masses.sum() == pytest.approx(1.0, abs=1e-12)
    return masses


def split_delta(parts: list[float], epsilon: float) -> float:
    """delta of Laplace noise on a shift split over coordinates: below the truth by the grid's rounding."""
    step = 2e-3
    total = np.ones(1)
    for part in parts:
        total = np.convolve(total, loss_grid(part, step))
    half = (len(total) - 1) // 2
    loss = step * np.arange(-half, len(total) - half)
    return float(total @ np.maximum(-np.expm1(epsilon - loss), 0.0))


def test_one_coordinate_is_the_worst_split_of_an_l1_shift() -> None:
    rng = np.random.default_rng(1)
    for _ in range(25):
        whole = float(rng.uniform(0.2, 3.0))
        parts = (whole * rng.dirichlet(np.ones(int(rng.integers(2, 5))))).tolist()
        for epsilon in (0.0, 0.3 * whole, 0.7 * whole, 0.95 * whole):
            single = -math.expm1((epsilon - whole) / 2.0)
            assert split_delta(parts, epsilon) <= single * (1.0 + 1e-9)


def test_the_oracle_of_splits_sees_a_shift_that_is_too_small() -> None:
    assert split_delta([1.0, 1e-3], 0.5) == pytest.approx(-math.expm1((0.5 - 1.001) / 2.0), rel=2e-2)
    assert split_delta([0.5, 0.5], 0.1) > -math.expm1((0.1 - 0.55) / 2.0)
