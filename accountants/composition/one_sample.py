"""Several mechanisms on one sample, composed into one sampled mechanism.

Given the sample, its mechanisms compose one after another, each chosen from all earlier outputs. A pair that
dominates this composition for every two neighbouring samples may be sampled like the pair of a single
mechanism, because the theorems about sampling hold for any mechanism (Balle, Barthe and Gaboardi 2018,
Theorems 8 and 9; Zhu, Dong and Wang 2022, Theorem 11). Releases on other samples may come in between:
interactive mechanisms cost the same in sequence and with interleaved answers (Vadhan and Zhang 2023).
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias, cast

from dpaudit.accountants.closed_forms.rounding import sqrt_up, up
from dpaudit.accountants.composition.costs import pure_epsilon, rho
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L2
from dpaudit.errors import CannotBound
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import (
    AnyMechanism,
    AnySampledSum,
    Gaussian,
    OnSample,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    SymmetricGaussian,
)
from dpaudit.mechanisms.base import FixedNoise

#: The mechanisms on one sample, each with its number of runs.
Runs: TypeAlias = frozenset[tuple[AnySampledSum, int]]

_TOGETHER = "mechanisms on one sample, composed"


@lru_cache(maxsize=1024)
def on_one_sample(runs: Runs, neighbouring: Neighbouring) -> AnySampledSum:
    """Return one mechanism that costs as much as all of `runs` on one sample; all state the same sampling.

    Gaussian noise: a unit moves all sums together, measured in their noise, by the root of the sum of
    (sensitivity / sigma)^2, even if each query depends on earlier outputs (Dong, Roth and Su 2022, Corollary
    3.3). A unit's own part, `contribution`, adds up likewise: for two units' parts of bounded length the
    worst case is opposite directions, whatever the earlier outputs. Pure mechanisms: the sum of their
    epsilons. Other noise over a Poisson sample: the sum of their rhos, unless a unit is replaced.

    Raises `CannotBound`: no bound is known.
    """
    first = next(iter(runs))[0]
    if sum(count for _, count in runs) == 1:
        return first
    inner: Gaussian | OpaquePureDP | OpaqueZCDP | None = _gaussian(runs) or _pure(runs)
    if inner is None and isinstance(first, PoissonSampled) and neighbouring is not Neighbouring.REPLACE_ONE:
        inner = _zcdp(runs)
    if inner is None:
        kinds = " and ".join(sorted({mechanism.mechanism.kind for mechanism, _ in runs}))
        what = f"no bound on {kinds} mechanisms on one {first.kind} sample is known ({neighbouring})"
        remedy = "use Gaussian noise for all of them, or only pure mechanisms; or draw a sample for each"
        raise CannotBound(what, where="Release.sample", remedy=remedy)
    update: dict[str, Any] = {"mechanism": inner}
    if isinstance(first, OnSample):
        update["contribution"] = _contribution(runs, neighbouring) if isinstance(inner, Gaussian) else None
    return first.model_copy(update=update)


def without_samples(releases: Iterable[Release], neighbouring: Neighbouring) -> Iterator[Release]:
    """Yield the releases; one release, in the first one's place, replaces all releases on one sample.

    Raises as `on_one_sample` does, and `InvalidParameter`: releases of one sample state different draws.
    """
    groups: dict[object, list[Release]] = {}
    for position, release in enumerate(releases):
        groups.setdefault(position if release.sample is None else release.sample, []).append(release)
    for group in groups.values():
        first, draw = group[0], group[0].draw
        if draw is None:
            yield first
            continue
        runs: Counter[AnySampledSum] = Counter()
        for release in group:
            draw.require_same(release.draw, str(first.sample), release.label)
            runs[cast("AnySampledSum", release.mechanism)] += 1
        together = on_one_sample(frozenset(runs.items()), neighbouring)
        yield first.model_copy(update={"mechanism": together, "sample": None, "grid": None, "claimed": None})


def gaussians_together(ratios: Iterable[tuple[Fraction, int]]) -> Gaussian:
    """Return Gaussian noise that costs as much as all given ratios sensitivity/sigma with their counts."""
    mu = sqrt_up(sum((ratio**2 * count for ratio, count in ratios), Fraction(0)))
    if not math.isfinite(mu):
        what = "the sensitivity of all Gaussian noise together, over its sigma, exceeds every double"
        raise CannotBound(what, where="Release.sample", remedy="add noise")
    return Gaussian(sigma=1.0, sensitivity=L2(mu))


def _gaussian(runs: Runs) -> Gaussian | None:
    noise = [(one.mechanism, count) for one, count in runs]
    kept = [(m.ratio(m.sigma), count) for m, count in noise if isinstance(m, Gaussian | SymmetricGaussian)]
    return gaussians_together(kept) if len(kept) == len(noise) else None


def _contribution(runs: Runs, neighbouring: Neighbouring) -> float | None:
    """Return the bound on a unit's own part of all sums, in units of noise; the default is each sensitivity.

    None if no release states one. Under replace-one and Poisson sampling, None if any release states none:
    the cost is then not amplified, as for a single release.
    """
    stated = [(one, count) for one, count in runs if isinstance(one, OnSample)]
    known = [one.contribution is not None for one, _ in stated]
    poisson = isinstance(stated[0][0], PoissonSampled)
    if not any(known) or (poisson and neighbouring is Neighbouring.REPLACE_ONE and not all(known)):
        return None
    parts = ((one.contribution or one.sensitivity.value, one.mechanism.typical_noise, n) for one, n in stated)
    return sqrt_up(sum(((Fraction(own) / Fraction(sigma)) ** 2 * n for own, sigma, n in parts), Fraction(0)))


def _pure(runs: Runs) -> OpaquePureDP | None:
    try:
        total = sum((Fraction(pure_epsilon(_widest(one))) * count for one, count in runs), Fraction(0))
    except CannotBound:
        return None
    return OpaquePureDP(epsilon=_finite(up(total)), justification=_TOGETHER)


def _zcdp(runs: Runs) -> OpaqueZCDP | None:
    try:
        total = sum((Fraction(rho(_widest(one))) * count for one, count in runs), Fraction(0))
    except CannotBound:
        return None
    return OpaqueZCDP(rho=_finite(up(total)), justification=_TOGETHER)


def _widest(sampled: AnySampledSum) -> AnyMechanism:
    """Return the inner mechanism for the larger of a unit's change and its own part."""
    inner: Any = sampled.mechanism
    own = sampled.contribution if isinstance(sampled, OnSample) else None
    if own is None or not isinstance(inner, FixedNoise) or own <= inner.sensitivity.value:
        return sampled.mechanism
    wider: Any = inner.with_sensitivity(inner.sensitivity.model_copy(update={"value": own}))
    return wider  # type: ignore[no-any-return]  # of the same kind


def _finite(figure: float) -> float:
    if not math.isfinite(figure):
        what = "the cost of all mechanisms on one sample exceeds every double"
        raise CannotBound(what, where="Release.sample", remedy="add noise")
    return figure
