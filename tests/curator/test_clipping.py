"""What clipping makes of a sensitivity, what is made of each record by itself, and what is a number."""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpaudit import L1, L2, Gaussian, Laplace, Neighbouring, OpaquePureDP
from dpaudit.curator.clipping import bounded, doubles, knows_its_argument_alone, mapped
from dpaudit.errors import InvalidParameter, ScheduleBroken, SensitivityTooSmall
from dpaudit.mechanisms import FixedSizeSampled, PoissonSampled

REPLACED, ADDED = Neighbouring.REPLACE_ONE, Neighbouring.ADD_OR_REMOVE_ONE


def held(value: float, bound: float, relation: Neighbouring = ADDED, *, acute: bool = False) -> Any:
    mechanism, norm = bounded(
        Gaussian(sigma=1.0, sensitivity=L2(value)), bound, relation, acute=acute, label="x"
    )
    assert norm == "l2"
    return mechanism.sensitivity


def test_a_sensitivity_below_what_the_bound_implies_is_refused_and_no_larger_one() -> None:
    assert held(1.0, 1.0).value == 1.0
    assert held(3.0, 1.0).value == 3.0
    assert held(2.0, 1.0, REPLACED).value == 2.0
    assert held(1.5, 1.0, REPLACED, acute=True).value == 1.5
    assert held(1.0, 1.0).basis == "clipped"
    for value, relation, acute in ((0.999, ADDED, False), (1.9, REPLACED, False), (1.4, REPLACED, True)):
        with pytest.raises(SensitivityTooSmall):
            held(value, 1.0, relation, acute=acute)


def test_a_sensitivity_that_rounding_left_too_small_is_raised() -> None:
    assert held(1.0 * (1 - 1e-12), 1.0).value == 1.0
    with pytest.raises(SensitivityTooSmall):
        held(1.0 - 2e-12, 1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_bound_that_is_not_positive_and_finite_is_refused(bound: float) -> None:
    with pytest.raises(InvalidParameter, match="contribution bound"):
        held(1e300, bound)


def test_noise_that_is_not_calibrated_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="pure-dp"):
        bounded(OpaquePureDP(epsilon=1.0, justification="a theorem"), 1.0, ADDED, acute=False, label="x")


def test_a_sample_keeps_the_bound_and_one_of_a_fixed_size_is_of_replaced_units() -> None:
    inner = Laplace(scale=1.0, sensitivity=L1(2.0))
    poisson, norm = bounded(PoissonSampled(mechanism=inner, rate=0.1), 2.0, ADDED, acute=False, label="x")
    assert (poisson.contribution, norm) == (2.0, "l1")
    declared, _ = bounded(
        PoissonSampled(mechanism=inner, rate=0.1), 2.0, ADDED, acute=False, label="x", basis="declared"
    )
    assert declared.contribution is None  # a row may depend on other units
    stated = PoissonSampled(mechanism=inner, rate=0.1, contribution=2.0)
    assert bounded(stated, 2.0, ADDED, acute=False, label="x", basis="declared")[0].contribution == 2.0
    less = stated.model_copy(update={"contribution": 1.5})  # that hides less than it says
    with pytest.raises(SensitivityTooSmall, match=r"a contribution of 1\.5"):
        bounded(less, 2.0, ADDED, acute=False, label="x", basis="declared")
    assert bounded(less, 2.0, ADDED, acute=False, label="x")[0].contribution == 2.0
    whole, _ = bounded(inner, 2.0, ADDED, acute=False, label="x")
    assert whole == Laplace(scale=1.0, sensitivity=L1(2.0, "clipped"))
    fixed = FixedSizeSampled(mechanism=inner, size=1, units=10)
    assert bounded(fixed, 1.0, ADDED, acute=False, label="x")[0].contribution == 1.0
    with pytest.raises(SensitivityTooSmall):
        bounded(fixed, 2.0, ADDED, acute=False, label="x")


