"""The least noise that meets a target: one mechanism's, or a whole ledger's by one common factor.

Every answer is found by one accountant and put before another
(`dpaudit.accountants.calibration.calibration_check`); where they disagree there is no answer. Answers are
rounded towards more noise, and the accountant that found one has proved the target at exactly the number that
is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from scipy.optimize import brentq

from dpaudit.accountants.calibration.calibration_check import Opinion
from dpaudit.accountants.calibration.scaled_composition import ScaledComposition
from dpaudit.accountants.calibration.scaling import scaled
from dpaudit.accountants.closed_forms.ranges import nonnegative
from dpaudit.accountants.closed_forms.rounding import down, sqrt_down
from dpaudit.accountants.composition.composition import Composition, compose, compose_ledger
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism

#: To be confirmed by an accountant that proves, an answer may be raised by so much, relative.
_MOST_RAISE = 1e-6
_FURTHEST = 1024.0  # powers of two


@dataclass(frozen=True)
class Calibrated:
    """One mechanism's least noise for a target.

    Attributes:
        mechanism: the mechanism, with that noise.
        parameter: the name of the number that sets it: sigma, scale, or epsilon (the largest).
        value: that number.
        count: how many runs together meet the target.
        target: what was asked for.
        bound: what the accountant that found it proves.
        opinion: what the other one says.
        slack: the share of the target that is left unused, by the finder's lower bound: what a perfect
            accountant might still have saved.
    """

    mechanism: AnyMechanism
    parameter: str
    value: float
    count: int
    target: AnyGuarantee
    bound: Bound
    opinion: Opinion
    slack: float


@dataclass(frozen=True)
class Rescaled:
    """A ledger's releases with all noise multiplied by one factor; other attributes as `Calibrated`.

    Attributes:
        factor: the least common factor; below 1 where less noise would do.
        releases: the releases with their new noise.
        fixed: labels of the releases whose noise cannot be changed, and was not.
    """

    factor: float
    releases: tuple[Release, ...]
    fixed: tuple[str, ...]
    target: AnyGuarantee
    bound: Bound
    opinion: Opinion
    slack: float


def calibrate(
    prototype: AnyMechanism,
    target: AnyGuarantee,
    *,
    count: int = 1,
    neighbouring: Neighbouring = Neighbouring.ADD_OR_REMOVE_ONE,
) -> Calibrated:
    """The least noise with which `count` runs of a mechanism meet a target.

    Args:
        prototype: the mechanism with its sensitivity; its own noise does not matter.
        target: the guarantee that all runs together must meet.
        count: how many runs.
        neighbouring: the relation; only what Poisson sampling amplifies depends on it.

    Raises:
        InvalidParameter: a count below 1, or a sensitivity of 0, which needs no noise.
        CannotBound: the mechanism cannot meet such a target, has no noise to choose, or two accountants
            disagree.
    """
    found = prototype.noise
    if found is None:
        raise CannotBound(
            f"the noise of a {prototype.kind} mechanism is not free to choose",
            where=f"mechanism {prototype.kind}",
            remedy="calibrate the mechanism that it stands for",
        )
    name, _ = found
    sensitivity = prototype.declared_sensitivity
    if sensitivity is not None and sensitivity.value == 0.0:
        raise InvalidParameter("a sensitivity of 0 needs no noise", where="sensitivity")
    release = Release(label=prototype.kind, mechanism=prototype.with_noise(1.0), count=count)
    composition = compose([release], neighbouring)
    start = 1.0 if sensitivity is None else sensitivity.value
    result = _least_factor(composition, target, start)
    mechanism = scaled(release.mechanism, result.factor)
    _, value = mechanism.noise or (name, math.nan)
    return Calibrated(mechanism, name, value, count, target, result.bound, result.opinion, result.slack)


def scale_ledger(
    ledger: Ledger | Iterable[Release],
    target: AnyGuarantee,
    *,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
) -> Rescaled:
    """The least factor on every noise scale such that all releases together meet a target.

    Args:
        ledger: a ledger of a fixed schedule, or releases.
        target: the guarantee to meet.
        neighbouring: the relation of bare releases; a ledger brings its own.

    Raises:
        CannotBound: no factor is enough, there is no noise to scale, the schedule is filtered (its budget
            alone bounds it), or two accountants disagree.
    """
    if isinstance(ledger, Ledger):
        if ledger.header.budget is not None:
            raise CannotBound(
                "the number of releases depended on the data",
                where="header.schedule",
                why="other noise would have led to other releases; the budget alone bounds the run",
                remedy="run the algorithm again with another budget",
            )
        releases = tuple(ledger.releases)
        composition = compose_ledger(ledger)
    else:
        releases = tuple(ledger)
        composition = compose(releases, neighbouring)
    free = [release for release in releases if release.mechanism.noise is not None]
    if not free:
        raise CannotBound("no release has noise that could be scaled", where="ledger")
    result = _least_factor(composition, target, 1.0)
    new = [r.model_copy(update={"mechanism": scaled(r.mechanism, result.factor)}) for r in releases]
    fixed = tuple(r.label for r in releases if r.mechanism.noise is None)
    return Rescaled(result.factor, tuple(new), fixed, target, result.bound, result.opinion, result.slack)


@dataclass(frozen=True)
class _Found:
    factor: float
    bound: Bound
    opinion: Opinion
    slack: float


def _least_factor(composition: Composition, target: AnyGuarantee, start: float) -> _Found:
    scale = ScaledComposition(composition, target)
    factor = _smallest(scale.excess, start, target, scale.resolution)
    raise_by = 1e-14
    while not (opinion := scale.opinion(factor)).agrees:
        if not opinion.proves or raise_by > _MOST_RAISE:
            bound, _ = scale.bound(factor)
            raise CannotBound(
                f"{bound.method} proves {target} with noise times {factor!r}, "
                f"{opinion.method} makes it {opinion.guarantee}",
                where="calibration",
                why="one of the two accountants is wrong, or cannot tell",
                remedy="ask for a larger delta, and report it if they disagree by much",
            )
        factor, raise_by = factor * (1.0 + raise_by), 4.0 * raise_by
    bound, used = scale.bound(factor)
    figure = leading_figure(target)
    slack = 1.0 - used / figure if figure > 0.0 else 0.0
    return _Found(factor, bound, opinion, min(max(slack, 0.0), 1.0))


def _smallest(
    excess: Callable[[float], float], start: float, target: AnyGuarantee, resolution: float
) -> float:
    """About the smallest factor with a falling `excess` of at most 0; never one where it is above 0."""
    refused: list[CannotBound] = []

    def at(logarithm: float) -> float:
        try:
            return max(-1e3, min(excess(2.0**logarithm), 1e3))
        except CannotBound as error:
            refused.append(error)
            return 1e3

    high = math.log2(start)
    low, step = high, 1.0
    if at(high) > 0.0:
        while at(high := low + step) > 0.0:
            low, step = high, 2.0 * step
            if high > _FURTHEST - 2.0 * step:
                raise refused[-1] if refused else _out_of_reach(target)
    else:
        while at(low := high - step) <= 0.0:
            high, step = low, 2.0 * step
            if low < 2.0 * step - _FURTHEST:
                raise InvalidParameter(f"{target} is met without noise", where="target")
    while high - low > 0.5:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle) > 0.0 else (low, middle)
    root = brentq(at, low, high, xtol=resolution, rtol=4.0 * 2.0**-52)
    factor, step = math.exp2(root), 0.25 * resolution
    while excess(factor) > 0.0:
        factor, step = factor * (1.0 + step), 2.0 * step
    return factor


def _out_of_reach(target: AnyGuarantee) -> CannotBound:
    return CannotBound(
        f"no amount of noise leads to {target}",
        where="target",
        why="releases whose noise is fixed exceed it, or it allows no loss at all",
        remedy="ask for a larger budget",
    )


def split(budget: AnyGuarantee, weights: Sequence[float]) -> tuple[AnyGuarantee, ...]:
    """Shares of a budget in proportion to weights, which compose to no more than the budget.

    Epsilon and rho add up, so each share is budget * weight / sum of weights; of GDP it is mu^2 that adds
    up. The weights are normalised exactly, in rational numbers, and each share is rounded down.

    Args:
        budget: a pure-DP, zCDP or GDP guarantee.
        weights: positive numbers, one a release.

    Raises:
        InvalidParameter: no weights, or one that is not a finite number > 0.
        CannotBound: a budget whose parts do not compose by adding up.

    >>> [share.rho for share in split(ZCDP(rho=1.0), [1, 1, 2])]
    [0.25, 0.25, 0.5]
    """
    if not weights:
        raise InvalidParameter("no weights", where="weights", remedy="give one weight a release")
    exact = [Fraction(_weight(weight)) for weight in weights]
    whole = sum(exact)
    match budget:
        case PureDP(epsilon=epsilon):
            return tuple(PureDP(epsilon=down(Fraction(epsilon) * weight / whole)) for weight in exact)
        case ZCDP(rho=rho):
            return tuple(ZCDP(rho=down(Fraction(rho) * weight / whole)) for weight in exact)
        case GDP(mu=mu):
            return tuple(GDP(mu=sqrt_down(Fraction(mu) ** 2 * weight / whole)) for weight in exact)
        case ApproxDP() | RDP():
            raise CannotBound(
                f"a split of {budget}",
                where="budget",
                why="parts of such a guarantee compose to more than their sum says",
                remedy="calibrate a zCDP or GDP budget to it, and split that",
            )
        case _:
            assert_never(budget)


def _weight(weight: float) -> float:
    if not nonnegative("weight", weight) > 0.0:
        raise InvalidParameter("a weight of 0", where="weights", remedy="leave that release out")
    return float(weight)
