"""The records of data of many types, and new data sets made of them.

Records are the entries of a list, lie along the first axis of an array, or along the columns of a mapping, a
dataclass or a tuple that holds arrays of one length, or are the rows of a data frame in memory. A data set
that is made here holds records of a given pair and nothing else, so that whatever is true of each record
alone is still true.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter

#: Larger data are not searched: comparing their records in Python would take longer than an audit.
_MOST: Final = 10**6
_EXTREMES: Final = 8
_FRAMES: Final = {("pandas", "DataFrame"), ("pyarrow", "Table"), ("polars", "DataFrame")}


@dataclass(frozen=True)
class Pool:
    """The records of a pair by their numbers: those of its data, then those of its neighbour.

    Attributes:
        number: how many records the data have.
        beside: the records of the neighbour, in order; a record that both have has its number in the data.
        mine: the record of the data that differs; None if the neighbour has one more, or if several differ.
        theirs: the record of the neighbour that differs; None if the data have one more, or several differ.
        extremes: at most 8 distinct records: the changed ones, one with a missing value, the largest, the
            smallest, the one farthest from the largest, and those with the largest or least number in one
            place.
        ends: the record farthest from the largest, and the largest.
        smallest: the record nearest to zero, or the first one where records have no size.
        are_records: whether entries are surely records, and not the entries of one vector of statistics: the
            number of entries differs, or they are no plain numbers.
        are_units: whether no record can be one of several of a unit.
        are_named: whether the pair replaces a record by one of the same name: a part, of text or of whole
            numbers, that tells all records of the data apart.
    """

    number: int
    beside: tuple[int, ...]
    mine: int | None
    theirs: int | None
    extremes: tuple[int, ...]
    ends: tuple[int, int]
    smallest: int
    are_records: bool
    are_units: bool
    are_named: bool


def pool_of(data: Any, neighbour: Any, unit: str = "") -> Pool | None:
    """Return the records of a pair; None if they are not known, or not exactly one differs.

    Of two data frames with the unit as a column all rows of one unit may differ.
    """
    sides = [_columns(side) for side in (data, neighbour)]
    if type(data) is not type(neighbour) or None in sides:
        return None
    columns, beside = (side or [] for side in sides)
    number, other = len(columns[0]), len(beside[0])
    if not 0 < number <= _MOST:
        return None
    try:
        if _is_frame(data):
            names = _names(data) or ()
            if names != _names(neighbour):
                return None
            if unit in names:
                rows, others = ([*zip(*side[-len(names) :], strict=True)] for side in (columns, beside))
                return _of_one_unit(rows, others, names.index(unit))
        if len(columns) != len(beside) or abs(number - other) > 1:
            return None
        row = _first_difference(columns, beside, min(number, other))
        mine = row if number >= other else None
        theirs = number + row if other >= number else None
        rest = [column[row + (mine is not None) :] for column in columns]
        rest_beside = [column[row + (theirs is not None) :] for column in beside]
        left = len(rest[0])
        alike = left == len(rest_beside[0]) == _first_difference(rest, rest_beside, left)
        if not alike or (number == other == row):
            return None
        changed = [at for at in (mine, theirs) if at is not None]
        taken(data, neighbour, changed)
        both = [*range(row), *([] if theirs is None else [theirs]), *range(row + (mine is not None), number)]
        whole = number != other or _are_records(columns)
        named = number == other and _keeps_a_name(columns, row, [column[row] for column in beside])
        about = _extremes(columns, beside, changed)
        return Pool(number, tuple(both), mine, theirs, *about, whole, _are_units(columns), named)
    except Exception:  # noqa: BLE001  (whatever the records or the data's own class refuse)
        return None


def _extremes(
    columns: Sequence[Any], beside: Sequence[Any], changed: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, int], int]:
    """The `extremes`, the `ends` and the `smallest` of a `Pool`."""
    number = len(columns[0])
    sizes = _sizes([[*one, *two] for one, two in zip(columns, beside, strict=True)])
    far = smallest = 0
    largest = number - 1
    missing = [at for column in columns for at in _missing(column)]
    found = [*changed, *missing, 0, number - 1]
    if sizes is not None:
        with np.errstate(all="ignore"):  # the distance of two finite numbers may exceed every double
            size = np.abs(sizes).sum(axis=1)
            spread = np.ptp(sizes, axis=0)
            scaled = sizes / np.where(spread > 0.0, spread, 1.0)
            largest, smallest = int(np.argmax(size)), int(np.argmin(size))
            far = int(np.argmax(np.abs(scaled - scaled[largest]).sum(axis=1)))
        columns_of = range(min(sizes.shape[1], _EXTREMES)) if sizes.shape[1] > 1 else ()
        ends = [int(end(sizes[:, at])) for at in columns_of for end in (np.argmax, np.argmin)]
        found = [*changed, *missing, largest, int(np.argmin(size[:number])), far, smallest, *ends]

    def record(at: int) -> Any:
        return [
            column[at] if at < number else b[at - number] for column, b in zip(columns, beside, strict=True)
        ]

    distinct: list[int] = []
    for each in found:
        if not any(_same(record(each), record(one)) for one in distinct):
            distinct.append(each)
    return tuple(distinct[:_EXTREMES]), (far, largest), smallest


def _of_one_unit(one: Sequence[Any], other: Sequence[Any], unit: int) -> Pool | None:
    """The rows of two frames, where those of some units differ; None if the rest are in another order."""
    rows_of: list[dict[Any, list[int]]] = [{}, {}]
    for rows, known in zip((one, other), rows_of, strict=True):
        for at, row in enumerate(rows):
            known.setdefault(row[unit], []).append(at)
    shared: dict[int, int] = {}
    for name, own in rows_of[0].items():
        others = rows_of[1].get(name, [])
        if _same([one[at] for at in own], [other[at] for at in others]):
            shared.update(zip(others, own, strict=True))
    order = [shared[at] for at in sorted(shared)]
    if order != sorted(order):
        return None
    beside = tuple(shared.get(at, len(one) + at) for at in range(len(other)))
    return Pool(
        len(one), beside, None, None, (0,), (0, 0), 0, are_records=True, are_units=False, are_named=True
    )


def number_of(data: Any) -> int | None:
    """Return how many records data have; None where they are not known."""
    columns = _columns(data)
    return None if columns is None else len(columns[0])


def taken(data: Any, neighbour: Any, numbers: Sequence[int]) -> Any:
    """Return data of the same kind with these records of a pair, in this order.

    Raises:
        InvalidParameter: data whose records are not known, or a number without a record.
    """
    own, others = _columns(data), _columns(neighbour)
    number, most = (0, 0) if own is None else (len(own[0]), len(own[0]) + len(others[0] if others else ()))
    if own is None or not all(0 <= at < most for at in numbers):
        what = f"data of type {type(data).__name__}" if own is None else f"a record beyond the {most}"
        remedy = "give an array or a list of records, or a mapping or a dataclass of arrays of one length"
        raise InvalidParameter(what, where="changes", remedy=remedy)

    if _is_frame(data):
        return _rows_of(data, neighbour, numbers)

    def of(column: Any, beside: Any) -> Any:
        if isinstance(column, np.ndarray):
            at = np.asarray(numbers, dtype=np.intp)
            return (column if (at < number).all() else np.concatenate([column, beside]))[at]
        return type(column)([column[at] if at < number else beside[at - number] for at in numbers])

    made = [of(*pair) for pair in zip(own, others or [()] * len(own), strict=True)]
    names = _names(data)
    if names is None:
        return made[0]
    if isinstance(data, tuple):
        return tuple(made)
    if isinstance(data, Mapping):
        return {**data, **dict(zip(names, made, strict=True))}
    return dataclasses.replace(data, **dict(zip(names, made, strict=True)))


def cut(data: Any, decimals: int) -> Any:
    """Return data of the same kind with every floating-point number cut, toward zero, to so many decimals."""

    def of(value: Any) -> Any:
        if _is_frame(value):
            return _with_columns(value, of)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return np.trunc(value * 10.0**decimals) / 10.0**decimals + 0.0
        if isinstance(value, float):
            return type(value)(np.trunc(value * 10.0**decimals) / 10.0**decimals + 0.0)
        if type(value) in (list, tuple):
            return type(value)(map(of, value))
        if type(value) is dict:
            return {key: of(each) for key, each in value.items()}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [field.name for field in dataclasses.fields(value) if field.init]
            return dataclasses.replace(value, **{name: of(getattr(value, name)) for name in fields})
        return value

    return of(data)


def taking(numbers: Iterable[int]) -> str:
    """Return the numbers of records as a short text: 0-4,7*3 for 0, 1, 2, 3, 4, 7, 7, 7."""
    runs: list[list[int]] = []  # first, last, how many
    for number in numbers:
        if runs:
            first, last, many = run = runs[-1]
            rises = number == last + 1 and last - first == many - 1
            if rises or (number == last == first):
                run[1:] = number, many + 1
                continue
        runs.append([number, number, 1])
    text = []
    for first, last, many in runs:
        text.append(str(first) if many == 1 else f"{first}*{many}" if first == last else f"{first}-{last}")
    return ",".join(text)


def _is_frame(data: object) -> bool:
    """Whether data are a data frame in memory, of pandas, PyArrow or Polars."""
    kind = type(data)
    return (kind.__module__.partition(".")[0], kind.__name__) in _FRAMES


def _rows_of(data: Any, neighbour: Any, numbers: Sequence[int]) -> Any:
    """Return a frame of these rows of two frames; a default index of pandas stays one."""
    import narwhals as nw

    sides = [nw.from_native(each, eager_only=True) for each in (data, neighbour) if each is not None]
    found = nw.concat(sides, how="vertical") if max(numbers, default=0) >= len(sides[0]) else sides[0]
    if found.schema != sides[0].schema:
        what, remedy = "two data frames whose columns have other types", "give them the same types"
        raise InvalidParameter(what, where="changes", remedy=remedy)
    made = found[list(numbers)]
    return (nw.maybe_reset_index(made) if _is_counted(data) else made).to_native()


def _is_counted(data: Any) -> bool:
    """Whether a frame has no index, or one that only counts rows, of which some may be gone."""
    index = getattr(data, "index", None)
    if index is None:
        return True
    return index.name is None and index.dtype.kind in "iu" and bool(index.is_monotonic_increasing)


def _with_columns(frame: Any, change: Callable[[Any], Any]) -> Any:
    """Return a frame whose columns of floating-point numbers are changed."""
    import narwhals as nw

    found = nw.from_native(frame, eager_only=True)
    floats = [name for name, kind in found.schema.items() if kind.is_float()]
    made = {name: change(found[name].to_numpy()) for name in floats}
    columns = [
        nw.new_series(name, values, found.schema[name], backend=found.implementation)
        for name, values in made.items()
    ]
    return found.with_columns(*columns).to_native() if columns else frame


def _names(data: Any) -> Sequence[Any] | None:
    """The places of a table's columns: positions, keys or fields; None where the data are the records."""
    if _is_frame(data):
        import narwhals as nw

        return list(nw.from_native(data, eager_only=True).columns)
    if isinstance(data, tuple) and len(data) > 1 and all(isinstance(one, np.ndarray) for one in data):
        return range(len(data))
    if type(data) is dict:
        return [at for at, each in data.items() if isinstance(each, np.ndarray | list)]
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        fields = (field.name for field in dataclasses.fields(data) if field.init)
        return [at for at in fields if isinstance(getattr(data, at), np.ndarray | list)]
    return None


