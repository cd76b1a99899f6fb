"""The table of meanings: what a parameter is on a kind's page, to its constructor, at run time, in its cost.

Every kind of mechanism has a row, for every relation and every trust model. A row's data sets are the worst
that the kind's obligation allows, at small size; `worst_pairs` computes their divergences without dpaudit.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest

import dpaudit
from dpaudit import (
    L1,
    L2,
    RKHS,
    Exponential,
    ExponentialKernel,
    FixedSizeSampled,
    Frobenius,
    GaussianProcess,
    GaussianSparseVector,
    Header,
    KeySelection,
    Ledger,
    MixtureOfGaussians,
    NegativeBinomial,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    Poisson,
    PoissonSampled,
    PrivateSelection,
    RandomAllocation,
    RandomizedResponse,
    ReportNoisyMax,
    SampledMatrix,
    SampledRecords,
    Shuffled,
    SmoothGaussian,
    SparseVector,
    SymmetricGaussian,
    Tabulated,
    TrialRelease,
    TruncatedPoissonSampled,
)
from dpaudit.claims.guarantees import leading_figure
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.curator.curator import Curator
from dpaudit.errors import CannotBound, InputError, TrustMismatch
from dpaudit.ledger.file import LedgerStream
from dpaudit.mechanisms import KINDS, AnyMechanism, HiddenSample
from tests import make
from tests.mechanisms import worst_pairs as exactly
from tests.mechanisms.examples import example
from tests.mechanisms.worst_pairs import Pair

ADDED, REPLACED, ZEROED = Neighbouring.ADD_OR_REMOVE_ONE, Neighbouring.REPLACE_ONE, Neighbouring.ZERO_OUT
DELTAS = (1e-2, 1e-6)
#: The law of the sum over a sample of rows.
Draw: TypeAlias = Callable[[Sequence[float]], exactly.Law]
#: The worst pairs of a mechanism under a relation; none where nothing is claimed.
Worst: TypeAlias = Callable[[Neighbouring], Iterable[Pair]]


@dataclass(frozen=True)
class Row:
    """One kind: mechanisms with the worst pairs of each, and a run of it, where a curator runs it."""

    cases: Sequence[tuple[AnyMechanism, Worst]]
    run: Callable[[Curator], object] | None


def same(*pairs: Pair) -> Worst:
    """Pairs that do not depend on the relation: the sensitivity, or the guarantee, is meant for it."""
    return lambda _: pairs


def case(mechanism: AnyMechanism, *pairs: Pair) -> tuple[AnyMechanism, Worst]:
    return mechanism, same(*pairs)


def moved(shift: float, noise: exactly.Noise, reach: float) -> Pair:
    return exactly.shifted({shift: 1.0}, {0.0: 1.0}, noise, reach)


def normal(shift: float, sigma: float) -> Pair:
    return moved(shift, exactly.gaussian(sigma), 12.0 * sigma)


# ------------------------------------------------------------------------------------------ sums over samples


@dataclass(frozen=True)
class Rows:
    """Rows of a size up to the contribution, any two of which are at most the sensitivity apart."""

    sensitivity: float
    contribution: float | None

    def ends(self) -> list[tuple[float, float]]:
        own = self.sensitivity if self.contribution is None else self.contribution
        width = min(self.sensitivity, 2.0 * own)
        return [(low, low + width) for low in (-own, -0.5 * width, 0.0, own - width) if low + width <= own]


def sums(
    rows: Rows,
    draw: Callable[[Sequence[float]], exactly.Law],
    others: Sequence[int],
    noise: exactly.Noise,
    reach: float,
) -> Worst:
    """Data sets of so many other units, all with one row, and a unit that is added, replaced or zeroed."""

    def worst(relation: Neighbouring) -> Iterator[Pair]:
        pairs: set[tuple[tuple[float, ...], tuple[float, ...]]] = set()
        for count, (low, high) in itertools.product(others, rows.ends()):
            for other, one in itertools.product((low, high), (low, high)):
                around = (other,) * count
                if relation is ADDED:
                    pairs.add(((*around, one), around))
                elif relation is REPLACED:
                    pairs.add(((*around, low), (*around, high)))
                elif low <= 0.0 <= high or count == 0:  # zero is a row too
                    pairs.add(((*around, one), (*around, 0.0)))
        for first, second in sorted(pairs):
            yield exactly.shifted(draw(first), draw(second), noise, reach)

    return worst


def poisson(rows: Rows, sigma: float, rate: float) -> tuple[AnyMechanism, Worst]:
    noise = make.gaussian(sigma, rows.sensitivity)
    mechanism = PoissonSampled(mechanism=noise, rate=rate, contribution=rows.contribution)
    drawn = sums(rows, lambda x: exactly.poisson(x, rate), (0, 1, 2), exactly.gaussian(sigma), 12 * sigma)
    return mechanism, drawn


def amplified(pair: Pair, rate: float) -> Pair:
    """An answer that is another with this probability, against the answer."""
    mixed = np.logaddexp(math.log(rate) + pair.first, math.log1p(-rate) + pair.second)
    return Pair(mixed, pair.second, pair.weight)


def poisson_laplace(rows: Rows, scale: float, rate: float) -> tuple[AnyMechanism, Worst]:
    noise = make.laplace(scale, rows.sensitivity)
    mechanism = PoissonSampled(mechanism=noise, rate=rate, contribution=rows.contribution)
    drawn = sums(rows, lambda x: exactly.poisson(x, rate), (0, 1, 2), exactly.laplace(scale), 40 * scale)
    return mechanism, drawn


def fixed(rows: Rows, sigma: float, size: int, units: int) -> tuple[AnyMechanism, Worst]:
    noise = make.gaussian(sigma, rows.sensitivity)
    mechanism = FixedSizeSampled(mechanism=noise, size=size, units=units, contribution=rows.contribution)

    def worst(relation: Neighbouring) -> Iterable[Pair]:
        others = (units, units + 1) if relation is ADDED else (units - 1,)
        draw = sums(rows, lambda x: exactly.of_one_size(x, size), others, exactly.gaussian(sigma), 12 * sigma)
        return draw(relation)

    return mechanism, worst


def cut(rows: Rows, sigma: float, rate: float, most: int, units: int) -> tuple[AnyMechanism, Worst]:
    noise = make.gaussian(sigma, rows.sensitivity)
    mechanism = TruncatedPoissonSampled(
        mechanism=noise, rate=rate, most=most, units=units, contribution=rows.contribution
    )

    def worst(relation: Neighbouring) -> Iterable[Pair]:
        others = range(units) if relation is ADDED else (units - 1,)
        draw = sums(rows, lambda x: exactly.cut(x, rate, most), others, exactly.gaussian(sigma), 12 * sigma)
        return draw(relation)

    return mechanism, worst


def in_turn(rows: Rows, sigma: float, rate: float) -> list[tuple[AnyMechanism, Worst]]:
    """Two turns of a unit, each on its own; and one turn that reaches two answers."""

    def mechanism(coefficients: tuple[float, ...], separation: int) -> AnyMechanism:
        inner = make.banded(sigma, 2, coefficients, rows.sensitivity, separation=separation)
        return SampledMatrix(mechanism=inner, rate=rate, contribution=rows.contribution)

    def turn(length: float) -> Worst:
        def draw(x: Sequence[float]) -> exactly.Law:
            return {length * value: p for value, p in exactly.poisson(x, rate).items()}

        return sums(rows, draw, (0,), exactly.gaussian(sigma), 12 * sigma)

    def both(relation: Neighbouring) -> Iterator[Pair]:
        for low, high in rows.ends():
            first, second = (low, high) if relation is REPLACED else (max(low, high, key=abs), 0.0)
            laws = []
            for row in (first, second):
                law = exactly.poisson([row], rate)
                twice = itertools.product(law.items(), law.items())
                laws.append([(np.array([a, b]), p * q) for (a, p), (b, q) in twice])
            yield exactly.in_a_plane(laws[0], laws[1], sigma)

    return [(mechanism((1.0,), 1), both), (mechanism((1.0, 0.5), 2), turn(math.sqrt(1.25)))]


def unless_replaced(*pairs: Pair) -> Worst:
    return lambda relation: () if relation is REPLACED else pairs


NORM_1, BETWEEN, UNSTATED = Rows(2.0, 1.0), Rows(1.0, 2.0), Rows(1.0, None)


# ------------------------------------------------------------------------------------------------ other kinds


def tree(steps: int) -> Pair:
    """An item in the nodes of all its lengths that end by the last step."""
    nodes = [
        (first, first + 2**level)
        for level in range(steps.bit_length())
        for first in range(0, steps, 2**level)
        if first + 2**level <= steps
    ]
    most = max(sum(low <= item < high for low, high in nodes) for item in range(steps))
    return normal(math.sqrt(most), 2.0)


def matrix(coefficients: Sequence[float], steps: int, participations: int, separation: int) -> Pair:
    """The longest C u over all signs of the changes at all steps that one unit may take part in."""
    c = sum(x * np.eye(steps, k=-i) for i, x in enumerate(coefficients))
    longest = 0.0
    for count in range(1, participations + 1):
        for places in itertools.combinations(range(steps), count):
            if all(b - a >= separation for a, b in itertools.pairwise(places)):
                for signs in itertools.product((-1.0, 1.0), repeat=count):
                    u = np.zeros(steps)
                    u[list(places)] = signs
                    longest = max(longest, float(np.linalg.norm(c @ u)))
    return normal(longest, 2.0)


def function() -> Pair:
    """The function beta |.| of norm 1 at three points, by the inverse of their covariance."""
    x = np.array([0.0, 0.3, 1.0])
    covariance = np.exp(-3.0 * np.abs(np.subtract.outer(x, x)))
    value = covariance[:, 0]  # k(., 0), whose norm is the root of k(0, 0) = 1
    return normal(math.sqrt(float(value @ np.linalg.solve(covariance, value))), 2.0)


def response(epsilon: float, categories: int) -> Pair:
    def law(true: int) -> dict[object, float]:
        return {k: math.exp(epsilon * (k == true)) for k in range(categories)}

    total = math.exp(epsilon) + categories - 1
    return exactly.atoms(*({k: p / total for k, p in law(true).items()} for true in (0, 1)))


def choice(epsilon: float) -> list[Pair]:
    """Weights of which some move by all of epsilon, and the others stay."""
    found = []
    for low in np.linspace(-3.0, 3.0, 13):
        laws = []
        for weights in ((low, 0.0), (low + epsilon, 0.0)):
            p = np.exp(weights) / np.exp(weights).sum()
            laws.append(dict(enumerate(p.tolist())))
        found.append(exactly.atoms(*laws))
    return found


def noisy_max(epsilon: float, least: Callable[[float], float]) -> list[Pair]:
    """Two candidates whose difference moves by epsilon; `least(d)` is the chance of one that is d below."""

    def law(ahead: float) -> dict[object, float]:
        behind = least(abs(ahead))
        return {0: 1.0 - behind, 1: behind} if ahead >= 0.0 else {0: behind, 1: 1.0 - behind}

    return [exactly.atoms(law(at), law(at + epsilon)) for at in np.linspace(-2.0, 1.0, 13)]


def sparse(
    threshold: Callable[[np.ndarray], np.ndarray],
    above: Callable[[np.ndarray], np.ndarray],
    steps: int,
    monotone: bool,
) -> list[Pair]:
    """One yes at most among so many values: the sequences' probabilities, over the threshold's noise."""
    z, w = exactly.nodes([-60.0, -8.0, 0.0, 8.0, 60.0])
    weight = w * np.exp(threshold(z))

    def law(values: Sequence[float]) -> dict[object, float]:
        found: dict[object, float] = {}
        so_far = np.ones(len(z))
        for place, value in enumerate(values):
            yes = above(z - value)
            found[place] = float(weight @ (so_far * yes))
            so_far = so_far * (1.0 - yes)
        return {**found, "none": float(weight @ so_far)}

    signs = (1.0,) if monotone else (-1.0, 1.0)
    changes = list(itertools.product(signs, repeat=steps))
    starts = [(level,) * steps for level in (-3.0, 0.0, 3.0)]
    return [
        exactly.atoms(law(start), law([x + by for x, by in zip(start, change, strict=True)]))
        for start, change in itertools.product(starts, changes)
    ]


def below_normal(x: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    return np.asarray(ndtr(-x))


def laplace_tail(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0.0, 0.5 * np.exp(-np.abs(x)), 1.0 - 0.5 * np.exp(-np.abs(x)))


def sparse_laplace(epsilon: float, monotone: bool) -> list[Pair]:
    """One answer: epsilon is split as 1 to 2^(2/3), or to 1."""
    factor = 1.0 if monotone else 2.0
    first = epsilon / (1.0 + factor ** (2.0 / 3.0))
    scale, other = 1.0 / first, factor / (epsilon - first)
    return sparse(exactly.laplace(scale), lambda x: laplace_tail(x / other), 3, monotone=monotone)


def sparse_gaussian(sigma: float, monotone: bool) -> list[Pair]:
    own = sigma / (1.0 if monotone else math.sqrt(2.0))
    return sparse(exactly.gaussian(own), lambda x: below_normal(x / sigma), 3, monotone=monotone)


def best_of(epsilon: float, generating: Callable[[float], float], none: float) -> Pair:
    """The largest of K randomized answers: `generating(x)` is the mean of x^K, `none` the chance of none."""

    def law(one: float) -> dict[object, float]:
        zero = generating(1.0 - one) - none
        return {"none": none, 0: zero, 1: 1.0 - none - zero}

    likely = 1.0 / (1.0 + math.exp(-epsilon))
    return exactly.atoms(law(likely), law(1.0 - likely))


def kept_keys(mechanism: KeySelection) -> list[Pair]:
    """Every key that changes has one unit more; all from the same number, few to many."""
    chance: list[float] = [0.0]
    a, b = math.exp(mechanism.epsilon / mechanism.changes), mechanism.delta / mechanism.changes
    for _ in range(40):
        p = chance[-1]
        if mechanism.method == "optimal":
            chance.append(min(a * p + b, 1.0 - (1.0 - p - b) / a, 1.0))
        else:
            scale, threshold = mechanism.noise_and_threshold()
            x = np.array([(threshold - len(chance)) / scale])
            chance.append(float((laplace_tail if mechanism.method == "laplace" else below_normal)(x)[0]))

    def coin(p: float) -> dict[object, float]:
        return {True: p, False: 1.0 - p}

    found = []
    for n in range(40):
        one = exactly.atoms(coin(chance[n]), coin(chance[n + 1]))
        pair = one
        for _ in range(mechanism.changes - 1):
            pair = pair.times(one)
        found.append(pair)
    return found


def shuffled(epsilon: float, categories: int, users: int) -> list[Pair]:
    """How often each answer is given, where one user's true answer is 0 or 1 and the others' are alike."""
    total = math.exp(epsilon) + categories - 1

    def law(true: Sequence[int]) -> dict[object, float]:
        found: dict[object, float] = {}
        for answers in itertools.product(range(categories), repeat=users):
            p = math.prod(math.exp(epsilon * (a == t)) / total for a, t in zip(answers, true, strict=True))
            counts = tuple(answers.count(k) for k in range(categories))
            found[counts] = found.get(counts, 0.0) + p
        return found

    return [
        exactly.atoms(law((0, *[k] * (users - 1))), law((1, *[k] * (users - 1)))) for k in range(categories)
    ]


def smooth(alpha: float, beta: float) -> list[Pair]:
    found = []
    for other in (math.exp(-0.5 * beta), 1.0, math.exp(0.5 * beta)):
        shift = min(1.0, other) / alpha
        one, two = exactly.gaussian(1.0), exactly.gaussian(other)
        found.append(exactly.on_a_line(one, lambda z, by=shift, to=two: to(z - by), [-14.0, 0.0, 14.0]))
    return found


def approximate(epsilon: float, delta: float) -> Pair:
    likely = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    one = {"p": delta, 0: likely, 1: 1.0 - delta - likely}
    return exactly.atoms(one, {"q": delta, 0: 1.0 - delta - likely, 1: likely})


def tabulated(losses: Sequence[float], masses: Sequence[float]) -> Pair:
    one = dict(zip(losses, masses, strict=True))
    return exactly.atoms(one, {loss: p * math.exp(-loss) for loss, p in one.items()})


def binomial(records: int, rate: float) -> exactly.Law:
    return {
        float(j): math.comb(records, j) * rate**j * (1.0 - rate) ** (records - j) for j in range(records + 1)
    }


# --------------------------------------------------------------------------------------------- what runs them

N1, N2 = make.gaussian(1.0), make.gaussian(2.0)
ROW = np.ones((1, 2))
_WHY = "the manual, Theorem 3"


def released(mechanism: AnyMechanism, value: Any = 0.0) -> Callable[[Curator], object]:
    return lambda c: c.release(value, mechanism, label="r")


def released_alone(mechanism: AnyMechanism, *pairs: Pair, value: Any = 0.0) -> Row:
    return Row([case(mechanism, *pairs)], released(mechanism, value))


def opaque(mechanism: Any, *pairs: Pair) -> Row:
    run = lambda c: c.release_opaque(0.0, lambda value, _: value, mechanism, label="r")  # noqa: E731
    return Row([case(mechanism, *pairs)], run)


def on_integers(shift: int, log_weight: Callable[[int], float], reach: int) -> Pair:
    return exactly.on_integers({shift: 1.0}, {0: 1.0}, log_weight, reach)


def mixed(shifts: exactly.Law) -> Worst:
    return unless_replaced(exactly.shifted(shifts, {0: 1.0}, exactly.gaussian(2.0), 24.0))


def selected(law: Literal["exponential", "laplace"] | None) -> tuple[Any, Callable[[Curator], object]]:
    """A choice by the exponential mechanism, or with noise of this law, and a run of it."""
    mechanism: Any = Exponential(epsilon=0.5) if law is None else ReportNoisyMax(epsilon=0.5, noise_law=law)
    return mechanism, lambda c: c.select([0.0, 1.0], mechanism, label="r", score_sensitivity=1.0)


def streamed(mechanism: Any) -> Callable[[Curator], object]:
    return lambda c: c.sampled_stream(mechanism, "r", bound=0.25, shape=(2,)).add(ROW)


def above(mechanism: Any) -> Callable[[Curator], object]:
    return lambda c: c.sparse_vector(mechanism, "r").above(0.0)


def summed(mechanism: AnyMechanism, rows: Any = ROW) -> Callable[[Curator], object]:
    return lambda c: c.release_sum(rows, bound=0.25, mechanism=mechanism, label="r")


def tried(curator: Curator) -> object:
    def trial(own: Curator, _: int) -> tuple[float, object]:
        return 0.0, own.release(0.0, N1, label="own")

    trials = PrivateSelection(
        releases=(TrialRelease(mechanism=N1),), repetitions=NegativeBinomial(eta=1.0, gamma=0.5)
    )
    return curator.select_best(trial, trials, label="r")  # type: ignore[arg-type]


ANSWER = RandomizedResponse(epsilon=1.0)
STREAM, TREE = make.banded(2.0, 2, (1.0,)), make.tree(2.0, 3)
SYMMETRIC = SymmetricGaussian(sigma=2.0, dimension=2, sensitivity=Frobenius(1.0))
PROCESS = GaussianProcess(sigma=2.0, kernel=ExponentialKernel(beta=3.0), sensitivity=RKHS(1.0))
CHOICE, RUN_CHOICE = selected(None)
LARGEST, RUN_LARGEST = selected("exponential")
SPARSE = [SparseVector(epsilon=0.5, sensitivity=L1(1.0), answers=1, monotone=m) for m in (False, True)]
NORMAL_SPARSE = [
    GaussianSparseVector(sigma=3.0, sensitivity=L2(1.0), answers=1, steps=3, monotone=m)
    for m in (False, True)
]
KEYS = {
    method: KeySelection(method=method, epsilon=1.0, delta=1e-3, changes=changes)
    for method, changes in (("optimal", 1), ("laplace", 2), ("gaussian", 2))
}
TURNS = RandomAllocation(mechanism=N1, steps=2)
SMOOTH = SmoothGaussian(alpha=6.0, beta=0.05, dimension=1, epsilon=0.5, delta=0.1)


LOSSES, MASSES = (-0.5, 0.5), (0.37754066879814546, 0.6224593312018546)


def trials(law: NegativeBinomial | Poisson) -> AnyMechanism:
    return PrivateSelection(
        releases=(TrialRelease(mechanism=RandomizedResponse(epsilon=0.5)),), repetitions=law
    )


def geometric(x: float) -> float:
    return 0.2 * x / (1.0 - 0.8 * x)


ROWS: dict[str, Row] = {
    "gaussian": released_alone(N2, normal(1.0, 2.0)),
    "laplace": released_alone(make.laplace(2.0), moved(1.0, exactly.laplace(2.0), 80.0)),
    "discrete-gaussian": Row(
        [
            case(make.discrete_gaussian(2.0), on_integers(1, lambda k: -(k**2) / 8.0, 40)),
            case(make.discrete_gaussian(1.0, 2.0), on_integers(2, lambda k: -(k**2) / 2.0, 30)),
        ],
        released(make.discrete_gaussian(2.0)),
    ),
    "discrete-laplace": Row(
        [
            case(make.discrete_laplace(2.0, float(d)), on_integers(d, lambda k: -abs(k) / 2.0, 80))
            for d in (1, 3)
        ],
        released(make.discrete_laplace(2.0)),
    ),
    # All on the diagonal, or on the two entries off it, whose one noise has half the variance.
    "symmetric-gaussian": released_alone(
        SYMMETRIC, normal(1.0, 2.0), normal(math.sqrt(0.5), 2.0 * math.sqrt(0.5)), value=np.eye(2)
    ),
    "tree-aggregation": Row(
        [case(make.tree(2.0, n), tree(n)) for n in (1, 3, 4, 13)],
        lambda c: c.stream(TREE, "r", (2,)).add(np.zeros(2)),
    ),
    "matrix": Row(
        [
            case(
                make.banded(2.0, 5, participations=many, separation=apart), matrix((1.0, 0.5), 5, many, apart)
            )
            for many, apart in ((1, 1), (2, 2), (3, 1))
        ],
        lambda c: c.stream(STREAM, "r", (2,)).add(np.zeros(2)),
    ),
    "gaussian-process": Row(
        [case(PROCESS, function())], lambda c: c.function(PROCESS, lambda x: x, "r")(0.5)
    ),
    "randomized-response": Row(
        [case(RandomizedResponse(epsilon=0.5, categories=k), response(0.5, k)) for k in (2, 4)],
        released(ANSWER),
    ),
    "exponential": Row([case(CHOICE, *choice(0.5))], RUN_CHOICE),
    "report-noisy-max": Row(
        [
            case(LARGEST, *noisy_max(0.5, lambda d: 0.5 * math.exp(-d))),
            case(selected("laplace")[0], *noisy_max(0.5, lambda d: 0.5 * math.exp(-d) * (1.0 + 0.5 * d))),
        ],
        RUN_LARGEST,
    ),
    "sparse-vector": Row([case(one, *sparse_laplace(0.5, one.monotone)) for one in SPARSE], above(SPARSE[0])),
    "gaussian-sparse-vector": Row(
        [case(one, *sparse_gaussian(3.0, one.monotone)) for one in NORMAL_SPARSE], above(NORMAL_SPARSE[0])
    ),
    "private-selection": Row(
        [
            case(trials(NegativeBinomial(eta=1.0, gamma=0.2)), best_of(0.5, geometric, 0.0)),
            case(
                trials(Poisson(mean=3.0)), best_of(0.5, lambda x: math.exp(3.0 * (x - 1.0)), math.exp(-3.0))
            ),
        ],
        tried,
    ),
    "key-selection": Row(
        [case(one, *kept_keys(one)) for one in KEYS.values()],
        lambda c: c.release_keys([("a",)], [1.0], KEYS["optimal"], label="r"),
    ),
    "shuffled": Row(
        [
            case(
                Shuffled(local=RandomizedResponse(epsilon=1.0, categories=k), users=users),
                *shuffled(1.0, k, users),
            )
            for k, users in ((2, 8), (3, 6))
        ],
        lambda c: c.release_shuffled([1.0], Shuffled(local=ANSWER, users=1), label="r"),
    ),
    "smooth-gaussian": Row(
        [case(SMOOTH, *smooth(6.0, 0.05))], lambda c: c.release_smooth(0.0, 1.0, SMOOTH, label="r")
    ),
    "poisson-sampled": Row(
        [
            *(poisson(rows, sigma, 0.3) for rows in (NORM_1, BETWEEN, UNSTATED) for sigma in (0.5, 2.0)),
            *(poisson_laplace(rows, 1.0, 0.3) for rows in (NORM_1, BETWEEN, UNSTATED)),
            (PoissonSampled(mechanism=ANSWER, rate=0.3), lambda _: [amplified(response(1.0, 2), 0.3)]),
        ],
        summed(PoissonSampled(mechanism=N1, rate=0.5)),
    ),
    "fixed-size-sampled": Row(
        [fixed(rows, sigma, 2, 4) for rows in (NORM_1, UNSTATED) for sigma in (0.5, 2.0)],
        summed(FixedSizeSampled(mechanism=N1, size=1, units=1)),
    ),
    "truncated-poisson-sampled": Row(
        [
            cut(rows, sigma, 0.3, most, 4)
            for rows in (NORM_1, BETWEEN, UNSTATED)
            for sigma in (0.5, 2.0)
            for most in (1, 3, 4)
        ],
        summed(TruncatedPoissonSampled(mechanism=N1, rate=0.5, most=1, units=1)),
    ),
    "sampled-matrix": Row(
        [one for rows in (NORM_1, BETWEEN, UNSTATED) for one in in_turn(rows, 2.0, 0.3)],
        streamed(SampledMatrix(mechanism=STREAM, rate=0.5)),
    ),
    "mixture-of-gaussians": Row(
        [
            (
                MixtureOfGaussians(sigma=2.0, sensitivities=(0.0, 1.0, 2.0), probabilities=(0.5, 0.25, 0.25)),
                mixed({0: 0.5, 1: 0.25, 2: 0.25}),
            )
        ],
        None,
    ),
    "sampled-records": Row(
        [(SampledRecords(mechanism=N2, rate=0.3, records=3), mixed(binomial(3, 0.3)))],
        summed(SampledRecords(mechanism=N1, rate=0.5, records=1), ROW[:, None]),
    ),
    "random-allocation": Row(
        [(TURNS, unless_replaced(exactly.in_a_plane(exactly.in_turns(2, 1.0), [(np.zeros(2), 1.0)], 1.0)))],
        streamed(TURNS),
    ),
    "pure-dp": opaque(OpaquePureDP(epsilon=0.5, justification=_WHY), response(0.5, 2)),
    "approx-dp": opaque(OpaqueApproxDP(epsilon=0.5, delta=1e-3, justification=_WHY), approximate(0.5, 1e-3)),
    "zcdp": opaque(OpaqueZCDP(rho=0.125, justification=_WHY), normal(0.5, 1.0)),
    "tabulated": opaque(
        Tabulated(losses=LOSSES, probabilities=MASSES, justification=_WHY), tabulated(LOSSES, MASSES)
    ),
}


CASES = [
    pytest.param(kind, place, relation, id=f"{kind}-{place}-{relation}")
    for kind, row in ROWS.items()
    for place in range(len(row.cases))
    for relation in Neighbouring
]


def test_every_kind_has_a_row() -> None:
    assert list(ROWS) == list(KINDS)
    for kind, row in ROWS.items():
        assert {mechanism.kind for mechanism, _ in row.cases} == {kind}


@pytest.mark.parametrize(("kind", "place", "relation"), CASES)
def test_no_bound_is_below_the_worst_that_the_obligation_allows(
    kind: str, place: int, relation: Neighbouring
) -> None:
    mechanism, worst = ROWS[kind].cases[place]
    pairs = list(worst(relation))
    for delta in DELTAS:
        if not pairs:
            with pytest.raises(CannotBound):
                dpaudit.epsilon(mechanism, delta, neighbouring=relation)
            continue
        truth = max(pair.epsilon(delta) for pair in pairs)
        try:
            bound = dpaudit.epsilon(mechanism, delta, neighbouring=relation)
        except CannotBound:  # no bound is no smaller one
            assert truth > 0.0
            continue
        assert leading_figure(bound.guarantee) >= truth * (1.0 - 1e-4) - 1e-9, (delta, truth)


TRUST = [pytest.param(kind, trust, id=f"{kind}-{trust}") for kind in ROWS for trust in TrustModel]


def by_hand(mechanism: AnyMechanism, trust: TrustModel) -> None:
    header = Header(algorithm="by hand", unit="user", neighbouring="zero-out", trust_model=trust)
    Ledger(header).append(make.release(mechanism))


def in_a_file(mechanism: AnyMechanism, trust: TrustModel, path: Path) -> None:
    """A ledger file that states another trust model than the one under which it was written."""
    header = Header(algorithm="written", unit="user", neighbouring="zero-out")
    ledger = Ledger(header, hashed=False)
    ledger.append(make.release(mechanism))
    lines = b"".join(ledger.lines()).replace(
        b'"trust_model":"central"', b'"trust_model":"%s"' % trust.encode()
    )
    path.write_bytes(lines)
    with LedgerStream(path, allow_unhashed=True) as stream:
        assert stream.header.trust_model is trust
        list(stream.blocks())
    Ledger.read(path, allow_unhashed=True)


def live(work: Callable[[Curator], object], trust: TrustModel) -> None:
    def algorithm(_: object, curator: Curator) -> None:
        if trust is TrustModel.LOCAL:
            with curator.user(0) as user:
                work(user)
        else:
            work(curator)

    users = 1 if trust is TrustModel.LOCAL else None
    dpaudit.run(algorithm, None, unit="user", neighbouring="zero-out", trust_model=trust, users=users)


def refused(work: Callable[[], None]) -> bool:
    try:
        work()
    except TrustMismatch as error:
        said = error.why.startswith("nobody is trusted to ") and "state trust_model central" in error.remedy
        return said or pytest.fail(str(error))
    return False


@pytest.mark.parametrize(("kind", "trust"), TRUST)
def test_run_time_ledger_and_page_admit_the_same(kind: str, trust: TrustModel, tmp_path: Path) -> None:
    row = ROWS[kind]
    for mechanism in (example(kind), *(each for each, _ in row.cases)):
        admitted = mechanism.lacks(trust) is None
        assert refused(lambda one=mechanism: by_hand(one, trust)) is not admitted  # type: ignore[misc]
        assert refused(lambda one=mechanism: in_a_file(one, trust, tmp_path / "l")) is not admitted  # type: ignore[misc]
    if row.run is not None:
        work = row.run
        assert refused(lambda: live(work, trust)) is not admitted
    listed = re.search(r"- Trust: (.*)", section(kind))
    assert listed is not None
    assert (str(trust) in listed[1].split(", ")) is admitted


def test_who_is_trusted_with_what() -> None:
    """A party that draws, shuffles or counts is nobody under local trust; a trial's parts count as well."""
    for kind in ROWS:
        one = example(kind)
        party = isinstance(one, HiddenSample | Shuffled | KeySelection)
        assert (one.lacks(TrustModel.LOCAL) is not None) is party
        assert (one.lacks(TrustModel.JOINT) is not None) is isinstance(one, Shuffled)
        assert one.lacks(TrustModel.CENTRAL) is None
    sampled = TrialRelease(mechanism=PoissonSampled(mechanism=N1, rate=0.1, contribution=1.0))
    nested = PrivateSelection(releases=(sampled,), repetitions=Poisson(mean=2.0))
    assert nested.lacks(TrustModel.LOCAL) is not None
    assert nested.lacks(TrustModel.JOINT) is None


def section(kind: str) -> str:
    page = (Path(__file__).parents[2] / "docs" / "proving" / "mechanisms.md").read_text(encoding="utf-8")
    found = re.search(rf"\n## {kind}\n(.*?)(?=\n## |\Z)", page, re.DOTALL)
    assert found is not None
    return found[1]


PARAMETERS = [
    pytest.param(kind, name, id=f"{kind}-{name}")
    for kind, model in KINDS.items()
    for name in model.model_fields
    if name != "kind"
]


@pytest.mark.parametrize(("kind", "name"), PARAMETERS)
def test_every_parameter_is_named_on_its_page_and_held_to_its_range(kind: str, name: str) -> None:
    words = section(kind).partition("\n- Class:")[0]
    assert re.search(rf"\b{name}\b", words), f"the page of {kind} does not say what {name} is"
    mechanism = example(kind)
    given = mechanism.model_dump()
    for value in (
        -1.5,
        math.nan,
        math.inf,
        [],
        {},
        1j,
        "",
        " ",
        *(["nonsense"] if name != "justification" else []),
    ):
        with pytest.raises(InputError):
            type(mechanism)(**{**given, name: value})
