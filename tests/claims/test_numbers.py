"""Every number that enters the API: the result of the double that equals it, or an error of ours."""

import decimal
import fractions
import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pydantic
import pytest

import dpaudit
from dpaudit import GDP, L1, L2, RDP, ZCDP, ApproxDP, Claim, Curator, Ledger, Neighbouring, NoNoise, PureDP
from dpaudit.claims.arguments import lengths, number, whole
from dpaudit.errors import InputError, InvalidParameter
from dpaudit.ledger.header import Header
from dpaudit.mechanisms import KINDS, Exponential, SmoothGaussian, SparseVector
from dpaudit.models import as_double, down, up
from tests import make
from tests.mechanisms.examples import EXAMPLES

F, D = fractions.Fraction, decimal.Decimal
HEADER = make.header(unit="user")
LOCAL = make.header("replace-one", unit="user", trust_model="local", users=3)
SIGNED: tuple[type[Any], ...] = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED: tuple[type[Any], ...] = (np.uint8, np.uint16, np.uint32, np.uint64)
FLOATS: tuple[type[Any], ...] = (np.float16, np.float32, np.float64, np.longdouble)
#: Types that hold the number 2, whole ones first.
WHOLE: tuple[Callable[[int], Any], ...] = (int, *SIGNED, *UNSIGNED)
EQUAL: tuple[Callable[[int], Any], ...] = (*WHOLE, float, *FLOATS, F, D)
NO_NUMBERS: tuple[Any, ...] = (
    *(True, np.bool_(True), "2", b"2", None, 2j, np.complex64(2), [2.0], (), {}),
    *(np.array(2.0), np.array([2.0]), np.ma.masked, np.datetime64("2020-01-01"), object(), float),
)
NOT_FINITE: tuple[Any, ...] = (
    *(math.nan, math.inf, -math.inf, np.float16("nan"), np.float32("inf"), np.longdouble("-inf")),
    *(D("nan"), D("snan"), D("inf"), np.longdouble("1e4000"), 10**400, F(10**400)),
)
#: No double equals them, and what lies beside them.
BETWEEN = (F(1, 3), D("0.1"), np.longdouble(1) / 3, 2**53 + 1, F(2**53 + 1), np.uint64(2**64 - 1))


def curator(header: Header = HEADER) -> Curator:
    return Curator(Ledger(header), NoNoise())


def lined(made: Curator, *found: Any) -> Any:
    """What was released, and the line of the ledger."""
    return [np.asarray(each).tolist() for each in found], made.ledger.releases[0].to_json()


def charged(call: Callable[[Curator, Any], Any], header: Header = HEADER) -> Callable[[Any], Any]:
    """What a new curator releases where the number enters, and the line of the ledger."""

    def of(value: Any) -> Any:
        made = curator(header)
        return lined(made, call(made, value))

    return of


TREE = make.tree(1.0, 4, 2.0)
SPARSE = SparseVector(epsilon=1.0, sensitivity=L1(1.0), answers=1, monotone=False)
SMOOTH = SmoothGaussian(alpha=12.0, beta=0.05, dimension=1, epsilon=1.0, delta=0.1)


def on_sum(noise: Any, label: str = "x") -> dict[str, Any]:
    return {"mechanism": noise, "label": label}


def of_stream(bound: Any) -> Any:
    made = curator()
    stream = made.stream(TREE, "x", (2,), bound=bound)
    return lined(made, stream.add(np.full((3, 2), 9.0)), stream.add(np.ones((1, 2))))


def of_batches(bound: Any) -> Any:
    made = curator()
    batches = made.batches(make.poisson(make.gaussian(1.0, 2.0), 0.5), "x", (2,), bound=bound)
    batches.add(np.full((len(batches.draw(4)), 2), 9.0))
    return lined(made, batches.noisy())


def of_threshold(threshold: Any) -> Any:
    made = curator()
    comparisons = made.sparse_vector(SPARSE, "x", threshold=threshold)
    return lined(made, comparisons.above(1.9), comparisons.above(2.0), comparisons.ended)


def of_draw(units: Any) -> Any:
    return curator().batches(make.gaussian(1.0, 2.0), "x", (2,), bound=1.0).draw(units).tolist()


def of_seed(seed: Any) -> Any:
    return Curator(Ledger(HEADER), NoNoise(), public_seed=seed).public("x").normal()


