"""No accountant's answer lies below the truth: a sweep over mechanisms, mixes, counts, relations and deltas.

The truth is computed without the package. Every release's losses are atoms at 340 digits, for deltas down to
1e-300, and composed by enumeration; continuous ones are cut into cells that are merged (a post-processing, so
a lower bound). Gaussians, matrices, trees and processes are one Gaussian of known mu together; what is opaque
is the worst of its own statement. Where no cell was needed the truth is exact, and lower ends are held to it
too. `python docs/programs/make_sweep.py` tries every kind under every relation and in every size of mix.
"""

import bisect
import contextlib
import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import libmp, mp, mpf

from dpaudit import L1, L2, Gaussian, Laplace, Neighbouring
from dpaudit.accountants.curves.curves import LossProfile, PrivacyProfile, profiles
from dpaudit.accountants.privacy_loss import Bracket
from dpaudit.claims.sensitivity import RKHS, Frobenius
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    ExponentialKernel,
    FixedSizeSampled,
    GaussianProcess,
    GaussianSparseVector,
    KeySelection,
    MatrixMechanism,
    MixtureOfGaussians,
    NegativeBinomial,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
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
    TreeAggregation,
    TrialRelease,
    TruncatedPoissonSampled,
)
from tests import make
from tests.sweeps import sweep

DIGITS = 340
ROUNDING = mpf(10) ** -330  # of so many digits, where a loss equals epsilon and nothing is left
CELLS = 12  # of Laplace noise
MOST_ATOMS = 300  # of an exact truth
#: Where noise of scale 1 is cut, from the middle: closely where most of it is, and as far as delta 1e-300.
FAR = (10, 12, 14, 17, 20, 24, 28, 32, 36, 40)
CUTS = [*(-k for k in reversed(FAR)), *(k / 2 for k in range(-16, 17)), *FAR]
Atoms = list[tuple[mpf, mpf]]  # P and Q


def response_atoms(epsilon: float, categories: int) -> Atoms:
    e = mp.exp(mpf(epsilon))
    total = e + categories - 1
    return [
        (e / total, 1 / total),
        (1 / total, e / total),
        ((categories - 2) / total, (categories - 2) / total),
    ]


def range_atoms(epsilon: float, share: Any) -> Atoms:
    """Losses h = share epsilon and h - epsilon, with the probabilities that make both sum to 1."""
    e, high = mpf(epsilon), share * mpf(epsilon)
    p = (mp.exp(e) - mp.exp(high)) / mp.expm1(e)
    return [(p, p * mp.exp(-high)), (1 - p, (1 - p) * mp.exp(e - high))]


def merged(between_p: Any, between_q: Any, edges: list[Any]) -> Atoms:
    ends = [-mp.inf, *edges, mp.inf]
    return [(between_p(low, high), between_q(low, high)) for low, high in itertools.pairwise(ends)]


@functools.cache
def normal_cdf(x: Any) -> Any:
    """As `mp.ncdf`, by the error function of FLINT, to as many digits in a tenth of the time."""
    if mp.isinf(x):
        return mpf(x > 0)
    flint.ctx.prec = mp.prec + 30
    negative, mantissa, exponent, _ = x._mpf_
    over = flint.arb(mantissa if negative else -mantissa) * flint.arb(2) ** exponent / flint.arb(2).sqrt()
    mantissa, exponent = (over.erfc() / 2).mid().man_exp()
    return mp.ldexp(mpf(int(mantissa)), int(exponent))


def normal(low: Any, high: Any) -> Any:
    """The probability of a range by its nearer tail: the difference of two numbers close to 1 would be 0."""
    if low > 0:
        return normal_cdf(-low) - normal_cdf(-high)
    return normal_cdf(high) - normal_cdf(low)


def gaussian_atoms(mu: Any, rate: Any) -> Atoms:
    return mixture_atoms([mpf(0), mpf(mu)], [1 - rate, rate])


def mixture_atoms(shifts: list[Any], weights: list[Any]) -> Atoms:
    edges = [max(shifts) / 2 + cut for cut in CUTS]
    rows = list(zip(shifts, weights, strict=True))
    return merged(lambda low, high: sum(p * normal(low - c, high - c) for c, p in rows), normal, edges)


def opposite_atoms(mu: Any, rate: Any) -> Atoms:
    """A replaced unit, sampled, whose two parts are mu long and point in opposite directions."""

    def mixed(shift: Any) -> Callable[[Any, Any], Any]:
        return lambda low, high: (1 - rate) * normal(low, high) + rate * normal(low - shift, high - shift)

    return merged(mixed(mu), mixed(-mu), [mpf(cut) for cut in CUTS])


def laplace_cdf(x: Any) -> Any:
    if mp.isinf(x):
        return mpf(0 if x < 0 else 1)
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