def _columns(data: Any) -> list[Any] | None:
    """The columns that hold the records' parts, all of one length; None for other kinds of data."""
    names = _names(data)
    if names is not None and _is_frame(data):
        columns = _columns_of_frame(data)
    elif names is None:
        columns = [data] if type(data) in (list, tuple, np.ndarray) else []
    elif dataclasses.is_dataclass(data):
        columns = [getattr(data, at) for at in names]
    else:
        columns = [data[at] for at in names]
    if not columns or any(isinstance(one, np.ndarray) and one.ndim == 0 for one in columns):
        return None
    return columns if len({len(one) for one in columns}) == 1 else None


def _columns_of_frame(data: Any) -> list[Any]:
    """The columns of a frame, and the index of pandas if it does more than count the rows."""
    import narwhals as nw

    found = nw.from_native(data, eager_only=True)
    given = [(found[name].to_numpy(), found[name].is_null()) for name in found.columns]
    if not _is_counted(data):
        given.insert(0, (data.index.to_numpy(), data.index.isna()))
    columns: list[Any] = []
    for values, missing in given:
        if values.dtype.kind in "mM":
            columns.append(np.where(np.isnat(values), np.nan, values.astype(np.int64)))
        elif values.dtype.kind in "biuf":
            columns.append(values)
        else:
            columns.append(
                [None if lacks else each for each, lacks in zip(values.tolist(), missing, strict=True)]
            )
    return columns


