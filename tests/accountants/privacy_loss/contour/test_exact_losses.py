"""Tables of losses and choices of bounded range against enumeration, convolution and quadrature in mpmath."""

import functools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dpaudit import Neighbouring
from dpaudit.accountants.pairs.dominating_pairs import losses
from dpaudit.accountants.privacy_loss import (
    BoundedRangeTerm,
    DiscreteTerm,
    GaussianTerm,
    LaplaceTerm,
    PrivacyLoss,
    PureTerm,
    SampledGaussianTerm,
    Term,
)
from dpaudit.accountants.privacy_loss.contour.families import BoundedRangeFactor
from dpaudit.accountants.privacy_loss.contour.tables import TablesFactor
from dpaudit.accountants.privacy_loss.factors_from_terms import collect
from dpaudit.accountants.privacy_loss.solve import contour_log_delta
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.mechanisms import AnyMechanism, RandomizedResponse, Tabulated
from tests import make, oracles
from tests.sweeps import sweep

DIGITS = 60
#: Losses with their probabilities under P, at 60 digits.
Law = dict[Any, Any]


def term_of(mechanism: AnyMechanism) -> Term:
    [(term, count)] = losses(mechanism, Neighbouring.REPLACE_ONE)
    assert count == 1
    return term


def response(epsilon: float, categories: int) -> Law:
    """P and Q read off the definition: output by output."""
    e = mp.exp(mpf(epsilon))
    total = e + categories - 1
    return {1: e / total, 0: mpf(categories - 2) / total, -1: 1 / total}


def discrete_laplace(scale: Any, shift: int) -> Law:
    """Losses in units of 1/scale, all integers beyond either end taken together."""
    a = mp.exp(-1 / mpf(scale))
    law: Law = defaultdict(lambda: mpf(0))
    law[shift] = 1 / (1 + a)
    for k in range(1, shift):
        law[shift - 2 * k] += (1 - a) / (1 + a) * a**k
    law[-shift] += a**shift / (1 + a)
    return law


def composed(*terms: tuple[Term, int]) -> PrivacyLoss:
    return PrivacyLoss.compose(terms)


def encloses(loss: PrivacyLoss, epsilon: float, truth: Any, excess: float) -> None:
    found = loss.delta(epsilon)
    assert mpf(found.lower) <= truth <= mpf(found.upper)
    assert found.upper <= truth * (1 + excess)
    assert found.lower >= truth * (1 - excess)


def encloses_epsilon(loss: PrivacyLoss, law: Law, unit: Any, delta: float) -> None:
    """Both ends, by the exact curve."""
    lower, upper = loss.epsilon(delta)
    assert oracles.law_delta(law, mpf(upper), unit) <= mpf(delta)
    assert lower == 0.0 or oracles.law_delta(law, mpf(lower), unit) >= mpf(delta)
    assert upper - lower <= 1e-9 * upper


# --- response with several categories ---------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "categories"), [(1.0, 8), (0.1, 3), (3.0, 100), (1.0, 10**5)])
@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_response_by_enumeration(epsilon: float, categories: int, count: int) -> None:
    loss = composed((term_of(RandomizedResponse(epsilon=epsilon, categories=categories)), count))
    assert loss.method == "lattice"
    with mp.workdps(DIGITS):
        law = oracles.convolved(*[response(epsilon, categories)] * count)
        for share in (0.0, 0.13, 0.53, 0.87):  # no atom that a rounding could move across
            at = share * epsilon * count
            encloses(loss, at, oracles.law_delta(law, mpf(at), mpf(epsilon)), 1e-10)
        for delta in (1e-3, 1e-6, 1e-12, 1e-30):
            encloses_epsilon(loss, law, mpf(epsilon), delta)


def test_as_many_categories_as_doubles_count_and_the_largest_epsilons() -> None:
    many = composed((term_of(RandomizedResponse(epsilon=1.0, categories=10**308)), 3))
    assert many.delta(0.0).upper < 1e-280
    huge = composed((term_of(RandomizedResponse(epsilon=2000.0, categories=5)), 2))
    assert huge.epsilon(1e-6).upper == pytest.approx(4000.0, rel=1e-6)