def laplace_atoms(epsilon: Any, rate: Any) -> Atoms:
    e = mpf(epsilon)

    def own(low: Any, high: Any) -> Any:
        return laplace_cdf(high) - laplace_cdf(low)

    def mixed(low: Any, high: Any) -> Any:
        return (1 - rate) * own(low, high) + rate * own(low - e, high - e)

    return merged(mixed, own, [e * k / CELLS for k in range(CELLS + 1)])


def reversed_pair(atoms: Atoms) -> Atoms:
    return [(q, p) for p, q in atoms]


def loss(p: mpf, q: mpf) -> float:
    """The logarithm of the ratio as a double: atoms are grouped by it, and any grouping post-processes."""
    if not (p > 0 and q > 0):
        return 0.0
    (one, one_exponent), (other, other_exponent) = mp.frexp(p), mp.frexp(q)
    return math.log(one / other) + (one_exponent - other_exponent) * math.log(2.0)


def composed(releases: list[tuple[Atoms, int]]) -> Atoms:
    """The atoms of all runs, those with nearly equal losses merged on the way: a post-processing."""
    with mp.workdps(DIGITS):
        laws: dict[int | None, tuple[mpf, mpf]] = {0: (mpf(1), mpf(1))}
        for atoms, count in releases:
            rows, digits = [(p._mpf_, q._mpf_, loss(p, q)) for p, q in atoms if p > 0], mp.prec
            for _ in range(count):
                fresh: dict[int | None, tuple[Any, Any]] = defaultdict(lambda: (libmp.fzero, libmp.fzero))
                for p, q in laws.values():
                    start, own, its = loss(p, q), p._mpf_, q._mpf_
                    for one, other, step in rows:  # on what mpmath's numbers hold, which is quicker
                        a, b = libmp.mpf_mul(own, one, digits, "n"), libmp.mpf_mul(its, other, digits, "n")
                        key = None if b == libmp.fzero else math.floor((start + step) * 16)  # None: revealed
                        most, least = fresh[key]
                        fresh[key] = (
                            libmp.mpf_add(most, a, digits, "n"),
                            libmp.mpf_add(least, b, digits, "n"),
                        )
                laws = {key: (mp.make_mpf(p), mp.make_mpf(q)) for key, (p, q) in fresh.items()}
        return list(laws.values())


def every_run(atoms: Atoms, count: int) -> Atoms:
    """The atoms of so many runs; only outcomes that are equal but for their order are put together."""
    found = []
    for chosen in itertools.combinations_with_replacement(atoms, count):
        times = Counter(map(id, chosen)).values()
        ways = math.factorial(count) // math.prod(map(math.factorial, times))
        found.append((ways * mp.fprod(p for p, _ in chosen), ways * mp.fprod(q for _, q in chosen)))
    return found


@dataclass(frozen=True)
class Truth:
    """What one unit is exposed to: one Gaussian of mean mu, and atoms; the worse of the orders counts.

    `exact`: the pairs are those of the mechanisms themselves, and nothing was merged; else a lower bound.
    """

    orders: list[Atoms]
    mu: Any = 0
    exact: bool = False

    def delta(self, epsilon: float) -> Any:
        """The least delta at an epsilon, or a lower bound on it."""
        with mp.workdps(DIGITS):
            at = mpf(epsilon)
            bar = mp.exp(at)
            if not self.mu:
                return max(mp.fsum(max(p - bar * q, 0) for p, q in atoms) for atoms in self.orders)
            return max(mp.fsum(self._part(p, q, at) for p, q in atoms) for atoms in self.orders)

    def _part(self, p: Any, q: Any, epsilon: Any) -> Any:
        """What an atom leaves beside the Gaussian."""
        if not (p and q):
            return p
        away = (epsilon - mp.log(p / q)) / self.mu
        with mp.workdps(60):  # both terms are of the difference's size, but for a few digits
            p, q = p * mp.ncdf(self.mu / 2 - away), q * mp.ncdf(-self.mu / 2 - away)
            return p - mp.exp(epsilon) * q

    @property
    def revealed(self) -> float:
        """The delta that no epsilon is enough for."""
        return max(float(mp.fsum(p for p, q in atoms if q == 0)) for atoms in self.orders)