def _first_difference(columns: Sequence[Any], beside: Sequence[Any], number: int) -> int:
    """The first of so many records that differs, or their number."""
    first = number
    for one, two in zip(columns, beside, strict=True):
        if isinstance(one, np.ndarray) and one.dtype.kind in "biufUS":
            unlike = one[:number] != two[:number]
            if one.dtype.kind == "f":
                unlike &= ~(np.isnan(one[:number]) & np.isnan(two[:number]))
            differ = unlike.any(axis=tuple(range(1, unlike.ndim)))
            first = min(first, int(np.argmax(differ)) if differ.any() else number)
        else:
            first = min(first, next((at for at in range(number) if not _same(one[at], two[at])), number))
    return first


def _same(one: Any, other: Any) -> bool:
    """Whether two records are equal; NaN equals NaN."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if dataclasses.is_dataclass(one):
        return all(_same(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    return bool(one == other) or bool(one != one and other != other)  # noqa: PLR0124  (NaN)


def _leaves(record: Any) -> Iterator[Any]:
    """The single values of a record."""
    if isinstance(record, np.ndarray):
        yield from record.ravel().tolist()
    elif isinstance(record, Mapping):
        yield from itertools.chain.from_iterable(map(_leaves, record.values()))
    elif dataclasses.is_dataclass(record):
        values = (getattr(record, field.name) for field in dataclasses.fields(record))
        yield from itertools.chain.from_iterable(map(_leaves, values))
    elif isinstance(record, tuple | list):
        yield from itertools.chain.from_iterable(map(_leaves, record))
    else:
        yield record


def _missing(column: Any) -> list[int]:
    """The first record with a missing value, NaN or None, if there is one."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        lacking = np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), dtype=np.bool_)
        return [int(at) for at in np.flatnonzero(lacking.reshape(len(column), -1).any(axis=1))[:1]]
    found = (at for at, each in enumerate(column) if any(one is None or one != one for one in _leaves(each)))  # noqa: PLR0124
    return list(itertools.islice(found, 1))