def test_without_the_middle_answer_the_figure_would_be_larger() -> None:
    """The planted fault: the pair of two categories, which the oracle tells from the right one."""
    with mp.workdps(DIGITS):
        truth = oracles.law_delta(oracles.convolved(*[response(1.0, 8)] * 50), mpf(20))
    assert composed((PureTerm(1.0), 50)).delta(20.0).lower > 100 * truth


# --- discrete Laplace -------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "shift"), [(6.0, 2), (2.0, 3), (0.7, 2), (100.0, 7)])
@pytest.mark.parametrize("count", [1, 5, 20])
def test_discrete_laplace_by_convolution(scale: float, shift: int, count: int) -> None:
    term = term_of(make.discrete_laplace(scale, float(shift)))
    loss = composed((term, count))
    assert isinstance(term, DiscreteTerm)
    with mp.workdps(DIGITS):
        exact = 1 / mpf(scale)
        unit = mpf(term.losses[-1]) / shift
        assert exact <= unit <= exact * (1 + mpf(2) ** -47)
        # Of what the rounded quotient stands for both ends are bounds; of the mechanism, the upper.
        law = oracles.convolved(*[discrete_laplace(1 / unit, shift)] * count)
        own = oracles.convolved(*[discrete_laplace(scale, shift)] * count)
        for share in (0.0, 0.3, 0.9):
            at = share * shift * count / scale
            encloses(loss, at, oracles.law_delta(law, mpf(at), unit), 1e-9)
            assert oracles.law_delta(own, mpf(at), exact) <= loss.delta(at).upper
        for delta in (1e-2, 1e-6, 1e-12):
            encloses_epsilon(loss, law, unit, delta)


def test_a_sensitivity_between_two_integers_is_the_lower_one() -> None:
    for whole, value in ((0, 0.5), (1, 1.7), (3, 3.9)):
        [*found] = losses(make.discrete_laplace(2.0, value), Neighbouring.REPLACE_ONE)
        assert found == losses(make.discrete_laplace(2.0, float(whole)), Neighbouring.REPLACE_ONE)


@pytest.mark.parametrize("scale", [0.5, 2.0, 30.0])
@pytest.mark.parametrize("parts", [(1, 1), (1, 2), (2, 3), (1, 1, 1, 1), (4, 1, 2)])
def test_one_coordinate_is_the_worst_split(scale: float, parts: tuple[int, ...]) -> None:
    with mp.workdps(DIGITS):
        unit = 1 / mpf(scale)
        single = discrete_laplace(scale, sum(parts))
        split = oracles.convolved(*(discrete_laplace(scale, part) for part in parts))
        for step in range(-8, 9):
            at = unit * sum(parts) * step / 8
            assert oracles.law_delta(split, at, unit) <= oracles.law_delta(single, at, unit) + mpf("1e-50")
        # The oracle is no tautology: what is moved by less does not dominate.
        assert oracles.law_delta(split, mpf(0), unit) > oracles.law_delta(
            discrete_laplace(scale, sum(parts) - 1), unit * (sum(parts) - 1), unit
        )


def test_moves_without_number_are_any_pair_of_their_epsilon() -> None:
    assert term_of(make.discrete_laplace(1e4, 5000.0)) == PureTerm(0.5)


# --- tables -----------------------------------------------------------------------------------------


def table(losses: list[float], weights: list[float], infinity: float = 0.0) -> Tabulated:
    """Losses with both signs; masses that make both P and Q probabilities."""
    rows: dict[float, float] = defaultdict(float)
    for loss, weight in zip(losses, weights, strict=True):
        rows[loss] += weight / (1.0 + math.exp(-loss))
        rows[-loss] += weight / (1.0 + math.exp(loss))
    total = math.fsum(rows.values())
    kept = sorted(rows.items())
    found, masses = zip(*((loss, p / total * (1.0 - infinity)) for loss, p in kept), strict=True)
    return Tabulated(losses=found, probabilities=masses, infinity=infinity, justification="counted")