def truth_of(mix: list[tuple[Any, int]], relation: Neighbouring = Neighbouring.ADD_OR_REMOVE_ONE) -> Truth:
    """The truth about so many runs of each mechanism; only samples depend on the relation."""
    with mp.workdps(DIGITS):
        mu = mp.sqrt(mp.fsum(count * mu_of(m) ** 2 for m, count in mix))
        others = [(m, pair_of(m, relation), count) for m, count in mix if not mu_of(m)]
        # What is proved where a record is replaced holds for one that is added too, at the same sensitivity.
        # A table says itself which way round it is worst.
        ways = [
            [(atoms, count) for _, atoms, count in others],
            [(a if isinstance(m, Tabulated) else reversed_pair(a), count) for m, a, count in others],
        ]
        size = math.prod(math.comb(len(atoms) + count - 1, count) for _, atoms, count in others)
        if size <= MOST_ATOMS and all(isinstance(m, FINITE) for m, _, _ in others):
            orders = [
                [
                    (mp.fprod(p for p, _ in one), mp.fprod(q for _, q in one))
                    for one in itertools.product(*(every_run(*each) for each in way))
                ]
                for way in ways
            ]
            return Truth(orders, mu, exact=not any(isinstance(m, MatrixMechanism) for m, _ in mix))
        noise = [(gaussian_atoms(mu, mpf(1)), 1)] if mu else []
        return Truth([composed([*noise, *way]) for way in ways])


def discrete_laplace_atoms(scale: float, shift: int) -> Atoms:
    """Both ends, where the loss is constant, and each integer between."""
    a = mp.exp(-1 / mpf(scale))

    def mass(k: int) -> mpf:
        return (1 - a) / (1 + a) * a ** abs(k)

    end, far = 1 / (1 + a), a**shift / (1 + a)  # of k <= 0 and of k >= shift, centred at 0
    return [(far, end), *((mass(k - shift), mass(k)) for k in range(1, shift)), (end, far)]


def discrete_gaussian_atoms(sigma: float, shift: int) -> Atoms:
    """Every integer within 40 sigma, in about as many groups as other noise has cells; the rest dropped."""
    reach = int(40 * sigma) + 3
    masses = {k: mp.exp(-(mpf(k) ** 2) / (2 * mpf(sigma) ** 2)) for k in range(-reach, reach + 1)}
    total = mp.fsum(masses.values())
    groups: dict[int, list[int]] = defaultdict(list)
    for k in range(shift - reach, reach + 1):
        groups[bisect.bisect([cut * max(sigma, 1.0) for cut in CUTS], k)].append(k)
    return [
        (mp.fsum(masses[k - shift] for k in group) / total, mp.fsum(masses[k] for k in group) / total)
        for group in groups.values()
    ]


def smooth_atoms(alpha: float, beta: float) -> Atoms:
    """One coordinate of the larger scale against the smaller, moved by the smaller over alpha."""
    scale, shift = mp.exp(mpf(beta) / 2), 1 / mpf(alpha)
    cuts = [mpf(cut) for cut in CUTS]
    return merged(lambda low, high: normal((low - shift) / scale, (high - shift) / scale), normal, cuts)


def revealing(delta: float, atoms: Atoms) -> Atoms:
    """All revealed with probability delta, on either side (Kairouz, Oh and Viswanath 2015)."""
    lost = mpf(delta)
    return [(lost, mpf(0)), (mpf(0), lost), *(((1 - lost) * p, (1 - lost) * q) for p, q in atoms)]


def sparse_atoms(mechanism: Any) -> Atoms:
    """Whether the answers are two noes and then yeses, on data where that is rare; else anything."""
    said = np.array([False, False, *[True] * mechanism.answers])
    ahead, moved = np.where(said, -2.0, 2.0), np.where(said, -1.0, 1.0)
    logs = [mechanism.log_probability(said, each) for each in (ahead, ahead + moved)]
    p, q = (mp.exp(mpf(log)) for log in logs)
    return [(p, q), (1 - p, 1 - q)]


#: Mechanisms whose own pair is finite, and is what `pair_of` has.
FINITE = RandomizedResponse | OpaquePureDP | OpaqueApproxDP | DiscreteLaplace | Tabulated


def mu_of(mechanism: Any) -> Any:
    """The mean of the Gaussian that a mechanism is, or may be; 0 where it is none."""
    match mechanism:
        case Gaussian() | SymmetricGaussian() | GaussianProcess():
            return mpf(mechanism.sensitivity.value) / mechanism.sigma
        case TreeAggregation():  # an item is in floor(log2 steps) + 1 nodes
            moved = mpf(mechanism.sensitivity.value) / mechanism.sigma
            return moved * mp.sqrt(mechanism.steps.bit_length())
        case OpaqueZCDP():
            return mp.sqrt(2 * mpf(mechanism.rho))
        case MatrixMechanism():  # one unit moves the items of the earliest pattern, all the same way
            steps, b = mechanism.steps, mechanism.separation
            turns = range(0, steps, b)[: mechanism.participations]
            rows = [mechanism.strategy.row(step + 1).tolist() for step in range(steps)]
            moves = [
                sum(row[t - step - 1] for t in turns if step - len(row) < t <= step)
                for step, row in enumerate(rows)
            ]
            moved = mp.sqrt(sum(mpf(move) ** 2 for move in moves)) / mechanism.sigma
            return moved * mechanism.sensitivity.value
        case _:
            return mpf(0)


