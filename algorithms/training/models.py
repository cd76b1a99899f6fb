"""Models as the trainers see them: a vector of parameters, and a gradient for every record.

A record is a row [d + 1]: d features, then the label, a whole number from 0. What a model has learnt is a
vector theta [p]. Everything but the records is public.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpaudit.algorithms import public_parameters as public
from dpaudit.errors import DataError
from dpaudit.mechanisms import Array

#: The label of a record that is blank: it holds the place of one that was zeroed out, and has no gradient.
ABSENT = -1


class Model(Protocol):
    """The interface of a model that a trainer uses."""

    @property
    def features(self) -> int:
        """The number of features d."""
        ...

    @property
    def classes(self) -> int:
        """The number k of classes, labelled 0 to k - 1."""
        ...

    @property
    def size(self) -> int:
        """The number p of parameters."""
        ...

    def initial(self) -> Array:
        """Where training begins, [p], the same every time."""
        ...

    def gradients(self, theta: Array, records: Array) -> Array:
        """The gradient of every record's loss, [n, p].

        A row follows from its record alone, to the last digit: a product of matrices (``@``) may round a
        row otherwise where others are computed with it.
        """
        ...

    def losses(self, theta: Array, records: Array) -> Array:
        """Every record's loss, [n]: minus the log probability of its label."""
        ...

    def predictions(self, theta: Array, records: Array) -> Array:
        """The likeliest label of every record, [n]."""
        ...


def require_records(records: Array, model: Model) -> Array:
    """Records as numbers [n, d + 1]; raises `DataError` (for the data's holder) for any others."""
    rows = np.asarray(records, dtype=np.float64)
    width = model.features + 1
    if rows.ndim != 2 or rows.shape[1] != width:
        what, remedy = f"records {rows.shape}", f"give [n, {width}]: the features, then the label"
        raise DataError(what, where="records", remedy=remedy)
    labels = rows[:, -1]
    known = (labels >= ABSENT) & (labels < model.classes) & (labels % 1 == 0)
    if not np.isfinite(rows).all() or not known.all():
        what = "a feature that is not finite, or a label that is none"
        raise DataError(what, where="records", remedy=f"give labels 0 to {model.classes - 1}")
    return rows


def _log_softmax(scores: Array) -> Array:
    """Log probabilities [n, k] of scores [n, k]."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _errors(scores: Array, labels: Array) -> Array:
    """The gradient of minus the log probability by the scores: probabilities minus the label, [n, k]."""
    errors = np.exp(_log_softmax(scores))
    errors[np.arange(len(labels)), labels.astype(np.int64)] -= 1.0
    return errors


def _losses(scores: Array, labels: Array) -> Array:
    return -_log_softmax(scores)[np.arange(len(labels)), labels.astype(np.int64)]


def _product(rows: Array, matrix: Array) -> Array:
    """rows @ matrix, [n, k], each row's rounding its own: that of `@` depends on how many rows there are."""
    return np.asarray((rows[:, :, None] * matrix).sum(axis=1))


def _with_one(features: Array) -> Array:
    """Features and a constant, scaled to norm 1, [n, d + 1]."""
    wide = np.hstack([features, np.ones((len(features), 1))])
    return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True))


@dataclass(frozen=True)
class Softmax:
    """Softmax regression on features scaled to norm 1: theta is [d + 1, k], row by row.

    With two classes it is logistic regression. A gradient's norm is at most sqrt(2).
    """

    features: int
    classes: int

    def __post_init__(self) -> None:
        public.public_size(self.features, "features")
        public.public_size(self.classes, "classes")

    @property
    def size(self) -> int:
        """The number of parameters, (d + 1) k."""
        return (self.features + 1) * self.classes

    def initial(self) -> Array:
        """The initial parameters, all 0."""
        return np.zeros(self.size)

    def gradients(self, theta: Array, records: Array) -> Array:
        """x (p - y)' of every record, [n, p]."""
        x = _with_one(records[:, :-1])
        errors = _errors(self._scores(theta, x), records[:, -1])
        return (x[:, :, None] * errors[:, None, :]).reshape(len(records), self.size)

    def losses(self, theta: Array, records: Array) -> Array:
        """Minus the log probability of each label, [n]."""
        return _losses(self._scores(theta, _with_one(records[:, :-1])), records[:, -1])

    def predictions(self, theta: Array, records: Array) -> Array:
        """The class with the largest score, [n]."""
        return np.asarray(self._scores(theta, _with_one(records[:, :-1])).argmax(axis=1))

    def _scores(self, theta: Array, x: Array) -> Array:
        return _product(x, theta.reshape(self.features + 1, self.classes))


@dataclass(frozen=True)
class Network:
    """One hidden layer of tanh units: theta is [d + 1, m], then [m + 1, k], row by row."""

    features: int
    classes: int
    hidden: int = 16  # m
    seed: int = 0  # of the first weights, which are public

    def __post_init__(self) -> None:
        for name in ("features", "classes", "hidden"):
            public.public_size(getattr(self, name), name)

    @property
    def size(self) -> int:
        """The number of parameters, (d + 1) m + (m + 1) k."""
        return self._first + (self.hidden + 1) * self.classes

    @property
    def _first(self) -> int:
        return (self.features + 1) * self.hidden

    def initial(self) -> Array:
        """Normal weights of variance 1/width, so that units differ; zeros for the second layer."""
        width = self.features + 1
        first = np.random.default_rng(self.seed).normal(size=self._first) * (3.0 / np.sqrt(width))
        return np.concatenate([first, np.zeros(self.size - self._first)])

    def gradients(self, theta: Array, records: Array) -> Array:
        """By backpropagation, record by record, [n, p]."""
        x, hidden, scores = self._forward(theta, records)
        errors = _errors(scores, records[:, -1])  # [n, k]
        wide = np.hstack([hidden, np.ones((len(hidden), 1))])
        second = wide[:, :, None] * errors[:, None, :]
        back = _product(errors, self._second(theta)[:-1].T) * (1.0 - hidden**2)  # [n, m]
        first = x[:, :, None] * back[:, None, :]
        flat = first.reshape(len(x), self._first), second.reshape(len(x), self.size - self._first)
        return np.hstack(flat)

    def losses(self, theta: Array, records: Array) -> Array:
        """Minus the log probability of each label, [n]."""
        return _losses(self._forward(theta, records)[2], records[:, -1])

    def predictions(self, theta: Array, records: Array) -> Array:
        """The class with the largest score, [n]."""
        return np.asarray(self._forward(theta, records)[2].argmax(axis=1))

    def _second(self, theta: Array) -> Array:
        return theta[self._first :].reshape(self.hidden + 1, self.classes)

    def _forward(self, theta: Array, records: Array) -> tuple[Array, Array, Array]:
        """The scaled features, the hidden units and the scores."""
        x = _with_one(records[:, :-1])
        hidden = np.tanh(_product(x, theta[: self._first].reshape(self.features + 1, self.hidden)))
        second = self._second(theta)
        return x, hidden, _product(hidden, second[:-1]) + second[-1]
