"""Read a tree of dp-accounting's `DpEvent`s as a ledger.

An event's multiplier is the noise's scale over C, the norm of one unit's contribution to a sum. A replaced
unit moves a sum by up to 2C (`Neighbouring.sum_sensitivity`), unless the caller states that C is the whole
sensitivity, as in events from `dpaudit.accountants.bridges.to_dp_events`. An event without a counterpart here
is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from dpaudit import mechanisms as ours
from dpaudit.accountants.bridges.imported_ledger import named
from dpaudit.accountants.closed_forms.rounding import down, up
from dpaudit.accountants.composition.one_sample import gaussians_together
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.errors import CannotBound, ClaimMismatch, InputError, InvalidParameter
from dpaudit.ledger.ledger import Header, Ledger
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import AnyMechanism, Gaussian, Laplace, OpaquePureDP, OpaqueZCDP, PoissonSampled

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent
    from dp_accounting.privacy_accountant import NeighboringRelation

_NOISE = Gaussian | Laplace | ours.DiscreteGaussian | ours.DiscreteLaplace
_GUARANTEE = OpaquePureDP | OpaqueZCDP | ours.OpaqueApproxDP | ours.RandomizedResponse | ours.Exponential
_DEEPEST = 200  # a deeper tree probably contains itself


def from_dp_event(
    event: DpEvent,
    relation: NeighboringRelation,
    *,
    whole: bool = False,
    neighbouring: Neighbouring | str | None = None,
    unit: str = "record",
    algorithm: str = "dp-accounting events",
) -> Ledger:
    """Return a ledger with one release for each leaf of a tree of events, with `declared` sensitivities.

    `relation` is the relation of the events. Without `neighbouring`, the ledger has the same relation;
    ``REPLACE_SPECIAL`` means zero-out. With `whole`, a noise multiplier is the noise scale divided by the
    whole sensitivity, as in `to_dp_event`; ``REPLACE_SPECIAL`` may then also mean replace-one.

    Raises:
        CannotBound: an event has no sound counterpart here, or has no privacy guarantee at all.
        ClaimMismatch: `relation` cannot mean `neighbouring`.
        InvalidParameter: a parameter outside its range, or an object that is not an event.
    """
    own = _neighbouring(relation, neighbouring, whole=whole)
    moves = 1.0 if whole else own.sum_sensitivity(1.0, "l2")
    ledger = Ledger(Header(algorithm=algorithm, unit=unit, neighbouring=own), hashed=False)
    for leaf, count, where in _leaves(event, 1, "event"):
        try:
            mechanism = _mechanism(leaf, relation, moves, where)
            if isinstance(mechanism, ours.RandomizedResponse) and own is Neighbouring.ZERO_OUT:
                mechanism = _against_uniform(mechanism, where)
        except InputError as error:
            raise named(where, error) from None
        if mechanism is not None:
            ledger.append(Release(label=where, mechanism=mechanism, count=count))
    return ledger


def _neighbouring(
    relation: NeighboringRelation, requested: Neighbouring | str | None, *, whole: bool
) -> Neighbouring:
    from dp_accounting.privacy_accountant import NeighboringRelation

    natural = {
        NeighboringRelation.ADD_OR_REMOVE_ONE: Neighbouring.ADD_OR_REMOVE_ONE,
        NeighboringRelation.REPLACE_ONE: Neighbouring.REPLACE_ONE,
        NeighboringRelation.REPLACE_SPECIAL: Neighbouring.ZERO_OUT,
    }
    if relation not in natural:
        remedy = "give one of dp_accounting.NeighboringRelation"
        raise InvalidParameter(f"{relation!r} as a relation", where="relation", remedy=remedy)
    own = natural[relation]
    if requested is None or requested == own:
        return own
    if whole and own is Neighbouring.ZERO_OUT and requested == Neighbouring.REPLACE_ONE:
        return Neighbouring.REPLACE_ONE
    what = f"events under {relation.name} for a ledger under {str(requested)!r}"
    remedy = f"leave it out: these events are about {str(own)!r}"
    raise ClaimMismatch(what, where="neighbouring", remedy=remedy)


def _leaves(event: Any, count: int, where: str, depth: int = 0) -> Iterator[tuple[Any, int, str]]:
    """Yield every event that is not a composition, its count, and its place in the tree."""
    from dp_accounting import dp_event

    if depth > _DEEPEST:
        deep = f"events more than {_DEEPEST} deep"
        raise InvalidParameter(deep, where=where[:60], remedy="flatten the tree")
    if isinstance(event, dp_event.SelfComposedDpEvent):
        times = _whole_number(event.count, "count", where)
        yield from _leaves(event.event, count * times, where, depth + 1)
    elif isinstance(event, dp_event.ComposedDpEvent):
        if not isinstance(event.events, Sequence):
            raise InvalidParameter(f"events = {event.events!r}", where=where, remedy="give a list of events")
        for position, part in enumerate(event.events):
            yield from _leaves(part, count, f"{where}[{position}]", depth + 1)
    else:
        yield event, count, where


def _mechanism(event: Any, relation: NeighboringRelation, moves: float, where: str) -> AnyMechanism | None:
    """Return the mechanism of an event; None for an event that releases nothing."""
    from dp_accounting import dp_event

    place = f"{where}: {type(event).__name__}"
    if isinstance(event, dp_event.NoOpDpEvent):
        return None
    if isinstance(event, dp_event.GaussianDpEvent):
        return Gaussian(sigma=event.noise_multiplier, sensitivity=L2(moves))
    if isinstance(event, dp_event.LaplaceDpEvent):
        return Laplace(scale=event.noise_multiplier, sensitivity=L1(moves))
    if isinstance(event, dp_event.DiscreteLaplaceDpEvent):
        parameter, reach = _positive(event.noise_parameter, place), _positive(event.sensitivity, place)
        scale = _positive(down(1 / Fraction(parameter)), place)
        return ours.DiscreteLaplace(scale=scale, sensitivity=L1(moves * reach))
    if isinstance(event, dp_event.RandomizedResponseDpEvent):
        return _answer(event, relation, place)
    if isinstance(event, dp_event.ZCDpEvent):
        why = f"stated by a ZCDpEvent, {where}"
        rho, xi = (OpaqueZCDP(rho=figure, justification=why).rho for figure in (event.rho, event.xi))
        # xi + rho alpha <= (xi + rho) alpha, as every order exceeds 1.
        return OpaqueZCDP(rho=up(Fraction(rho) + Fraction(xi)), justification=why)
    # Events that dp-accounting 0.6 does not have yet are recognised by name.
    name = type(event).__name__
    if name == "EpsilonDeltaDpEvent":
        return _stated(event, place)
    if name == "DiscreteGaussianDpEvent":
        reach = _positive(event.sensitivity, place)
        return ours.DiscreteGaussian(sigma=event.sigma, sensitivity=L2(moves * reach))
    if isinstance(event, dp_event.PoissonSampledDpEvent):
        return _sampled(event, relation, moves, where)
    if isinstance(event, dp_event.SampledWithoutReplacementDpEvent):
        return _of_one_size(event, relation, moves, where)
    if isinstance(event, dp_event.TruncatedSubsampledGaussianDpEvent):
        return _truncated(event, relation, moves, where)
    if isinstance(event, dp_event.SampledWithReplacementDpEvent):
        why = "a unit may be drawn several times, which needs Theorem 10 of Balle, Barthe and Gaboardi 2018"
        raise _no_mechanism(event, where, why, "sample without replacement")
    if isinstance(event, dp_event.SingleEpochTreeAggregationDpEvent):
        return _tree(event, relation, moves, place)
    if isinstance(event, dp_event.RepeatAndSelectDpEvent):
        return _selected(event, relation, moves, where)
    if isinstance(event, dp_event.MixtureOfGaussiansDpEvent):
        return _mixture(event, relation, where)
    if isinstance(event, dp_event.NonPrivateDpEvent):
        raise _no_mechanism(event, where, "such an event protects nothing", "release it with noise")
    if isinstance(event, dp_event.UnsupportedDpEvent):
        raise _no_mechanism(event, where, "no bound is known for such an event", "name the mechanism")
    if isinstance(event, dp_event.DpEvent):
        remedy = "state its guarantee as an opaque release, with a justification"
        raise _no_mechanism(event, where, "no mechanism here is equivalent to it or costs more", remedy)
    raise InvalidParameter(f"a {type(event).__name__}", where=where, remedy="give a dp_accounting.DpEvent")


def _answer(event: Any, relation: NeighboringRelation, place: str) -> AnyMechanism | None:
    """Return randomized response with epsilon = log(1 + k (1 - p)/p).

    Its pair dominates the pair against a uniform answer: a uniform answer is the average over all answers, so
    by joint convexity it is no farther away.
    """
    p, k = _positive(event.noise_parameter, place), _whole_number(event.num_buckets, "num_buckets", place)
    if relation.name == "ADD_OR_REMOVE_ONE":
        why = "dp-accounting defines it for a replaced answer, not for an added one"
        raise _no_mechanism(event, place.partition(":")[0], why, "give the relation REPLACE_ONE")
    if k == 1 or p == 1:
        return None
    if p > 1:
        raise InvalidParameter(f"noise_parameter = {p!r}", where=place, remedy="give a number in (0, 1]")
    grown = up(k * (1 - Fraction(p)) / Fraction(p))
    if not math.isfinite(grown):
        raise InvalidParameter(f"noise_parameter = {p!r}", where=place, remedy="add noise")
    return ours.RandomizedResponse(epsilon=math.log1p(grown) * (1.0 + 4e-16), categories=k)


def _stated(event: Any, place: str) -> AnyMechanism:
    """Return the guarantee that an event states."""
    why = f"stated by an EpsilonDeltaDpEvent, {place.partition(':')[0]}"
    if event.delta == 0 and not isinstance(event.delta, bool):
        return OpaquePureDP(epsilon=event.epsilon, justification=why)
    return ours.OpaqueApproxDP(epsilon=event.epsilon, delta=event.delta, justification=why)


def _against_uniform(answer: ours.RandomizedResponse, where: str) -> OpaquePureDP:
    """Return randomized response for a unit whose answer becomes uniform, as under ``REPLACE_SPECIAL``.

    Let r = k / (e^epsilon + k - 1) be the probability of drawing an answer anew. The true answer then has
    (1 - r + r / k) k = r e^epsilon times its uniform probability, and every other answer r times.
    """
    e, k = answer.epsilon, answer.categories
    raised = math.log(k) - math.log1p((k - 1) * math.exp(-e))  # the logarithm of r e^epsilon
    largest = max(raised, e - raised) + 4e-15 * (1.0 + e + raised)
    return OpaquePureDP(epsilon=largest, justification=f"randomized against uniform answers, {where}")


def _sampled(event: Any, relation: NeighboringRelation, moves: float, where: str) -> AnyMechanism | None:
    """Return the mechanism of a Poisson sample of Gaussian noise, one or several events, or another event."""
    rate = _rate(event, where)
    inner = _on_one_sample(event.event, relation, moves, where) if rate else None
    if inner is None:
        return None
    if isinstance(inner, _NOISE):
        # Under replace-one a unit's part is at most half as long as the largest change.
        opposite = relation.name == "REPLACE_ONE" and moves == 2.0
        own = 0.5 * inner.sensitivity.value if opposite else None
        return PoissonSampled(rate=rate, mechanism=inner, contribution=own)
    if relation.name == "REPLACE_ONE" or isinstance(inner, ours.RandomizedResponse):
        why = "its guarantee is about a replaced unit, but a unit outside the sample is absent, not replaced"
        raise _no_mechanism(event, where, why, "give the relation ADD_OR_REMOVE_ONE")
    return PoissonSampled(rate=rate, mechanism=inner)


def _of_one_size(event: Any, relation: NeighboringRelation, moves: float, where: str) -> AnyMechanism | None:
    """Return the mechanism of a sample without replacement: see `FixedSizeSampled`.

    Another unit takes the place of a unit that was not sampled. If units are added or removed, neighbours of
    the stated data set have one unit less.
    """
    place = f"{where}: {type(event).__name__}"
    units = _whole_number(event.source_dataset_size, "source_dataset_size", place)
    if event.sample_size == 0 and not isinstance(event.sample_size, bool):
        return None
    size = _whole_number(event.sample_size, "sample_size", place)
    replaced = relation.name == "REPLACE_ONE"
    inner = _on_one_sample(event.event, relation, moves, where)
    if inner is None:
        return None
    if not replaced:
        if not isinstance(inner, _NOISE):
            why = "its guarantee is not about replaced units, but another unit takes an absent unit's place"
            raise _no_mechanism(event, where, why, "give the relation REPLACE_ONE")
        both = inner.sensitivity.model_copy(update={"value": 2.0 * inner.sensitivity.value})
        inner = inner.with_sensitivity(both)
    fewest = units - 1 if relation.name == "ADD_OR_REMOVE_ONE" else units
    if fewest == 0:
        why = "without its only unit the data set is empty, and cannot be sampled"
        raise _no_mechanism(event, where, why, "give the relation REPLACE_ONE")
    return ours.FixedSizeSampled(size=size, units=fewest, mechanism=inner)


def _truncated(event: Any, relation: NeighboringRelation, moves: float, where: str) -> AnyMechanism | None:
    """Return the mechanism of a truncated Poisson sample; `dataset_size` is the largest number of units."""
    place = f"{where}: {type(event).__name__}"
    rate, counts = _rate(event, where), (event.dataset_size, event.truncated_batch_size)
    names = ("dataset_size", "truncated_batch_size")
    if rate == 0 or any(count == 0 and not isinstance(count, bool) for count in counts):
        return None
    units, most = (_whole_number(n, name, place) for n, name in zip(counts, names, strict=True))
    swap = moves if relation.name == "REPLACE_ONE" else 2.0 * moves
    noise = Gaussian(sigma=event.noise_multiplier, sensitivity=L2(swap))
    own = None if relation.name == "REPLACE_ONE" and moves != 2.0 else 0.5 * swap
    return ours.TruncatedPoissonSampled(rate=rate, most=most, units=units, mechanism=noise, contribution=own)


def _rate(event: Any, where: str) -> float:
    rate = event.sampling_probability
    if isinstance(rate, bool) or not isinstance(rate, float | int) or not 0 <= rate <= 1:
        raise InvalidParameter(f"sampling_probability = {rate!r}", where=where, remedy="give one in [0, 1]")
    return float(rate)


def _on_one_sample(event: Any, relation: NeighboringRelation, moves: float, where: str) -> Any:
    """Return the mechanism on a sample, as one mechanism; None if nothing runs on it."""
    inner = list(_leaves(event, 1, f"{where}, sampled"))
    noise = [(_mechanism(leaf, relation, moves, place), count) for leaf, count, place in inner]
    kept = [(mechanism, count) for mechanism, count in noise if mechanism is not None]
    if not kept:
        return None
    if len(kept) == 1 and kept[0][1] == 1 and isinstance(kept[0][0], _NOISE | _GUARANTEE):
        return kept[0][0]
    gaussian = [(one, count) for one, count in kept if isinstance(one, Gaussian)]
    if len(gaussian) == len(kept):
        return gaussians_together((one.ratio(one.sigma), count) for one, count in gaussian)
    why = "only Gaussian noise, or one other release, on a sample is known here"
    remedy = "state its guarantee as an opaque release, with a justification"
    raise _no_mechanism(event, where, why, remedy)


def _tree(event: Any, relation: NeighboringRelation, moves: float, place: str) -> AnyMechanism:
    """Return trees such that each record is in one of them: the longest tree counts."""
    if relation.name != "REPLACE_SPECIAL":
        why = "its theorem is about records replaced by a special one; another change moves all later records"
        raise _no_mechanism(event, place.partition(":")[0], why, "give the relation REPLACE_SPECIAL")
    counts = event.step_counts if isinstance(event.step_counts, list | tuple) else [event.step_counts]
    steps = max((_whole_number(count, "step_counts", place) for count in counts), default=0)
    if not steps:
        raise InvalidParameter("no step_counts", where=place, remedy="give the number of steps of each tree")
    return ours.TreeAggregation(sigma=event.noise_multiplier, steps=steps, sensitivity=L2(moves))


def _selected(event: Any, relation: NeighboringRelation, moves: float, where: str) -> AnyMechanism | None:
    """Return the best of a Poisson (infinite shape) or a truncated negative binomial number of runs."""
    place = f"{where}: {type(event).__name__}"
    mean, shape = _positive(event.mean, place), event.shape
    if isinstance(shape, bool) or not isinstance(shape, float | int) or not shape >= 0.0 or mean < 1.0:
        what = f"mean = {event.mean!r}, shape = {shape!r}"
        raise InvalidParameter(what, where=place, remedy="give a mean of 1 or more and a shape of 0 or more")
    inner = list(_leaves(event.event, 1, f"{where}, repeated"))
    runs = [(_mechanism(leaf, relation, moves, at), count) for leaf, count, at in inner]
    made: list[dict[str, Any]] = [{"mechanism": one, "count": n} for one, n in runs if one is not None]
    if not made:
        return None
    law: ours.NegativeBinomial | ours.Poisson = ours.Poisson(mean=mean)
    if shape < math.inf:
        law = ours.NegativeBinomial(eta=float(shape), gamma=_gamma(float(shape), mean))
    try:
        releases = tuple(ours.TrialRelease(**one) for one in made)
    except InputError:
        why = "a trial's theorem needs the Renyi divergences of its event, which are not known here"
        raise _no_mechanism(event, where, why, "repeat an event of noise, with or without sampling") from None
    return ours.PrivateSelection(releases=releases, repetitions=law)


def _gamma(eta: float, mean: float) -> float:
    """Return the largest gamma found with a mean of at least `mean`: both costs fall with gamma."""
    low, high = 1e-300, 1.0 - 2.0**-53
    for _ in range(200):
        middle = math.sqrt(low) * math.sqrt(high) if low < 0.1 * high else 0.5 * (low + high)
        fits = ours.NegativeBinomial(eta=eta, gamma=middle).mean >= mean * (1.0 + 1e-12)
        low, high = (middle, high) if fits else (low, middle)
    return low


def _mixture(event: Any, relation: NeighboringRelation, where: str) -> AnyMechanism:
    """Return Gaussian noise with a random shift, for a unit that is added, removed or zeroed."""
    if relation.name == "REPLACE_ONE":
        why = "its theorem is about units that are added or removed (Choquette-Choo et al. 2024)"
        raise _no_mechanism(event, where, why, "give the relation ADD_OR_REMOVE_ONE or REPLACE_SPECIAL")
    given = event.sensitivities, event.sampling_probs
    if not all(isinstance(each, Sequence | np.ndarray) and not isinstance(each, str) for each in given):
        raise InvalidParameter(f"sensitivities and probabilities {given!r}", where=where)
    shifts, weights = (tuple(each) for each in given)
    return ours.MixtureOfGaussians(
        sigma=event.standard_deviation, sensitivities=shifts, probabilities=weights
    )


def _positive(number: Any, place: str) -> float:
    """Return a number as a double; raise `InvalidParameter` unless it is finite and positive."""
    try:
        value = float(number)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if isinstance(number, bool) or not 0.0 < value < math.inf:
        raise InvalidParameter(f"a parameter {number!r}", where=place)
    return value


def _whole_number(number: Any, name: str, place: str) -> int:
    """Return a number as an integer; raise `InvalidParameter` unless it is one and at least 1."""
    if isinstance(number, bool) or not isinstance(number, Integral) or number < 1:
        raise InvalidParameter(f"{name} = {number!r}", where=place, remedy="give a whole number, 1 or more")
    return int(number)


def _no_mechanism(event: Any, where: str, why: str, remedy: str) -> CannotBound:
    return CannotBound(
        f"no mechanism stands for a {type(event).__name__}", where=where, why=why, remedy=remedy
    )