def key_atoms(mechanism: Any) -> Atoms:
    """Whether any of so many keys is kept, each of one unit, or of none."""
    if mechanism.method == "optimal":
        kept = mpf(mechanism.probabilities(1)[1])
    else:
        scale, threshold = map(mpf, mechanism.noise_and_threshold())
        away = (threshold - 1) / scale
        kept = 1 - laplace_cdf(away) if mechanism.method == "laplace" else mp.ncdf(-away)
    any_kept = 1 - (1 - kept) ** mechanism.changes
    return [(any_kept, mpf(0)), (1 - any_kept, mpf(1))]


def sample_atoms(mechanism: Any, relation: Neighbouring) -> Atoms:
    """One unit in a sample by chance: of others that add nothing, or, where one has its place, the least."""
    inner = mechanism.mechanism
    noise = mpf(inner.scale if isinstance(inner, Laplace) else inner.sigma)
    replaced, part = relation is Neighbouring.REPLACE_ONE, mpf(mechanism.contribution or 1) / noise
    if isinstance(mechanism, FixedSizeSampled):
        units = mechanism.units + (relation is Neighbouring.ADD_OR_REMOVE_ONE)
        # Every other unit has the opposite part; one that is set to zero moves the sum by its own alone.
        rate, part = mpf(mechanism.size) / units, part * (1 if relation is Neighbouring.ZERO_OUT else 2)
        return laplace_atoms(part, rate) if isinstance(inner, Laplace) else gaussian_atoms(part, rate)
    others, q = mechanism.units - 1, mpf(mechanism.rate)
    rate = mp.fsum(
        mp.binomial(others, k) * q**k * (1 - q) ** (others - k) * q * min(1, mpf(mechanism.most) / (k + 1))
        for k in range(others + 1)
    )
    return opposite_atoms(part, rate) if replaced else gaussian_atoms(part, rate)


def turn_atoms(mechanism: Any, relation: Neighbouring) -> Atoms:
    """The turns of the units that come first, which have no row in common."""
    inner, rate, moved = mechanism.mechanism, mpf(mechanism.rate), mpf(mechanism.contribution)
    turns, turn = [], opposite_atoms if relation is Neighbouring.REPLACE_ONE else gaussian_atoms
    for first in range(0, inner.steps, inner.separation):
        column = inner.strategy.coefficients[: inner.steps - first]
        norm = mp.sqrt(mp.fsum(mpf(each) ** 2 for each in column))
        turns.append((turn(moved * norm / inner.sigma, rate), 1))
    return composed(turns)


