"""The best of a secret number of trials, each with a curator of its own that holds it to its releases."""

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

#: The ledger of one trial, its noise, and what takes each release before it is drawn -> the trial's curator.
MakeCurator = Callable[[Ledger, SharedNoise, Callable[[Release], None]], Any]


class BestOf:
    """Draws how many trials there are, runs them, and keeps the best one's output.

    Args:
        trial: from a curator of its own and the index of a candidate to the score and the output.
        mechanism: what each trial releases, and the law of their number.
        candidates: how many there are; each trial tries one of them, all alike.
        default: what comes out where no trial is made; it has the shape of every output.
        header: that of the run.
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
        """The best trial's output; of several that are best, the first one's."""
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
            else:  # clipping may say more of a sensitivity than the mechanism's author did, and never less
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
    """Admit the release, and answer it; what the data say is in the trials alone."""
    number = admission.admit(release)

    def answer(_: Array, randomness: Randomness) -> Array:
        with admission.paused("a trial is run"):  # the number of trials is secret
            return draws.draw(randomness)

    return admission.ask(Question(release, number, np.empty(0), default, answer, (default,)))
