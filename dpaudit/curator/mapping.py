"""Rows that a function computes, each from one record; a record for which it fails gets a zero row."""

import contextlib
import copy
import decimal
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.curator.clipping import doubles
from dpaudit.curator.records import NOT_PLAIN, Unusable, listed, plain, type_name
from dpaudit.errors import BudgetExceeded, InvalidParameter, ScheduleBroken
from dpaudit.mechanisms import Array

#: Unrepeatable orders, so that an algorithm cannot rely on the order of the calls.
_SHUFFLED: Final = random.SystemRandom()

#: The default decimal context of Python, and the default print options of numpy.
_DECIMALS: Final = decimal.Context(
    prec=28,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=-999999,
    Emax=999999,
    capitals=1,
    clamp=0,
    flags=[],
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
_PRINTED: Final[dict[str, Any]] = {
    "precision": 8,
    "threshold": 1000,
    "edgeitems": 3,
    "linewidth": 75,
    "suppress": False,
    "nanstr": "nan",
    "infstr": "inf",
    "formatter": None,
    "sign": "-",
    "floatmode": "maxprec",
    "legacy": False,
    **({"override_repr": None} if "override_repr" in np.get_printoptions() else {}),
}
#: Python's default limit on the digits of a whole number in a text.
_DIGITS: Final = 4300


def mapped(
    records: Iterable[Any],
    function: Callable[[Any], ArrayLike],
    shape: tuple[int, ...] | None,
    where: str,
    *,
    alone: bool,
    audited: bool,
) -> Array:
    """Return the rows that a function computes from each record alone: [n, *shape].

    The function is called twice for each record, each time with a copy, in two random orders. If it raises
    for a record, or does not return the same finite numbers of that shape both times, that record gets a row
    of zeros, and no other row changes. Unless the run is audited, a warning tells the data holder the number
    of such records. A function that does not return delays the run; a function that ends its process ends the
    run.

    Args:
        records: one per unit.
        function: maps a record to its row.
        shape: the shape of a row; None means ().
        where: the release, for errors.
        alone: whether the function is proved to depend on its argument alone. It is then called with plain
            values only; a record of another type gets a row of zeros.
        audited: whether an auditor compares this run with others. The records of such a run are not private:
            there is no warning, and a function that is wrong for every data set raises an error.

    Raises:
        InvalidParameter: `records` is not a list of records. In an audited run also: no shape was stated, no
            record has a row, and most rows have one other shape; or `alone` is true and at least half of the
            records are not plain values.
        ScheduleBroken: in an audited run, a record's two rows differ.
        KeyboardInterrupt: somebody pressed Ctrl-C, or the function raised it.
    """
    given, wanted = listed(records, where), () if shape is None else shape
    rows, failed = np.zeros((len(given), *wanted)), dict[int, str]()
    shapes: Counter[tuple[int, ...]] = Counter()
    with _fixed_surroundings():
        for again in (False, True):
            for i in _SHUFFLED.sample(range(len(given)), len(given)):
                if i in failed:
                    continue
                try:
                    record = plain(given[i]) if alone else copy.deepcopy(given[i])
                    row = _row(function(record), wanted, shapes)
                    different = again and row.tobytes() != rows[i].tobytes()
                except (KeyboardInterrupt, ScheduleBroken, BudgetExceeded):  # not caused by the record
                    raise
                except Unusable as error:
                    failed[i] = str(error)
                except BaseException as error:  # noqa: BLE001  (no record may end the run)
                    failed[i] = f"raised {type_name(type(error))}"
                else:
                    rows[i] = row
                    if different:
                        failed[i] = _DIFFERENT
    rows[list(failed)] = 0.0
    if audited:  # these records are not private
        _require_possible(failed, shapes, len(given), where, stated=shape is not None)
    else:
        _tell(failed, len(given), where)
    return rows


_DIFFERENT: Final = "another row the second time"


def _row(made: ArrayLike, wanted: tuple[int, ...], shapes: Counter[tuple[int, ...]]) -> Array:
    """Return one record's row in doubles; raises `Unusable` unless it is finite numbers of that shape."""
    if isinstance(made, np.ma.MaskedArray):
        raise Unusable("a masked array")
    given = np.asarray(made)
    if given.dtype.kind not in "fiubO":
        raise Unusable("no numbers")
    if given.shape != wanted:
        shapes[given.shape] += 1
        raise Unusable("another shape")
    try:
        row = doubles(given, "")
    except InvalidParameter:
        raise Unusable("no numbers") from None
    if not np.isfinite(row).all():
        raise Unusable("no finite numbers")
    return row


@contextlib.contextmanager
def _fixed_surroundings() -> Iterator[None]:
    """Reset the global settings that may change a function's result to the defaults of Python and numpy."""
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        np.printoptions(**_PRINTED),
        decimal.localcontext(_DECIMALS),
    ):
        warnings.simplefilter("ignore")
        digits = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(_DIGITS)
        try:
            yield
        finally:
            sys.set_int_max_str_digits(digits)


def _require_possible(
    failed: Mapping[int, str], shapes: Counter[tuple[int, ...]], count: int, where: str, *, stated: bool
) -> None:
    """Raise if an audited run shows that the function is wrong for every data set."""
    if _DIFFERENT in failed.values():
        what = "a function that returns another row for the same record after other records"
        why = "clipping does not bound the effect of one record on the rows of others"
        remedy = "let the function depend on its argument only"
        raise ScheduleBroken(what, where=where, why=why, remedy=remedy)
    strange = [reason for reason in failed.values() if reason.startswith(NOT_PLAIN)]
    if strange and 2 * len(strange) >= count:  # at least half, so that both data sets of a pair raise
        what, why = f"records that {strange[0]}", "its methods could look at other records"
        plain = "numbers, text, dates, lists, tuples, dictionaries or arrays"
        remedy = f"give records of {plain}; of a pandas frame, frame.to_dict('records'), and of dataclasses, "
        remedy += "dataclasses.asdict(record)"
        raise InvalidParameter(what, where=where, why=why, remedy=remedy)
    if not stated and len(failed) == count and len(shapes) == 1:
        shape, rows = next(iter(shapes.items()))
        if rows > 1 and 2 * rows > count:  # for the other records the function returns no row
            what, why = f"rows of shape {shape}, and no shape=", "a row of another shape counts as zeros"
            remedy = f"state shape={shape}: the records themselves may not decide it"
            raise InvalidParameter(what, where=where, why=why, remedy=remedy)


def _tell(failed: Mapping[int, str], count: int, where: str) -> None:
    """Warn the data holder, and nobody else, of the records that contribute zero and of the reasons."""
    if not failed:
        return
    reasons = ", ".join(f"{number} {reason}" for reason, number in Counter(failed.values()).most_common(5))
    text = (
        f"for the data's holder alone: {where}: {len(failed)} of {count} records contribute zero ({reasons})"
    )
    with contextlib.suppress(Exception):
        try:
            warnings.warn(text, stacklevel=4)
        except Warning:  # a filter turns warnings into errors, so one record would end the run
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.warn(text, stacklevel=4)