def pair_of(mechanism: Any, relation: Neighbouring) -> Atoms:
    """A pair of neighbouring outputs that the mechanism really has, merged; none of those with a `mu_of`."""
    match mechanism:
        case DiscreteGaussian():
            return discrete_gaussian_atoms(mechanism.sigma, int(mechanism.sensitivity.value))
        case SmoothGaussian():
            return smooth_atoms(mechanism.alpha, mechanism.beta)
        case Tabulated():
            rows = zip(mechanism.losses, mechanism.probabilities, strict=True)
            finite = [(mpf(p), mpf(p) * mp.exp(-mpf(loss))) for loss, p in rows]
            return [(mpf(mechanism.infinity), mpf(0)), *finite]
        case Laplace():
            return laplace_atoms(mpf(mechanism.sensitivity.value) / mechanism.scale, mpf(1))
        case DiscreteLaplace():
            return discrete_laplace_atoms(mechanism.scale, int(mechanism.sensitivity.value))
        case RandomizedResponse():
            return response_atoms(mechanism.epsilon, mechanism.categories)
        case Exponential():
            # Two outputs, their losses 7/10 of the range above 0 and 3/10 below.
            return range_atoms(mechanism.epsilon, mpf(7) / 10)
        case ReportNoisyMax():
            # Two candidates with equal log weights, which move by half of epsilon in opposite directions.
            less = mp.exp(-mpf(mechanism.epsilon)) / 2
            return [(mpf(1) / 2, 1 - less), (mpf(1) / 2, less)]
        case SparseVector():
            # Answers that show the threshold's noise and c values: two losses, as of randomized response.
            return sparse_atoms(mechanism)
        case GaussianSparseVector():
            return sparse_atoms(mechanism)
        case PrivateSelection():
            # The larger of a geometric number of answers, one likelier on either side.
            (one,), gamma = mechanism.releases, mpf(mechanism.repetitions.gamma)
            likely = 1 / (1 + mp.exp(-mpf(one.mechanism.epsilon)))
            sides = [gamma * low / (1 - (1 - gamma) * low) for low in (likely, 1 - likely)]
            return [(sides[0], sides[1]), (1 - sides[0], 1 - sides[1])]
        case Shuffled():
            # All other users give the one answer of two.
            local, users = mechanism.local, mechanism.users
            keep = 1 / (1 + mp.exp(-mpf(local.epsilon)))
            fewer = [
                mp.binomial(users - 1, k) * (1 - keep) ** k * keep ** (users - 1 - k) for k in range(users)
            ]
            low, high = [*fewer, mpf(0)], [mpf(0), *fewer]
            return [
                (keep * b + (1 - keep) * a, (1 - keep) * b + keep * a) for a, b in zip(low, high, strict=True)
            ]
        case OpaquePureDP():
            return response_atoms(mechanism.epsilon, 2)
        case OpaqueApproxDP():
            return revealing(mechanism.delta, response_atoms(mechanism.epsilon, 2))
        case KeySelection():
            return key_atoms(mechanism)
        case FixedSizeSampled() | TruncatedPoissonSampled():
            return sample_atoms(mechanism, relation)
        case SampledMatrix():
            return turn_atoms(mechanism, relation)
        case PoissonSampled(mechanism=Gaussian() as inner, contribution=float() as own):
            pair = opposite_atoms if relation is Neighbouring.REPLACE_ONE else gaussian_atoms
            return pair(mpf(own) / inner.sigma, mpf(mechanism.rate))
        case PoissonSampled(mechanism=Gaussian() as inner):
            return gaussian_atoms(mpf(inner.sensitivity.value) / inner.sigma, mpf(mechanism.rate))
        case PoissonSampled(mechanism=Laplace() as inner):
            return laplace_atoms(mpf(inner.sensitivity.value) / inner.scale, mpf(mechanism.rate))
        case MixtureOfGaussians():
            shifts = [mpf(c) / mechanism.sigma for c in mechanism.sensitivities]
            return mixture_atoms(shifts, [mpf(p) for p in mechanism.probabilities])
        case SampledRecords(mechanism=Gaussian() as inner):
            moved, q, k = mpf(1) / inner.sigma, mpf(mechanism.rate), mechanism.records
            weights = [mp.binomial(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]
            return mixture_atoms([j * moved for j in range(k + 1)], weights)
        case RandomAllocation(mechanism=Gaussian() as inner):  # what the first answer alone reveals
            return gaussian_atoms(mpf(1) / inner.sigma, mpf(1) / mechanism.steps)
        case _:
            raise NotImplementedError(mechanism)


NOISE = st.floats(0.2, 50.0)
EPSILON = st.floats(0.01, 4.0)
GAUSSIAN = NOISE.map(make.gaussian)
LAPLACE = NOISE.map(make.laplace)
INTEGER = st.integers(1, 3).map(float)
NOT_TINY = NOISE.filter(lambda sigma: sigma > 0.5)
RATE = st.sampled_from([1e-4, 0.01, 0.3, 0.9])
#: Noise on a sum that a replaced unit moves by 2, each unit's part being 1.
OF_TWO = NOT_TINY.map(lambda sigma: make.gaussian(sigma, 2.0))


def table(ratio: float, shares: list[float], infinity: float) -> Tabulated:
    """Losses in both directions whose neighbour's probabilities add up to less than 1."""
    total = math.fsum(shares) + 1e-3
    rows: dict[float, float] = defaultdict(float)
    for i, share in enumerate(shares, start=1):
        for loss in (i * ratio, -i * ratio):
            rows[loss] += share / total / (1.0 + math.exp(-loss))
    rows[0.0] = 1.0 - math.fsum(rows.values())
    kept = sorted((loss, p * (1.0 - infinity)) for loss, p in rows.items())
    losses, probabilities = zip(*kept, strict=True)
    return Tabulated(losses=losses, probabilities=probabilities, infinity=infinity, justification="counted")


def coefficients(most: int) -> st.SearchStrategy[tuple[float, ...]]:
    """A column of 1 and so many more, none of them tiny."""
    one = st.floats(-1.0, 1.0).filter(lambda c: c == 0.0 or abs(c) > 1e-9)
    return st.lists(one, max_size=most).map(lambda more: (1.0, *more))


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "gaussian": GAUSSIAN,
    "laplace": LAPLACE,
    "discrete-gaussian": st.builds(make.discrete_gaussian, NOT_TINY, INTEGER),
    "discrete-laplace": st.builds(make.discrete_laplace, NOISE, INTEGER),
    "symmetric-gaussian": NOISE.map(
        lambda sigma: SymmetricGaussian(sigma=sigma, dimension=3, sensitivity=Frobenius(1.0))
    ),
    "tree-aggregation": st.builds(make.tree, NOT_TINY, st.integers(1, 40)),
    "matrix": st.builds(
        make.banded,
        NOT_TINY,
        coefficients=coefficients(4),
        participations=st.integers(1, 4),
        separation=st.integers(1, 4),
    ),
    "gaussian-process": st.builds(
        GaussianProcess,
        sigma=NOISE,
        kernel=st.just(ExponentialKernel(beta=1.0)),
        sensitivity=st.just(RKHS(1.0)),
    ),
    "smooth-gaussian": st.builds(
        SmoothGaussian,
        alpha=st.floats(0.5, 20.0),
        beta=st.sampled_from([1e-3, 0.01, 0.1]),
        dimension=st.integers(1, 3),
        epsilon=st.just(1.0),
        delta=st.just(0.9),
    ),
    "randomized-response": st.builds(RandomizedResponse, epsilon=EPSILON, categories=st.integers(2, 9)),
    "exponential": st.builds(Exponential, epsilon=EPSILON),
    "report-noisy-max": st.builds(ReportNoisyMax, epsilon=EPSILON),
    "sparse-vector": st.builds(
        SparseVector, epsilon=EPSILON, sensitivity=st.just(L1(1.0)), answers=st.integers(1, 3)
    ),
    "gaussian-sparse-vector": st.builds(
        GaussianSparseVector,
        sigma=NOISE,
        sensitivity=st.just(L2(1.0)),
        answers=st.integers(1, 3),
        steps=st.integers(5, 40),
    ),
    "private-selection": st.builds(
        lambda epsilon, gamma: PrivateSelection(
            releases=(TrialRelease(mechanism=RandomizedResponse(epsilon=epsilon)),),
            repetitions=NegativeBinomial(eta=1.0, gamma=gamma),
        ),
        EPSILON,
        st.sampled_from([1e-4, 0.1, 0.9]),
    ),
    "shuffled": st.builds(
        Shuffled, local=st.builds(RandomizedResponse, epsilon=EPSILON), users=st.integers(1, 9)
    ),
    "pure-dp": st.builds(OpaquePureDP, epsilon=EPSILON, justification=st.just("x")),
    "approx-dp": st.builds(
        OpaqueApproxDP,
        epsilon=EPSILON,
        delta=st.sampled_from([1e-30, 1e-9, 1e-4]),
        justification=st.just("x"),
    ),
    "zcdp": st.builds(OpaqueZCDP, rho=st.floats(1e-4, 2.0), justification=st.just("x")),
    "tabulated": st.builds(
        table,
        st.floats(0.05, 1.5),
        st.lists(st.floats(0.01, 1.0), min_size=1, max_size=3),
        st.sampled_from([0.0, 0.0, 1e-7]),
    ),
    "poisson-sampled": st.one_of(
        st.builds(PoissonSampled, rate=RATE, mechanism=st.one_of(NOT_TINY.map(make.gaussian), LAPLACE)),
        st.builds(PoissonSampled, rate=RATE, mechanism=OF_TWO, contribution=st.just(1.0)),
    ),
    "sampled-matrix": st.builds(
        lambda rate, sigma, column, apart, steps: SampledMatrix(
            rate=rate,
            contribution=1.0,
            mechanism=make.banded(sigma, steps, column, 2.0, separation=len(column) + apart),
        ),
        RATE,
        NOT_TINY,
        coefficients(2),
        st.integers(0, 2),
        st.integers(1, 6),
    ),
    "key-selection": st.builds(
        KeySelection,
        method=st.sampled_from(["optimal", "laplace", "gaussian"]),
        epsilon=EPSILON,
        delta=st.sampled_from([3e-9, 3e-5]),
        changes=st.integers(1, 3),
    ),
}

