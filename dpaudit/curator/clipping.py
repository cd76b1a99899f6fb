"""The sensitivity that follows from clipping every unit's contribution."""

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import Basis, Norm
from dpaudit.errors import InvalidParameter, SensitivityTooSmall
from dpaudit.mechanisms import AnyMechanism, Array, Calibrated, OnSample, SampledMatrix
from dpaudit.mechanisms.samples.sampled import Around


def bounded(
    mechanism: AnyMechanism,
    bound: float,
    neighbouring: Neighbouring,
    *,
    acute: bool,
    label: str,
    basis: Basis = "clipped",
) -> tuple[AnyMechanism, Norm]:
    """Return the mechanism with the sensitivity of contributions clipped to `bound`, and its norm.

    `acute` says that any two contributions have a non-negative inner product; `basis` is ``mapped`` if each
    contribution was computed from one record alone.

    Raises:
        SensitivityTooSmall: the declared sensitivity is below what the bound implies.
        InvalidParameter: the bound is not positive, or the mechanism has no sensitivity.
    """
    where = f"release {label!r}"
    if not isinstance(mechanism, Calibrated | Around):
        why = "it is not calibrated to a sensitivity, so clipping contributions bounds nothing"
        remedy = "use a mechanism that carries a sensitivity"
        what = f"a {getattr(mechanism, 'kind', type(mechanism).__name__)} mechanism for a sum"
        raise InvalidParameter(what, where=where, why=why, remedy=remedy)
    if isinstance(mechanism, Around) and mechanism.swaps:
        neighbouring = Neighbouring.REPLACE_ONE
    declared = mechanism.sensitivity
    if not np.isfinite(bound) or bound <= 0:
        raise InvalidParameter(f"contribution bound {bound}", where=where, remedy="give a number above 0")
    implied = neighbouring.sum_sensitivity(bound, declared.norm, acute=acute)
    if declared.value < implied * (1 - 1e-12):
        raise SensitivityTooSmall(
            f"sensitivity {declared.value} declared, {implied} follows from the bound {bound} "
            f"under {neighbouring}",
            where=where,
            remedy=f"declare a sensitivity of {implied}, and calibrate the noise to it",
        )
    clipped = declared.model_copy(update={"basis": basis, "value": max(declared.value, implied)})
    held = mechanism.with_sensitivity(clipped)
    if isinstance(held, OnSample | SampledMatrix):
        if basis != "declared":
            held = held.model_copy(update={"contribution": bound})
        elif held.contribution is not None and held.contribution < bound * (1 - 1e-12):
            what = f"a contribution of {held.contribution} declared, rows are clipped to {bound}"
            remedy = f"declare a contribution of {bound}, or leave it out"
            raise SensitivityTooSmall(what, where=where, remedy=remedy)
    return held, declared.norm


def require_unmasked(value: object, where: str) -> None:
    """Raise `InvalidParameter` for a masked array, or one inside lists: converting it would lose the mask."""
    seen: set[int] = set()
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, np.ma.MaskedArray):
            why = "numpy drops the mask when it converts the array, so masked values would count"
            remedy = "give array.filled(0), or another public value in place of 0"
            raise InvalidParameter("a masked array", where=where, why=why, remedy=remedy)
        if isinstance(one, list | tuple) and id(one) not in seen:
            seen.add(id(one))
            left += [each for each in one if type(each) is not float and type(each) is not int]


#: The remedy for records of text or dates.
OF_EACH: Final = "convert each record by itself"


def doubles(value: ArrayLike, where: str) -> Array:
    """Return a copy of `value` as doubles, rounded to the nearest; numbers out of range become infinite.

    Raises:
        InvalidParameter: `value` is not an array of real numbers, or a masked array.
    """
    if type(value) is not np.ndarray and type(value) is not float:
        require_unmasked(value, where)
    try:
        given = np.asarray(value)
        if given.dtype == np.float64:
            return given.copy(order="K")
        _require_real(given, where)
        with np.errstate(over="ignore"):  # callers treat infinities
            return np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(f"a value that is not an array of numbers: {error}", where=where) from None


def _require_real(given: np.ndarray[Any, Any], where: str) -> None:
    """Raise `InvalidParameter` for complex numbers, text and dates, which numpy would convert."""
    kind = given.dtype.kind
    if kind == "O":
        kind = next((np.asarray(one).dtype.kind for one in given.flat if isinstance(one, _CONVERTED)), kind)
    if kind == "c":
        raise InvalidParameter("complex numbers", where=where, remedy="release real and imaginary parts")
    if kind not in "fiubO":
        what = "text" if kind in "USV" else "dates"
        raise InvalidParameter(f"{what} in place of numbers", where=where, remedy=OF_EACH)


#: Types that numpy would convert to doubles although their objects are not real numbers.
_CONVERTED: Final = str | bytes | complex | np.complexfloating | np.datetime64 | np.timedelta64 | np.str_
