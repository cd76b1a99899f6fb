"""Sums over the units scheduled for each step, as one release."""

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.curator.admission import Admission, as_query
from dpaudit.curator.clipping import doubles
from dpaudit.curator.noise import Question
from dpaudit.curator.streams import admitted
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import Array, InTurns, StreamMechanism
from dpaudit.noise.bits import NeverCopied
from dpaudit.noise.contributions import clip_rows
from dpaudit.noise.grid import FINEST, grid_of_bound
from dpaudit.noise.sums import total


class SampledStream(NeverCopied):
    """Noisy sums over the units scheduled for each step; made by `Curator.sampled_stream`.

    The mechanism draws the participation schedule once and keeps it secret.
    """

    def __init__(
        self, admission: Admission, release: Release, mechanism: InTurns, bound: float, shape: tuple[int, ...]
    ) -> None:
        self._admission, self._release, self._mechanism = admission, release, mechanism
        self._bound, self._shape = bound, shape
        self._where = f"release {release.label!r}"
        self._exponent = grid_of_bound(
            bound, FINEST if mechanism.grid is None else mechanism.grid, self._where
        )
        self._answering = mechanism.answering()
        self._expected = np.zeros(shape)
        self._taken = 0
        self._number = admitted(admission, release)

    def add(self, contributions: ArrayLike) -> Array:
        """Return the noisy sum of this step's rows, or of all steps so far if the noise is correlated.

        Args:
            contributions: [n, *shape], one row for every unit of privacy, in the same order in every step.
                Rows of units that are not scheduled for this step are ignored.

        Raises:
            InvalidParameter: the rows are not numbers of the stream's shape.
            ScheduleBroken: all steps of the mechanism are used.
        """
        given = doubles(contributions, self._where)
        if given.ndim == 0 or given.shape[1:] != self._shape:
            what = f"contributions of shape {given.shape} in a stream of {self._shape}"
            remedy = "give one row per unit of privacy, each of the shape that the stream was made for"
            raise InvalidParameter(what, where=self._where, remedy=remedy)
        rows = clip_rows(given, self._bound, self._mechanism.sensitivity.norm, self._exponent)
        query = as_query(total(rows).to_doubles(), self._release.label)
        with self._admission.lock:
            if self._taken == self._mechanism.length:
                what = f"step {self._taken + 1} of a stream of {self._mechanism.length} steps"
                why = "no unit is scheduled for it"
                remedy = "give the mechanism as many steps as the stream may take"
                raise ScheduleBroken(what, where=self._where, why=why, remedy=remedy)
            self._taken += 1
            expected = self._mechanism.expected_share * query
            if isinstance(self._mechanism.mechanism, StreamMechanism):
                self._expected = expected = self._expected + expected
            question = Question(
                self._release,
                self._number,
                query,
                expected,
                self._answering,
                (rows,),
                at=np.array(float(self._taken)),
            )
            return self._admission.ask(question)
