"""The privacy losses of single mechanisms as dp-accounting computes them, for `dp_accounting_opinion`.

They are made from a mechanism's own parameters, not from dpaudit's losses: a slip there is one of the things
that a second opinion is to find.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, assert_never

from dpaudit.accountants.pairs.tables import MOST_MOVES, table_term
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
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
    OpaqueZCDP,
    PoissonSampled,
    RandomizedResponse,
    SmoothGaussian,
    SymmetricGaussian,
    Tabulated,
    TreeAggregation,
)


@dataclass(frozen=True)
class Pair:
    """A mechanism's privacy losses, as many times as one run has them.

    Attributes:
        rounded_up: the distribution, pessimistic.
        rounded_down: the same, optimistic; None where dp-accounting has none.
        times: how many of them one run of the mechanism has.
        same: whether it is the very pair that dpaudit composes; else one that the mechanism really has,
            and dpaudit's figure may be larger.
    """

    rounded_up: Any
    rounded_down: Any
    times: int = 1
    same: bool = True


def points(mechanism: AnyMechanism, spacing: float) -> float:
    """About how long an array one run of a mechanism needs: its largest loss, but for a mass of 1e-22."""
    match mechanism:
        case PoissonSampled():
            return points(mechanism.mechanism, spacing)
        case Gaussian() | SymmetricGaussian() | GaussianProcess() | TreeAggregation() | DiscreteGaussian():
            mu = mechanism.sensitivity.value / mechanism.sigma
            own = 20.0 * mechanism.sigma if isinstance(mechanism, DiscreteGaussian) else 0.0
            return max(own, (0.5 * mu + 10.0) * mu / spacing)
        case Laplace() | DiscreteLaplace():
            return mechanism.sensitivity.value / mechanism.scale / spacing
        case RandomizedResponse() | Exponential() | OpaquePureDP() | OpaqueApproxDP():
            return mechanism.epsilon / spacing
        case Tabulated():
            return max(map(abs, mechanism.losses)) / spacing
        case OpaqueZCDP() | SmoothGaussian():
            return 0.0
        case _:
            assert_never(mechanism)


def pair_of(mechanism: AnyMechanism, neighbouring: Neighbouring, spacing: float) -> Pair | None:
    """A mechanism's worst pair in dp-accounting's own terms; None for one that reveals nothing.

    Raises:
        CannotBound: it has none there.
    """
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as losses

    def both(make: Any, *, times: int = 1, same: bool = True, **parameters: Any) -> Pair:
        up, down = (
            make(value_discretization_interval=spacing, pessimistic_estimate=pessimistic, **parameters)
            for pessimistic in (True, False)
        )
        return Pair(up, down, times, same)

    match mechanism:
        case Gaussian() | SymmetricGaussian() | GaussianProcess() | TreeAggregation():
            if mechanism.sensitivity.value == 0:
                return None
            return both(
                _continuous(losses.from_gaussian_mechanism),
                times=mechanism.levels if isinstance(mechanism, TreeAggregation) else 1,
                standard_deviation=mechanism.sigma,
                sensitivity=mechanism.sensitivity.value,
            )
        case Laplace():
            if mechanism.sensitivity.value == 0:
                return None
            return both(
                _continuous(losses.from_laplace_mechanism),
                parameter=mechanism.scale,
                sensitivity=mechanism.sensitivity.value,
            )
        case DiscreteLaplace() | DiscreteGaussian():
            # One coordinate moved by all of it: for Laplace noise the worst pair, for Gaussian noise one.
            moves = math.floor(mechanism.sensitivity.value)
            if moves == 0:
                return None
            if isinstance(mechanism, DiscreteGaussian):
                return both(
                    losses.from_discrete_gaussian_mechanism,
                    same=False,
                    sigma=mechanism.sigma,
                    sensitivity=moves,
                )
            return both(
                losses.from_discrete_laplace_mechanism,
                same=moves <= MOST_MOVES,
                parameter=1.0 / mechanism.scale,
                sensitivity=moves,
            )
        case RandomizedResponse():
            others = mechanism.categories - 1
            replaced = mechanism.categories / (math.exp(mechanism.epsilon) + others)
            return both(
                losses.from_randomized_response,
                noise_parameter=replaced,
                num_buckets=mechanism.categories,
            )
        case PoissonSampled():
            return _sampled(mechanism, neighbouring, both)
        case Exponential() | OpaquePureDP() | OpaqueApproxDP():
            delta = mechanism.delta if isinstance(mechanism, OpaqueApproxDP) else 0.0
            stated = common.DifferentialPrivacyParameters(mechanism.epsilon, delta)
            # Rounded upwards only; and bounded range is less than the pure guarantee that follows from it.
            up = losses.from_privacy_parameters(stated, spacing)
            return Pair(up, None, same=not isinstance(mechanism, Exponential))
        case Tabulated():
            # A table that says less than its largest loss is not what dpaudit composes.
            same = isinstance(table_term(mechanism.dominating_pair()), DiscreteTerm)
            up, down = (_rounded(mechanism, spacing, pessimistic=way) for way in (True, False))
            return Pair(up, down if same else None, same=same)
        case OpaqueZCDP() | SmoothGaussian():
            raise _unknown(mechanism)
        case _:
            assert_never(mechanism)


def _rounded(mechanism: Tabulated, spacing: float, *, pessimistic: bool) -> Any:
    """A table's rows, each loss moved to a multiple of the spacing."""
    from dp_accounting.pld import privacy_loss_distribution as losses

    masses: dict[int, float] = {}
    for loss, probability in zip(mechanism.losses, mechanism.probabilities, strict=True):
        at = math.ceil(loss / spacing) if pessimistic else math.floor(loss / spacing)
        masses[at] = masses.get(at, 0.0) + probability
    return losses.PrivacyLossDistribution.create_from_rounded_probability(
        masses, mechanism.infinity, spacing, pessimistic_estimate=pessimistic
    )


