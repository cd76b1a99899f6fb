"""The optimal score: the log-likelihood ratio of a run's releases, computed by the algorithm itself.

By the lemma of Neyman and Pearson no other function of the transcript distinguishes two data sets better. It
is a function of the transcript alone, and so is an audit with this score: after each run, both data sets are
replayed with every release forced to return what it returned there, whichever side the run was on.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from dpaudit.auditors.replay.likelihood import NoDensity, log_ratio, queries_of, require_densities
from dpaudit.auditors.replay.recording import Runs, flow_difference
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.trial import require_seed, seed_global_generators
from dpaudit.claims.pairs import Pair
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise
from dpaudit.errors import CannotBound, TrialFailed

#: The seed of the algorithm's own hidden randomness in a replay: the same for every transcript.
_CANONICAL = SeedSequence(0)


def exact_ratio(
    algorithm: Callable[[Any, Curator], Any],
    pair: Pair,
    *,
    seed: int = 0,
    run_options: Mapping[str, Any] | None = None,
) -> Plain:
    """Turn an algorithm and a pair into a mechanism that returns each run's log-likelihood ratio.

    Trial i makes the same releases as trial i of the algorithm. The ratio is infinite if one of the data
    sets cannot produce them. `seed` is the root seed of a first test run. Raises `CannotBound` if a release
    has no density, or nothing is released.
    """
    ratio = TranscriptRatio(algorithm, pair.data, pair.neighbour, dict(run_options or {}))
    first = SeedSequence((require_seed(seed), 0, 0))
    tried = Runs(algorithm, ratio.options).record(pair.data, LiveNoise(first))
    if tried.error is None and not tried.entries:
        what = "nothing was released through the curator"
        why = "the likelihood ratio of an empty transcript is 1, whatever the output reveals"
        remedy = "give a score of the output, or have one learned; or release through the curator"
        raise CannotBound(what, where="score exact", why=why, remedy=remedy)
    try:
        found = ratio(pair.data, np.random.default_rng(first))
    except NoDensity as error:
        why = "a likelihood ratio needs the densities of all releases"
        remedy = "give a score of the output, or have one learned"
        what = str(error) if pair.stand_ins is None else "the density of a release is not known"
        raise CannotBound(what, where="score exact", why=why, remedy=remedy) from None
    if tried.error is not None and not tried.entries and found == 0.0:
        # It raises on both sides before anything is released: most likely it is not what was meant.
        kind = type(tried.error).__name__
        raise TrialFailed.in_trial(kind, seed=seed, side=0, index=0) from tried.error
    return Plain(ratio)


@dataclass(frozen=True)
class TranscriptRatio:
    """Run once, replay both data sets, compare; with the options of `dpaudit.run`."""

    algorithm: Callable[[Any, Curator], Any]
    data: Any
    neighbour: Any
    options: Mapping[str, Any]

    def __call__(self, data: Any, generator: np.random.Generator) -> float:
        """Return the log-likelihood ratio of one run on `data`, either side of the pair.

        Raises `NoDensity` for a release that moves and has no known density.
        """
        runs = Runs(self.algorithm, self.options)
        sequence = generator.bit_generator.seed_seq
        recorded = runs.record(data, LiveNoise(sequence if isinstance(sequence, SeedSequence) else None))
        require_densities(recorded.entries)
        replays = []
        for side in (self.data, self.neighbour):
            seed_global_generators(_CANONICAL)
            replays.append(runs.replay(side, recorded))
        possible = [flow_difference(recorded, replayed) is None for replayed in replays]
        if not all(possible):
            return math.inf if possible[0] else -math.inf if possible[1] else 0.0
        one, other = (queries_of(replayed.entries) for replayed in replays)
        ratio = log_ratio(recorded.entries, one, other)
        return 0.0 if math.isnan(ratio) else ratio  # impossible on both sides, as far as floats can represent