def rows_of(mechanism: Tabulated) -> Law:
    """As given, in the numbers that stand there: their sum is 1 but for rounding."""
    return {mpf(loss): mpf(p) for loss, p in zip(mechanism.losses, mechanism.probabilities, strict=True)}


STEPPED = table([0.1, 0.3, 0.7], [0.5, 0.3, 0.2])
UNEVEN = table([0.1, 0.2 * math.sqrt(2.0), 0.7123], [0.5, 0.3, 0.2])


@pytest.mark.parametrize("mechanism", [STEPPED, UNEVEN], ids=["stepped", "uneven"])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_a_table_by_convolution(mechanism: Tabulated, count: int) -> None:
    loss = composed((term_of(mechanism), count))
    assert loss.method == "lattice"
    with mp.workdps(DIGITS):
        law = oracles.convolved(*[rows_of(mechanism)] * count)
        mass = mp.fsum(law.values())
        for share in (0.0, 0.31, 0.77, 0.93):
            at = share * mechanism.losses[-1] * count
            truth = oracles.law_delta(law, mpf(at))
            found = loss.delta(at)
            assert found.lower <= truth * (2 - mass) * (1 + 1e-14) <= found.upper * (1 + 1e-14)
            assert found.upper - found.lower <= 1e-9 * truth


def test_a_table_that_is_a_response_is_that_response() -> None:
    eight = RandomizedResponse(epsilon=1.0, categories=8)
    weights = [1.0, 6.0, math.e]
    shares = tuple(w / math.fsum(weights) for w in weights)
    same = Tabulated(losses=(-1.0, 0.0, 1.0), probabilities=shares, justification="counted")
    for delta in (1e-3, 1e-12, 1e-30):
        one, other = (composed((term_of(mechanism), 40)).epsilon(delta) for mechanism in (eight, same))
        assert one.upper == pytest.approx(other.upper, rel=1e-11)


def test_long_tables_and_many_runs_take_the_contour() -> None:
    """A discretised Gaussian of a thousand rows is close to the Gaussian; its company damps the contour."""
    rng = np.random.default_rng(3)
    uneven = table(sorted(rng.uniform(0.001, 1.0, 40).tolist()), rng.uniform(0.1, 1.0, 40).tolist())
    mixed = composed((term_of(uneven), 30), (GaussianTerm(0.4), 2))
    alone = composed((term_of(uneven), 30))
    assert mixed.method == alone.method == "contour"
    for loss, width in ((mixed, 1e-9), (alone, 1e-6)):
        lower, upper = loss.epsilon(1e-6)
        assert 0.0 < lower <= upper <= lower * (1.0 + width)
    # A bracket by rounding every loss to a common step, down and up.
    step, target = 1e-4, alone.epsilon(1e-6).upper
    ends = []
    for towards in (math.floor, math.ceil):
        places = np.array([towards(loss / step) for loss in uneven.losses])
        single = np.zeros(1 << 20)
        np.add.at(single, places - places.min(), uneven.probabilities)
        total = np.fft.irfft(np.fft.rfft(single) ** 30, 1 << 20)
        gap = step * (np.arange(1 << 20) + 30 * places.min()) - target
        ends.append(float(total @ np.maximum(-np.expm1(-gap), 0.0)))
    assert ends[0] <= 1e-6 * (1.0 + 1e-9)
    assert ends[1] >= 1e-6 * (1.0 - 1e-3)


def test_mass_at_infinity_is_revealed_whatever_else_there_is() -> None:
    lossy = table([0.2, 0.5], [0.5, 0.5], infinity=1e-7)
    term = term_of(lossy)
    assert isinstance(term, DiscreteTerm)
    assert term.infinite == pytest.approx(1e-7, rel=1e-9)
    loss = composed((term, 10), (GaussianTerm(0.1), 1))
    assert loss.delta(1e5).upper == pytest.approx(1e-6, rel=1e-6)
    with pytest.raises(CannotBound, match="revealed"):
        loss.epsilon(9e-7)
    rest = composed((term_of(table([0.2, 0.5], [0.5, 0.5])), 10), (GaussianTerm(0.1), 1))
    assert loss.delta(1.0).upper == pytest.approx(rest.delta(1.0).upper + 1e-6, rel=1e-5)


