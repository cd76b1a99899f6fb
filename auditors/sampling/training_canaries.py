"""Canaries for an audit of training in one run: records that a model remembers, and how to tell that it did.

Mislabelled and out-of-distribution examples need the trained model alone (Steinke, Nasr and Jagielski 2023).
Examples of one feature each have gradients that hardly overlap; their presence shows in the parameters.

Whoever may change training itself inserts gradients instead (Nasr et al. 2023): a `Crafted` model gives each
canary a gradient along a parameter of its own.

The score of a canary is its loss under the trained model, that loss compared with those under reference
models that never saw a canary (the offline likelihood ratio of Carlini et al. 2022), or how far the
parameters moved along its gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.auditors.sampling.one_run import Canaries
from dpaudit.curator.clipping import require_unmasked
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Array

Kind: TypeAlias = Literal["mislabelled", "out-of-distribution", "one-feature", "gradient"]
Score: TypeAlias = Literal["loss", "ratio", "gradient"]

_WHERE: Final = "training_canaries"


class Learner(Protocol):
    """What is known of the model: its parameters are a vector [p], a record is features and then a label."""

    @property
    def classes(self) -> int:
        """The number of labels, which are whole numbers from 0."""
        ...

    def initial(self) -> Array:
        """Where training begins, [p]."""
        ...

    def gradients(self, theta: Array, records: Array) -> Array:
        """The gradient of every record's loss, [n, p]."""
        ...

    def losses(self, theta: Array, records: Array) -> Array:
        """Every record's loss, [n]."""
        ...


@dataclass(frozen=True)
class Crafted:
    """A model, and a crafted gradient for each of so many labels beyond its own: one parameter each.

    A record with the label ``classes + i`` is the i-th canary, whatever its features. Training is given this
    model in place of its own; every other record has the gradient that it had.

    Attributes:
        model: what is trained.
        number: of canaries, at most as many as there are parameters.
        length: of a crafted gradient; give at least the norm to which gradients are clipped.
        seed: of which parameters they are.

    Raises:
        InvalidParameter: more canaries than parameters.
    """

    model: Learner
    number: int
    length: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.number <= self.size:
            what = f"{self.number} crafted gradients of {self.size} parameters"
            raise InvalidParameter(what, where="Crafted(number=)", remedy="give at most one a parameter")

    @property
    def size(self) -> int:
        """The number p of parameters."""
        return len(self.model.initial())

    @property
    def classes(self) -> int:
        """The number of the model's labels."""
        return self.model.classes

    def initial(self) -> Array:
        """The initial parameters of the model."""
        return self.model.initial()

    def gradients(self, theta: Array, records: Array) -> Array:
        """The model's own gradients [n, p], and the crafted ones where a record is a canary."""
        canary = records[:, -1] >= self.classes
        found = np.zeros((len(records), len(theta)))
        found[~canary] = self.model.gradients(theta, records[~canary])
        places = np.random.default_rng(self.seed).permutation(len(theta))
        which = records[canary, -1].astype(np.int64) - self.classes
        found[np.flatnonzero(canary), places[which]] = self.length
        return found

    def losses(self, theta: Array, records: Array) -> Array:
        """The model's own losses [n]; 0 for canaries, whose gradients are those of no loss."""
        own = records[:, -1] < self.classes
        found = np.zeros(len(records))
        found[own] = self.model.losses(theta, records[own])
        return found


