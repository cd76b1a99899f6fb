"""No accountant's answer lies below the truth: a sweep over mechanisms, mixes, counts, relations and deltas.

The truth is bracketed without the package: every release's losses are atoms at 40 digits, continuous
ones cut into cells that are merged (a post-processing, so a lower bound), and composed by enumeration.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit import L1, L2, Gaussian, Laplace, Neighbouring, Release
from dpaudit.accountants.composition import compose
from dpaudit.accountants.curves import profiles
from dpaudit.mechanisms import (
    DiscreteLaplace,
    Exponential,
    OpaqueApproxDP,
    OpaquePureDP,
    PoissonSampled,
    RandomizedResponse,
)

CELLS = 12
Atoms = list[tuple[mp.mpf, mp.mpf]]  # P and Q


def response_atoms(epsilon: float, categories: int) -> Atoms:
    e = mp.exp(mp.mpf(epsilon))
    total = e + categories - 1
    return [
        (e / total, 1 / total),
        (1 / total, e / total),
        ((categories - 2) / total, (categories - 2) / total),
    ]


def merged(cdf_p: Any, cdf_q: Any, edges: list[Any]) -> Atoms:
    ends = [-mp.inf, *edges, mp.inf]
    return [(cdf_p(b) - cdf_p(a), cdf_q(b) - cdf_q(a)) for a, b in itertools.pairwise(ends)]


def gaussian_atoms(mu: Any, rate: Any) -> Atoms:
    centre = mp.mpf(mu)
    edges = [centre / 2 + mp.mpf(k - CELLS) * 6 / CELLS for k in range(2 * CELLS + 6)]
    return merged(lambda x: (1 - rate) * mp.ncdf(x) + rate * mp.ncdf(x - centre), mp.ncdf, edges)


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


def least_delta(releases: list[tuple[Atoms, int]], epsilon: float) -> mp.mpf:
    """delta of the composed atoms, those with nearly equal losses merged on the way: a lower bound."""
    with mp.workdps(40):
        laws: dict[int, tuple[mp.mpf, mp.mpf]] = {0: (mp.mpf(1), mp.mpf(1))}
        for atoms, count in releases:
            for _ in range(count):
                fresh: dict[int, tuple[mp.mpf, mp.mpf]] = defaultdict(lambda: (mp.mpf(0), mp.mpf(0)))
                for p, q in laws.values():
                    for one, other in atoms:
                        if one <= 0 or other <= 0:
                            continue
                        a, b = p * one, q * other
                        key = int(mp.floor(mp.log(a / b) * 64))
                        old = fresh[key]
                        fresh[key] = (old[0] + a, old[1] + b)
                laws = dict(fresh)
        bar = mp.exp(mp.mpf(epsilon))
        return mp.fsum(max(p - bar * q, mp.mpf(0)) for p, q in laws.values())


def pair_of(mechanism: Any) -> Atoms:
    """A pair of neighbouring outputs that the mechanism really has, merged."""
    match mechanism:
        case Gaussian():
            return gaussian_atoms(mp.mpf(mechanism.sensitivity.value) / mechanism.sigma, mp.mpf(1))
        case Laplace():
            return laplace_atoms(mp.mpf(mechanism.sensitivity.value) / mechanism.scale, mp.mpf(1))
        case DiscreteLaplace():  # at sensitivity 1
            return response_atoms(1.0 / mechanism.scale, 2)
        case RandomizedResponse():
            return response_atoms(mechanism.epsilon, mechanism.categories)
        case Exponential():
            # Two outputs whose losses are half the range apart from 0 either way.
            return response_atoms(mechanism.epsilon / 2.0, 2)
        case OpaquePureDP():
            return response_atoms(mechanism.epsilon, 2)
        case OpaqueApproxDP():
            return [(p * (1 - mechanism.delta), q) for p, q in response_atoms(mechanism.epsilon, 2)]
        case PoissonSampled(mechanism=Gaussian() as inner):
            return gaussian_atoms(mp.mpf(inner.sensitivity.value) / inner.sigma, mp.mpf(mechanism.rate))
        case PoissonSampled(mechanism=Laplace() as inner):
            return laplace_atoms(mp.mpf(inner.sensitivity.value) / inner.scale, mp.mpf(mechanism.rate))
        case _:
            raise NotImplementedError(mechanism)


NOISE = st.floats(0.2, 50.0)
EPSILON = st.floats(0.01, 4.0)
GAUSSIAN = NOISE.map(lambda sigma: Gaussian(sigma=sigma, sensitivity=L2(1.0)))
LAPLACE = NOISE.map(lambda scale: Laplace(scale=scale, sensitivity=L1(1.0)))
MECHANISM = st.one_of(
    GAUSSIAN,
    LAPLACE,
    NOISE.map(lambda scale: DiscreteLaplace(scale=scale, sensitivity=L1(1.0))),
    st.builds(RandomizedResponse, epsilon=EPSILON, categories=st.integers(2, 9)),
    EPSILON.map(lambda epsilon: Exponential(epsilon=epsilon)),
    EPSILON.map(lambda epsilon: OpaquePureDP(epsilon=epsilon, justification="a theorem")),
    st.builds(
        PoissonSampled,
        rate=st.sampled_from([1e-4, 0.01, 0.3, 0.9]),
        mechanism=st.one_of(
            NOISE.filter(lambda s: s > 0.5).map(lambda s: Gaussian(sigma=s, sensitivity=L2(1.0))), LAPLACE
        ),
    ),
)
MIX = st.lists(st.tuples(MECHANISM, st.integers(1, 3)), min_size=1, max_size=3)
DELTA = st.sampled_from([1e-1, 1e-3, 1e-6, 1e-12, 1e-20, 1e-30])


@given(mix=MIX, delta=DELTA, neighbouring=st.sampled_from(list(Neighbouring)))
def sound(mix: list[tuple[Any, int]], delta: float, neighbouring: Neighbouring) -> None:
    releases = [Release(label="release", mechanism=m, count=count) for m, count in mix]
    with mp.workdps(40):
        pairs = [(pair_of(m), count) for m, count in mix]
    # What is proved where a record is replaced holds for one that is added too, at the same sensitivity.
    orders = (pairs, [(reversed_pair(atoms), count) for atoms, count in pairs])
    for profile in profiles(compose(releases, neighbouring)):
        epsilon = profile.epsilon(delta)
        assert 0.0 <= epsilon < math.inf, profile.method
        for order in orders:
            assert least_delta(order, epsilon) <= delta * (1 + 1e-12), profile.method


def test_no_answer_is_below_the_truth() -> None:
    from hypothesis import settings

    settings(parent=settings(), max_examples=min(12, settings().max_examples), deadline=None)(sound)()


@pytest.mark.nightly
def test_no_answer_is_below_the_truth_at_length() -> None:
    from hypothesis import settings

    settings(parent=settings(), max_examples=1000, deadline=None)(sound)()


def test_the_sweep_notices_an_answer_that_is_too_low() -> None:
    """A planted fault: the epsilon of half as many runs; its innocent twin passes in the sweep."""
    mechanism = RandomizedResponse(epsilon=1.0)
    profile = profiles(compose([Release(label="r", mechanism=mechanism, count=2)], Neighbouring.REPLACE_ONE))
    low = min(each.epsilon(1e-6) for each in profile)
    pairs = [(pair_of(mechanism), 4)]
    assert least_delta(pairs, low) > 1e-6
