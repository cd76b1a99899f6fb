"""Rows made of one record each: no record stops the run, or moves a sum by more than its own contribution."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
import sys
import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpaudit import L2, Gaussian, Ledger, Neighbouring, NoNoise, Transcript
from dpaudit.curator.curator import Curator
from dpaudit.curator.mapping import mapped
from dpaudit.curator.purity.reader import knows_its_argument_alone
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.header import Header

NOISE = Gaussian(sigma=1.0, sensitivity=L2(2.0))
HEADER = Header(algorithm="sum", unit="user", neighbouring=Neighbouring.REPLACE_ONE)
FIRST = "for the data's holder alone: release 'sum': 1 of 3 records"


class Exact(NoNoise):
    """Answers without noise, where a run draws its own samples: nobody audits it."""

    def chosen(self, *_: Any) -> Any:
        raise NotImplementedError


def exact_sum(records: Any, function: Callable[[Any], Any], **stated: Any) -> Any:
    """The sum without noise, as in a run that nobody audits."""
    curator = Curator(Ledger(HEADER), Exact())
    released = curator.release_sum(records, bound=1.0, mechanism=NOISE, label="sum", map=function, **stated)
    return released, curator.ledger.releases[0].mechanism.sensitivity.basis  # type: ignore[union-attr]


def raises(error: BaseException) -> Callable[[], Any]:
    def of() -> Any:
        raise error

    return of


class Hostile:
    """Raises wherever numpy or copy asks it anything."""

    def __len__(self) -> int:
        raise SystemExit(3)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise MemoryError

    def __float__(self) -> float:
        raise RecursionError

    def __deepcopy__(self, memo: Any) -> Any:
        raise GeneratorExit


def forever(depth: int) -> int:
    return forever(depth + 1) + 1


#: What a function may do with a record: nothing of it may reach any other record's contribution.
OUTCOMES: dict[str, Callable[[], Any]] = {
    "one": lambda: 1.0,
    "minus": lambda: -1,
    "large": lambda: 1e308,
    "whole": lambda: np.int64(-3),
    "decimal": lambda: decimal.Decimal("0.25"),
    "ValueError": raises(ValueError("n/a")),
    "odd name": raises(type("a\n::error", (Exception,), {})()),
    "SystemExit": raises(SystemExit(1)),
    "GeneratorExit": raises(GeneratorExit()),
    "StopIteration": raises(StopIteration()),
    "MemoryError": raises(MemoryError()),
    "recursion": lambda: forever(0),
    "huge list": lambda: [0.0] * 10**15,
    "huge shape": lambda: np.broadcast_to(0.0, (10**9, 10**9)),
    "division": lambda: 1 / 0,
    "10**400": lambda: 10**400,
    "overflow": lambda: math.exp(1000),
    "inf": lambda: math.inf,
    "minus inf": lambda: np.float32("-inf"),
    "nan": lambda: math.nan,
    "complex": lambda: 1j,
    "text": lambda: "1.0",
    "bytes": lambda: b"1",
    "none": lambda: None,
    "list": lambda: [1.0],
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "nested": lambda: [[[[1.0]]]],
    "generator": lambda: (x for x in (1.0,)),
    "date": lambda: np.datetime64("2020-01-01"),
    "masked": lambda: np.ma.masked,
    "masked row": lambda: np.ma.array(1.0, mask=True),
    "hostile": Hostile,
    "object of text": lambda: np.array("1", dtype=object),
    "dictionary": lambda: {"a": 1.0},
    "type": lambda: float,
}
GOOD = {"one": 1.0, "minus": -1.0, "large": 1.0, "whole": -1.0, "decimal": 0.25}


def outcome(record: str) -> Any:
    return OUTCOMES[record]()


@pytest.mark.filterwarnings("ignore:for the data's holder alone")
@pytest.mark.parametrize("name", OUTCOMES)
def test_a_failing_record_contributes_zero_and_changes_nobody_elses_contribution(name: str) -> None:
    for others in itertools.product(("one", "minus", "nan", "ValueError"), repeat=2):
        released, basis = exact_sum([*others, name], outcome)
        assert float(released) == sum(GOOD.get(each, 0.0) for each in (*others, name))
        assert basis == "clipped"


@pytest.mark.filterwarnings("ignore:for the data's holder alone")
def test_no_record_moves_a_sum_by_more_than_its_contribution() -> None:
    sums = {
        kept: float(exact_sum(list(kept), outcome)[0])
        for count in range(3)
        for kept in itertools.product(OUTCOMES, repeat=count)
        if count < 2 or kept[0] in {"one", "large", "nan", "SystemExit"}
    }
    for kept, value in sums.items():
        if kept:
            assert abs(value - sums[kept[:-1]]) <= 1.0  # taken out
    by_first: dict[Any, list[float]] = {}
    for kept, value in sums.items():
        by_first.setdefault((len(kept), kept[:-1]), []).append(value)
    assert all(max(each) - min(each) <= 2.0 for each in by_first.values())  # replaced


def test_rows_of_a_stated_shape() -> None:
    with pytest.warns(UserWarning, match="2 of 4 records contribute zero") as told:
        released, basis = exact_sum([[3.0, 4.0], [0.3, 0.4], [1.0], 1.0], lambda row: row, shape=(2,))
    assert np.allclose(released, [0.9, 1.2], atol=1e-9)
    assert basis == "mapped"
    assert "2 another shape" in str(told[0].message)
    assert told[0].filename == __file__
    empty = exact_sum([], lambda row: row, shape=[np.int64(2)])[0]
    assert empty.tolist() == [0.0, 0.0]
    for shape in ((-1,), "ab", (1.5,), (True,)):
        with pytest.raises(InvalidParameter):
            exact_sum([1.0], float, shape=shape)
    with pytest.raises(InvalidParameter, match="shape= without map="):
        Curator(Ledger(HEADER), NoNoise()).release_sum(
            np.ones((2, 2)), bound=1.0, mechanism=NOISE, label="sum", shape=(2,)
        )


def test_the_holder_is_told_and_no_filter_of_warnings_ends_the_run() -> None:
    with pytest.warns(UserWarning, match="holder alone") as told:
        exact_sum(["1", "n/a", "1"], float)
    assert str(told[0].message) == f"{FIRST} contribute zero (1 raised ValueError)"
    with pytest.warns(UserWarning, match="of an odd name"):
        exact_sum(["odd name"], outcome)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("error")
        assert float(exact_sum(["1", "n/a", "1"], float)[0]) == 2.0
    assert [str(each.message)[: len(FIRST)] for each in seen] == [FIRST]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact_sum(["1", "1"], float)


@pytest.mark.filterwarnings("ignore:for the data's holder alone")
def test_ctrl_c_ends_the_run() -> None:
    with pytest.raises(KeyboardInterrupt):
        exact_sum([1], raises_interrupt)


def raises_interrupt(record: Any) -> Any:
    raise KeyboardInterrupt


def test_each_record_is_mapped_twice_by_itself() -> None:
    seen: list[int] = []

    def row(record: list[int]) -> list[float]:
        seen.append(record[0])
        record.append(7)  # to a copy
        return [record[0], 2.0]

    records = [[1], [2], [3]]
    whole = mapped(records, row, (2,), "x", alone=False, audited=True)
    assert whole.tolist() == [[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]]
    assert sorted(seen) == [1, 1, 2, 2, 3, 3]
    assert records == [[1], [2], [3]]
    assert mapped([], row, (2,), "x", alone=False, audited=True).shape == (0, 2)
    assert mapped(iter(records), row, (2,), "x", alone=True, audited=True).tolist() == whole.tolist()


@pytest.mark.parametrize("shape", [False, True])
def test_a_row_that_changes_counts_as_zero_and_an_auditor_refuses_its_function(shape: bool) -> None:
    calls: dict[int, int] = {}

    def row(record: int) -> Any:
        calls[record] = calls.get(record, 0) + 1
        if record == 2 and calls[2] == 2:
            return [0.0, 0.0] if shape else [7.0]
        return [1.0]

    with pytest.warns(UserWarning, match="1 of 3 records"):
        assert mapped([1, 2, 3], row, (1,), "x", alone=False, audited=False).tolist() == [[1.0], [0.0], [1.0]]
    calls.clear()
    if not shape:
        with pytest.raises(ScheduleBroken, match="another row"):
            mapped([1, 2, 3], row, (1,), "x", alone=False, audited=True)


def test_an_auditor_says_which_shape_to_state() -> None:
    curator = Curator(Ledger(HEADER), NoNoise(), transcript=Transcript())
    given: Any = {"bound": 1.0, "mechanism": NOISE, "label": "sum", "map": lambda row: row}
    with pytest.raises(InvalidParameter, match=r"state shape=\(2,\)"):
        curator.release_sum([[1.0, 2.0], [3.0, 4.0]], **given)
    with pytest.raises(InvalidParameter, match=r"state shape=\(2,\)"):  # one of the three has no row at all
        curator.release_sum([[1.0, 2.0], "n/a", [3.0, 4.0]], **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Stated, what it then means is plain; and a record may always have another shape.
        assert float(curator.release_sum([[1.0, 2.0], [3.0, 4.0]], shape=(), **given)) == 0.0
        assert float(curator.release_sum([[1.0, 2.0], 0.5], **given)) == 0.5


@pytest.mark.parametrize(
    ("pairs", "without", "stops"),
    [(1, 0, False), (2, 0, True), (2, 1, True), (2, 2, False), (3, 3, False), (4, 3, True)],
)
def test_an_audited_run_stops_only_where_most_rows_have_one_other_shape(
    pairs: int, without: int, stops: bool
) -> None:
    """Of one record, or of half of them, none may decide whether a run ends."""
    records = [[1.0, 2.0]] * pairs + ["no numbers"] * without

    def made() -> Any:
        return mapped(records, lambda record: record, None, "x", alone=False, audited=True)

    if stops:
        with pytest.raises(InvalidParameter, match=r"state shape=\(2,\)"):
            made()
    else:
        assert made().tolist() == [0.0] * len(records)


def test_a_row_with_one_number_that_is_not_finite_is_zeros() -> None:
    made = mapped([math.nan, math.inf, 2.0], lambda x: [1.0, x], (2,), "x", alone=False, audited=True)
    assert made.tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]


class Frame:
    """A frame of another library, by what one asks it."""

    columns = ("a",)

    def to_dicts(self) -> list[dict[str, float]]:
        return [{"a": 1.0}]


def test_a_frame_is_refused_with_the_call_that_makes_records_of_it() -> None:
    with pytest.raises(InvalidParameter, match=r"one record per unit: frame\.to_dicts\(\)"):
        exact_sum(Frame(), float)
    with pytest.raises(InvalidParameter, match=r"one record per unit$"):
        exact_sum("abc", float)


class Point(NamedTuple):
    """A record with names."""

    x: float
    y: float


def named(fields: Any, **options: Any) -> Any:
    """A value of a class that looks like a named tuple of these fields."""
    return options.get("meta", type)("P", (tuple,), {"_fields": fields})((1.0, 2.0))


class Meta(type):
    """A type whose classes may do anything."""


class Odd:
    """A value that knows more than a record should."""

    def __float__(self) -> float:
        return 1.0


@pytest.mark.filterwarnings("ignore:for the data's holder alone")
def test_a_mapped_record_has_plain_values_alone() -> None:
    function = lambda record: 1.0  # noqa: E731
    assert knows_its_argument_alone(function)
    scalars = [np.float32(1), np.int8(1), np.bool_(True), np.str_("a"), np.datetime64("2020-01-01")]
    utc = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    plain = [None, True, 1, 1.5, math.nan, "a", b"a", utc, dt.date(2020, 1, 1), dt.timedelta(1), {1, "a"}]
    records = [
        np.void(b"ab"),
        np.ones((2, 2)),
        np.array([1, None, "a"], dtype=object),
        decimal.Decimal("1.5"),
    ]
    for record in (*plain, *scalars, *records, list(scalars), {"a": (1, [2.0])}, np.zeros(2, "i4,f8")):
        assert float(exact_sum([record], function)[0]) == 1.0
    named_tuples = [Point(1.0, 2.0), namedtuple("P", ["class"], rename=True)(1.0)]  # noqa: PYI024
    for record in (*named_tuples, dt.time(12), {1, 2}, frozenset({b"a"})):
        assert float(exact_sum([record], function)[0]) == 1.0
    itself: list[Any] = []
    itself.append(itself)
    zones = dt.datetime(2020, 1, 1, tzinfo=dt.tzinfo()), dt.time(12, tzinfo=dt.UTC)
    odd = [Odd(), {"a": Odd()}, np.array([Odd()]), itself, len, decimal.Decimal("nan"), {1.5}, {1, 1.5}]
    tuples = [named(("x", "y"), meta=Meta), named(["x", "y"]), named(("x",)), named(("x", b"y"))]
    for record in (*odd, *zones, *tuples, np.ma.array([1.0]), type("D", (dict,), {})(), np.zeros(2, "i4,O")):
        assert float(exact_sum([record], function)[0]) == 0.0


def test_an_audited_run_refuses_records_half_of_which_are_no_plain_values() -> None:
    """A pair's data sets differ in one record, of which it must not depend whether a run ends."""

    def rows(records: list[Any]) -> Any:
        return mapped(records, lambda record: 1.0, (), "x", alone=True, audited=True).tolist()

    assert rows([Odd(), 1.0, 1.0]) == [0.0, 1.0, 1.0]
    for records in ([Odd(), 1.0], [Odd(), Odd(), 1.0]):
        with pytest.raises(InvalidParameter, match="a value of type Odd") as raised:
            rows(records)
        assert "numbers, text, dates" in raised.value.remedy
        assert "dataclasses.asdict(record)" in raised.value.remedy