def test_a_table_whose_masses_exceed_one_loses_none() -> None:
    """What they exceed it by is counted as revealed."""
    over = Tabulated(losses=(-0.5, 0.0, 0.5), probabilities=(0.3, 0.2, 0.5 + 5e-10), justification="x")
    found = composed((term_of(over), 1)).delta(0.4)
    assert found.upper >= (0.5 + 5e-10) * -math.expm1(-0.1)


def test_a_table_on_one_side_is_no_worse_than_its_largest_loss() -> None:
    """All of P at one loss, the rest of Q elsewhere: that says (0.5, 0)-DP in both orders, and no more."""
    crude = Tabulated(losses=(0.5,), probabilities=(1.0,), justification="x")
    loss = composed((term_of(crude), 20))
    assert loss.epsilon(1e-6).upper == composed((PureTerm(0.5), 20)).epsilon(1e-6).upper
    assert loss.epsilon(1e-6).upper < 10.0


@pytest.mark.parametrize(
    ("rows", "masses", "infinite"),
    [
        ((), (), 0.0),
        ((1.0,), (0.5, 0.5), 0.0),
        ((1.0, 0.5), (0.5, 0.5), 0.0),
        ((math.nan,), (1.0,), 0.0),
        ((0.5,), (math.nan,), 0.0),
        ((0.5,), (-0.1,), 0.0),
        ((0.5,), (0.0,), 0.0),
        ((0.5,), (1.0,), 1.5),
    ],
)
def test_no_table(rows: tuple[float, ...], masses: tuple[float, ...], infinite: float) -> None:
    with pytest.raises(InvalidParameter):
        DiscreteTerm(rows, masses, infinite)


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        *((lambda bad=bad: BoundedRangeTerm(bad), InvalidParameter) for bad in (math.nan, math.inf, -0.1)),
        (lambda: BoundedRangeTerm(2e6), CannotBound),
        (lambda: DiscreteTerm((0.0, 2e6), (0.5, 0.5)), CannotBound),
        (lambda: collect([(DiscreteTerm((-1.0, 1.0), (0.2, 0.8)), 10**13)]), CannotBound),
    ],
)
def test_no_range_and_past_what_is_computed(refused: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        refused()


# --- bounded range ----------------------------------------------------------------------------------


def range_delta(epsilon: Any, x: Any) -> Any:
    """The closed form on [-epsilon, epsilon]; below it all is told apart."""
    if x >= epsilon:
        return mpf(0)
    if x <= -epsilon:
        return 1 - mp.exp(x)
    return (mp.exp(epsilon / 2) - mp.exp(x / 2)) ** 2 / mp.expm1(epsilon)


def test_no_choice_of_bounded_range_exceeds_the_closed_form_and_two_outputs_attain_it() -> None:
    rng = np.random.default_rng(7)
    for epsilon in (0.1, 1.0, 4.0):
        places = np.linspace(-epsilon, epsilon, 9).tolist()
        largest_deltas = {x: float(range_delta(mpf(epsilon), mpf(x))) for x in places}
        for _ in range(300):
            size = int(rng.integers(2, 7))
            q = rng.dirichlet(np.full(size, 0.3)) + 1e-12
            moved = (
                rng.uniform(0.0, epsilon, size) if rng.random() < 0.5 else epsilon * rng.integers(0, 2, size)
            )
            p = q * np.exp(moved)
            p, q = p / p.sum(), q / q.sum()
            for x, most in largest_deltas.items():
                delta = float(np.maximum(p - math.exp(x) * q, 0.0).sum())
                assert delta <= most + 1e-12
        for x in (-0.5 * epsilon, 0.0, 0.7 * epsilon):
            top = (epsilon + x) / 2.0
            p_top = (math.exp(epsilon) - math.exp(top)) / math.expm1(epsilon)
            attained = p_top * -math.expm1(x - top)
            assert attained == pytest.approx(float(range_delta(mpf(epsilon), mpf(x))), rel=1e-9)


@sweep("epsilon", [0.01, 0.1, 1.0, 5.0, 40.0], everyday=(0, 2, -1))
def test_one_choice_is_the_closed_form(epsilon: float) -> None:
    loss = composed((BoundedRangeTerm(epsilon), 1))
    with mp.workdps(30):
        for share in (0.0, 0.3, 0.9, 0.999):
            at = share * epsilon
            encloses(loss, at, range_delta(mpf(epsilon), mpf(at)), 1e-5)


@sweep("epsilon", [0.1, 1.0, 5.0], everyday=(0, -1))
def test_two_choices_by_quadrature(epsilon: float) -> None:
    """One loss integrated against the other's curve."""
    loss = composed((BoundedRangeTerm(epsilon), 2))
    with mp.workdps(30):
        e = mpf(epsilon)
        for share in (0.0, 0.5, 1.3, 1.9):
            at = share * e
            cuts = sorted({-e, *(x for x in (at - e, at + e) if -e < x < e), e})
            truth = mp.quad(
                lambda x, at=at: mp.exp(x / 2) / (4 * mp.sinh(e / 2)) * range_delta(e, at - x), cuts
            )
            encloses(loss, share * epsilon, truth, 1e-9)


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 10), (0.1, 100)])
def test_many_choices_between_two_lattices(epsilon: float, count: int) -> None:
    """Every loss rounded down and up to a step: below and above the truth."""
    cells = 2000
    edges = np.linspace(-epsilon, epsilon, cells + 1)
    single = np.diff(np.exp(0.5 * edges)) / (2.0 * math.sinh(0.5 * epsilon))
    total = np.fft.irfft(np.fft.rfft(single, 1 << 18) ** count, 1 << 18)
    step = 2.0 * epsilon / cells
    low = -count * epsilon + step * np.arange(len(total))
    loss = composed((BoundedRangeTerm(epsilon), count))
    for at in (0.2 * epsilon * math.sqrt(count), epsilon * math.sqrt(count)):
        below, above = (
            float(total @ np.maximum(-np.expm1(at - low - shift), 0.0)) for shift in (0.0, count * step)
        )
        found = loss.delta(at)
        assert below * (1.0 - 1e-6) <= found.upper
        assert found.lower <= above * (1.0 + 1e-6)
        assert found.upper - found.lower <= 1e-9 * found.upper


