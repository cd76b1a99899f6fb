"""The checker's figures beside the accountants', and its functions beside mpmath's."""

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import pytest

from dpaudit import (
    L1,
    L2,
    ApproxDP,
    DiscreteGaussian,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    OpaqueApproxDP,
    OpaquePureDP,
    PoissonSampled,
    RandomizedResponse,
    Release,
    SparseVector,
    Tabulated,
    TreeAggregation,
    TruncatedPoissonSampled,
    checker,
)
from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.composition.composition import compose
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.relations import Neighbouring
from dpaudit.mechanisms import DiscreteLaplace
from tests.sweeps import sweep

KINDS: dict[str, Any] = {
    "gaussian": lambda x: Gaussian(sigma=1.0 + 9.0 * x, sensitivity=L2(1.0)),
    "laplace": lambda x: Laplace(scale=2.0 + 9.0 * x, sensitivity=L1(1.0)),
    "discrete gaussian": lambda x: DiscreteGaussian(sigma=2.0 + 9.0 * x, sensitivity=L2(1.0)),
    "discrete laplace": lambda x: DiscreteLaplace(scale=3.0 + 9.0 * x, sensitivity=L1(2.0)),
    "tree": lambda x: TreeAggregation(sigma=5.0 + 9.0 * x, sensitivity=L2(1.0), steps=30),
    "response": lambda x: RandomizedResponse(epsilon=0.1 + 0.5 * x, categories=3),
    "sparse vector": lambda x: SparseVector(epsilon=0.1 + 0.5 * x, sensitivity=L1(1.0)),
    "opaque": lambda x: OpaquePureDP(epsilon=0.1 + 0.5 * x, justification="a proof"),
    "approximate": lambda x: OpaqueApproxDP(epsilon=0.1 + 0.5 * x, delta=1e-24, justification="a proof"),
    "table": lambda x: Tabulated(
        losses=(-0.1 - x, 0.1 + x),
        probabilities=(
            1.0 - float(1 / (1 + mpmath.exp(-0.1 - x))),
            float(1 / (1 + mpmath.exp(-0.1 - x))),
        ),
        justification="a table",
    ),
    "poisson": lambda x: PoissonSampled(
        mechanism=Gaussian(sigma=1.0 + x, sensitivity=L2(2.0)), rate=0.01 + 0.1 * x, contribution=1.0
    ),
    "poisson laplace": lambda x: PoissonSampled(
        mechanism=Laplace(scale=1.0 + x, sensitivity=L1(1.0)), rate=0.01 + 0.1 * x
    ),
    "fixed size": lambda x: FixedSizeSampled(
        mechanism=Gaussian(sigma=1.0 + x, sensitivity=L2(2.0)), size=1 + int(9 * x), units=100
    ),
}
#: Tables, and what is dominated by tables, are enclosed from below only to the accountants' own coarseness.
LOOSE = {"table": 1.02, "cut": 1.02}
RELATIONS = ("add-or-remove-one", "replace-one", "zero-out")


def both(mechanisms: list[tuple[Any, int]], delta: float, relation: str) -> tuple[float, float, float]:
    """The accountants' lower end and figure, and the checker's."""
    releases = [Release(label="sum", mechanism=one, count=count) for one, count in mechanisms]
    best = bounds(compose(releases, Neighbouring(relation)), ApproxDP(epsilon=0.0, delta=delta))[0]
    account = checker.account_of(
        {"neighbouring": relation, "group_size": 1}, [one.to_json() for one in releases]
    )
    own, _ = checker.approximate(account, None, Fraction(delta), Fraction(0))
    return best.at_least or 0.0, leading_figure(best.guarantee), float(own)