def test_a_mapped_record_is_a_copy_whose_parts_depend_on_its_values_alone() -> None:
    def parts(record: Any) -> Any:
        record[0] = 5.0
        return [record[0], record[1] == record[1], record[1] in record[2:]]

    assert knows_its_argument_alone(parts)
    rows = [[1.0, math.nan, float("nan")], [1.0, math.nan, math.nan]]
    found = mapped(rows, parts, (3,), "x", alone=True, audited=True)
    assert found.tolist() == [[5.0, 0.0, 1.0]] * 2
    assert rows[0][0] == 1.0


@pytest.mark.filterwarnings("ignore:for the data")
def test_settings_that_data_chose_change_no_row() -> None:
    def root(record: Any) -> Any:
        digits = len(str([np.asarray(record["a"])])) + int("1" * len(record["c"])) % 7
        return np.log(record["a"] - 2.0) + float(record["b"] / 3) + digits

    def made() -> Any:
        given = [{"a": np.array(a), "b": decimal.Decimal(1), "c": "1" * 900} for a in (3.123456789, 1.0)]
        return mapped(given, root, (), "x", alone=True, audited=False).tolist()

    assert knows_its_argument_alone(root)
    before = made()
    newer = "override_repr" in np.get_printoptions()  # of numpy 2.1
    shown: Any = {"override_repr": lambda _: "a mean"} if newer else {}
    with (
        decimal.localcontext(decimal.Context(prec=2)),
        np.errstate(all="raise"),
        np.printoptions(precision=2, **shown),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "for the data")
        sys.set_int_max_str_digits(700)
        try:
            assert made() == before
        finally:
            sys.set_int_max_str_digits(4300)


@pytest.mark.parametrize("records", ["abc", {"a": 1.0}, np.array(1.0), 5, np.ma.array([1.0], mask=[True])])
def test_what_is_no_list_of_records_is_refused(records: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"units' records|masked"):
        exact_sum(records, float)


GIVEN = (math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, 1.0, -0.25)


def test_no_given_row_moves_a_sum_by_more_than_its_contribution() -> None:
    """Rows without map=: one that is not finite counts as zeros, whichever entry it is."""

    def total(rows: list[tuple[float, float]]) -> Any:
        given = np.array(rows, dtype=float).reshape(len(rows), 2)
        return Curator(Ledger(HEADER), NoNoise()).release_sum(given, bound=1.0, mechanism=NOISE, label="sum")

    rows = list(itertools.product(GIVEN, repeat=2))
    own = {row: total([row]) for row in rows}
    for row in rows:
        assert np.linalg.norm(own[row]) <= 1.0
        assert (own[row] == 0.0).all() or np.isfinite(row).all()
    for one, other in itertools.product(rows[::7], rows):
        assert (total([one, other]) == own[one] + own[other]).all()
