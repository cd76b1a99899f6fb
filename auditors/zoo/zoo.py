"""A zoo of mechanisms to test auditors on, broken ones with known faults and correct ones, and its table.

Each comes with a neighbouring pair that shows its fault, a score that distinguishes the two sides, its claim,
and the epsilon that holds exactly on that pair. An auditor whose lower bound exceeds that epsilon is wrong;
one whose bound stays below the claim of a broken mechanism is weak.

Mechanisms that draw their own noise are functions ``(data, generator, trials) -> outputs``; data are vectors
of query answers, [queries], each of which one record moves by at most 1. Sparse vector has threshold 0 and
epsilon 1 and, where it stops, stops at the first "yes".

Lyu, M., Su, D. and Li, N. (2017). Understanding the Sparse Vector Technique for Differential Privacy.
PVLDB 10(6), Figure 1: its Algorithms 1 to 6; Algorithms 1 and 2 are then the same.
"""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.sampling.curatorless import Plain, Rows
from dpaudit.auditors.sampling.scores import RowScore, Score, flatten
from dpaudit.auditors.sampling.trial import Auditable
from dpaudit.auditors.sampling.trials import run_trials
from dpaudit.auditors.statistics.clopper_pearson import require_fraction
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import sequential
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP, PureDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.curator.curator import Curator
from dpaudit.curator.running import name_of
from dpaudit.mechanisms import Array, DiscreteGaussian, DiscreteLaplace, Gaussian

DELTA = 1e-5
#: How many queries sparse vector is asked.
QUERIES = 10


@dataclass(frozen=True)
class Specimen:
    """One mechanism of the zoo, with a pair that shows its fault, its source and its fault.

    `pair_epsilon` is the least that holds on the pair at the claim's delta, rounded up; the mechanism's own
    may be larger.
    """

    algorithm: Auditable
    pair: Pair
    pair_epsilon: float
    source: str
    score: Score = flatten  # from an output to a number or a vector that distinguishes the sides
    most_trials: int | None = None  # a limit on the trials of a mechanism that is slow to run

    @property
    def claim(self) -> Claim:
        """Return the mechanism's claim."""
        claim: Claim = self.algorithm.claim  # type: ignore[attr-defined]  # every specimen's has one
        return claim

    @property
    def guarantee(self) -> PureDP | ApproxDP:
        """The claimed guarantee, which is a point (epsilon, delta)."""
        if not isinstance(self.claim.guarantee, PureDP | ApproxDP):
            raise TypeError(name_of(self.algorithm))
        return self.claim.guarantee

    @property
    def delta(self) -> float:
        """The delta of the claim; 0 where it has none."""
        return self.guarantee.delta if isinstance(self.guarantee, ApproxDP) else 0.0

    @property
    def correct(self) -> bool:
        """Whether the pair is within the claim."""
        return self.pair_epsilon <= self.guarantee.epsilon


@dataclass(frozen=True)
class Released:
    """The answer to the one query with the curator's noise, so that it can be replayed, too."""

    mechanism: Gaussian | DiscreteGaussian | DiscreteLaplace
    claim: Claim

    def __call__(self, data: Array, curator: Curator) -> Any:
        """Release one noisy answer, []."""
        return curator.release(data[0], self.mechanism, label="answer")

    def batch(self, data: Array, curator: Curator, trials: int) -> Any:
        """One noisy answer per trial, [trials]."""
        return curator.release(np.full(trials, data[0]), self.mechanism, label="answer", count=trials)


def _plain(rows: Rows, guarantee: PureDP | ApproxDP | None = None) -> Plain:
    """A mechanism that is written for many runs at once, with its single form."""

    @wraps(rows)
    def single(data: Any, generator: Generator) -> Any:
        return rows(data, generator, 1)[0]

    return Plain(single, rows=rows, claim=_claim(guarantee or PureDP(epsilon=1.0)))


def _claim(guarantee: PureDP | ApproxDP) -> Claim:
    return Claim(guarantee, unit="record", neighbouring="replace-one")


