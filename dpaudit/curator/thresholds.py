"""Comparisons of many values with a threshold as one release (the sparse vector technique)."""

import math

import numpy as np

from dpaudit.curator.admission import Admission, as_query
from dpaudit.curator.noise import Question
from dpaudit.curator.streams import admitted
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import GaussianSparseVector, SparseVector
from dpaudit.noise.bits import NeverCopied


class Comparisons(NeverCopied):
    """Successive comparisons of values with a noisy threshold; made by `Curator.sparse_vector`.

    The threshold's noise is drawn once and stays secret.
    """

    def __init__(
        self,
        admission: Admission,
        release: Release,
        mechanism: SparseVector | GaussianSparseVector,
        threshold: float,
    ) -> None:
        self._admission = admission
        self._release = release
        self._threshold = self._number_of(threshold, "threshold")
        self._answering = mechanism.answering()
        self._most = mechanism.steps if isinstance(mechanism, GaussianSparseVector) else math.inf
        self._left = mechanism.answers
        self._asked = 0
        self._number = admitted(admission, release)

    @property
    def ended(self) -> bool:
        """Whether all above-threshold answers, or all comparisons of the mechanism, are used."""
        return self._left == 0 or self._asked >= self._most

    def above(self, value: float, threshold: float | None = None) -> bool:
        """Return whether the noisy value reaches the noisy threshold.

        Args:
            value: private, one number.
            threshold: public; by default the threshold given to `Curator.sparse_vector`.

        Raises:
            InvalidParameter: the value or the threshold is not one finite number.
            ScheduleBroken: the comparisons have ended.
        """
        query = self._number_of(value, "a value")
        public = self._threshold if threshold is None else self._number_of(threshold, "threshold")
        with self._admission.lock:
            if self.ended:
                done = "enough values said yes" if self._left == 0 else f"{self._asked} values were compared"
                what, where = f"a value after {done}", f"release {self._release.label!r}"
                why = "the ledger accounts for no further comparison"
                remedy = (
                    "check `ended` first; open another sparse_vector, which is charged again, for more values"
                )
                raise ScheduleBroken(what, where=where, why=why, remedy=remedy)
            self._asked += 1
            answer = self._admission.ask(
                Question(
                    self._release,
                    self._number,
                    query,
                    np.array(float(query >= public)),
                    self._answering,
                    (query, public),
                    at=np.array([float(self._asked), float(public)]),
                )
            )
            yes = bool(answer > 0.5)
            self._left -= yes
            return yes

    def _number_of(self, given: float, what: str) -> np.ndarray:
        number = as_query(given, self._release.label)
        if number.size != 1:
            found, where = f"{what} of {number.size} numbers", f"release {self._release.label!r}"
            raise InvalidParameter(found, where=where, remedy="compare each number by a call of its own")
        return number.reshape(())