#: Kinds whose tables take long to compose: by night alone, and in no other kind's mixes.
SLOW: dict[str, st.SearchStrategy[Any]] = {
    "mixture-of-gaussians": st.builds(
        lambda sigma, far, share: MixtureOfGaussians(
            sigma=sigma, sensitivities=(0.0, 1.0, far), probabilities=(1.0 - share, share / 2, share / 2)
        ),
        NOT_TINY,
        st.floats(0.0, 3.0),
        st.sampled_from([1e-3, 0.1, 0.5, 1.0]),
    ),
    "sampled-records": st.builds(
        SampledRecords,
        mechanism=NOT_TINY.map(make.gaussian),
        rate=st.sampled_from([1e-3, 0.1, 0.5, 1.0]),
        records=st.integers(1, 4),
    ),
    "random-allocation": st.builds(
        RandomAllocation, mechanism=NOT_TINY.map(make.gaussian), steps=st.integers(1, 12)
    ),
    "fixed-size-sampled": st.builds(
        lambda noise, size, more: FixedSizeSampled(mechanism=noise, size=size, units=size + more),
        st.one_of(OF_TWO, NOISE.map(lambda scale: make.laplace(scale, 2.0))),
        st.integers(1, 9),
        st.integers(0, 99),
    ),
    "truncated-poisson-sampled": st.builds(
        TruncatedPoissonSampled,
        rate=RATE,
        mechanism=OF_TWO,
        most=st.integers(1, 9),
        units=st.integers(1, 60),
        contribution=st.just(1.0),
    ),
}
RUNS = st.integers(1, 3)
DELTAS = (1e-2, 1e-4, 1e-6, 1e-12, 1e-30, 1e-100, 1e-280, 1e-300)
TAIL, MIXTURE_TAIL = 1e-300, 1e-44  # of one run's noise at most, which tables count as revealed
CLOSE = 1 + 1e-9