def first_yes(answers: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The position of each row's first "yes"; the number of queries where there is none. [n]."""
    positions: NDArray[np.int64] = answers.argmax(axis=1)
    positions[~answers.any(axis=1)] = answers.shape[1]
    return positions


def sparse_vector(threshold: float, queries: float, *, stops: bool) -> Rows:
    """Sparse vector with Laplace noise of these scales on the threshold and, above 0, on the queries.

    It returns where it stops, the position of the first yes, or all its answers [n, queries].
    """

    def answers(data: Array, generator: Generator, trials: int) -> Any:
        level = generator.laplace(scale=threshold, size=(trials, 1))
        noise = generator.laplace(scale=queries, size=(trials, data.size)) if queries else 0.0
        yes = data + noise >= level
        return first_yes(yes) if stops else yes

    return answers


def sparse_vector_3(data: Array, generator: Generator, trials: int) -> Any:
    """Algorithm 3: returns the noisy answer too, which the threshold cannot exceed. [n, 2]."""
    threshold = generator.laplace(scale=2.0, size=(trials, 1))
    noisy = data + generator.laplace(scale=2.0, size=(trials, data.size))
    position = first_yes(noisy >= threshold)
    value = np.append(noisy, np.zeros((trials, 1)), axis=1)[np.arange(trials), position]
    return np.column_stack([position, value])


def sparse_vector_3_log_ratio(outputs: Array) -> Array:
    """How much likelier Algorithm 3's outputs [n, 2] are if all queries are 0 than if all are 1, [n].

    With the threshold integrated over by a sum, as closely as choosing an event needs.
    """
    grid, step = np.linspace(-40.0, 40.0, 8001, retstep=True)
    position, value = outputs[:, 0].astype(int), outputs[:, 1]
    sides = []
    for query in (0.0, 1.0):
        tail = 0.5 * np.exp(-0.5 * np.abs(grid - query))
        no = np.where(grid < query, tail, 1.0 - tail)  # of a threshold here, [grid]
        by_position = 0.25 * np.exp(-0.5 * np.abs(grid)) * no ** np.arange(QUERIES + 1)[:, None]
        below = np.log(np.cumsum(by_position, axis=1) * step)  # [queries + 1, grid]
        at = np.clip(np.searchsorted(grid, value), 0, len(grid) - 1)
        yes = position < QUERIES
        density = -0.5 * np.abs(value - query) - math.log(4.0)
        sides.append(np.where(yes, below[position, at] + density, below[QUERIES, -1]))
    return np.asarray(sides[0] - sides[1])


def noisy_maximum(data: Array, generator: Generator, trials: int) -> Any:
    """The largest noisy answer itself, where only its position would be private."""
    return (data + generator.laplace(scale=2.0, size=(trials, data.size))).max(axis=1)


def laplace(data: Array, generator: Generator, trials: int) -> Any:
    """Laplace noise of scale 1, in floating point: private but for its last bits."""
    return data[0] + generator.laplace(size=trials)


def randomized_response(data: Array, generator: Generator, trials: int) -> Any:
    """The truth with probability e / (1 + e), else a lie."""
    truth = generator.random(trials) < math.e / (1.0 + math.e)
    return np.where(truth, data[0], 1.0 - data[0])


def own_variance(data: Array, generator: Generator, trials: int) -> Any:
    """Its spread depends on the data, by less than the claim's delta can show."""
    return generator.normal(scale=1.0 + 0.05 * data[0], size=trials)


_HALF = QUERIES // 2
_TURNED = Pair(np.repeat([0.0, -1.0], _HALF), np.repeat([-1.0, 0.0], _HALF))
#: Two by two the same; then each pair's first moved down and its second up, so that they meet the next.
_STAIRS = np.repeat(np.arange(1.0 - _HALF, _HALF, 2.0), 2)
_CROSSED = Pair(_STAIRS + np.tile([-1.0, 1.0], _HALF), _STAIRS)
_OPPOSED = Pair(np.zeros(QUERIES), np.repeat([-1.0, 1.0], _HALF))
_ALL = Pair(np.ones(QUERIES), np.zeros(QUERIES))
_MOVED = Pair(np.zeros(1), np.ones(1))
_APART = Pair(np.ones(1), np.zeros(1), "the answers 1 and 0")

# A position's score: the higher, the stronger evidence for the neighbour; highest for 5, then 6, ...
_position = RowScore(lambda outputs: np.array([0, 1, 3, 4, 5, 10, 9, 8, 7, 6, 2])[outputs])
# A no to the lower of two and a yes to the higher: on the neighbour they are the same.
_crossed = RowScore(lambda yes: (yes[:, 1::2] & ~yes[:, ::2]).any(axis=1))
_more_late = RowScore(lambda yes: yes[:, _HALF:].sum(axis=1) - yes[:, :_HALF].sum(axis=1))


def _lyu(
    number: int, rows: Rows, pair: Pair, epsilon: float, fault: str, score: Score = _position
) -> Specimen:
    return Specimen(_plain(rows), pair, epsilon, f"Lyu et al. Algorithm {number}: {fault}", score)


def _on_the_grid_of_one(outputs: Array) -> Array:
    """Whether an output is a multiple of 2^-53, as every 1.0 + noise is and few a 0.0 + noise are."""
    scaled = outputs * 2.0**53
    return np.asarray(scaled == np.round(scaled), dtype=np.float64)


#: Every specimen by its name.
ZOO: Mapping[str, Specimen] = {
    "sparse-vector-1": _lyu(1, sparse_vector(2.0, 4.0, stops=True), _TURNED, 0.8389, "correct"),
    "sparse-vector-2": _lyu(2, sparse_vector(2.0, 4.0, stops=True), _TURNED, 0.8389, "correct"),
    "sparse-vector-3": _lyu(
        3, sparse_vector_3, _ALL, QUERIES / 2, "returns the noisy answer", RowScore(sparse_vector_3_log_ratio)
    ),
    "sparse-vector-4": _lyu(
        4, sparse_vector(4.0, 4.0 / 3.0, stops=True), _TURNED, 1.6595, "too little noise on the queries"
    ),
    "sparse-vector-5": _lyu(
        5, sparse_vector(2.0, 0.0, stops=False), _CROSSED, math.inf, "no noise on the queries", _crossed
    ),
    # Over all pairs its epsilon comes as close to 5 as one likes, on outputs as rare as one likes.
    "sparse-vector-6": _lyu(
        6, sparse_vector(2.0, 2.0, stops=False), _OPPOSED, 4.4862, "answers without end", _more_late
    ),
    "noisy-maximum": Specimen(
        _plain(noisy_maximum),
        Pair(np.zeros(5), np.full(5, -1.0)),
        2.5,
        "Ding, Wang, Wang, Zhang, Kifer 2018: returns the largest noisy answer instead of its position",
        RowScore(np.negative),
    ),
    "laplace-on-the-grid": Specimen(
        _plain(laplace),
        _MOVED,
        math.inf,
        "Mironov 2012: Laplace noise in floating point, whose last bits reveal the answer",
        RowScore(_on_the_grid_of_one),
    ),
    "half-the-noise": Specimen(
        Released(Gaussian(sigma=0.5, sensitivity=L2(1.0)), _claim(ApproxDP(epsilon=4.3772, delta=DELTA))),
        _APART,
        9.9973,
        "Gaussian noise of half the sigma that the claim needs",
    ),
    "laplace": Specimen(
        _plain(laplace),
        _APART,
        1.0,
        "Dwork, McSherry, Nissim, Smith 2006: correct",
        RowScore(lambda outputs: np.round(outputs, 6)),  # away from the grid
    ),
    "randomized-response": Specimen(_plain(randomized_response), _APART, 1.0, "Warner 1965: correct"),
    "own-variance": Specimen(
        _plain(own_variance, ApproxDP(epsilon=1.0, delta=DELTA)),
        _MOVED,
        0.7153,
        "Gaussian noise whose variance depends on the data, within its claim at delta 1e-5",
        RowScore(np.abs),
    ),
    "discrete-laplace": Specimen(
        Released(DiscreteLaplace(scale=1.0, sensitivity=L1(1.0)), _claim(PureDP(epsilon=1.0))),
        _APART,
        1.0,
        "Ghosh, Roughgarden, Sundararajan 2009: correct",
    ),
    "discrete-gaussian": Specimen(
        Released(
            DiscreteGaussian(sigma=1.0, sensitivity=L2(1.0)), _claim(ApproxDP(epsilon=4.4303, delta=DELTA))
        ),
        _APART,
        4.4303,
        "Canonne, Kamath, Steinke 2020: correct",
    ),
}


@dataclass(frozen=True)
class ZooRow:
    """One mechanism, audited by every method that applies to it, from as many `trials` on either side.

    The audits are threshold and sequential on the same trials, and replay if a curator draws the mechanism's
    noise; `seconds` is their total time.
    """

    name: str
    specimen: Specimen
    audits: tuple[Audit, ...]
    trials: int
    seconds: float

    @property
    def refuted(self) -> bool:
        """Whether any auditor refutes the claim."""
        return any(audit.verdict is Experiment.REFUTED for audit in self.audits)

    @property
    def right(self) -> bool:
        """Whether it is refuted if the claim is false on the pair, and only then."""
        return self.refuted is not self.specimen.correct

    def epsilon_lower(self, method: str) -> float | None:
        """Return the bound by one method; None if it was not used."""
        return next((audit.epsilon_lower for audit in self.audits if audit.method == method), None)


def zoo_rows(
    zoo: Mapping[str, Specimen] = ZOO, *, trials: int, seed: int = 0, confidence: float = 0.95
) -> Iterator[ZooRow]:
    """Audit every mechanism of a zoo, one row after the other.

    A mechanism that is slow to run gets fewer trials a side; all audits use the one root seed, and all bounds
    and verdicts of the table hold together with the confidence. `InvalidParameter` is raised for no trials, a
    negative seed, or a confidence outside (0, 1).
    """
    require_fraction("confidence", confidence)
    audits = sum(2 if isinstance(specimen.algorithm, Plain) else 3 for specimen in zoo.values())
    share = 1 - (1 - confidence) / audits
    return (_row(name, specimen, trials, seed, share) for name, specimen in zoo.items())


def _row(name: str, specimen: Specimen, trials: int, seed: int, confidence: float) -> ZooRow:
    began = time.perf_counter()
    algorithm, pair, claim = specimen.algorithm, specimen.pair, specimen.claim
    count = min(trials, specimen.most_trials or trials)
    drawn = run_trials(algorithm, pair, count, seed=seed, score=specimen.score)
    samples = Samples(drawn.data, drawn.neighbour, seed)
    audits = [audit(samples, claim=claim, confidence=confidence) for audit in (threshold, sequential)]
    if not isinstance(algorithm, Plain):
        audits.append(replay(algorithm, [pair], seed=seed, confidence=confidence))
    return ZooRow(name, specimen, tuple(audits), count, time.perf_counter() - began)
