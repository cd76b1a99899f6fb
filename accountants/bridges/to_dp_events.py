"""Write a ledger as a tree of `DpEvent`s, for the accountants of Google's dp-accounting.

An event states noise by its multiplier, the noise's scale over C. The accountant that reads the event decides
by how many units of C a query moves. Under ``REPLACE_ONE`` the accountants of dp-accounting 0.6 disagree: the
privacy-loss accountant assumes a move of 2C for Gaussian noise, the Renyi accountant a move of C. A ledger's
sensitivity is the whole move between neighbours, under any relation. So C is the whole sensitivity here, and
events state the relation for their accounting: one under which a query moves by exactly C, if there is one,
otherwise ``REPLACE_ONE``, under which it moves by at least C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from dpaudit.accountants.closed_forms.rounding import down, up
from dpaudit.accountants.composition.composition import for_group
from dpaudit.accountants.composition.costs import rho
from dpaudit.accountants.composition.one_sample import without_samples
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import AnyMechanism, dominating

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent
    from dp_accounting.privacy_accountant import NeighboringRelation


@dataclass(frozen=True)
class Events:
    """A ledger for dp-accounting: one event, or a composition of one event for each release, in order.

    The figure from accounting for it under `relation` holds under the ledger's relation.
    """

    event: DpEvent
    relation: NeighboringRelation


def to_dp_event(ledger: Ledger) -> Events:
    """Return the releases of a ledger as events.

    Gaussian noise on symmetric matrices, trees and functions becomes Gaussian events of exactly equal cost.
    Mechanisms with only a pure epsilon or a rho, and discrete Gaussian noise, become a `ZCDpEvent`.
    Multipliers are rounded down, costs up. Raises `CannotBound`: a release has no sound counterpart, or the
    ledger has parts or a budget; `NotCertifiable`: its noise was never drawn, or was replayed.
    """
    from dp_accounting import dp_event
    from dp_accounting.privacy_accountant import NeighboringRelation

    header = ledger.header
    ledger.require_live_noise()
    if header.budget is not None:
        what = "a run whose number of releases may depend on the data"
        why = "the releases of one run prove nothing about another; its budget does"
        remedy = f"account for the budget, {header.budget}"
        raise CannotBound(what, where="header.schedule", why=why, remedy=remedy)
    needs_replacing = False
    events = []
    for release in without_samples(ledger, header.neighbouring):
        where = f"release {release.label!r}"
        if release.partition is not None:
            what = f"a release on part {release.partition.part!r} of a split"
            why = "events compose one after another; they have no parallel composition"
            remedy = "translate one ledger for each choice of parts that a unit can touch"
            raise CannotBound(what, where=where, why=why, remedy=remedy)
        mechanism, times = for_group(release.mechanism, header.group_size)
        needs_replacing |= _needs_replacing(mechanism, header.neighbouring, where)
        event, runs = _event(mechanism, mechanism.dominating_pair(), where)
        count = runs * times * release.count
        events.append(event if count == 1 else dp_event.SelfComposedDpEvent(event, count))
    name = "REPLACE_ONE" if needs_replacing else "REPLACE_SPECIAL"
    if header.neighbouring is Neighbouring.ADD_OR_REMOVE_ONE:
        name = "ADD_OR_REMOVE_ONE"
    relation = NeighboringRelation[name]
    return Events(events[0] if len(events) == 1 else dp_event.ComposedDpEvent(events), relation)


def _needs_replacing(mechanism: AnyMechanism, neighbouring: Neighbouring, where: str) -> bool:
    """Return whether only ``REPLACE_ONE`` covers a mechanism, under the ledger's relation.

    Randomized response: ``REPLACE_SPECIAL`` compares an answer with a uniform one, which costs less than
    another answer. Poisson samples: a replaced unit is on both sides.
    """
    pair = mechanism.dominating_pair()
    replaced = neighbouring is Neighbouring.REPLACE_ONE
    if isinstance(pair, dominating.Response) and not replaced:
        why = f"dp-accounting defines randomized response under replace-one, but the ledger is {neighbouring}"
        raise _no_event(mechanism, where, why=why, remedy="state its epsilon as an opaque pure-dp release")
    return replaced and isinstance(pair, dominating.Response | dominating.Sampled)


def _event(mechanism: AnyMechanism, pair: dominating.Pair, where: str) -> tuple[DpEvent, int]:
    """Return one run of a mechanism, or of the pair inside its own: an event and its count."""
    from dp_accounting import dp_event

    def representable(number: float) -> float:
        if not 0.0 < number < math.inf:
            why, remedy = "its parameter is outside the range of doubles", "rescale"
            raise _no_event(mechanism, where, why=why, remedy=remedy)
        return number

    match pair:
        case dominating.Gaussian(mu=0) | dominating.Laplace(epsilon=0) | dominating.DiscreteLaplace(moves=0):
            return dp_event.NoOpDpEvent(), 1
        case dominating.Gaussian(mu=moved, times=runs):
            return dp_event.GaussianDpEvent(representable(down(1 / moved))), runs
        case dominating.Laplace(epsilon=moved):
            return dp_event.LaplaceDpEvent(representable(down(1 / moved))), 1
        case dominating.Sampled():
            inner, _ = _event(mechanism, pair.larger, where)
            if isinstance(inner, dp_event.NoOpDpEvent):
                return inner, 1
            return dp_event.PoissonSampledDpEvent(pair.rate, inner), pair.times
        case dominating.DiscreteLaplace():
            return dp_event.DiscreteLaplaceDpEvent(representable(up(1 / pair.scale)), pair.moves), 1
        case dominating.Response():
            # The probability of drawing a uniform category, rounded down: k/(e^epsilon + k - 1).
            grown = math.exp(pair.epsilon) if pair.epsilon <= 709.0 else math.inf
            replaced = pair.categories / (grown + pair.categories - 1) * (1.0 - 4e-15)
            return dp_event.RandomizedResponseDpEvent(representable(replaced), pair.categories), 1
        case dominating.ZCDP() | dominating.DiscreteGaussian() | dominating.BoundedRange():
            return dp_event.ZCDpEvent(rho(mechanism)), 1
        case dominating.SparseGaussian():
            return dp_event.ZCDpEvent(rho(mechanism)), 1
        case dominating.Pure() | dominating.Table() | dominating.Selected() | dominating.Shuffled():
            try:
                return dp_event.ZCDpEvent(rho(mechanism)), 1
            except CannotBound:
                raise _no_event(mechanism, where) from None
        case dominating.Smooth() | dominating.Approx() | dominating.Batch() | dominating.Mixture():
            raise _no_event(mechanism, where)
        case dominating.Added():
            raise _no_event(mechanism, where)
        case _:
            assert_never(pair)


def _no_event(mechanism: AnyMechanism, where: str, *, why: str = "", remedy: str = "") -> CannotBound:
    what = f"dp-accounting has no event for a {mechanism.kind} mechanism"
    why = why or "events cannot state a delta-dependent guarantee or a table of losses"
    remedy = remedy or "account for this ledger here: dpaudit verify"
    return CannotBound(what, where=where, why=why, remedy=remedy)
