"""The second check: an enclosure of epsilon by the privacy-loss distributions of Google's dp-accounting.

Certificates show it as a second opinion, and calibration gives no answer that it contradicts. It is computed
from the mechanisms' own parameters, not from dpaudit's dominating pairs: a slip there is one of the things
that it is to find. dp-accounting gives a figure rounded upwards and one rounded downwards: if either library
is wrong by more than the other's resolution, the two enclosures do not overlap.

It is used only where dp-accounting 0.6 is sound: its accountants drop the count of randomized response, so
distributions are composed two by two and no count is ever handed over; and its convolutions by FFT lose
deltas below some 1e-12, so none below 1e-9 is checked. Elsewhere there is no opinion, but a reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

from dpaudit.accountants.composition.composition import Composition, compose_ledger
from dpaudit.accountants.pairs.tables import MOST_MOVES, table_term
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm
from dpaudit.certificate.second_opinion import SecondOpinion
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import (
    AnyMechanism,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    GaussianProcess,
    Laplace,
    OpaqueApproxDP,
    OpaquePureDP,
    PoissonSampled,
    RandomizedResponse,
    SymmetricGaussian,
    Tabulated,
    TreeAggregation,
)

METHOD = "dp-accounting PLD"

#: The range that is checked: within these limits it takes seconds.
LEAST_DELTA, LARGEST_DELTA = 1e-9, 0.1
MOST_EPSILON = 100.0
MOST_RUNS = 10_000
MOST_CONVOLUTIONS = 200
MOST_EXPOSURES = 2

#: dp-accounting's own spacing of losses. It is widened for larger figures, so that arrays stay as long, and
#: for more convolutions, so that all together take as long; either loosens both of its figures.
_SPACING = 1e-4
_EPSILON_AT_SPACING = 8.0
_CONVOLUTIONS_AT_SPACING = 40

#: The longest array that one mechanism may need.
_MOST_POINTS = 500_000

#: What one unit is exposed to: mechanisms, each with how often it runs.
Runs = Collection[tuple[AnyMechanism, int]]


class Enclosure(NamedTuple):
    """dp-accounting's epsilon at one delta, rounded both ways.

    Attributes:
        epsilon: rounded upwards (pessimistic).
        at_least: rounded downwards (optimistic), of the releases that have such a figure.
        same: whether it is of the very pairs that dpaudit composes; else of pairs that the mechanisms really
            have, and dpaudit's figure may be larger.
    """

    epsilon: float
    at_least: float
    same: bool


def second_opinion(
    ledger: Ledger, bounds: Sequence[Bound], composition: Composition | None = None
) -> SecondOpinion:
    """dp-accounting's enclosure beside dpaudit's own bounds as (epsilon, delta)-DP, tightest first.

    `composition` is the ledger's; left out, it is composed here.
    """
    about: dict[str, Any] = {"method": METHOD, "version": version("dp-accounting")}
    try:
        return SecondOpinion(**about, **_compared(ledger, bounds, composition))
    except CannotBound as error:
        return SecondOpinion(**about, none_because=error.what)


def _compared(ledger: Ledger, bounds: Sequence[Bound], composition: Composition | None) -> dict[str, Any]:
    if ledger.header.budget is not None:
        raise _no_opinion("the run is bounded by its budget, not by its releases")
    if not bounds or not isinstance(bounds[0].guarantee, ApproxDP):
        raise _no_opinion("nothing is proved on the scale of (epsilon, delta)-DP")
    if len(ledger.releases) > MOST_RUNS:
        raise _no_opinion(f"it is limited to {MOST_RUNS} releases, and these are {len(ledger.releases)}")
    proved = bounds[0].guarantee
    composition = compose_ledger(ledger) if composition is None else composition
    exposures = [list(exposure.items()) for exposure in composition.exposures()]
    found = enclose(exposures, composition.sampling_relation, proved)
    lower_ends = [bound.at_least for bound in bounds if bound.at_least is not None]
    return {
        "delta": proved.delta,
        "proved": proved.epsilon,
        "proved_at_least": max(lower_ends) if found.same and lower_ends else None,
        "epsilon": found.epsilon,
        "at_least": found.at_least,
    }


def enclose(exposures: Sequence[Runs], neighbouring: Neighbouring, near: ApproxDP) -> Enclosure:
    """Enclose the largest epsilon over all exposures at the delta of `near`, whose epsilon sets the spacing.

    Raises:
        CannotBound: outside the range in which dp-accounting is sound and takes seconds, or it fails.
    """
    epsilon, delta = near.epsilon, near.delta
    if not LEAST_DELTA <= delta <= LARGEST_DELTA:
        raise _no_opinion(
            f"it is limited to deltas from {LEAST_DELTA:g}, below which its rounding spoils them, to "
            f"{LARGEST_DELTA:g}, and this one is {delta:g}"
        )
    if epsilon > MOST_EPSILON:
        raise _no_opinion(f"it is not used for epsilons above {MOST_EPSILON:g}, and this is {epsilon:.6g}")
    if len(exposures) > MOST_EXPOSURES:
        raise _no_opinion(
            f"units can meet the parts of the splits in {len(exposures)} ways, which is too many"
        )
    needed = max(map(_convolutions, exposures))
    spacing = _SPACING * max(1.0, epsilon / _EPSILON_AT_SPACING, needed / _CONVOLUTIONS_AT_SPACING)
    try:
        composed = [_composed(exposure, neighbouring, spacing) for exposure in exposures]
        return Enclosure(
            _largest([one.rounded_up for one in composed], delta),
            _largest([one.rounded_down for one in composed], delta),
            all(one.same for one in composed),
        )
    except CannotBound:
        raise
    except Exception as error:  # noqa: BLE001  (whatever another library raises, the proof stands without it)
        raise _no_opinion(f"it fails: {type(error).__name__}: {error}") from None


def _convolutions(exposure: Runs) -> int:
    """How many convolutions composing takes; `CannotBound` where these are too many."""
    runs = sum(count for _, count in exposure)
    if runs > MOST_RUNS:
        raise _no_opinion(f"it is limited to {MOST_RUNS} runs, and these are {runs}")
    # Sampled noise has two distributions, one for each order of its pair.
    needed = sum(
        (count.bit_length() + count.bit_count()) * (2 if isinstance(mechanism, PoissonSampled) else 1)
        for mechanism, count in exposure
    )
    if needed > MOST_CONVOLUTIONS:
        raise _no_opinion(
            f"it would take too long: {needed} convolutions, and {MOST_CONVOLUTIONS} are the limit"
        )
    return needed


def _largest(losses: Iterable[Any], delta: float) -> float:
    epsilons = [0.0 if one is None else float(one.get_epsilon_for_delta(delta)) for one in losses]
    if not all(math.isfinite(epsilon) for epsilon in epsilons):
        raise _no_opinion("it has no finite figure")
    return max(0.0, *epsilons)


@dataclass(frozen=True)
class _Losses:
    """Distributions of one run's privacy loss, pessimistic and optimistic (None: dp-accounting has none).

    One run of the mechanism has them `times` over; `same` as in `Enclosure`.
    """

    rounded_up: Any
    rounded_down: Any
    times: int = 1
    same: bool = True


def _composed(exposure: Runs, neighbouring: Neighbouring, spacing: float) -> _Losses:
    """All that one unit is exposed to, composed."""
    up = down = None
    same = True
    for mechanism, count in exposure:
        sensitivity = mechanism.declared_sensitivity
        if sensitivity is not None and sensitivity.value == 0:
            continue
        losses = _losses(mechanism, neighbouring, spacing)
        if losses is None:
            continue
        same &= losses.same
        up = _both(up, _repeated(losses.rounded_up, losses.times * count))
        # Releases left out of the optimistic figure only lower it.
        if losses.rounded_down is not None:
            down = _both(down, _repeated(losses.rounded_down, losses.times * count))
    return _Losses(up, down, same=same)


def _both(first: Any, second: Any) -> Any:
    return second if first is None else first.compose(second)


def _repeated(losses: Any, count: int) -> Any:
    """A distribution composed with itself by repeated squaring: no count is handed over."""
    power, result = losses, None
    while True:
        if count & 1:
            result = _both(result, power)
        count >>= 1
        if not count:
            return result
        power = power.compose(power)


def _losses(mechanism: AnyMechanism, neighbouring: Neighbouring, spacing: float) -> _Losses | None:
    """A mechanism's worst pair in dp-accounting's own terms; None for one that reveals nothing.

    Raises:
        CannotBound: it has none there, or one that takes too long an array.
    """
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.privacy_accountant import NeighboringRelation

    def require_short(largest: float) -> None:
        # Of noise without a largest loss: but for a mass of 1e-22.
        if largest > _MOST_POINTS * spacing:
            raise _no_opinion(f"a {mechanism.kind} release takes it too long an array")

    def both(
        make: Callable[..., Any],
        largest: float,
        *,
        times: int = 1,
        same: bool = True,
        dots: bool = False,
        **parameters: Any,
    ) -> _Losses:
        require_short(largest)
        # For figures rounded downwards dp-accounting has buckets only, and would log a warning.
        up, down = (
            make(
                value_discretization_interval=spacing,
                pessimistic_estimate=pessimistic,
                **({"use_connect_dots": pessimistic} if dots else {}),
                **parameters,
            )
            for pessimistic in (True, False)
        )
        return _Losses(up, down, times, same)

    inner, sampled = mechanism, dict[str, Any]()
    if isinstance(mechanism, PoissonSampled):
        inner, sampled = mechanism.mechanism, {"sampling_prob": mechanism.rate}
    replaced = bool(sampled) and neighbouring is Neighbouring.REPLACE_ONE
    match inner:
        case Gaussian() | SymmetricGaussian() | GaussianProcess() | TreeAggregation():
            mu = inner.sensitivity.value / inner.sigma
            if replaced:  # rows half the sensitivity long, one against its negative
                sampled |= {"neighboring_relation": NeighboringRelation.REPLACE_ONE}
            return both(
                pld.from_gaussian_mechanism,
                (0.5 * mu + 10.0) * mu,
                times=inner.levels if isinstance(inner, TreeAggregation) else 1,
                same=not replaced,
                dots=True,
                standard_deviation=inner.sigma,
                sensitivity=inner.sensitivity.value * (0.5 if replaced else 1.0),
                **sampled,
            )
        case Laplace() if not replaced:
            make, moved, scale = pld.from_laplace_mechanism, inner.sensitivity.value, inner.scale
            return both(make, moved / scale, dots=True, parameter=scale, sensitivity=moved, **sampled)
        case DiscreteLaplace() | DiscreteGaussian():
            # One coordinate moved by all of it: for Laplace noise the worst pair, for Gaussian noise one.
            moves = math.floor(inner.sensitivity.value)
            if moves == 0:
                return None
            if isinstance(inner, DiscreteGaussian):
                mu, outcomes = moves / inner.sigma, 20.0 * inner.sigma
                largest = max(outcomes * spacing, (0.5 * mu + 10.0) * mu)
                make = pld.from_discrete_gaussian_mechanism
                return both(make, largest, same=False, sigma=inner.sigma, sensitivity=moves)
            make, same = pld.from_discrete_laplace_mechanism, moves <= MOST_MOVES
            largest = moves / inner.scale
            return both(make, largest, same=same, parameter=1.0 / inner.scale, sensitivity=moves)
        case RandomizedResponse():
            replaced_by_any = inner.categories / (math.exp(inner.epsilon) + inner.categories - 1)
            make = pld.from_randomized_response
            return both(make, inner.epsilon, noise_parameter=replaced_by_any, num_buckets=inner.categories)
        case Exponential() | OpaquePureDP() | OpaqueApproxDP():
            require_short(inner.epsilon)
            delta = inner.delta if isinstance(inner, OpaqueApproxDP) else 0.0
            stated = common.DifferentialPrivacyParameters(inner.epsilon, delta)
            # Rounded upwards only; and bounded range is less than the pure guarantee that follows from it.
            up = pld.from_privacy_parameters(stated, spacing)
            return _Losses(up, None, same=not isinstance(inner, Exponential))
        case Tabulated():
            require_short(max(map(abs, inner.losses)))
            # dpaudit composes a table by its largest loss alone where its rows imply no more.
            same = isinstance(table_term(inner.dominating_pair()), DiscreteTerm)
            up, down = (_table(inner, spacing, pessimistic=way) for way in (True, False))
            return _Losses(up, down if same else None, same=same)
        case _:
            raise _no_opinion(f"it has no privacy losses of a {mechanism.kind} mechanism")


def _table(mechanism: Tabulated, spacing: float, *, pessimistic: bool) -> Any:
    """A table's rows, each loss moved to a multiple of the spacing."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    masses: dict[int, float] = {}
    for loss, probability in zip(mechanism.losses, mechanism.probabilities, strict=True):
        at = math.ceil(loss / spacing) if pessimistic else math.floor(loss / spacing)
        masses[at] = masses.get(at, 0.0) + probability
    return pld.PrivacyLossDistribution.create_from_rounded_probability(
        masses, mechanism.infinity, spacing, pessimistic_estimate=pessimistic
    )


def _no_opinion(because: str) -> CannotBound:
    return CannotBound(because, where="second opinion")