def of_user(index: Any) -> Any:
    made = curator(LOCAL)
    for i in (0, 1):
        with made.user(i) as user:
            user.release(1.0, make.laplace(1.0), label="x")
    with made.user(index) as user:
        return lined(made, user.release(1.0, make.laplace(1.0), label="x"))


def of_epsilon(count: Any) -> Any:
    noise = make.gaussian(4.0)
    return dpaudit.epsilon(noise, delta=1e-5, count=count, neighbouring=Neighbouring.ZERO_OUT).to_json()


ROWS = np.full((5, 2), 9.0)
CELLS = np.array([[0, 1, 2], [1, 1, 1]])


REAL: dict[str, Callable[[Any], Any]] = {
    "release_sum(bound)": charged(
        lambda c, x: c.release_sum(ROWS, bound=x, **on_sum(make.gaussian(1.0, 2.0)))
    ),
    "release_gram(bound)": charged(
        lambda c, x: c.release_gram(ROWS, bound=x, **on_sum(make.gaussian(1.0, 4.0)))
    ),
    "release_counts(bound)": charged(
        lambda c, x: c.release_counts(CELLS, shape=(3,), bound=x, **on_sum(make.laplace(1.0, 2.0)))
    ),
    "stream(bound)": of_stream,
    "batches(bound)": of_batches,
    "select(score_sensitivity)": charged(
        lambda c, x: c.select([1.0, 5.0], Exponential(epsilon=1.0), label="x", score_sensitivity=x)
    ),
    "sparse_vector(threshold)": of_threshold,
    "release_smooth(local_scale)": charged(lambda c, x: c.release_smooth([1.0], x, SMOOTH, label="x")),
    "PureDP": lambda value: PureDP(epsilon=value),
    "ApproxDP": lambda value: ApproxDP(epsilon=value, delta=0.5),
    "ZCDP": lambda value: ZCDP(rho=value),
    "RDP order": lambda value: RDP(alpha=value, epsilon=1.0),
    "GDP": lambda value: GDP(mu=value),
    "L2": L2,
    "Claim": lambda value: Claim(ZCDP(rho=value), unit="user", neighbouring="zero-out"),
    "convert(orders)": lambda value: dpaudit.convert(ZCDP(rho=0.5), orders=[value]),
    "number": lambda value: number(value, "x"),
}
COUNTS: dict[str, Callable[[Any], Any]] = {
    "release(count)": charged(
        lambda c, x: c.release(np.ones((2, 3)), make.gaussian(1.0), label="x", count=x)
    ),
    "stream(shape)": charged(lambda c, x: c.stream(TREE, "x", (x,), bound=1.0).add(np.ones((3, 2)))),
    "release_sum(shape)": charged(
        lambda c, x: c.release_sum(
            [[1.0, 2.0]], map=lambda row: row, shape=(x,), bound=1.0, **on_sum(make.gaussian(1.0, 2.0))
        )
    ),
    "batches.draw": of_draw,
    "public_seed": of_seed,
    "user": of_user,
    "epsilon(count)": of_epsilon,
    "lengths": lambda value: lengths((value,), "x"),
    "whole": lambda value: whole(value, "x"),
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("kind", EQUAL, ids=lambda kind: kind.__name__)
def test_a_number_of_any_type_is_the_double_that_equals_it(name: str, kind: Any) -> None:
    assert REAL[name](kind(2)) == REAL[name](2.0)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.__name__)
def test_a_whole_number_of_any_type_is_pythons_own(name: str, kind: Any) -> None:
    assert COUNTS[name](kind(2)) == COUNTS[name](2)


@pytest.mark.parametrize("name", [*REAL, *COUNTS])
def test_whatever_is_no_number_is_an_error_of_ours(name: str) -> None:
    of = REAL.get(name) or COUNTS[name]
    others = (2.0, np.float32(2), D(2), F(5, 2), -1) if name in COUNTS else NOT_FINITE
    for value in (*NO_NUMBERS, *others):
        if value is None and name == "stream(bound)":
            continue  # a stream without a bound
        if name == "number" and any(value is each for each in NOT_FINITE):
            continue  # whether it has to be finite depends on what it is for
        if name == "sparse_vector(threshold)" and np.shape(value) in {(), (1,)} and is_real(value):
            continue  # a threshold is a value: one number in an array is one
        with pytest.raises(InputError):
            of(value)


def is_real(value: Any) -> bool:
    return not isinstance(value, np.ma.MaskedArray) and np.asarray(value).dtype.kind in "fiub"


