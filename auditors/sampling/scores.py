"""From an algorithm's output to what an audit compares: a kind of outcome, and numbers.

Whatever an adversary can tell apart is an event to be tested: keys, types of containers, shapes, text, NaN,
and that a run raised. What is no number goes into the outcome's *kind*, or becomes a number by a hash.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import DpauditError, ScoreShape
from dpaudit.mechanisms import Array
from dpaudit.processes.wire import NotPlain, portrait

#: From one output to a number or a vector. A score may carry ``batch``, from the outputs of many trials
#: (each array with a leading axis over the trials) to [n] or [n, k].
Score = Callable[[Any], Any]
#: How deep containers and objects may be nested; what lies deeper is told apart by its text.
_DEPTH = 12
#: Mark a number as a hash. No key in a score has this form.
_HASH = "#"
#: Marks what no number, text or kind tells, such as what a generator would give.
_UNSEEN = "?"


class Outcome(NamedTuple):
    """What one run gave: its numbers, [] or [k], and the kind of what they were found in.

    The kind of a run that raised is below 0; it is no whole number where numbers are hashes of text, nor half
    of one where an object's content is not seen.
    """

    numbers: Array
    kind: float


class Scored(NamedTuple):
    """The outcomes of several trials: numbers [n] or [n, k], filled up with NaN, and kinds [n]."""

    scores: Array
    kinds: Array


@dataclass(frozen=True)
class RowScore:
    """A score written for many trials at once, from outputs [n, ...] to scores [n] or [n, k]."""

    rows: Callable[[Any], Any]

    def __call__(self, output: Any) -> Any:
        """The score of one output that is an array or a number."""
        return self.rows(np.asarray(output)[np.newaxis])[0]

    def batch(self, outputs: Any) -> Any:
        """The scores [n] or [n, k] of outputs [n, ...]."""
        return self.rows(np.asarray(outputs))


def flatten(output: Any) -> Array:
    """Every number of an output, as one vector [k]; a single number stays one number [].

    Arrays, sequences, mappings (by key, in their order), sets, dataclasses and other objects (by attribute),
    nested in any way. Text becomes a number by a hash, and so does an integer that no float equals, beside
    the nearest float.
    """
    return outcome(output).numbers


def outcome(output: Any) -> Outcome:
    """The numbers of an output, and a kind that tells all else: keys, types of containers, shapes."""
    found = list(_parts(output, None))
    kind = _kind(tuple(text for text, _ in found))
    parts = [numbers for _, numbers in found if numbers is not None]
    if len(parts) == 1 and parts[0].ndim == 0:
        return Outcome(parts[0], kind)
    return Outcome(np.concatenate([part.ravel() for part in parts]) if parts else np.empty(0), kind)


def raised(error: BaseException) -> Outcome:
    """A run that raised: its kind, below 0, is the error's type, its second number the message by a hash."""
    name = error.code if isinstance(error, DpauditError) else type(error).__qualname__
    return Outcome(np.array([np.nan, _hashed(str(error))]), -_kind((f"raised {name}",)))


def has_unseen(kinds: Array) -> bool:
    """Whether an outcome of one of these kinds held an object whose content was not seen."""
    return bool((kinds % 0.5).any())


def scored_batch(score: Score, outputs: Any, trials: int) -> Scored:
    """The outcomes of a batch, trial by trial where the score has no batch form.

    `ScoreShape` is raised for an array without a leading axis over the trials.
    """
    if score is flatten:
        return _flat(outputs, trials)
    batch = getattr(score, "batch", None)
    if batch is not None:
        return _flat(batch(outputs), trials)
    return stack([outcome(score(_row(outputs, index))) for index in range(trials)])


def _flat(outputs: Any, trials: int) -> Scored:
    found = list(_parts(outputs, trials))
    parts = [numbers for _, numbers in found if numbers is not None]
    kinds = np.full(trials, _kind(tuple(text for text, _ in found)))
    if len(parts) == 1 and parts[0].ndim == 1:
        return Scored(parts[0], kinds)
    rows = [part.reshape(trials, -1) for part in parts]
    return Scored(np.concatenate(rows, axis=1) if rows else np.empty((trials, 0)), kinds)


def stack(outcomes: Sequence[Outcome]) -> Scored:
    """The outcomes of several trials: [n] where each is one number [], else [n, k] with the largest k."""
    kinds = np.array([kind for _, kind in outcomes])
    shapes = {numbers.shape for numbers, _ in outcomes}
    if len(shapes) == 1:
        return Scored(np.array([numbers for numbers, _ in outcomes]), kinds)
    scores = np.full((len(outcomes), max(numbers.size for numbers, _ in outcomes)), np.nan)
    for row, (numbers, _) in zip(scores, outcomes, strict=True):
        row[: numbers.size] = numbers
    return Scored(scores, kinds)


@lru_cache(maxsize=4096)
def _kind(texts: tuple[str, ...]) -> float:
    """A kind as a number below 2^48, which a float holds; its fraction as in `Outcome`."""
    content = "".join(texts).encode(errors="replace")
    number = float(int.from_bytes(hashlib.sha256(content).digest()[:6], "big"))
    return number + 0.5 * (_HASH in texts) + 0.25 * (_UNSEEN in texts)


def _hashed(text: object) -> float:
    """Text as a number below 2^32, which rounded scores still tell apart."""
    content = text if isinstance(text, bytes) else str(text).encode(errors="replace")
    return float(int.from_bytes(hashlib.sha256(content).digest()[:4], "big"))


