"""A search for the neighbouring pair on which an algorithm leaks most."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from dpaudit.auditors.replay.exact_loss import DEFAULT_DELTA
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.sampling.trial import require_seed
from dpaudit.auditors.statistics.gaussian_pair import LARGEST_EPSILON
from dpaudit.claims.pairs import Pair
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array

#: Makes a pair from a point within the bounds; it must round integer coordinates itself.
MakePair = Callable[[Array], Pair]
#: Returns the distance of a pair's sides, given a root seed.
Objective = Callable[[Pair, int], float]


def replayed_loss(
    algorithm: Callable[[Any, Curator], Any],
    *,
    delta: float = DEFAULT_DELTA,
    replays: int = 10,
    run_options: Mapping[str, Any] | None = None,
) -> Objective:
    """Return the objective of a search for the pair with the largest exact loss: a replay's bound on epsilon.

    A pair with findings counts as 1e6, the largest possible bound; a pair with an unknown loss counts as 0.
    Each pair's bound holds with 95%, but the largest of all has no stated confidence: replay the resulting
    pair with another seed and more replays. The arguments are as in `replay`.
    """
    once = functools.partial(replay, algorithm, run_options=run_options, replays=replays, delta=delta)

    def objective(pair: Pair, seed: int) -> float:
        audit = once([pair], seed=seed, extreme_outputs=False, search_pairs=False)
        return LARGEST_EPSILON if audit.findings else audit.epsilon_lower or 0.0

    return objective


@dataclass(frozen=True)
class WorstPair:
    """The result of a search: a pair to be tested on fresh trials, and the pair's coordinates."""

    pair: Pair
    value: float  # the objective there: the largest of many noisy figures, so biased upwards, and not a bound
    point: Array
    evaluations: int  # the number of pairs tried
    trial_seed: int  # the root seed of the trials that the search used, which no test may use again


def search_worst_pair(
    make_pair: MakePair,
    bounds: Sequence[tuple[float, float]],
    objective: Objective,
    *,
    seed: int = 0,
    generations: int = 20,
    population: int = 10,
) -> WorstPair:
    """Maximise an objective over pairs, by differential evolution (Storn and Price 1997).

    The search only chooses which pair is tested, and so cannot make the test invalid, *as long as the
    pair is tested on fresh trials*: the trials of the search favour the pair that was lucky in them. Its
    trials are seeded by a root seed derived from `seed`, never by `seed` itself, so a replay or trials of
    the resulting pair with `seed` are fresh. All pairs are compared on the same seed, which makes the
    objective a function. Several pairs tested afterwards must share the error level.

    Each point within the bounds, (least, greatest) of each coordinate, makes a pair that has to be
    neighbouring. The objective is `replayed_loss`; without replays, use the distance of the sides' mean
    scores or an estimate of epsilon. NaN is the worst value. The population has `population` points per
    coordinate and at most `generations` generations.
    """
    if not bounds or not all(np.isfinite(pair).all() and pair[0] < pair[1] for pair in bounds):
        raise InvalidParameter(f"bounds {bounds}", where="search_worst_pair", remedy="give (least, greatest)")
    if generations < 1 or population < 1:
        what = f"{generations} generations of {population}"
        raise InvalidParameter(what, where="search_worst_pair", remedy="give 1 or more")
    sequence = np.random.SeedSequence(require_seed(seed), spawn_key=(0x5EA7C4,))
    trial_seed = int(sequence.generate_state(1, np.uint64)[0])
    tried = 0

    def loss(point: Array) -> float:
        nonlocal tried
        tried += 1
        value = float(objective(make_pair(point), trial_seed))
        return -value if not np.isnan(value) else np.inf

    found = scipy.optimize.differential_evolution(
        loss,
        scipy.optimize.Bounds(*np.transpose(bounds)),
        maxiter=generations,
        popsize=population,
        rng=np.random.default_rng(sequence),
        polish=False,  # a gradient of a noisy objective leads nowhere
    )
    best = make_pair(found.x)
    return WorstPair(
        pair=replace(best, description=f"{best.description}; the worst of {tried} searched"),
        value=-float(found.fun),
        point=np.asarray(found.x, dtype=np.float64),
        evaluations=tried,
        trial_seed=trial_seed,
    )
