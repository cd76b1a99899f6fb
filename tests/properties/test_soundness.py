"""No accountant's answer lies below the truth: a sweep over mechanisms, mixes, counts, relations and deltas.

The truth is bracketed without the package: every release's losses are atoms at 40 digits, continuous
ones cut into cells that are merged (a post-processing, so a lower bound), and composed by enumeration.
Matrices, trees and processes are Gaussians of known mu; what is opaque is the worst of its own statement.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit import L1, L2, Gaussian, Laplace, Neighbouring, Release
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves.curves import profiles
from dpaudit.claims.sensitivity import RKHS, Frobenius
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    ExponentialKernel,
    GaussianProcess,
    GaussianSparseVector,
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
    SampledRecords,
    Shuffled,
    SmoothGaussian,
    SparseVector,
    SymmetricGaussian,
    Tabulated,
    Toeplitz,
    TreeAggregation,
    TrialRelease,
)

CELLS = 12
ROUNDING = 1e-35  # of 40 digits, where a loss equals epsilon and nothing is left
Atoms = list[tuple[mp.mpf, mp.mpf]]  # P and Q


def response_atoms(epsilon: float, categories: int) -> Atoms:
    e = mp.exp(mp.mpf(epsilon))
    total = e + categories - 1
    return [
        (e / total, 1 / total),
        (1 / total, e / total),
        ((categories - 2) / total, (categories - 2) / total),
    ]


def range_atoms(epsilon: float, share: Any) -> Atoms:
    """Losses h = share epsilon and h - epsilon, with the probabilities that make both sum to 1."""
    e, high = mp.mpf(epsilon), share * mp.mpf(epsilon)
    p = (mp.exp(e) - mp.exp(high)) / mp.expm1(e)
    return [(p, p * mp.exp(-high)), (1 - p, (1 - p) * mp.exp(e - high))]


def merged(cdf_p: Any, cdf_q: Any, edges: list[Any]) -> Atoms:
    ends = [-mp.inf, *edges, mp.inf]
    return [(cdf_p(b) - cdf_p(a), cdf_q(b) - cdf_q(a)) for a, b in itertools.pairwise(ends)]


def gaussian_atoms(mu: Any, rate: Any) -> Atoms:
    centre = mp.mpf(mu)
    edges = [centre / 2 + mp.mpf(k - CELLS) * 6 / CELLS for k in range(2 * CELLS + 6)]
    return merged(lambda x: (1 - rate) * mp.ncdf(x) + rate * mp.ncdf(x - centre), mp.ncdf, edges)


def mixture_atoms(shifts: list[Any], weights: list[Any]) -> Atoms:
    edges = [max(shifts) / 2 + mp.mpf(k - CELLS) * 6 / CELLS for k in range(2 * CELLS + 6)]
    rows = list(zip(shifts, weights, strict=True))
    return merged(lambda x: sum(p * mp.ncdf(x - c) for c, p in rows), mp.ncdf, edges)


def laplace_cdf(x: Any) -> Any:
    if mp.isinf(x):
        return mp.mpf(0 if x < 0 else 1)
    return mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2


def laplace_atoms(epsilon: Any, rate: Any) -> Atoms:
    e = mp.mpf(epsilon)
    edges = [e * k / CELLS for k in range(CELLS + 1)]
    return merged(lambda x: (1 - rate) * laplace_cdf(x) + rate * laplace_cdf(x - e), laplace_cdf, edges)


def reversed_pair(atoms: Atoms) -> Atoms:
    return [(q, p) for p, q in atoms]


def loss(p: mp.mpf, q: mp.mpf) -> float:
    """The logarithm of the ratio as a double: atoms are grouped by it, and any grouping post-processes."""
    if not (p > 0 and q > 0):
        return 0.0
    (one, one_exponent), (other, other_exponent) = p.man_exp, q.man_exp
    return math.log(one / other) + (one_exponent - other_exponent) * math.log(2.0)


def composed(releases: list[tuple[Atoms, int]]) -> Atoms:
    """The atoms of all runs, those with nearly equal losses merged on the way: a post-processing."""
    with mp.workdps(40):
        laws: dict[int | None, tuple[mp.mpf, mp.mpf]] = {0: (mp.mpf(1), mp.mpf(1))}
        for atoms, count in releases:
            steps = [loss(p, q) for p, q in atoms]
            for _ in range(count):
                fresh: dict[int | None, tuple[mp.mpf, mp.mpf]] = defaultdict(lambda: (mp.mpf(0), mp.mpf(0)))
                for p, q in laws.values():
                    start = loss(p, q)
                    for (one, other), step in zip(atoms, steps, strict=True):
                        a, b = p * one, q * other
                        if a <= 0:
                            continue
                        key = math.floor((start + step) * 64) if b > 0 else None  # None: all is revealed
                        old = fresh[key]
                        fresh[key] = (old[0] + a, old[1] + b)
                laws = dict(fresh)
        return list(laws.values())


def least_delta(atoms: Atoms, epsilon: float) -> mp.mpf:
    """delta of the atoms, a lower bound on what the releases have."""
    with mp.workdps(40):
        bar = mp.exp(mp.mpf(epsilon))
        return mp.fsum(max(p - bar * q, mp.mpf(0)) for p, q in atoms)


def discrete_laplace_atoms(scale: float, shift: int) -> Atoms:
    """Both ends, where the loss is constant, and each integer between."""
    a = mp.exp(-1 / mp.mpf(scale))

    def mass(k: int) -> mp.mpf:
        return (1 - a) / (1 + a) * a ** abs(k)

    end, far = 1 / (1 + a), a**shift / (1 + a)  # of k <= 0 and of k >= shift, centred at 0
    return [(far, end), *((mass(k - shift), mass(k)) for k in range(1, shift)), (end, far)]


def discrete_gaussian_atoms(sigma: float, shift: int) -> Atoms:
    """Every integer within 14 sigma, in about as many groups as other noise has cells; the rest dropped."""
    reach = int(14 * sigma) + 3
    masses = {k: mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(sigma) ** 2)) for k in range(-reach, reach + 1)}
    total = mp.fsum(masses.values())
    width = max(1, int(sigma))
    groups: dict[int, list[int]] = defaultdict(list)
    for k in range(shift - reach, reach + 1):
        groups[k // width].append(k)
    return [
        (mp.fsum(masses[k - shift] for k in group) / total, mp.fsum(masses[k] for k in group) / total)
        for group in groups.values()
    ]


def smooth_atoms(alpha: float, beta: float) -> Atoms:
    """One coordinate of the larger scale against the smaller, moved by the smaller over alpha."""
    scale, shift = mp.exp(mp.mpf(beta) / 2), 1 / mp.mpf(alpha)
    edges = [mp.mpf(k - CELLS) * 8 / CELLS for k in range(2 * CELLS + 1)]
    return merged(lambda x: mp.ncdf((x - shift) / scale), mp.ncdf, edges)


def revealing(delta: float, atoms: Atoms) -> Atoms:
    """All revealed with probability delta, on either side (Kairouz, Oh and Viswanath 2015)."""
    lost = mp.mpf(delta)
    return [(lost, mp.mpf(0)), (mp.mpf(0), lost), *(((1 - lost) * p, (1 - lost) * q) for p, q in atoms)]


def sparse_atoms(mechanism: Any) -> Atoms:
    """Whether the answers are two noes and then yeses, on data where that is rare; else anything."""
    said = np.array([False, False, *[True] * mechanism.answers])
    ahead, moved = np.where(said, -2.0, 2.0), np.where(said, -1.0, 1.0)
    logs = [mechanism.log_probability(said, each) for each in (ahead, ahead + moved)]
    p, q = (mp.exp(mp.mpf(log)) for log in logs)
    return [(p, q), (1 - p, 1 - q)]


def pair_of(mechanism: Any) -> Atoms:
    """A pair of neighbouring outputs that the mechanism really has, merged."""
    match mechanism:
        case Gaussian() | SymmetricGaussian() | GaussianProcess():
            return gaussian_atoms(mp.mpf(mechanism.sensitivity.value) / mechanism.sigma, mp.mpf(1))
        case TreeAggregation():  # an item is in floor(log2 steps) + 1 nodes
            moved = mp.mpf(mechanism.sensitivity.value) / mechanism.sigma
            return gaussian_atoms(moved * mp.sqrt(mechanism.steps.bit_length()), mp.mpf(1))
        case OpaqueZCDP():
            return gaussian_atoms(mp.sqrt(2 * mp.mpf(mechanism.rho)), mp.mpf(1))
        case DiscreteGaussian():
            return discrete_gaussian_atoms(mechanism.sigma, int(mechanism.sensitivity.value))
        case SmoothGaussian():
            return smooth_atoms(mechanism.alpha, mechanism.beta)
        case Tabulated():
            rows = zip(mechanism.losses, mechanism.probabilities, strict=True)
            finite = [(mp.mpf(p), mp.mpf(p) * mp.exp(-mp.mpf(loss))) for loss, p in rows]
            return [(mp.mpf(mechanism.infinity), mp.mpf(0)), *finite]
        case Laplace():
            return laplace_atoms(mp.mpf(mechanism.sensitivity.value) / mechanism.scale, mp.mpf(1))
        case DiscreteLaplace():
            return discrete_laplace_atoms(mechanism.scale, int(mechanism.sensitivity.value))
        case RandomizedResponse():
            return response_atoms(mechanism.epsilon, mechanism.categories)
        case Exponential():
            # Two outputs, their losses 7/10 of the range above 0 and 3/10 below.
            return range_atoms(mechanism.epsilon, mp.mpf(7) / 10)
        case ReportNoisyMax():
            # Two candidates with equal log weights, which move by half of epsilon in opposite directions.
            less = mp.exp(-mp.mpf(mechanism.epsilon)) / 2
            return [(mp.mpf(1) / 2, 1 - less), (mp.mpf(1) / 2, less)]
        case SparseVector():
            # Answers that show the threshold's noise and c values: two losses, as of randomized response.
            return sparse_atoms(mechanism)
        case GaussianSparseVector():
            return sparse_atoms(mechanism)
        case PrivateSelection():
            # The larger of a geometric number of answers, one likelier on either side.
            (one,), gamma = mechanism.releases, mp.mpf(mechanism.repetitions.gamma)
            likely = 1 / (1 + mp.exp(-mp.mpf(one.mechanism.epsilon)))
            sides = [gamma * low / (1 - (1 - gamma) * low) for low in (likely, 1 - likely)]
            return [(sides[0], sides[1]), (1 - sides[0], 1 - sides[1])]
        case Shuffled():
            # All other users give the one answer of two.
            local, users = mechanism.local, mechanism.users
            keep = 1 / (1 + mp.exp(-mp.mpf(local.epsilon)))
            fewer = [
                mp.binomial(users - 1, k) * (1 - keep) ** k * keep ** (users - 1 - k) for k in range(users)
            ]
            low, high = [*fewer, mp.mpf(0)], [mp.mpf(0), *fewer]
            return [
                (keep * b + (1 - keep) * a, (1 - keep) * b + keep * a) for a, b in zip(low, high, strict=True)
            ]
        case OpaquePureDP():
            return response_atoms(mechanism.epsilon, 2)
        case OpaqueApproxDP():
            return revealing(mechanism.delta, response_atoms(mechanism.epsilon, 2))
        case PoissonSampled(mechanism=Gaussian() as inner):
            return gaussian_atoms(mp.mpf(inner.sensitivity.value) / inner.sigma, mp.mpf(mechanism.rate))
        case PoissonSampled(mechanism=Laplace() as inner):
            return laplace_atoms(mp.mpf(inner.sensitivity.value) / inner.scale, mp.mpf(mechanism.rate))
        case MatrixMechanism():  # one unit moves the items of the earliest pattern, all the same way
            steps, b = mechanism.steps, mechanism.separation
            turns = range(0, steps, b)[: mechanism.participations]
            rows = [mechanism.strategy.row(step + 1).tolist() for step in range(steps)]
            moves = [
                sum(row[t - step - 1] for t in turns if step - len(row) < t <= step)
                for step, row in enumerate(rows)
            ]
            moved = mp.sqrt(sum(mp.mpf(move) ** 2 for move in moves)) / mechanism.sigma
            return gaussian_atoms(moved * mechanism.sensitivity.value, mp.mpf(1))
        case MixtureOfGaussians():
            shifts = [mp.mpf(c) / mechanism.sigma for c in mechanism.sensitivities]
            return mixture_atoms(shifts, [mp.mpf(p) for p in mechanism.probabilities])
        case SampledRecords(mechanism=Gaussian() as inner):
            moved, q, k = mp.mpf(1) / inner.sigma, mp.mpf(mechanism.rate), mechanism.records
            weights = [mp.binomial(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]
            return mixture_atoms([j * moved for j in range(k + 1)], weights)
        case RandomAllocation(mechanism=Gaussian() as inner):  # what the first answer alone reveals
            return gaussian_atoms(mp.mpf(1) / inner.sigma, mp.mpf(1) / mechanism.steps)
        case _:
            raise NotImplementedError(mechanism)


NOISE = st.floats(0.2, 50.0)
EPSILON = st.floats(0.01, 4.0)
GAUSSIAN = NOISE.map(lambda sigma: Gaussian(sigma=sigma, sensitivity=L2(1.0)))
LAPLACE = NOISE.map(lambda scale: Laplace(scale=scale, sensitivity=L1(1.0)))
INTEGER = st.integers(1, 3).map(float)
NOT_TINY = NOISE.filter(lambda sigma: sigma > 0.5)


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


KINDS: dict[str, st.SearchStrategy[Any]] = {
    "gaussian": GAUSSIAN,
    "laplace": LAPLACE,
    "discrete-gaussian": st.builds(
        lambda sigma, shift: DiscreteGaussian(sigma=sigma, sensitivity=L2(shift)), NOT_TINY, INTEGER
    ),
    "discrete-laplace": st.builds(
        lambda scale, shift: DiscreteLaplace(scale=scale, sensitivity=L1(shift)), NOISE, INTEGER
    ),
    "symmetric-gaussian": NOISE.map(
        lambda sigma: SymmetricGaussian(sigma=sigma, dimension=3, sensitivity=Frobenius(1.0))
    ),
    "tree-aggregation": st.builds(
        lambda sigma, steps: TreeAggregation(sigma=sigma, steps=steps, sensitivity=L2(1.0)),
        NOT_TINY,
        st.integers(1, 40),
    ),
    "matrix": st.builds(
        lambda sigma, coefficients, k, b: MatrixMechanism(
            sigma=sigma,
            steps=9,
            strategy=Toeplitz(coefficients=(1.0, *coefficients)),
            participations=k,
            separation=b,
            sensitivity=L2(1.0),
        ),
        NOT_TINY,
        st.lists(st.floats(-1.0, 1.0).filter(lambda c: c == 0.0 or abs(c) > 1e-9), max_size=4),
        st.integers(1, 4),
        st.integers(1, 4),
    ),
    "gaussian-process": NOISE.map(
        lambda sigma: GaussianProcess(sigma=sigma, kernel=ExponentialKernel(beta=1.0), sensitivity=RKHS(1.0))
    ),
    "smooth-gaussian": st.builds(
        lambda alpha, beta, dimension: SmoothGaussian(
            alpha=alpha, beta=beta, dimension=dimension, epsilon=1.0, delta=0.9
        ),
        st.floats(0.5, 20.0),
        st.sampled_from([1e-3, 0.01, 0.1]),
        st.integers(1, 3),
    ),
    "randomized-response": st.builds(RandomizedResponse, epsilon=EPSILON, categories=st.integers(2, 9)),
    "exponential": EPSILON.map(lambda epsilon: Exponential(epsilon=epsilon)),
    "report-noisy-max": EPSILON.map(lambda epsilon: ReportNoisyMax(epsilon=epsilon)),
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
        lambda epsilon, users: Shuffled(local=RandomizedResponse(epsilon=epsilon), users=users),
        EPSILON,
        st.integers(1, 9),
    ),
    "pure-dp": EPSILON.map(lambda epsilon: OpaquePureDP(epsilon=epsilon, justification="a theorem")),
    "approx-dp": st.builds(
        lambda epsilon, delta: OpaqueApproxDP(epsilon=epsilon, delta=delta, justification="a theorem"),
        EPSILON,
        st.sampled_from([1e-30, 1e-9, 1e-4]),
    ),
    "zcdp": st.floats(1e-4, 2.0).map(lambda rho: OpaqueZCDP(rho=rho, justification="a theorem")),
    "tabulated": st.builds(
        table,
        st.floats(0.05, 1.5),
        st.lists(st.floats(0.01, 1.0), min_size=1, max_size=3),
        st.sampled_from([0.0, 0.0, 1e-7]),
    ),
    "poisson-sampled": st.builds(
        PoissonSampled,
        rate=st.sampled_from([1e-4, 0.01, 0.3, 0.9]),
        mechanism=st.one_of(NOT_TINY.map(lambda s: Gaussian(sigma=s, sensitivity=L2(1.0))), LAPLACE),
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
        lambda sigma, rate, records: SampledRecords(
            rate=rate, records=records, mechanism=Gaussian(sigma=sigma, sensitivity=L2(1.0))
        ),
        NOT_TINY,
        st.sampled_from([1e-3, 0.1, 0.5, 1.0]),
        st.integers(1, 4),
    ),
    "random-allocation": st.builds(
        lambda sigma, steps: RandomAllocation(
            steps=steps, mechanism=Gaussian(sigma=sigma, sensitivity=L2(1.0))
        ),
        NOT_TINY,
        st.integers(1, 12),
    ),
}
RUNS = st.integers(1, 3)
DELTA = st.sampled_from([1e-1, 1e-3, 1e-6, 1e-12, 1e-20, 1e-30])


def mixes(first: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, int]]]:
    """One mechanism of the first kind beside up to two of any."""
    others = st.lists(st.tuples(st.one_of(list(KINDS.values())), RUNS), max_size=2)
    return st.builds(lambda one, more: [one, *more], st.tuples(first, RUNS), others)


def sound(mix: list[tuple[Any, int]], delta: float, neighbouring: Neighbouring) -> None:
    """No accountant's curve is below the truth, NaN or negative, and none refuses without reason."""
    mixtures = MixtureOfGaussians | SampledRecords | RandomAllocation
    if any(isinstance(m, mixtures) for m, _ in mix) and neighbouring is Neighbouring.REPLACE_ONE:
        neighbouring = Neighbouring.ADD_OR_REMOVE_ONE  # nothing is claimed of replaced units there
    releases = [Release(label="release", mechanism=m, count=count) for m, count in mix]
    with mp.workdps(40):
        pairs = [(pair_of(m), count) for m, count in mix]
    # What is proved where a record is replaced holds for one that is added too, at the same sensitivity. A
    # table says itself which way round it is worst.
    turned = [
        (a if isinstance(m, Tabulated) else reversed_pair(a), n)
        for (a, n), (m, _) in zip(pairs, mix, strict=True)
    ]
    orders = [composed(pairs), composed(turned)]
    revealed = max(float(mp.fsum(p for p, q in order if q == 0)) for order in orders)
    for profile in profiles(compose(releases, neighbouring)):
        try:
            epsilon = profile.epsilon(delta)
        except CannotBound:
            assert delta <= revealed * (1 + 1e-9), profile.method
            epsilon = 1.0
        else:
            assert 0.0 <= epsilon < math.inf, profile.method
            assert all(least_delta(order, epsilon) <= delta * (1 + 1e-12) for order in orders), profile.method
        for at in (0.0, 0.5 * epsilon, epsilon):
            found = profile.delta(at)
            assert 0.0 <= found <= 1.0, profile.method
            assert all(least_delta(order, at) <= found * (1 + 1e-12) + ROUNDING for order in orders), (
                profile.method
            )