@sweep("kind", list(KINDS), everyday=(0, 1, 2, 5, 10))
@pytest.mark.parametrize("relation", RELATIONS[:2])
def test_one_kind_at_small_and_large_deltas(kind: str, relation: str) -> None:
    for delta in (1e-2, 1e-6, 1e-20):
        least, figure, own = both([(KINDS[kind](0.5), 5)], delta, relation)
        assert least * (1 - 1e-9) <= own <= figure * 1.01 + 1e-6, (delta, least, figure, own)


@sweep("seed", range(40), everyday=(0, 7))
def test_random_mixes(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    kinds = chance.sample(sorted(KINDS), 3)
    mechanisms = [(KINDS[kind](chance.random()), chance.randint(1, 20)) for kind in kinds]
    delta, relation = 10.0 ** -chance.uniform(2, 20), chance.choice(RELATIONS)
    least, figure, own = both(mechanisms, delta, relation)
    assert least * (1 - 1e-9) <= own <= figure * 1.01, (kinds, delta, relation)


def test_a_cut_poisson_sample_is_between_its_parts() -> None:
    noise = Gaussian(sigma=2.0, sensitivity=L2(2.0))
    for relation in RELATIONS:
        cut = TruncatedPoissonSampled(mechanism=noise, rate=0.1, units=100, most=20, contribution=1.0)
        least, figure, own = both([(cut, 20)], 1e-6, relation)
        assert least * (1 - 1e-9) <= own <= figure * 1.02, relation


@pytest.mark.parametrize("x", [-30.0, -1.5, -1e-9, 0.0, 0.3, 2.0, 49.9])
def test_functions_beside_mpmath(x: float) -> None:
    with mpmath.workprec(400):
        units = checker.fixed(x)
        exact = mpmath.mpf(units) / checker.ONE
        power = mpmath.mpf(checker.exp(units)) / checker.ONE
        assert abs(power / mpmath.exp(exact) - 1) < mpmath.mpf(2) ** (-170 if x < -1 else -210)
        assert abs(mpmath.mpf(checker.ln(checker.exp(units))) / checker.ONE - exact) < mpmath.mpf(2) ** -170
        beyond = mpmath.mpf(checker.tail(units)) / checker.ONE
        assert abs(beyond - mpmath.erfc(exact / mpmath.sqrt(2)) / 2) < mpmath.mpf(2) ** -208


def test_the_constants() -> None:
    with mpmath.workprec(500):
        assert int(mpmath.log(2) * 2**checker.GUARD) == checker.LN2
        assert int(checker.ONE / mpmath.sqrt(2 * mpmath.pi)) == checker.DENSITY


@pytest.mark.parametrize(("mu", "epsilon"), [(0.1, 0.2), (1.0, 0.0), (1.0, 4.0), (3.0, 20.0)])
def test_the_gaussian_curve_beside_mpmath(mu: float, epsilon: float) -> None:
    with mpmath.workprec(300):

        def below(z: Any) -> Any:
            return mpmath.erfc(-z / mpmath.sqrt(2)) / 2

        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        exact = below(m / 2 - e / m) - mpmath.exp(e) * below(-m / 2 - e / m)
        x = checker.fixed(epsilon)
        own = mpmath.mpf(checker.gaussian(Fraction(mu) ** 2)(x, checker.exp(x))) / checker.ONE
        assert abs(own - exact) < mpmath.mpf(2) ** -150


@pytest.mark.parametrize("mechanism", [KINDS["poisson"](0.5), KINDS["laplace"](0.5), KINDS["response"](0.5)])
def test_discrete_losses_have_masses_that_add_up_to_one_and_dominate(mechanism: Any) -> None:
    pair = checker.pairs_of(mechanism.to_json())[0][0]
    upper = checker.curve(pair, "add-or-remove-one")[0]
    for _, masses, infinite in checker.discrete(pair, "add-or-remove-one", 64, Fraction(1, 10**12)):
        total = sum(masses) + infinite
        assert checker.UNIT <= total <= checker.UNIT + 10 * len(masses)
    [one, *_] = checker.compose(frozenset({(pair, 1)}), "add-or-remove-one", 64, Fraction(1, 10**6))
    for step in range(200):
        x = checker.fixed(Fraction(step, 97))
        assert one(x, checker.exp(x)) >= upper(x, checker.exp(x))


def test_the_conformance_suite_is_read() -> None:
    """All of it, but for files in another byte form, and faults that only composing the releases shows."""
    suite = Path(__file__).parents[2] / "docs" / "spec" / "conformance"
    strict = {"any-order", "escapes", "no-last-newline", "no-releases", "spaces", "whole-number-with-a-point"}
    for case in json.loads((suite / "expected.json").read_text(encoding="utf-8")):
        text, name = (
            (suite / case["file"]).read_bytes(),
            case["file"].rpartition("/")[2].removesuffix(".jsonl"),
        )
        try:
            ledger = checker.read_ledger(text)
        except (checker.Wrong, checker.Unknown, AttributeError, TypeError):
            assert case["answer"] == "invalid" or name in strict, case
        else:
            assert ledger.releases
            assert case["answer"] == "valid" or case["reason"] in LATER, case


LATER = {"budget", "claim", "sample", "value"}


def test_the_gaussian_curve_is_never_below_the_exact_one() -> None:
    chance = random.Random(1)  # noqa: S311
    with mpmath.workprec(2000):
        for _ in range(200):
            mu, epsilon = 10.0 ** chance.uniform(-2, 1.6), 10.0 ** chance.uniform(-2, 2.9)
            x = checker.fixed(epsilon)
            own = checker.up(checker.gaussian(Fraction(mu) ** 2)(x, checker.exp(x)))
            m, e, two = mpmath.mpf(mu), mpmath.mpf(epsilon), mpmath.sqrt(2)
            beyond = mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / two)
            exact = (mpmath.erfc((e / m - m / 2) / two) - beyond) / 2
            assert mpmath.mpf(own.numerator) / own.denominator >= exact, (mu, epsilon)