def _sizes(columns: Sequence[Sequence[Any]]) -> NDArray[np.float64] | None:
    """The numbers of each record, [n, d]; their sum and their count, if records differ in length.

    A missing number counts as 0. None if there are no numbers, or if one is infinite.
    """
    found = []
    try:
        for column in columns:
            if all(np.ndim(each) == np.ndim(column[0]) for each in column[:1]) and _is_plain(column):
                flat = np.asarray(column, dtype=float)
                found.append(flat.reshape(len(flat), -1))
                continue
            rows = [[float(each) for each in _leaves(row) if _is_number(each)] for row in column]
            if len({len(row) for row in rows}) > 1:
                rows = [[sum(row), float(len(row))] for row in rows]
            found.append(np.array(rows, dtype=float))
        made = np.nan_to_num(np.hstack(found), nan=0.0, posinf=np.inf, neginf=-np.inf)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return made if made.size and np.isfinite(made).all() else None


def _is_plain(column: Sequence[Any]) -> bool:
    """Whether a column is numbers, or arrays of numbers of one shape."""
    kinds = {(type(each), getattr(each, "shape", ())) for each in column}
    if len(kinds) != 1:
        return False
    kind, _ = kinds.pop()
    return issubclass(kind, bool | int | float | np.generic) or (
        issubclass(kind, np.ndarray) and column[0].dtype.kind in "biuf"
    )


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float | np.number | np.bool_)


def _are_records(columns: Sequence[Any]) -> bool:
    """Whether entries have parts that no vector or table of plain numbers has."""
    if len(columns) == 1 and isinstance(columns[0], np.ndarray):
        return columns[0].dtype.kind not in "biuf"
    if len(columns) == 1:
        return not all(_is_number(entry) or isinstance(entry, np.ndarray) for entry in columns[0])
    return any(
        not isinstance(one, np.ndarray) or one.ndim > 1 or one.dtype.kind not in "biuf" for one in columns
    )


def _are_units(columns: Sequence[Any]) -> bool:
    """Whether no record can be one of several of a unit, whatever the unit is called.

    True where a record is itself made of several records, such as the steps of a trajectory, or is one
    number, or has no part that could name its unit: neither text nor a column of whole numbers.
    """
    if any(np.ndim(column) > 2 if isinstance(column, np.ndarray) else False for column in columns):
        return True
    several = len(columns) > 1
    if several and all(isinstance(one, np.ndarray) and one.ndim > 1 for one in columns):
        return True
    if not several and not isinstance(columns[0], np.ndarray) and all(map(_is_of_records, columns[0])):
        return True
    if not several and np.ndim(columns[0][0]) == 0 and _is_number(columns[0][0]):
        return True
    rows = [list(itertools.chain.from_iterable(map(_leaves, row))) for row in zip(*columns, strict=True)]
    if len({len(row) for row in rows}) != 1 or not all(_is_number(each) for row in rows for each in row):
        return False
    table = np.array(rows, dtype=float)
    return bool((table != np.round(table)).any(axis=0).all())


def _keeps_a_name(columns: Sequence[Any], row: int, changed: Sequence[Any]) -> bool:
    """Whether a part that tells all records apart is the same in the record that takes that row's place."""
    records = [
        list(itertools.chain.from_iterable(map(_leaves, record)))
        for record in (*zip(*columns, strict=True), changed)
    ]
    if len(records) == 2 or len({len(record) for record in records}) != 1:
        return False
    *known, new = records
    for part, name in zip(zip(*known, strict=True), new, strict=True):
        names = all(isinstance(one, str) or (_is_number(one) and float(one).is_integer()) for one in part)
        if names and name == part[row] and len(set(part)) == len(part):
            return True
    return False


def _is_of_records(record: Any) -> bool:
    """Whether a record is a list of records, such as the steps of a trajectory."""
    if isinstance(record, np.ndarray):
        return record.ndim > 1
    return isinstance(record, list | tuple) and all(
        isinstance(e, list | tuple | dict | np.ndarray) for e in record
    )