def swept(first: st.SearchStrategy[Any], examples: int) -> None:
    """`sound` for so many mixes."""
    test = given(mix=mixes(first), delta=DELTA, neighbouring=st.sampled_from(list(Neighbouring)))(sound)
    settings(parent=settings(), max_examples=examples, deadline=None)(test)()


@pytest.mark.parametrize("kind", list(KINDS))
def test_no_answer_is_below_the_truth(kind: str) -> None:
    swept(KINDS[kind], 2)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [*KINDS, *SLOW])
def test_no_answer_is_below_the_truth_at_length(kind: str) -> None:
    swept((KINDS | SLOW)[kind], 10 if kind in SLOW else 100)


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse(epsilon=1.0),
        DiscreteGaussian(sigma=2.0, sensitivity=L2(1.0)),
        TreeAggregation(sigma=3.0, steps=5, sensitivity=L2(1.0)),
        OpaqueApproxDP(epsilon=0.5, delta=1e-7, justification="a theorem"),
        table(0.5, [1.0, 0.5], 0.0),
    ],
    ids=lambda mechanism: mechanism.kind,
)
def test_the_sweep_notices_an_answer_that_is_too_low(mechanism: Any) -> None:
    """A planted fault: the epsilon of one run where there are four; its innocent twin passes in the sweep."""
    profile = profiles(compose([Release(label="r", mechanism=mechanism, count=1)], Neighbouring.REPLACE_ONE))
    low = min(each.epsilon(1e-6) for each in profile)
    assert least_delta(composed([(pair_of(mechanism), 4)]), low) > 1e-6
