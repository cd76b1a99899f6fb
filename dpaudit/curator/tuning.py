"""The best of a secret number of trials; each trial's own curator admits only the listed releases."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.curator.admission import Admission, as_query
from dpaudit.curator.noise import Question, SharedNoise, describe
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.ledger import Header, Ledger
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import Array, PrivateSelection
from dpaudit.mechanisms.base import BaseMechanism
from dpaudit.noise.randomness import Randomness

#: Makes a trial's curator from its ledger, its noise and a check of each release before it is drawn.
MakeCurator = Callable[[Ledger, SharedNoise, Callable[[Release], None]], Any]


class BestOf:
    """Draws the number of trials, runs them, and keeps the output of the best one.

    Args:
        trial: receives its own curator and the index of a candidate; returns a score and an output.
        mechanism: the releases of each trial, and the distribution of the number of trials.
        candidates: the number of candidates; each trial draws one uniformly.
        default: the output if no trial is made; it has the shape of every output.
        header: the header of the run.
        make: makes a trial's curator.
    """

    def __init__(
        self,
        trial: Callable[[Any, int], tuple[float, ArrayLike]],
        mechanism: PrivateSelection,
        candidates: int,
        default: Array,
        header: Header,
        make: MakeCurator,
    ) -> None:
        self._trial, self._mechanism, self._candidates = trial, mechanism, candidates
        self._default, self._make = default, make
        alone = {"schedule": "fixed", "budget": None, "claim": None, "users": None}
        self._header = header.model_copy(update=alone)

    def draw(self, randomness: Randomness) -> Array:
        """Return the output of the first trial with the largest score."""
        best, output = -np.inf, self._default
        for _ in range(self._mechanism.repetitions.draw(randomness)):
            score, found = self._run(randomness)
            if score > best:
                best, output = score, found
        return output.copy()

    def _run(self, randomness: Randomness) -> tuple[float, Array]:
        noise, listed = SharedNoise(randomness, self._header.noise), iter(self._mechanism.releases)

        def take(release: Release | None) -> None:
            one = next(listed, None)
            if one is None or release is None:
                fits = one is None and release is None
            else:  # a clipped sensitivity may stand for a declared one, but not the reverse
                costs = [(each.mechanism.dominating_pair(), each.count) for each in (one, release)]
                fits = (
                    costs[0] == costs[1]
                    and release.sample is None
                    and (_declared(one.mechanism) or not _declared(release.mechanism))
                )
            if not fits:
                makes = "ends early" if release is None else f"makes {describe(release)}"
                what = f"a trial that {makes}, where the mechanism lists another release, or none"
                why = "the bound holds for the releases that the mechanism lists, made by every trial"
                remedy = "list exactly these in the mechanism, or let every trial make those it lists"
                raise ScheduleBroken(what, where="trial", why=why, remedy=remedy)

        try:
            curator = self._make(Ledger(self._header), noise, take)
            score, output = self._trial(curator, randomness.below(self._candidates))
            take(None)
        finally:
            noise.end()
        number, found = as_query(score, "trial"), as_query(output, "trial")
        if number.size != 1 or found.shape != self._default.shape:
            what = f"a trial with {number.size} scores and an output of shape {found.shape}"
            remedy = f"return one score and an output of shape {self._default.shape}, as `default` has"
            raise InvalidParameter(what, where="trial", remedy=remedy)
        return float(number.reshape(())), found


def _declared(mechanism: BaseMechanism) -> bool:
    sensitivity = mechanism.declared_sensitivity
    return sensitivity is not None and sensitivity.basis == "declared"


def best_of(admission: Admission, release: Release, draws: BestOf, default: Array) -> Array:
    """Admit the release and answer it; only the trials see the data."""
    number = admission.admit(release)

    def answer(_: Array, randomness: Randomness) -> Array:
        with admission.paused("a trial is run"):  # the number of trials is secret
            return draws.draw(randomness)

    return admission.ask(Question(release, number, np.empty(0), default, answer, (default,)))