# --- the factors ------------------------------------------------------------------------------------

TERMS: list[Term] = [
    BoundedRangeTerm(0.01),
    BoundedRangeTerm(1.0),
    BoundedRangeTerm(30.0),
    DiscreteTerm((-1.0, 0.0, 1.0), (0.1, 0.6, 0.28)),
    DiscreteTerm((-0.001, 0.0, 0.001), (0.24985, 0.5, 0.25015)),
    DiscreteTerm((-3.0, 0.1, 0.25, 2.0), (0.01, 0.6, 0.3, 0.01)),
]


def moment(term: Term, s: Any) -> Any:
    if isinstance(term, BoundedRangeTerm):
        e = mpf(term.epsilon)
        return mp.quad(lambda x: mp.exp(x / 2 + s * x), mp.linspace(-e, e, 9)) / (4 * mp.sinh(e / 2))
    assert isinstance(term, DiscreteTerm)
    rows = list(zip(term.losses, term.probabilities, strict=True))
    return mp.fsum(p * mp.exp(s * x) for x, p in rows) / mp.fsum(p for _, p in rows)


@sweep("term", TERMS, everyday=(0, 2, 3, 4, 5))
@sweep("c", [0.02, 1.5, 40.0], everyday=(1,))
def test_the_factor_is_the_moment_along_the_line_and_decays_as_proved(term: Term, c: float) -> None:
    [[factor]] = collect([(term, 3)]).directions()
    assert isinstance(factor, BoundedRangeFactor | TablesFactor)
    along_line = functools.cache(lambda at: moment(term, mp.mpc(c, at)))
    with mp.workdps(40):
        start = moment(term, mpf(c))
        found = factor.cumulant(c)
        assert abs(found.value - 3 * mp.log(start)) <= found.error
        assert found.error <= 1e-12 * (1.0 + abs(found.value))
        step = mpf("1e-8")
        near = [3 * mp.log(moment(term, mpf(c) + k * step)) for k in (-1, 1)]
        assert found.slope == pytest.approx(float((near[1] - near[0]) / (2 * step)), rel=1e-6, abs=1e-12)
        bent = (near[0] + near[1] - 6 * mp.log(start)) / step**2
        assert found.curvature == pytest.approx(float(bent), rel=1e-5, abs=1e-12)
        t = np.array([0.0, 0.003, 3.0, 31.4, 200.0])
        along = factor.along(c, t)
        exact = [(along_line(at) / start) ** 3 for at in t.tolist()] if term != TERMS[2] else []
        for at, truth in enumerate(exact):
            computed = mp.exp(mp.mpc(float(along.log_modulus[at]), float(along.phase[at])))
            assert abs(truth - computed) <= abs(computed) * mp.expm1(float(along.error[at])) + mpf("1e-35")
        lower, upper = t[1:-1], t[2:]
        bounds = factor.decay(c, lower, upper)
        for one, other, bound in zip(lower.tolist(), upper.tolist(), bounds.tolist(), strict=True):
            for at in np.linspace(one, other, 4).tolist() if exact else []:
                assert 3 * mp.log(abs(along_line(at) / start)) <= bound + 1e-12
        assert np.all(factor.decay(c, t[1:2], np.array([np.inf])) <= 0.0)