#: Text for the kind, and numbers: [...] of one output, [n, ...] of a batch of n.
_Part = tuple[str, Array | None]


def _parts(output: Any, trials: int | None, depth: int = 0) -> Iterator[_Part]:
    """The parts of an output, or of the outputs of a batch of `trials`, in order."""
    inner = _named(output) if depth < _DEPTH else None
    if inner is not None:
        yield f"{type(output).__qualname__}<", None
        for name, value in inner:
            yield name, None
            yield from _parts(value, trials, depth + 1)
            yield ",", None
        yield ">", None
        return
    try:
        array = np.asarray(output)
    except Exception:  # noqa: BLE001  (whatever an object's own conversion raises)
        array = np.empty((), dtype=object)
    if trials is not None and (array.ndim == 0 or array.shape[0] != trials):
        what, where = f"an array of shape {array.shape} in a batch of {trials} trials", "batch"
        raise ScoreShape(what, where=where, remedy="return arrays whose first axis runs over the trials")
    if array.dtype.kind == "O" and array.ndim == 0:
        yield from _single(output, depth)
    elif array.dtype.kind == "O" and trials is None:
        yield f"{array.shape}<", None
        for value in array.ravel().tolist():
            yield from _parts(value, None, depth + 1)
        yield ">", None
    else:
        shape = array.shape if trials is None else array.shape[1:]
        yield from _numbers(array, str(shape))
        if trials is None and depth < _DEPTH and (beside := getattr(output, "__dict__", None)):
            yield from _parts(dict(beside), None, depth + 1)


def _named(output: Any) -> list[tuple[str, Any]] | None:
    """A container's values with their names; None for anything else."""
    if isinstance(output, Mapping):
        return [(f"{key!r}:", value) for key, value in output.items()]
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        names = [field.name for field in dataclasses.fields(output)]
        return [(f"{name}:", getattr(output, name)) for name in names]
    if isinstance(output, (set, frozenset)):
        each = [(outcome(value), value) for value in output]
        each.sort(key=lambda one: (one[0].kind, one[0].numbers.tolist()))
        return [("", value) for _, value in each]
    if hasattr(output, "columns") and hasattr(output, "index"):  # a data frame
        return [("columns:", list(output.columns)), ("", list(output.index)), ("", np.asarray(output))]
    if hasattr(output, "name") and not callable(getattr(output, "index", callable)):  # a column of one
        return [(f"{output.name!r} {list(output.index)!r}:", np.asarray(output))]
    return [("", value) for value in output] if isinstance(output, (list, tuple)) else None


def _single(output: Any, depth: int) -> Iterator[_Part]:
    """What numpy has no type for: an integer of any size, or an object."""
    if isinstance(output, int):
        try:
            near = float(output)
        except OverflowError:
            near = float("inf") if output > 0 else float("-inf")
        yield "wide()", np.array(near)
        yield _HASH, np.array(_hashed(output))
        return
    yield f"{type(output).__qualname__}", None
    if isinstance(output, Enum):
        yield _HASH, np.array(_hashed(output.name))
    elif output is not None:
        try:
            held = dict(portrait(output).parts)
            yield str(held.pop("made by", "")), None
        except NotPlain:
            yield _UNSEEN, None
            held = {} if isinstance(output, type) else dict(getattr(output, "__dict__", {}))
        held = {name: part for name, part in held.items() if not _is_empty(part)}
        if depth >= _DEPTH and held:
            yield _UNSEEN, None
        elif held:
            yield from _parts(held, None, depth + 1)


def _is_empty(part: object) -> bool:
    return part is None or (isinstance(part, list) and not part)


def _numbers(array: NDArray[Any], shape: str) -> Iterator[_Part]:
    """An array as numbers; text and dates by a hash, complex numbers as two."""
    kind = array.dtype.kind
    if kind in "buif":
        with np.errstate(invalid="ignore", over="ignore"):
            near = array.astype(np.float64)
        exact = array.dtype.itemsize < 8 or kind in "bf" or _exact(array, near)
        if kind == "f" and array.dtype.itemsize > 8:  # a long double beyond a double, in size or in digits
            exact = bool(((near == array) | np.isnan(array)).all())
        yield shape if exact else f"wide{shape}", near
        if not exact:
            yield _HASH, _each(array)
    elif kind == "c":
        with np.errstate(over="ignore"):
            real, imaginary = array.real.astype(np.float64), array.imag.astype(np.float64)
        yield f"complex{shape}", real
        yield "", imaginary
    else:
        yield f"{array.dtype.type.__name__}{shape}", None
        yield _HASH, _each(array)


def _each(array: NDArray[Any]) -> Array:
    """Every entry as a number, by its hash."""
    known = {value: _hashed(value) for value in set(array.ravel().tolist())}
    hashes = [known[value] for value in array.ravel().tolist()]
    return np.array(hashes, dtype=np.float64).reshape(array.shape)


def _exact(array: NDArray[Any], near: Array) -> bool:
    """Whether floats equal all integers of an array."""
    # 2**53 itself is where the next integer has the same float.
    large = np.abs(near) >= 2.0**53
    return all(int(float(number)) == number for number in array[large].tolist())


def _row(outputs: Any, index: int) -> Any:
    """One trial's output in a batch's outputs."""
    if isinstance(outputs, Mapping):
        return {key: _row(value, index) for key, value in outputs.items()}
    if isinstance(outputs, tuple):
        return getattr(type(outputs), "_make", tuple)([_row(value, index) for value in outputs])
    return outputs[index]