@pytest.mark.parametrize("value", BETWEEN, ids=repr)
def test_a_number_that_no_double_equals_is_never_silently_another(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="where less is safe, or"):
        number(value, "x")
    exact = F(*value.as_integer_ratio()) if not isinstance(value, np.uint64) else F(int(value))
    for name in ("PureDP", "ApproxDP", "ZCDP", "GDP", "L2"):
        made = REAL[name](value).model_dump()
        assert F(next(made[each] for each in ("epsilon", "rho", "mu", "value") if each in made)) >= exact
    for name in set(REAL) - {"PureDP", "ApproxDP", "ZCDP", "RDP order", "GDP", "L2", "Claim"}:
        if name != "sparse_vector(threshold)":  # public: it is a threshold of its own
            with pytest.raises(InputError):
                REAL[name](value)


def test_a_number_past_every_double_is_too_large_on_either_side() -> None:
    largest = sys.float_info.max
    assert number(int(largest), "x") == largest == -number(-int(largest), "x")
    for sign, rounded in itertools.product((1, -1), (up, down)):
        assert as_double(sign * int(largest), rounded) == sign * largest
        assert as_double(sign * F(10**400), rounded) == sign * math.inf
        for beyond in (10**400, int(largest) + 1):
            with pytest.raises(InvalidParameter, match="do:  give a number of magnitude"):
                number(sign * beyond, "x")
    assert make.release(make.gaussian(1.0), int(largest)).count == int(largest)
    with pytest.raises(InvalidParameter, match="the count is too large"):
        make.release(make.gaussian(1.0), int(largest) + 1)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_number_of_a_mechanism(kind: str) -> None:
    """Each field of each kind: all types hold the same number; what holds none raises."""
    fields = EXAMPLES[kind]
    model = KINDS[kind]
    usual = model(**fields)
    for name, given in fields.items():
        if isinstance(given, bool) or not isinstance(given, int | float):
            continue
        integral = isinstance(given, int)
        for of in (*SIGNED, *UNSIGNED, *FLOATS, F, D):
            if of in {*SIGNED, *UNSIGNED} and (given != int(given) or given > 100):
                continue
            if F(
                *of(given).as_integer_ratio() if of not in {*SIGNED, *UNSIGNED} else (int(of(given)), 1)
            ) != F(given):
                continue
            try:
                made = model(**{**fields, name: of(given)})
            except InputError:
                assert integral and of not in {*SIGNED, *UNSIGNED}, (name, of)  # noqa: PT018
            else:
                assert made == usual, (name, of)
                assert made.to_json() == usual.to_json()
        for value in (*NO_NUMBERS, *NOT_FINITE):
            if value is None and pydantic_allows_none(model, name):
                continue
            with pytest.raises(InputError):
                model(**{**fields, name: value})


def pydantic_allows_none(model: type[pydantic.BaseModel], name: str) -> bool:
    return type(None) in getattr(model.model_fields[name].annotation, "__args__", ())


def test_noise_is_rounded_down_and_what_it_has_to_hide_up() -> None:
    third = F(1, 3)
    noise = make.gaussian(third, third)
    assert F(noise.sigma) < third < F(noise.sensitivity.value)
    assert F(make.laplace(D("0.1"), D("0.1")).scale) <= F(1, 10)
    sampled = make.poisson(noise, third, third)  # type: ignore[arg-type]
    assert F(sampled.rate) > third
    assert sampled.contribution is not None
    assert F(sampled.contribution) > third


def test_calibrate_and_convert_take_any_type_of_number() -> None:
    noise = make.gaussian(1.0)
    usual = dpaudit.calibrate(noise, ApproxDP(epsilon=1.0, delta=0.25), neighbouring=Neighbouring.ZERO_OUT)
    for of in FLOATS:
        target = ApproxDP(epsilon=of(1), delta=of(0.25))
        assert dpaudit.calibrate(noise, target, neighbouring=Neighbouring.ZERO_OUT) == usual
        assert dpaudit.convert(ZCDP(rho=0.5), deltas=[of(0.25)]) == dpaudit.convert(
            ZCDP(rho=0.5), deltas=[0.25]
        )
    for value in (True, "1e-5", np.array(1e-5), D("1e-5"), F(1, 3)):
        with pytest.raises(InputError):
            dpaudit.convert(ZCDP(rho=0.5), deltas=[value])  # type: ignore[list-item]
