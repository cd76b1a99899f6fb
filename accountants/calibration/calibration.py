"""The least noise that meets a target: for one mechanism, or for a ledger by one common factor.

One accountant finds each answer, and a second one checks it (`dpaudit.accountants.calibration.check`). If
they disagree there is no answer. Answers are rounded towards more noise. The first accountant has proved the
target at exactly the returned number.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from dpaudit.accountants.calibration.check import (
    Opinion,
    Terms,
    approximate,
    opinion,
    opinion_of_divergences,
    opinion_of_rho,
)
from dpaudit.accountants.closed_forms.conversions import zcdp_delta, zcdp_epsilon
from dpaudit.accountants.closed_forms.ranges import positive
from dpaudit.accountants.closed_forms.rounding import down, sqrt_down, sqrt_up, up
from dpaudit.accountants.closed_forms.search import root
from dpaudit.accountants.composition.composition import Composition, compose, compose_ledger
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.accountants.curves.rdp import RenyiProfile
from dpaudit.accountants.pairs.dominating_pairs import loss_terms
from dpaudit.accountants.privacy_loss import GaussianTerm, PrivacyLoss
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.arguments import checked
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import GDP, RDP, ZCDP, AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound, InvalidParameter
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism, BaseMechanism, dominating
from dpaudit.progress import Work

#: Largest relative increase of an answer that lets a second accountant prove it.
_MOST_RAISE = 1e-6
_FURTHEST = 1024.0  # powers of two


@dataclass(frozen=True)
class Answer:
    """The noise that meets `target`: all noise was multiplied by `factor`.

    `bound` is the first accountant's proved bound, `opinion` the second accountant's figure. `slack` is the
    unused share of the target by the first accountant's lower bound: the most that a perfect accountant could
    still save.
    """

    target: AnyGuarantee
    factor: float
    bound: Bound
    opinion: Opinion
    slack: float


@dataclass(frozen=True)
class Calibrated(Answer):
    """One mechanism's least noise with which `count` runs together meet a target.

    `parameter` names the number that sets the noise, `value`: sigma, scale, or epsilon (the largest).
    """

    mechanism: AnyMechanism
    parameter: str
    value: float
    count: int


@dataclass(frozen=True)
class Rescaled(Answer):
    """A ledger's releases with all noise multiplied by the least common factor, which may be below 1.

    `fixed` lists the labels of the releases whose noise cannot be changed; they are unchanged.
    """

    releases: tuple[Release, ...]
    fixed: tuple[str, ...]


@checked("calibrate", prototype=BaseMechanism, target=AnyGuarantee, neighbouring=Neighbouring)
def calibrate(
    prototype: AnyMechanism,
    target: AnyGuarantee,
    *,
    count: int = 1,
    neighbouring: Neighbouring = Neighbouring.ADD_OR_REMOVE_ONE,
) -> Calibrated:
    """Return the least noise with which `count` runs of a mechanism together meet a target.

    >>> from dpaudit import L2, ZCDP, Gaussian, calibrate
    >>> calibrate(Gaussian(sigma=1.0, sensitivity=L2(1.0)), ZCDP(rho=0.125)).mechanism.sigma
    2.0

    The prototype's own noise does not matter. The relation matters only for amplification by Poisson
    sampling. Raises `InvalidParameter`: a count below 1, or a sensitivity of 0, which needs no noise;
    `CannotBound`: the mechanism cannot meet the target, has no adjustable noise, or two accountants disagree.
    """
    if prototype.noise is None:
        what = f"the noise of a {prototype.kind} mechanism cannot be chosen freely"
        remedy = "calibrate the mechanism behind this guarantee"
        raise CannotBound(what, where=f"mechanism {prototype.kind}", remedy=remedy)
    sensitivity = prototype.declared_sensitivity
    if sensitivity is not None and sensitivity.value == 0.0:
        raise InvalidParameter("a sensitivity of 0 needs no noise", where="sensitivity")
    release = Release(label=prototype.kind, mechanism=prototype.with_noise(1.0), count=count)
    start = 1.0 if sensitivity is None else sensitivity.value
    with Work("finding the noise and confirming it"):
        answer = _least_factor(compose([release], neighbouring), target, start)
    mechanism = scaled(release.mechanism, answer.factor)
    name, value = mechanism.noise or ("", math.nan)
    return Calibrated(**vars(answer), mechanism=mechanism, parameter=name, value=value, count=count)


def scale_ledger(
    ledger: Ledger | Iterable[Release],
    target: AnyGuarantee,
    *,
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE,
) -> Rescaled:
    """Return the least factor on every noise scale such that all releases together meet a target.

    A ledger states its own relation; `neighbouring` is the relation of bare releases. Raises `CannotBound`:
    no factor is enough, no noise is adjustable, a budget bounds the run, or accountants disagree.
    """
    if isinstance(ledger, Ledger):
        if ledger.header.budget is not None:
            what = "the number of releases depended on the data"
            why = "different noise could lead to different releases; the budget alone bounds the run"
            remedy = "run the algorithm again with another budget"
            raise CannotBound(what, where="header.schedule", why=why, remedy=remedy)
        releases, composition = tuple(ledger.releases), compose_ledger(ledger)
    else:
        releases = tuple(ledger)
        composition = compose(releases, neighbouring)
    fixed = tuple(r.label for r in releases if r.mechanism.noise is None)
    if len(fixed) == len(releases):
        raise CannotBound("no release has noise that could be scaled", where="ledger")
    with Work("finding the factor and confirming it"):
        answer = _least_factor(composition, target, 1.0)
    new = (r.model_copy(update={"mechanism": scaled(r.mechanism, answer.factor)}) for r in releases)
    return Rescaled(**vars(answer), releases=tuple(new), fixed=fixed)


def _least_factor(composition: Composition, target: AnyGuarantee, start: float) -> Answer:
    scale = ScaledComposition(composition, target)
    factor = _smallest(scale.excess, start, target, scale.resolution)
    raise_by, (bound, used) = 1e-14, scale.bound(factor)
    while not (opinion := scale.opinion(factor, bound.method)).agrees:
        if not opinion.proves or raise_by > _MOST_RAISE:
            found = f"{bound.method} proves {target} with noise times {factor!r}"
            what = f"{found}, but {opinion.method} computes {opinion.guarantee}"
            why = "one of the two accountants is wrong, or cannot resolve the difference"
            remedy = "ask for a larger delta; report the disagreement if it is large"
            raise CannotBound(what, where="calibration", why=why, remedy=remedy)
        factor, raise_by = factor * (1.0 + raise_by), 4.0 * raise_by
        bound, used = scale.bound(factor)
    figure = leading_figure(target)
    slack = 1.0 - used / figure if figure > 0.0 else 0.0
    return Answer(target, factor, bound, opinion, min(max(slack, 0.0), 1.0))


def _smallest(
    excess: Callable[[float], float], start: float, target: AnyGuarantee, resolution: float
) -> float:
    """Return approximately the smallest factor whose `excess`, a falling function, is at most 0."""
    refused: list[CannotBound] = []
    excess = functools.cache(excess)  # each search begins where the previous one ended

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
                what = f"no amount of noise leads to {target}"
                why = "releases with fixed noise exceed it, or it allows no loss at all"
                no_noise = CannotBound(what, where="target", why=why, remedy="ask for a larger budget")
                raise refused[-1] if refused else no_noise
    else:
        while at(low := high - step) <= 0.0:
            high, step = low, 2.0 * step
            if low < 2.0 * step - _FURTHEST:
                raise InvalidParameter(f"{target} is met without noise", where="target")
    while high - low > 0.5:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle) > 0.0 else (low, middle)
    factor, step = math.exp2(root(at, low, high, resolution)), 0.25 * resolution
    while excess(factor) > 0.0:
        factor, step = factor * (1.0 + step), 2.0 * step
    return factor


def split(budget: AnyGuarantee, weights: Sequence[float]) -> tuple[AnyGuarantee, ...]:
    """Return shares of a budget in proportion to weights, which compose to at most the budget.

    Epsilon and rho add up, so each share is budget * weight / sum of weights; for GDP mu^2 adds up. The
    weights are normalised exactly, in rational numbers, and each share is rounded down.
    Raises `InvalidParameter`: there are no weights, or one is not a finite number > 0; `CannotBound`: the
    budget's scale does not add up.

    >>> [share.rho for share in split(ZCDP(rho=1.0), [1, 1, 2])]
    [0.25, 0.25, 0.5]
    """
    if not weights:
        raise InvalidParameter("no weights", where="weights", remedy="give one weight for each release")
    exact = [Fraction(positive("weight", weight)) for weight in weights]
    whole = sum(exact)
    match budget:
        case PureDP(epsilon=epsilon):
            return tuple(PureDP(epsilon=down(Fraction(epsilon) * weight / whole)) for weight in exact)
        case ZCDP(rho=rho):
            return tuple(ZCDP(rho=down(Fraction(rho) * weight / whole)) for weight in exact)
        case GDP(mu=mu):
            return tuple(GDP(mu=sqrt_down(Fraction(mu) ** 2 * weight / whole)) for weight in exact)
        case ApproxDP() | RDP():
            why = "parts of such a guarantee compose to more than their sum"
            remedy = "calibrate a zCDP or GDP budget to it, and split that"
            raise CannotBound(f"a split of {budget}", where="budget", why=why, remedy=remedy)
        case _:
            assert_never(budget)


def scaled(mechanism: AnyMechanism, factor: float) -> AnyMechanism:
    """Return a mechanism whose noise is `factor` times as large, rounded towards more noise.

    A sigma or scale is multiplied, an epsilon divided. Noise that is not adjustable stays unchanged.
    Raises `CannotBound`: the noise exceeds the largest double, or the epsilon is below the smallest.
    """
    if mechanism.noise is None:
        return mechanism
    name, value = mechanism.noise
    if name != "epsilon":
        product = up(Fraction(value) * Fraction(factor))
        if not math.isfinite(product):
            raise CannotBound(f"noise {value!r} times {factor!r} exceeds every double", where="factor")
        return mechanism.with_noise(product)
    quotient = down(Fraction(value) / Fraction(factor))
    if not 0.0 < quotient < math.inf:
        raise CannotBound(f"epsilon {value!r} over {factor!r} is not a positive double", where="factor")
    return mechanism.with_noise(quotient)


#: The name of the leading figure, and the accountant that adds it up.
_ADDITIVE = {
    "zcdp": ("rho", "zcdp"),
    "rdp": ("epsilon", "zcdp"),
    "gdp": ("mu", "gdp"),
    "pure-dp": ("epsilon", "pure"),
}


class ScaledComposition:
    """The releases of a run with all noise multiplied by a factor that is still to be chosen for a target."""

    def __init__(self, composition: Composition, target: AnyGuarantee) -> None:
        self._composition = composition
        self._exposures = composition.exposures()
        self._relation = composition.sampling_relation
        self._target = target
        pairs = [m.dominating_pair() for exposure in self._exposures for m, _ in exposure.items()]
        #: Divergences of comparisons with Gaussian noise are tighter than their pairs.
        self._compares = isinstance(target, ApproxDP) and any(
            isinstance(pair, dominating.SparseGaussian) for pair in pairs
        )
        #: A mixture needs a table for each order of its pair.
        self._mixed = any(isinstance(pair, dominating.Mixture) for pair in pairs)
        try:
            self._terms(1.0)
        except CannotBound:
            self._has_losses = False
        else:
            self._has_losses = True

    @property
    def resolution(self) -> float:
        """The relative accuracy of the factor's search: high for sums and Gaussian curves, which are cheap.

        It is low for a mixture, whose tables are computed again for every factor.
        """
        if self._mixed:
            return 1e-6
        cheap = not (isinstance(self._target, ApproxDP) and self._has_losses) or all(
            isinstance(term, GaussianTerm) for terms in self._terms(1.0) for term, _ in terms
        )
        return 1e-15 if cheap else 1e-12

    def excess(self, factor: float) -> float:
        """Return the logarithm of bound over target, at most 0 if proved; raises `CannotBound`."""
        target = self._target
        if not isinstance(target, ApproxDP):
            found, wanted = self._additive(factor), leading_figure(target)
        elif self._has_losses:
            deltas = (PrivacyLoss.compose(terms).delta(target.epsilon) for terms in self._terms(factor))
            found = min(max(delta.upper for delta in deltas), self._by_divergences(factor)[0])
            wanted = target.delta
        else:
            found, wanted = zcdp_delta(self._total(rho, factor), target.epsilon), target.delta
        if found <= wanted:
            return min(math.log(found / wanted), 0.0) if found > 0.0 and wanted > 0.0 else -math.inf
        return max(math.log(found / wanted), 5e-324) if wanted > 0.0 and found < math.inf else math.inf

    def bound(self, factor: float) -> tuple[Bound, float]:
        """Return the bound at a factor, and a lower bound on the used part of the target's leading figure."""
        target = self._target
        if isinstance(target, ApproxDP):
            if self._has_losses:
                losses = [PrivacyLoss.compose(terms) for terms in self._terms(factor)]
                worst = max(losses, key=lambda loss: loss.delta(target.epsilon).upper)
                delta, method = worst.delta(target.epsilon).upper, str(worst.method)
                used = worst.epsilon(target.delta).lower
                instead, epsilon = self._by_divergences(factor)
                if instead < delta:
                    delta, method, used = instead, "rdp", epsilon
            else:
                total = self._total(rho, factor)
                delta, method = zcdp_delta(total, target.epsilon), "zcdp"
                used = zcdp_epsilon(total, target.delta)
            return Bound(guarantee=approximate(target.epsilon, delta), method=method), used
        figure = self._additive(factor)
        field, method = _ADDITIVE[target.kind]
        return Bound(guarantee=target.model_copy(update={field: figure}), method=method), figure

    def opinion(self, factor: float, method: str) -> Opinion:
        """Return the second accountant's least favourable opinion over all exposures.

        `method` is the method of `bound` at this factor. Raises `CannotBound`.
        """
        target = self._target
        if isinstance(target, ApproxDP) and not self._has_losses:
            return opinion_of_rho(self._total(rho, factor), target)
        if isinstance(target, ApproxDP) and method == "rdp":
            found = [opinion_of_divergences(runs, self._relation, target) for runs in self._runs(factor)]
        else:
            found = [opinion(runs, self._relation, target) for runs in self._runs(factor)]
        return next((one for one in found if not one.agrees), found[0])

    def _runs(self, factor: float) -> list[list[tuple[AnyMechanism, int]]]:
        return [[(scaled(m, factor), count) for m, count in e.items()] for e in self._exposures]

    def _terms(self, factor: float) -> list[Terms]:
        orders = (True, False) if self._mixed else (None,)
        return [
            loss_terms(runs, self._relation, mixture_first=order)
            for runs in self._runs(factor)
            for order in orders
        ]

    def _by_divergences(self, factor: float) -> tuple[float, float]:
        """Return delta and epsilon that divergences prove at the target; infinite if they do not apply."""
        target = self._target
        if not (self._compares and isinstance(target, ApproxDP)):
            return math.inf, math.inf
        found = []
        for runs in self._runs(factor):
            made = [Release(label="run", mechanism=m, count=count) for m, count in runs]
            found.append(RenyiProfile.of(compose(made, self._relation)))
        deltas = [one.delta(target.epsilon) for one in found]
        return max(deltas), max(one.epsilon(target.delta) for one in found)

    def _additive(self, factor: float) -> float:
        match self._target:
            case ZCDP() | ApproxDP():
                return self._total(rho, factor)
            case RDP(alpha=alpha):
                return up(Fraction(self._total(rho, factor)) * Fraction(alpha))
            case GDP():
                return sqrt_up(Fraction(self._total(mu_squared, factor)))
            case PureDP():
                return self._total(pure_epsilon, factor)

    def _total(self, cost: Callable[[AnyMechanism], float], factor: float) -> float:
        total = self._composition.total(lambda mechanism: cost(scaled(mechanism, factor)))
        if not math.isfinite(total):
            raise CannotBound("the total exceeds every double", where="composition", remedy="add noise")
        return total