def test_tables_of_one_length_are_the_sum_of_each() -> None:
    rng = np.random.default_rng(5)
    tables = [
        (term_of(RandomizedResponse(epsilon=e, categories=8)), int(n))
        for e, n in zip(rng.uniform(0.001, 3.0, 60).tolist(), rng.integers(1, 9, 60), strict=True)
    ]
    [[together]] = collect(tables).directions()
    each = [collect([one]).directions()[0][0] for one in tables]
    assert isinstance(together, TablesFactor)
    for c in (0.01, 1.0, 30.0):
        found, parts = together.cumulant(c), [factor.cumulant(c) for factor in each]
        assert abs(found.value - sum(p.value for p in parts)) <= found.error + sum(p.error for p in parts)
        assert found.error <= 1e-11 * (1.0 + found.value)
        assert found.slope == pytest.approx(sum(p.slope for p in parts), rel=1e-12)
        assert found.curvature == pytest.approx(sum(p.curvature for p in parts), rel=1e-9)
        t = np.array([0.0, 0.01, 0.1, 0.4, 2.0])
        along, lines = together.along(c, t), [factor.along(c, t) for factor in each]
        assert along.log_modulus == pytest.approx(sum(one.log_modulus for one in lines), rel=1e-9, abs=1e-12)
        turned = (along.phase - sum(one.phase for one in lines)) / (2.0 * np.pi)
        assert np.abs(turned - np.rint(turned)).max() <= 1e-10
        assert np.all(along.error <= 1e-9)
        bound = together.decay(c, t[1:-1], t[2:])
        assert np.all(along.log_modulus[1:-1] <= bound + 1e-9)
        assert np.all(along.log_modulus[2:] <= bound + 1e-9)
        assert bound == pytest.approx(sum(one.decay(c, t[1:-1], t[2:]) for one in each), rel=1e-6, abs=1e-9)


# --- laws -------------------------------------------------------------------------------------------

EPSILON = st.floats(0.01, 3.0)
ANY = st.one_of(
    EPSILON.map(BoundedRangeTerm),
    st.builds(RandomizedResponse, epsilon=EPSILON, categories=st.integers(3, 50)).map(term_of),
    st.builds(
        lambda scale, moves: term_of(make.discrete_laplace(scale, float(moves))),
        st.floats(1.0, 30.0),
        st.integers(2, 9),
    ),
)


def largest(term: Term) -> float:
    return collect([(term, 1)]).ceiling


