"""The cost of one run of each mechanism, against closed forms and enumerated divergences."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from dpaudit.accountants.accounting import account
from dpaudit.accountants.closed_forms.conversions import laplace_to_zcdp, pure_to_gdp, pure_to_zcdp
from dpaudit.accountants.composition.costs import (
    finite,
    infinite_mass,
    largest_loss,
    mu_squared,
    pure_epsilon,
    replaced_part,
    rho,
)
from dpaudit.certificate.conditions import Code, Releases
from dpaudit.claims.sensitivity import L1, L2, RKHS, Frobenius
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import (
    AnyMechanism,
    DiscreteLaplace,
    Exponential,
    ExponentialKernel,
    Gaussian,
    GaussianProcess,
    GaussianSparseVector,
    Laplace,
    NegativeBinomial,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PrivateSelection,
    RandomizedResponse,
    SmoothGaussian,
    SymmetricGaussian,
    Tabulated,
    TreeAggregation,
    TrialRelease,
    dominating,
)
from tests import make

WHY = "Theorem 3 of the manual"
SMOOTH = SmoothGaussian(alpha=12.0, beta=0.05, dimension=2, epsilon=1.0, delta=0.1)
SAMPLED_LAPLACE = make.poisson(make.laplace(2.0, 3), 0.1)
SAMPLED_GAUSSIAN = make.poisson(make.gaussian(2.0, 3), 0.1)
APPROX = OpaqueApproxDP(epsilon=1.0, delta=1e-6, justification=WHY)


def table(**changes: Any) -> Tabulated:
    p = 1 / (1 + math.exp(-1.5))
    fields = {"losses": (-1.5, 1.5), "probabilities": (1 - p, p), "justification": WHY}
    return Tabulated(**{**fields, **changes})


def renyi(p: list[mpf], q: list[mpf], order: mpf) -> mpf:
    total = mp.fsum(x**order * y ** (1 - order) for x, y in zip(p, q, strict=True))
    return mp.log(total) / (order - 1)


ORDERS = [mpf(x) for x in ("1.0001", "1.5", "2", "4", "16", "100")]


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        (make.laplace(2.0, 3), 1.5),
        (make.discrete_laplace(2.0, 3), 1.5),
        (RandomizedResponse(epsilon=1.5, categories=4), 1.5),
        (Exponential(epsilon=1.5), 1.5),
        (OpaquePureDP(epsilon=1.5, justification=WHY), 1.5),
        (table(), 1.5),
        (SAMPLED_LAPLACE, math.log1p(0.1 * math.expm1(1.5))),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_pure_mechanisms_have_a_bound_on_every_scale(mechanism: AnyMechanism, epsilon: float) -> None:
    assert epsilon <= pure_epsilon(mechanism) <= epsilon * (1 + 1e-13)
    assert rho(mechanism) <= pure_to_zcdp(pure_epsilon(mechanism))
    assert mu_squared(mechanism) == pytest.approx(pure_to_gdp(epsilon) ** 2, rel=1e-12)


@pytest.mark.parametrize(
    ("mechanism", "squared"),
    [
        (make.gaussian(2.0, 3), Fraction(9, 4)),
        (SymmetricGaussian(sigma=2.0, dimension=5, sensitivity=Frobenius(3)), Fraction(9, 4)),
        (make.tree(2.0, 1000, 3), 10 * Fraction(9, 4)),
        (TreeAggregation(sigma=2.0, steps=1024, sensitivity=Frobenius(3)), 11 * Fraction(9, 4)),
        (GaussianProcess(sigma=2.0, kernel=ExponentialKernel(beta=3.0), sensitivity=RKHS(3)), Fraction(9, 4)),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_gaussian_mechanisms(mechanism: Any, squared: Fraction) -> None:
    pair = mechanism.dominating_pair()
    assert isinstance(pair, dominating.Gaussian)
    assert pair.mu_squared == squared
    assert Fraction(mu_squared(mechanism)) == squared
    assert Fraction(rho(mechanism)) == squared / 2
    with pytest.raises(CannotBound, match="pure epsilon-DP"):
        pure_epsilon(mechanism)
    still = mechanism.model_copy(
        update={"sensitivity": mechanism.sensitivity.model_copy(update={"value": 0.0})}
    )
    assert pure_epsilon(still) == mu_squared(still) == rho(still) == 0.0


def test_a_symmetric_matrix_costs_its_mahalanobis_distance() -> None:
    """(M's triangle)^T C^-1 (M's triangle), C the covariance of the noise, is (|M|_F/sigma)^2."""
    half = np.random.default_rng(0).normal(size=(4, 4))
    matrix, sigma = half + half.T, 1.7
    mahalanobis = sum(
        matrix[i, j] ** 2 / (sigma**2 if i == j else sigma**2 / 2) for i in range(4) for j in range(i, 4)
    )
    size = Frobenius(float(np.linalg.norm(matrix)))
    mechanism = SymmetricGaussian(sigma=sigma, dimension=4, sensitivity=size)
    assert mu_squared(mechanism) == pytest.approx(mahalanobis, rel=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 12, 16])
def test_a_tree_costs_the_mahalanobis_distance_of_its_outputs(steps: int) -> None:
    """For an item at any place, and for a change spread over two items; reached by the first item."""
    lowest = [step & -step for step in range(1, steps + 1)]
    prefix = np.array([[float(item <= step) for item in range(steps)] for step in range(steps)])
    nodes = np.zeros((steps, steps))  # prefix s = prefix (s - lowbit) + node s
    for step in range(1, steps + 1):
        if step > lowest[step - 1]:
            nodes[step - 1] = nodes[step - lowest[step - 1] - 1]
        nodes[step - 1, step - 1] = 1.0
    covariance = 1.7**2 * nodes @ nodes.T
    bound = mu_squared(make.tree(1.7, steps))

    def cost(change: list[float]) -> float:
        moved = prefix @ np.array(change)
        return float(moved @ np.linalg.solve(covariance, moved))

    unit = np.eye(steps)
    assert cost(list(unit[0])) == pytest.approx(bound, rel=1e-9)
    for i, j in itertools.product(range(steps), repeat=2):
        for split in (0.5, -0.5):
            assert cost(list(0.5 * unit[i] + split * unit[j])) <= bound * (1 + 1e-9)


def test_discrete_gaussian_renyi_divergence_is_below_its_rho() -> None:
    for sigma, shift in ((0.4, 1), (1.3, 2), (5.0, 3)):
        mechanism = make.discrete_gaussian(sigma, shift)
        bound = rho(mechanism)
        assert bound == pytest.approx(shift**2 / (2 * sigma**2))
        with mp.workdps(60):
            reach = range(-400, 401)
            law = [mp.exp(-(mpf(k) ** 2) / (2 * mpf(sigma) ** 2)) for k in reach]
            moved = [mp.exp(-(mpf(k - shift) ** 2) / (2 * mpf(sigma) ** 2)) for k in reach]
            total, other = mp.fsum(law), mp.fsum(moved)
            p, q = [x / total for x in law], [y / other for y in moved]
            for order in ORDERS[:5]:
                assert renyi(p, q, order) <= order * mpf(bound) * (1 + mpf("1e-12"))
        with pytest.raises(CannotBound, match="GDP"):
            mu_squared(mechanism)
        with pytest.raises(CannotBound):
            pure_epsilon(mechanism)


def test_discrete_laplace_is_dearer_than_laplace() -> None:
    """At sensitivity 1 its loss takes two values only: the continuous formula would be unsound."""
    mechanism = make.discrete_laplace(1.0)
    with mp.workdps(60):
        reach = range(-300, 301)
        law = [mp.exp(-mpf(abs(k))) for k in reach]
        moved = [mp.exp(-mpf(abs(k - 1))) for k in reach]
        p = [x / mp.fsum(law) for x in law]
        q = [y / mp.fsum(moved) for y in moved]
        worst = max(renyi(p, q, order) / order for order in ORDERS)
    assert worst > laplace_to_zcdp(1.0) * 1.2
    assert float(worst) <= rho(mechanism) <= float(worst) * 1.001


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.5, 30.0])
def test_exponential_mechanism_of_bounded_range(epsilon: float) -> None:
    """Bounded range epsilon: losses in [t - epsilon, t]. The worst law sits on the ends (Dong et al.)."""
    bound = rho(Exponential(epsilon=epsilon))
    assert bound <= epsilon**2 / 8 * (1 + 1e-15)
    with mp.workdps(60):
        e = mpf(epsilon)
        for numerator in range(1, 40):
            upper = e * numerator / 40
            q_high = (1 - mp.exp(upper - e)) / (mp.exp(upper) - mp.exp(upper - e))
            q = [q_high, 1 - q_high]
            p = [q_high * mp.exp(upper), (1 - q_high) * mp.exp(upper - e)]
            assert abs(sum(p) - 1) < mpf(10) ** -40
            for order in ORDERS:
                assert renyi(p, q, order) <= order * mpf(bound)


@pytest.mark.parametrize("categories", [2, 3, 10])
def test_randomized_response_divergence(categories: int) -> None:
    bound = rho(RandomizedResponse(epsilon=1.5, categories=categories))
    with mp.workdps(60):
        keep = mp.exp(mpf("1.5")) / (mp.exp(mpf("1.5")) + categories - 1)
        other = (1 - keep) / (categories - 1)
        p = [keep, other, *[other] * (categories - 2)]
        q = [other, keep, *[other] * (categories - 2)]
        worst = max(renyi(p, q, order) / order for order in ORDERS)
    assert worst <= bound
    assert categories > 2 or bound <= worst * mpf("1.001")


@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.999, 1.0, 5.0, 40.0, 800.0])
def test_sampled_epsilon_is_the_mixture_at_its_worst(rate: float, epsilon: float) -> None:
    mechanism = make.poisson(make.laplace(1.0, epsilon), rate)
    with mp.workdps(400):
        exact = mp.log(1 + mpf(rate) * mp.expm1(mpf(epsilon)))
        found = mpf(pure_epsilon(mechanism))
        assert exact <= found * (1 + mpf(10) ** -300)
        assert found <= exact * (1 + mpf("1e-12")) or epsilon == found == 800.0


def test_sampled_epsilon_under_replace_one() -> None:
    """The ratio ((1-r) m + r p)/((1-r) m + r q) over all m, p, q within e^epsilon of each other."""
    epsilon, rate = 1.5, 0.1
    bound = math.exp(pure_epsilon(SAMPLED_LAPLACE)) * (1 + 1e-12)
    for a, b in itertools.product(np.linspace(-epsilon, epsilon, 61), repeat=2):
        if abs(a - b) <= epsilon:
            ratio = ((1 - rate) + rate * math.exp(a)) / ((1 - rate) + rate * math.exp(b))
            assert ratio <= bound


REFUSED: list[tuple[AnyMechanism, str, str]] = [
    (SMOOTH, "pure", "smooth sensitivity"),
    (SMOOTH, "rho", "smooth sensitivity"),
    (SMOOTH, "mu", "smooth sensitivity"),
    (SAMPLED_GAUSSIAN, "rho", "mixture"),
    (SAMPLED_GAUSSIAN, "mu", "mixture"),
    (SAMPLED_GAUSSIAN, "pure", "Laplace"),
    (APPROX, "pure", "compose"),
    (APPROX, "rho", "compose"),
    (APPROX, "mu", "compose"),
    (OpaqueZCDP(rho=0.5, justification=WHY), "pure", "claim zCDP"),
    (OpaqueZCDP(rho=0.5, justification=WHY), "mu", "claim zCDP"),
    (table(probabilities=(0.15, 0.8), infinity=0.05), "pure", "table"),
    (table(probabilities=(0.15, 0.8), infinity=0.05), "rho", "table"),
    (table(probabilities=(0.15, 0.85 - 1e-10)), "mu", "table"),
]


@pytest.mark.parametrize(("mechanism", "scale", "remedy"), REFUSED)
def test_what_cannot_be_bounded_names_its_remedy(mechanism: AnyMechanism, scale: str, remedy: str) -> None:
    cost = {"pure": pure_epsilon, "rho": rho, "mu": mu_squared}[scale]
    with pytest.raises(CannotBound) as caught:
        cost(mechanism)
    assert remedy in caught.value.remedy


def test_opaque_zcdp_is_its_own_rho() -> None:
    assert rho(OpaqueZCDP(rho=0.5, justification=WHY)) == 0.5
    nothing = OpaqueZCDP(rho=0.0, justification=WHY)
    assert pure_epsilon(nothing) == mu_squared(nothing) == 0.0


def test_an_account_repeats_what_it_takes_on_trust() -> None:
    mechanisms: dict[str, AnyMechanism] = {
        "noisy": Gaussian(sigma=1.0, sensitivity=L2(1, basis="proved")),
        "word": make.gaussian(1.0),
        "answers": RandomizedResponse(epsilon=1.0),
        "choice": Exponential(epsilon=1.0),
        "outside": OpaquePureDP(epsilon=1.0, justification="a vendor's {proof}"),
        "sampled": SAMPLED_LAPLACE,
    }
    releases = (make.release(mechanism, label=label) for label, mechanism in mechanisms.items())
    ledger = make.ledger(*releases, neighbouring="replace-one")
    found = {
        condition.code: (condition.releases.number, condition.releases.labels)
        for condition in account(ledger).not_checked
        if condition.releases is not None
    }
    assert found[Code.DECLARED_SENSITIVITY] == (2, ("sampled", "word"))
    assert found[Code.SCORE_SENSITIVITY] == (1, ("choice",))
    assert found[Code.ONE_ANSWER_PER_UNIT] == (1, ("answers",))
    [outside] = [one for one in account(ledger).not_checked if one.code is Code.JUSTIFIED_GUARANTEE]
    assert outside.text == "a vendor's {proof}"
    assert outside.releases == Releases(number=1, labels=("outside",))
    assert not any("noisy" in labels for _, labels in found.values())


def is_next_above(found: float, exact: Fraction) -> bool:
    return Fraction(math.nextafter(found, -math.inf)) < exact <= Fraction(found)


def test_a_quotient_between_two_doubles_is_rounded_upwards() -> None:
    for kind in (Laplace, DiscreteLaplace):
        assert is_next_above(pure_epsilon(kind(scale=3.0, sensitivity=L1(1))), Fraction(1, 3))
        assert is_next_above(pure_epsilon(kind(scale=3.0, sensitivity=L1(2))), Fraction(2, 3))
    gaussian = make.gaussian(3.0)
    assert is_next_above(mu_squared(gaussian), Fraction(1, 9))
    assert is_next_above(rho(gaussian), Fraction(1, 18))
    assert is_next_above(rho(make.discrete_gaussian(3.0)), Fraction(1, 18))


@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize("sigma", [3.0, 7.0])
def test_a_sparse_vector_with_gaussian_noise_costs_all_its_noisy_values(sigma: float, steps: int) -> None:
    mechanism = GaussianSparseVector(sigma=sigma, sensitivity=L2(1.0), answers=1, steps=steps)
    pair = mechanism.dominating_pair()
    assert isinstance(pair, dominating.SparseGaussian)
    assert is_next_above(rho(mechanism), pair.alone**2 * steps / 2)
    assert is_next_above(mu_squared(mechanism), pair.alone**2 * steps)


def test_the_best_of_many_trials_costs_two_and_eta_times_one() -> None:
    """Papernot and Steinke 2022, Theorem 2; trials that run twice cost twice."""
    one = TrialRelease(mechanism=RandomizedResponse(epsilon=0.1), count=3)
    for eta in (0.3, 1.0):
        chosen = PrivateSelection(releases=(one,), repetitions=NegativeBinomial(eta=eta, gamma=0.1))
        assert is_next_above(pure_epsilon(chosen), (2 + Fraction(eta)) * Fraction(0.1) * 3)
    pair = dominating.Selected(((dominating.Response(0.1, 2), 1),), None)
    mechanism = chosen.model_copy()
    object.__setattr__(mechanism, "dominating_pair", lambda: pair)
    with pytest.raises(CannotBound, match="pure epsilon-DP"):
        pure_epsilon(mechanism)


def test_sampled_noise_that_amplifies_below_every_double_still_costs() -> None:
    inner = make.laplace(5.0, 4)  # 1.2 of the least double
    found = pure_epsilon(make.poisson(inner, 5e-324))
    assert mpf(found) >= mpf(5e-324) * mp.expm1(mpf(4) / 5)


def gaussian_sample(moved: Fraction, own: Fraction | None, rate: float) -> float | None:
    return replaced_part(dominating.Sampled(dominating.Gaussian(moved), rate, own))


def test_a_replaced_units_part_counts_where_the_noise_alone_protects_no_more() -> None:
    third, close = Fraction(1, 3), 1 - Fraction(1, 10**9)
    part = gaussian_sample(2 * third, third, 0.9)
    assert part is not None
    assert is_next_above(part, third)
    for moved in (2 * third * close, 2 * third, Fraction(1), Fraction(5)):
        assert gaussian_sample(moved, third, 0.9) == part
    for moved in (third, 2 * third * (close - Fraction(1, 10**12))):
        assert gaussian_sample(moved, third, 0.9) is None
        assert gaussian_sample(moved, third, math.nextafter(0.5, 1.0)) is None
        assert gaussian_sample(moved, third, 0.5) == gaussian_sample(moved, third, 1e-9) == part


def test_what_has_no_replaced_part() -> None:
    assert gaussian_sample(Fraction(1, 6), Fraction(1, 3), 0.1) is None  # longer than any change of it
    assert gaussian_sample(Fraction(1), None, 0.1) is None
    assert gaussian_sample(Fraction(0), Fraction(1), 0.1) is None
    assert gaussian_sample(Fraction(2), Fraction(1), 0.0) is None
    assert gaussian_sample(Fraction(2), Fraction(1), 1.0) is None
    assert replaced_part(dominating.Sampled(dominating.Laplace(Fraction(2)), 0.1, Fraction(1))) is None
    for own in (1e3, 1e-150):
        assert gaussian_sample(2 * Fraction(own), Fraction(own), 0.1) == own
    for own in (math.nextafter(1e3, 2e3), math.nextafter(1e-150, 0.0)):
        assert gaussian_sample(2 * Fraction(own), Fraction(own), 0.1) is None


def test_what_a_tables_masses_lack_is_at_infinity() -> None:
    def mass(probabilities: tuple[float, ...], infinity: float) -> float:
        return infinite_mass(dominating.Table(tuple(range(len(probabilities))), probabilities, infinity))

    unit = 2.0**-53
    assert mass((0.5, 0.25), 0.25) == 0.25
    assert mass((0.5, 0.25), 0.125) == 0.25
    assert mass((0.5, 0.25), 0.0) == 0.25
    for lacking, counted in ((0, 0), (1, 0), (2, 0), (3, 3), (5, 5)):  # 2^-52 is rounding
        assert mass((1.0 - lacking * unit,), 0.0) == counted * unit
    third = mass((1 / 3,), 1 / 3)
    assert is_next_above(third, 1 - Fraction(1 / 3))


def test_the_largest_loss_is_of_those_that_occur() -> None:
    assert largest_loss(dominating.Table((-1.0, 0.5, 9.0), (0.5, 0.5, 0.0), 0.0)) == 0.5
    assert largest_loss(dominating.Table((-1.0,), (1.0,), 0.0)) == 0.0


def test_a_cost_past_every_double_is_refused() -> None:
    mechanism = make.laplace(1.0)
    assert finite(1e308, mechanism) == 1e308
    with pytest.raises(CannotBound, match="exceeds every double"):
        finite(math.inf, mechanism)