def _sampled(mechanism: PoissonSampled, neighbouring: Neighbouring, both: Any) -> Pair | None:
    """A Poisson sample; under replace-one of rows half the sensitivity long, one against its negative."""
    from dp_accounting.pld import privacy_loss_distribution as losses
    from dp_accounting.privacy_accountant import NeighboringRelation

    inner, rate = mechanism.mechanism, mechanism.rate
    moves = inner.sensitivity.value
    if moves == 0:
        return None
    replaced = neighbouring is Neighbouring.REPLACE_ONE
    pair: Pair
    match inner:
        case Gaussian() if replaced:
            pair = both(
                _continuous(losses.from_gaussian_mechanism),
                same=False,
                standard_deviation=inner.sigma,
                sensitivity=0.5 * moves,
                sampling_prob=rate,
                neighboring_relation=NeighboringRelation.REPLACE_ONE,
            )
        case Gaussian():
            pair = both(
                _continuous(losses.from_gaussian_mechanism),
                standard_deviation=inner.sigma,
                sensitivity=moves,
                sampling_prob=rate,
            )
        case Laplace() if not replaced:
            pair = both(
                _continuous(losses.from_laplace_mechanism),
                parameter=inner.scale,
                sensitivity=moves,
                sampling_prob=rate,
            )
        case _:
            raise _unknown(mechanism)
    return pair


def _continuous(make: Any) -> Any:
    """Rounded downwards dp-accounting knows buckets only, and would log that it takes them."""

    def made(*, pessimistic_estimate: bool, **parameters: Any) -> Any:
        return make(
            pessimistic_estimate=pessimistic_estimate, use_connect_dots=pessimistic_estimate, **parameters
        )

    return made


def _unknown(mechanism: AnyMechanism) -> CannotBound:
    return no_opinion(f"it has no privacy losses of a {mechanism.kind} mechanism")


def no_opinion(because: str) -> CannotBound:
    """Why there is no second opinion."""
    return CannotBound(because, where="second opinion")