def mixes(first: st.SearchStrategy[Any], sizes: tuple[int, int] = (1, 3)) -> st.SearchStrategy[Any]:
    """One mechanism of the first kind beside others of any: so many together, from the first to the last."""
    one = st.tuples(st.one_of(list(KINDS.values())), RUNS)
    others = st.lists(one, min_size=sizes[0] - 1, max_size=sizes[1] - 1)
    return st.builds(lambda one, more: [one, *more], st.tuples(first, RUNS), others)


def curves(mix: list[tuple[Any, int]], neighbouring: Neighbouring) -> list[PrivacyProfile]:
    return profiles(make.composition(*mix, relation=neighbouring))


def epsilons(found: list[PrivacyProfile], delta: float, revealed: float) -> dict[str, float]:
    """Every accountant's epsilon; one may refuse only where delta is not enough."""
    answers = {}
    for profile in found:
        try:
            answers[profile.method] = profile.epsilon(delta)
        except CannotBound:
            assert delta <= revealed * CLOSE, profile.method
    return answers


def in_order(answers: dict[str, float]) -> None:
    """The exact curve of the pairs is the best, divergences come next, and rho alone last."""
    ladder = [answers[method] for method in ("pld", "rdp", "zcdp") if method in answers]
    assert all(better <= worse * CLOSE for better, worse in itertools.pairwise(ladder)), answers


def sound(mix: list[tuple[Any, int]], deltas: Sequence[float], neighbouring: Neighbouring) -> Counter[str]:
    """No accountant's curve is below the truth, NaN or negative, and none refuses without reason.

    Nor is a lower end above the truth, a method above one that knows less, or an epsilon less for more
    delta or for one run fewer. Returns how many figures were compared, and with what.
    """
    mixtures = MixtureOfGaussians | SampledRecords | RandomAllocation
    if any(isinstance(m, mixtures) for m, _ in mix) and neighbouring is Neighbouring.REPLACE_ONE:
        neighbouring = Neighbouring.ADD_OR_REMOVE_ONE  # nothing is claimed of replaced units there
    found, truth, seen = curves(mix, neighbouring), truth_of(mix, neighbouring), Counter[str]()
    tails = sum(count * (MIXTURE_TAIL if isinstance(m, mixtures) else TAIL) for m, count in mix)
    revealed = truth.revealed + tails
    before: dict[str, float] = {}
    for delta in deltas:
        answers = epsilons(found, delta, revealed)
        seen["refused"] += len(found) - len(answers)
        if not answers:
            continue
        assert all(0.0 <= epsilon < math.inf for epsilon in answers.values()), answers
        least = min(answers.values())
        assert truth.delta(least) <= delta * (1 + 1e-12) + ROUNDING, (delta, answers)
        in_order(answers)
        assert all(answers[name] >= before.get(name, 0.0) / CLOSE for name in answers), (delta, answers)
        seen["epsilons"] += len(answers)
        before = answers
        for profile in found:
            if truth.exact and isinstance(profile, LossProfile) and profile.method in answers:
                lower = profile.bracket(delta).lower
                assert 0.0 <= lower <= answers[profile.method], delta
                assert lower == 0.0 or truth.delta(lower / CLOSE) >= delta / CLOSE, (delta, lower)
                seen["lower ends"] += 1
        for at in (0.0, 0.5 * least, least):
            values = {profile.method: profile.delta(at) for profile in found}
            assert all(0.0 <= value <= 1.0 for value in values.values()), values
            assert truth.delta(at) <= min(values.values()) * (1 + 1e-12) + ROUNDING, (at, values)
            seen["deltas"] += len(values)
    delta = deltas[len(deltas) // 3]
    fewer = epsilons(found, delta, revealed)
    (first, count), *others = mix
    more = epsilons(curves([(first, count + 1), *others], neighbouring), delta, 1.0)
    assert all(more[name] >= fewer[name] / CLOSE for name in fewer if name in more), (fewer, more)
    return seen + Counter({"mixes": 1, "exact": int(truth.exact), "runs": sum(n for _, n in mix)})


def swept(first: st.SearchStrategy[Any], examples: int, deltas: tuple[float, ...] = DELTAS) -> None:
    """`sound` for so many mixes, at one delta each."""
    one = st.sampled_from(deltas).map(lambda delta: (delta,))

    @settings(parent=settings(), max_examples=examples, deadline=None)
    @given(mix=mixes(first), deltas=one, neighbouring=st.sampled_from(list(Neighbouring)))
    def test(mix: list[tuple[Any, int]], deltas: tuple[float], neighbouring: Neighbouring) -> None:
        sound(mix, deltas, neighbouring)

    test()


def test_the_normal_distribution_is_that_of_mpmath() -> None:
    with mp.workdps(DIGITS):
        for x in map(mpf, (-41.5, -12, -1e-5, 0, 0.3, 7, 40)):
            assert mp.almosteq(normal_cdf(x), mp.ncdf(x), rel_eps=mpf(10) ** -(DIGITS - 5))


def test_far_noise_reveals_nothing() -> None:
    """A probability of 1e-342 is not 0; taken for 0 it makes whole what the other side has there."""
    with mp.workdps(DIGITS):
        assert all(q > 0 for _, q in gaussian_atoms(mp.sqrt(50), mpf(1)))
        assert mp.almosteq(mp.fsum(q for _, q in gaussian_atoms(mp.sqrt(50), mpf(1))), 1)


@sweep("kind", KINDS, everyday=[at for at, kind in enumerate(KINDS) if kind != "sampled-matrix"])
def test_no_answer_is_below_the_truth(kind: str) -> None:
    """Some mixes take minutes at a delta past 1e-30: those are for the night."""
    swept(KINDS[kind], 2, DELTAS[:5])


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [*KINDS, *SLOW])
def test_no_answer_is_below_the_truth_at_length(kind: str) -> None:
    """Every night a few other mixes at deltas down to 1e-300, where the truth of one may take minutes."""
    swept((KINDS | SLOW)[kind], 2 if kind in SLOW else 8)


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse(epsilon=1.0),
        make.discrete_gaussian(2.0),
        make.tree(3.0, 5),
        OpaqueApproxDP(epsilon=0.5, delta=1e-7, justification="a theorem"),
        table(0.5, [1.0, 0.5], 0.0),
    ],
    ids=lambda mechanism: mechanism.kind,
)
def test_the_sweep_notices_an_answer_that_is_too_low(mechanism: Any) -> None:
    """A planted fault: the epsilon of one run where there are two; its innocent twin passes in the sweep."""
    low = min(epsilons(curves([(mechanism, 1)], Neighbouring.REPLACE_ONE), 1e-6, 0.0).values())
    assert truth_of([(mechanism, 2)]).delta(low) > 1e-6


