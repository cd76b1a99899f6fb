"""From an algorithm's output to the number or the vector that an audit compares."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import ScoreShape
from dpaudit.mechanisms import Array

#: From one output to a number or a vector. A score may carry ``batch``, from the outputs of many trials
#: (each array with a leading axis over the trials) to [n] or [n, k].
Score = Callable[[Any], Any]


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

    Arrays, sequences, mappings (by key, in their order), dataclasses and numbers, nested in any way;
    `ScoreShape` is raised for anything that is not a number.
    """
    parts = _leaves(output)
    if len(parts) == 1 and parts[0].ndim == 0:
        return parts[0]
    return np.concatenate([part.ravel() for part in parts]) if parts else np.empty(0)


def flatten_batch(outputs: Any, trials: int) -> Array:
    """The same for the outputs of many trials, whose arrays have a leading axis over the trials: [n(, k)]."""
    parts = _leaves(outputs)
    for part in parts:
        if part.ndim == 0 or part.shape[0] != trials:
            what, where = f"an array of shape {part.shape} in a batch of {trials} trials", "batch"
            raise ScoreShape(what, where=where, remedy="return arrays whose first axis runs over the trials")
    if len(parts) == 1 and parts[0].ndim == 1:
        return parts[0]
    rows = [part.reshape(trials, -1) for part in parts]
    return np.concatenate(rows, axis=1) if rows else np.empty((trials, 0))


def structure(output: Any, *, batch: bool = False) -> str:
    """What an output holds beside its numbers: keys, types of containers and shapes, to be compared.

    In a batch, arrays have a leading axis over the trials, which is no part of the structure.
    """
    parts = _parts(output)
    if parts is None:
        return str(np.shape(output)[1:] if batch else np.shape(output))
    inner = ",".join(f"{name}{structure(value, batch=batch)}" for name, value in parts)
    return f"{type(output).__qualname__}<{inner}>"


def _parts(output: Any) -> list[tuple[str, Any]] | None:
    """A container's values with their names; None for anything else."""
    if isinstance(output, Mapping):
        return [(f"{key!r}:", value) for key, value in output.items()]
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        names = [field.name for field in dataclasses.fields(output)]
        return [(f"{name}:", getattr(output, name)) for name in names]
    return [("", value) for value in output] if isinstance(output, (list, tuple)) else None


def require_one_structure(structures: Iterable[str | None], where: str) -> str | None:
    """The one structure of many outputs; `ScoreShape` is raised for several."""
    different = set(structures)
    if len(different) > 1:
        what = "outputs whose keys, shapes or nesting are not always the same"
        why = "only the numbers in an output are compared, and such a difference would be lost"
        remedy = "pass a score, a callable from the output to a number or a vector that distinguishes them"
        raise ScoreShape(what, where=where, why=why, remedy=remedy)
    return different.pop()


def score_batch(score: Score, outputs: Any, trials: int) -> Array:
    """The scores [n] or [n, k] of a batch, trial by trial where the score has no batch form."""
    if score is flatten:
        return flatten_batch(outputs, trials)
    batch = getattr(score, "batch", None)
    if batch is not None:
        return _numbers(batch(outputs), "score.batch", trials)
    return stack([score(_row(outputs, index)) for index in range(trials)])


def stack(scores: Sequence[Any]) -> Array:
    """The scores of several trials as [n] or [n, k]; `ScoreShape` where they differ in length."""
    shapes = {np.shape(score) for score in scores}
    if len(shapes) != 1:
        remedy = "give a score whose length does not depend on the output"
        raise ScoreShape(f"scores of shapes {sorted(shapes)}", where="score", remedy=remedy)
    return _numbers(np.array(scores), "score", len(scores))


def _numbers(scores: Any, where: str, trials: int) -> Array:
    array = np.asarray(scores)
    _require_exact(scores, array)
    if array.dtype.kind not in "buif" or array.ndim not in {1, 2} or array.shape[0] != trials:
        what = f"type {array.dtype}, shape {array.shape} for {trials} trials"
        raise ScoreShape(what, where=where, remedy="return one number or one vector a trial")
    return array.astype(np.float64)


def _leaves(output: Any) -> list[Array]:
    parts = _parts(output)
    if parts is not None:
        return [leaf for _, value in parts for leaf in _leaves(value)]
    try:
        array = np.asarray(output)
    except ValueError:
        array = np.empty(0, dtype=object)
    _require_exact(output, array)
    if array.dtype.kind not in "buif":
        why = "without a score only numbers can be compared"
        remedy = "pass a score, a callable from the output to a number or a vector"
        raise ScoreShape(f"an output of type {type(output).__name__}", where="output", why=why, remedy=remedy)
    return [array.astype(np.float64)]


def _require_exact(given: Any, array: NDArray[Any]) -> None:
    """Raise `ScoreShape` for an integer that no float equals: two of them may share one float."""
    if array.dtype.kind == "O" and isinstance(given, int):
        same = _is_float(given)
    elif array.dtype.kind in "iu" and array.size and array.dtype.itemsize == 8:
        with np.errstate(invalid="ignore"):
            near = array.astype(np.float64)
        # 2**53 itself is where the next integer has the same float.
        large = np.abs(near) >= 2.0**53
        same = all(_is_float(int(number)) for number in array[large])
    else:
        return
    if not same:
        what = "an integer beyond 2^53 that no floating-point number equals"
        why = "scores are compared as floating-point numbers, where such an integer equals its neighbour"
        remedy = "pass a score, a callable from the output to a number or a vector that floats can hold"
        raise ScoreShape(what, where="output", why=why, remedy=remedy)


def _is_float(number: int) -> bool:
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _row(outputs: Any, index: int) -> Any:
    """One trial's output in a batch's outputs."""
    if isinstance(outputs, Mapping):
        return {key: _row(value, index) for key, value in outputs.items()}
    if isinstance(outputs, tuple):
        return getattr(type(outputs), "_make", tuple)([_row(value, index) for value in outputs])
    return outputs[index]
