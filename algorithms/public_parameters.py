"""Checks of an algorithm's public parameters, and how a public table is named in a ledger's header."""

import hashlib
import math
from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.errors import InvalidParameter

Array = NDArray[np.float64]


def public_size(size: int | None, name: str) -> int:
    """``size`` as a positive integer; else `InvalidParameter`, which says why it has to be declared."""
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size >= 1:
        return int(size)
    why = "it is public; read off private records it would reveal the largest value that occurs"
    remedy = f"declare {name} as a positive integer"
    raise InvalidParameter(f"{name} = {size!r}", where=name, why=why, remedy=remedy)


def require_positive(value: float, where: str) -> float:
    """The value, if it is a positive finite number; else raises `InvalidParameter`."""
    if not math.isfinite(value) or value <= 0.0:
        raise InvalidParameter(f"{where} = {value!r}", where=where, remedy="give a positive number")
    return float(value)


def require_nonnegative(value: float, where: str) -> None:
    """Raise `InvalidParameter` unless the value is a finite number of at least 0."""
    if not 0.0 <= value < math.inf:
        raise InvalidParameter(f"{where} = {value!r}", where=where, remedy="give a number >= 0")


def require_failure_probability(probability: float) -> None:
    """Raise `InvalidParameter` unless the failure probability of a utility theorem lies in (0, 1)."""
    if not 0.0 < probability < 1.0:
        what = f"failure_probability = {probability!r}"
        raise InvalidParameter(what, where="failure_probability", remedy="give one in (0, 1)")


def require_word(word: object, where: str, known: Collection[str]) -> None:
    """Raise `InvalidParameter` unless the word is one of the known ones."""
    if word not in known:
        raise InvalidParameter(f"{where} {word!r}", where=where, remedy=f"give {' or '.join(known)}")


def unit_rewards(rewards: ArrayLike) -> Array:
    """A copy of a public reward function as doubles [H, S, A] in [0, 1]; else `InvalidParameter`."""
    table = np.array(rewards, dtype=np.float64)
    if table.ndim != 3 or not table.size or not ((table >= 0.0) & (table <= 1.0)).all():
        what = f"a reward function of shape {table.shape}, or with a reward outside [0, 1]"
        why = "the algorithm's sizes and the bounds on its values follow from it"
        remedy = "give numbers in [0, 1], [H, S, A]; rescale rewards by public bounds"
        raise InvalidParameter(what, where="rewards", why=why, remedy=remedy)
    return table


def feature_table(features: ArrayLike, axes: str) -> Array:
    """A copy of public features as finite doubles, not all zero, with these axes, such as ``[S, A, d]``."""
    table = np.array(features, dtype=np.float64)
    if table.ndim != axes.count(",") + 1 or not table.size or not np.isfinite(table).all() or not table.any():
        what = f"a feature map of shape {table.shape}, not finite, or zero everywhere"
        why = "every release's sensitivity is computed from them"
        remedy = f"give finite numbers {axes}, not all zero"
        raise InvalidParameter(what, where="features", why=why, remedy=remedy)
    return table


def set_read_only(instance: object, **arrays: NDArray[np.generic]) -> None:
    """Set attributes of a frozen dataclass to these arrays, made read-only."""
    for name, values in arrays.items():
        values.setflags(write=False)
        object.__setattr__(instance, name, values)


def digest(values: Array) -> str:
    """SHA-256 of the numbers as little-endian doubles, hexadecimal."""
    return hashlib.sha256(values.astype("<f8").tobytes()).hexdigest()