def training_canaries(
    model: Learner,
    records: ArrayLike,
    number: int,
    *,
    kind: Kind = "mislabelled",
    score: Score = "loss",
    references: Sequence[ArrayLike] = (),
    seed: int = 0,
) -> Canaries:
    """Canaries beside other records, for training whose output is the parameters [p].

    Args:
        model: what is trained.
        records: the other records [n, d + 1], which are in the data whatever the coins.
        number: of canaries, m.
        kind: ``mislabelled`` are records with another label, ``out-of-distribution`` have features of +-1 at
            random, ``one-feature`` a single feature each, and ``gradient`` the labels of a `Crafted` model.
        score: ``loss``; ``ratio``, which compares it with the reference models'; or ``gradient``, the dot
            product of the canary's gradient at the initial parameters with how far they moved.
        references: parameters of at least two models that were trained without canaries, with whose mean
            score a canary's is compared; ``ratio`` needs them, for their spread.
        seed: of the canaries.

    Raises:
        DataError: the records are not [n, d + 1] finite numbers, or the model has fewer than two labels.
        InvalidParameter: an unknown kind or score, no canaries, crafted gradients of a model without so many,
            or reference models of another size.
    """
    for name, given, known in (("kind", kind, get_args(Kind)), ("score", score, get_args(Score))):
        if given not in known:
            remedy = f"give one of {', '.join(known)}"
            raise InvalidParameter(f"{name} {given!r}", where=f"{_WHERE}({name}=)", remedy=remedy)
    require_unmasked((records, *references), f"{_WHERE}(records=, references=)")
    base = np.asarray(records, dtype=np.float64)
    fits = base.ndim == 2 and base.shape[1] > 1 and len(base) > 0 and np.isfinite(base).all()
    if not fits or model.classes < 2:
        what = f"records of shape {base.shape}, for {model.classes} labels"
        remedy = (
            "give finite numbers [n, d + 1], features and then a label, and a model of two labels or more"
        )
        raise DataError(what, where=f"{_WHERE}(records=)", remedy=remedy)
    if number < 1:
        raise InvalidParameter(f"{number!r} canaries", where=f"{_WHERE}(number=)", remedy="give 1 or more")
    if kind == "gradient" and not (isinstance(model, Crafted) and number <= model.number):
        what, remedy = f"{number} crafted gradients of a {type(model).__name__}", "give a Crafted of as many"
        raise InvalidParameter(what, where=f"{_WHERE}(model=)", remedy=remedy)
    made = _made(kind, base, number, model.classes, np.random.default_rng(seed))
    first = model.initial()
    others = [np.asarray(each, dtype=np.float64) for each in references]
    few = len(others) < 2 and (score == "ratio" or len(others) == 1)
    if few or any(each.shape != first.shape for each in others):
        what = f"{len(others)} reference models for parameters of shape {first.shape}"
        why, remedy = "a loss is compared with their spread", "train two or more without canaries"
        raise InvalidParameter(what, where=f"{_WHERE}(references=)", why=why, remedy=remedy)

    def insert(included: NDArray[np.bool_]) -> Array:
        return np.vstack([base, made[included]])

    def seen(theta: Array) -> Array:
        if score != "gradient":
            return -model.losses(theta, made)
        rows = model.gradients(first, made)
        length = np.linalg.norm(rows, axis=1)
        return -(rows @ (theta - first)) / np.where(length > 0.0, length, 1.0)

    usual = np.array([seen(each) for each in others])
    centre = usual.mean(axis=0) if others else 0.0
    spread = np.maximum(usual.std(axis=0, ddof=1), 1e-12) if score == "ratio" else 1.0
    return Canaries(number, insert, lambda output: (seen(_parameters(output, first)) - centre) / spread)


def _parameters(output: Any, like: Array) -> Array:
    """The output as parameters; raises `DataError` where it is none."""
    theta = np.asarray(output, dtype=np.float64)
    if theta.shape != like.shape:
        what = f"an output of shape {theta.shape}, and parameters of shape {like.shape}"
        raise DataError(what, where=_WHERE, remedy="let training return the parameters as one vector")
    return theta


def _made(kind: Kind, base: Array, number: int, classes: int, rng: np.random.Generator) -> Array:
    width = base.shape[1] - 1
    if kind == "gradient":
        return np.hstack([np.zeros((number, width)), classes + np.arange(number, dtype=np.float64)[:, None]])
    if kind == "mislabelled":
        made = base[rng.integers(len(base), size=number)]
        made[:, -1] = (made[:, -1] + rng.integers(1, classes, size=number)) % classes
        return made
    labels = rng.integers(classes, size=(number, 1)).astype(np.float64)
    if kind == "out-of-distribution":
        return np.hstack([rng.choice([-1.0, 1.0], size=(number, width)), labels])
    # Every feature once before any comes again.
    return np.hstack([np.eye(width)[np.resize(rng.permutation(width), number)], labels])