@settings(max_examples=min(40, settings().max_examples // 2), deadline=None)
@given(ANY, st.integers(1, 30), st.sampled_from([1e-2, 1e-6, 1e-15, 1e-30]), st.booleans())
def test_laws(term: Term, count: int, delta: float, beside: bool) -> None:
    rest: list[tuple[Term, int]] = [(GaussianTerm(0.3), 2)] if beside else []
    found = composed((term, count), *rest).epsilon(delta)
    more = composed((term, count + 1), *rest).epsilon(delta)
    parted = composed((term, 1), *rest, (term, count - 1)).epsilon(delta)
    pure = composed((PureTerm(largest(term)), count), *rest).epsilon(delta)
    assert found.lower <= found.upper <= more.upper * (1.0 + 1e-12)
    assert parted == found
    assert found.upper <= pure.upper * (1.0 + 1e-9)
    # No conversion of the pair's own divergences is smaller.
    [factors] = collect([(term, count), *rest]).directions()
    for c in (0.5, 3.0, 20.0):
        value = sum(factor.cumulant(c).value for factor in factors)
        converted = (value - math.log(delta) + c * math.log(c / (c + 1.0)) - math.log(c + 1.0)) / c
        assert found.upper <= max(0.0, converted) * (1.0 + 1e-9) + 1e-12


@settings(max_examples=min(25, settings().max_examples // 2), deadline=None)
@given(EPSILON, EPSILON, st.integers(1, 10))
def test_a_smaller_epsilon_costs_less(one: float, other: float, count: int) -> None:
    small, large = sorted((one, other))
    for kind in (
        BoundedRangeTerm,
        lambda epsilon: term_of(RandomizedResponse(epsilon=epsilon, categories=5)),
    ):
        low, high = (composed((kind(e), count)).epsilon(1e-6) for e in (small, large))
        assert low.lower <= high.upper * (1.0 + 1e-12)


@settings(max_examples=min(15, settings().max_examples // 2), deadline=None)
@given(st.lists(st.tuples(ANY, st.integers(1, 5)), min_size=1, max_size=3), st.floats(0.0, 0.9))
def test_lattice_and_contour_overlap(mix: list[tuple[Term, int]], share: float) -> None:
    loss, together = PrivacyLoss.compose(mix), collect(mix)
    epsilon = share * together.ceiling
    [factors] = together.directions()
    contour, found = contour_log_delta(factors, epsilon, together.ceiling), loss.delta(epsilon)
    assert math.exp(contour.lower) <= found.upper * (1.0 + 1e-9) + 1e-300
    assert found.lower <= math.exp(contour.upper) * (1.0 + 1e-9) + 1e-300


def test_beside_sampled_and_laplace_noise() -> None:
    rest: list[tuple[Term, int]] = [(SampledGaussianTerm(1.0, 0.1), 20), (LaplaceTerm(0.2), 3)]
    eight = term_of(RandomizedResponse(epsilon=0.3, categories=8))
    for term in (BoundedRangeTerm(0.3), eight):
        found = composed((term, 5), *rest).epsilon(1e-6)
        pure = composed((PureTerm(0.3), 5), *rest).epsilon(1e-6)
        alone = PrivacyLoss.compose(rest).epsilon(1e-6)
        assert alone.lower < found.lower <= found.upper < pure.lower
        assert found.upper - found.lower <= 1e-6 * found.upper


def test_both_factors_agree_where_a_range_is_cut_into_a_fine_table() -> None:
    """The range's density over cells, each cell's loss at its upper end: a table just above the range."""
    epsilon, cells = 1.0, 4000
    edges = np.linspace(-epsilon, epsilon, cells + 1)
    masses = np.diff(np.exp(0.5 * edges))
    term = DiscreteTerm(tuple(edges[1:].tolist()), tuple((masses / masses.sum()).tolist()))
    fine, exact = (composed((one, 3)).epsilon(1e-5).upper for one in (term, BoundedRangeTerm(epsilon)))
    assert exact <= fine <= exact + 3.1 * (edges[1] - edges[0])


def test_a_table_of_nothing_finite_is_refused_by_name() -> None:
    nothing = Tabulated(losses=(0.0,), probabilities=(0.0,), infinity=1.0, justification="all is revealed")
    with pytest.raises(CannotBound, match="everything is revealed"):
        composed((term_of(nothing), 1)).epsilon(1e-3)