def test_masses_that_would_run_into_each_other_are_refused() -> None:
    heavy = (0, [checker.UNIT * 200] * 3, 0)
    with pytest.raises(checker.Unknown, match="so much mass"):
        checker.product(heavy, heavy, 0)


def test_a_ledger_that_counts_to_the_largest_number_is_answered() -> None:
    laplace = KINDS["laplace"](0.5).to_json()
    account = checker.account_of(
        {"neighbouring": "add-or-remove-one", "group_size": 1}, [{"mechanism": laplace, "count": 10**17}]
    )
    with pytest.raises(checker.Unknown):
        checker.compose(next(iter(account[0])), "add-or-remove-one", 32, Fraction(1, 10**6))


@pytest.mark.parametrize(
    ("mechanism", "count"),
    [
        ({"kind": "laplace", "scale": 1e-300, "sensitivity": {"value": 1.0, "norm": "l1"}}, 10**300),
        ({"kind": "gaussian", "sigma": 1e-300, "sensitivity": {"value": 1.0, "norm": "l2"}}, 1),
        ({"kind": "discrete-laplace", "scale": 1.0, "sensitivity": {"value": 1e300, "norm": "l1"}}, 1),
        ({"kind": "randomized-response", "epsilon": 1e6, "categories": 10**300}, 5),
        ({"kind": "exponential", "epsilon": 700.0}, 3),
    ],
)
@pytest.mark.parametrize(
    "guarantee",
    [{"kind": "zcdp", "rho": 1.0}, {"kind": "approx-dp", "epsilon": 1.0, "delta": 1e-6}],
    ids=["zcdp", "approx-dp"],
)
def test_figures_past_every_double_are_answered(mechanism: Any, count: int, guarantee: Any) -> None:
    header = {"neighbouring": "add-or-remove-one", "group_size": 1}
    account = checker.account_of(header, [{"mechanism": mechanism, "count": count}])
    assert checker.compared(account, guarantee, "the claim")[0] != checker.HOLDS