def test_each_record_is_mapped_twice_by_itself() -> None:
    seen: list[int] = []

    def row(record: list[int]) -> list[float]:
        seen.append(record[0])
        record.append(7)  # of a copy
        return [record[0], 2.0]

    records = [[1], [2], [3]]
    assert mapped(records, row, "x").tolist() == [[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]]
    assert sorted(seen) == [1, 1, 2, 2, 3, 3]
    assert records == [[1], [2], [3]]
    assert mapped([], row, "x").shape == (0,)


@pytest.mark.parametrize("shape", [False, True])
def test_a_row_that_changes_for_one_record_alone_is_noticed(shape: bool) -> None:
    calls: dict[int, int] = {}

    def row(record: int) -> Any:
        calls[record] = calls.get(record, 0) + 1
        if record == 2 and calls[2] == 2:
            return [0.0, 0.0] if shape else [1.0]
        return [0.0]

    with pytest.raises(ScheduleBroken, match="another row"):
        mapped([1, 2, 3], row, "x")


@pytest.mark.parametrize("value", [np.float32([0.1]), [1], [True], np.array([2.0]), np.float16([3.0])])
def test_numbers_become_doubles_in_an_array_of_their_own(value: Any) -> None:
    found = doubles(value, "x")
    assert found.dtype == np.float64
    assert found.tolist() == np.asarray(value).tolist()
    assert not np.shares_memory(found, np.asarray(value))


@pytest.mark.parametrize("value", ["a", [[1.0], [1.0, 2.0]], [1j], object(), [10**400]])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter):
        doubles(value, "x")


MEAN = 3.0


def own(record: Any) -> Any:
    return helper([np.abs(part) for part in record])


def helper(record: Any) -> Any:
    return np.asarray(record) / 2 if len(record) else own(record)


def by_a_helper(record: Any) -> Any:
    return around(record)


def around(record: Any) -> Any:
    return [part - MEAN for part in record]


def with_attribute(record: Any) -> Any:
    return record


vars(with_attribute)["mean"] = 3.0


def of_a_module(record: Any) -> Any:
    return record - settings.mean


def by_a_modules_helper(record: Any) -> Any:
    return settings.around(record)


def by_a_modules_own(record: Any) -> Any:
    return settings.own(record) + settings.inner.sqrt(record)


def remembers(record: Any) -> Any:
    global LAST  # noqa: PLW0603
    LAST = record
    return record


def imports(record: Any) -> Any:
    import statistics

    return statistics.mean(record)


def reads_the_globals(record: Any) -> Any:
    return record - globals()["MEAN"]


def reads_a_file(record: Any) -> Any:
    with open("mean") as file:  # noqa: PTH123
        return record - float(file.read())


settings = ModuleType("settings")
vars(settings).update(mean=3.0, around=around, own=own, inner=math)


def test_what_a_function_knows_beside_its_argument_is_seen() -> None:
    mean = 3.0
    for innocent in (own, helper, float, np.sqrt, math.sqrt, lambda record: record / 2, by_a_modules_own):
        assert knows_its_argument_alone(innocent)
    assert knows_its_argument_alone(lambda record: np.linalg.norm(record) + math.pi)
    assert knows_its_argument_alone(lambda record: [len(part) for part in record])
    for knowing in (of_a_module, by_a_modules_helper, remembers, imports, reads_the_globals, reads_a_file):
        assert not knows_its_argument_alone(knowing)
    for knowing in (lambda record: record + np.random.random(3), np.load, np.memmap):  # noqa: NPY002
        assert not knows_its_argument_alone(knowing)
    for knowing in (
        lambda record: record - mean,
        lambda record, middle=mean: record - middle,
        lambda record, *, middle=mean: record - middle,
        *(around, by_a_helper, with_attribute),
    ):
        assert not knows_its_argument_alone(knowing)
    for knowing in ([1, 2].__getitem__, {}.get, functools.partial(np.add, mean), functools.lru_cache(own)):
        assert not knows_its_argument_alone(knowing)