class HighEnds(LossProfile):
    def bracket(self, delta: float) -> Bracket:
        """Both ends one per cent above the truth."""
        upper = 1.01 * super().bracket(delta).upper
        return Bracket(upper, upper)


@dataclass(frozen=True)
class Raised:
    """A profile whose epsilon is three times as large where `where` says so."""

    profile: PrivacyProfile
    method: str
    where: Callable[[float], bool]

    def epsilon(self, delta: float) -> float:
        return self.profile.epsilon(delta) * (3.0 if self.where(delta) else 1.0)

    def delta(self, epsilon: float) -> float:
        return self.profile.delta(epsilon)


def high_ends(found: list[Any], runs: int) -> list[Any]:
    return [HighEnds(one.exposures) if isinstance(one, LossProfile) else one for one in found]


def raised(method: str, where: Callable[[float, int], bool]) -> Callable[[list[Any], int], list[Any]]:
    def change(found: list[Any], runs: int) -> list[Any]:
        return [
            Raised(one, method, lambda delta: where(delta, runs)) if one.method == method else one
            for one in found
        ]

    return change


FAULTS: dict[str, Callable[[list[Any], int], list[Any]]] = {
    "a lower end above the truth": high_ends,
    "the exact curve above divergences": raised("pld", lambda delta, runs: True),
    "more for more delta": raised("zcdp", lambda delta, runs: delta > 1e-6),
    "less for more runs": raised("zcdp", lambda delta, runs: runs == 1),
}


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_the_sweep_notices_each_fault(fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted faults that leave every upper bound sound; without one nothing is found."""
    mix, honest = [(make.gaussian(1.0), 1)], curves

    def planted(some: list[tuple[Any, int]], relation: Neighbouring) -> list[Any]:
        return FAULTS[fault](honest(some, relation), some[0][1]) if fault else honest(some, relation)

    monkeypatch.setitem(globals(), "curves", planted)
    with pytest.raises(AssertionError) if fault else contextlib.nullcontext():
        found = sound(mix, (1e-4, 1e-12), Neighbouring.ZERO_OUT)
        assert found["lower ends"] == 2
        assert found["exact"] == 1
