"""What the privacy-loss distributions of Google's dp-accounting say of a ledger, where they are sound.

They are asked for a figure rounded upwards and one rounded downwards: if either library is wrong by more than
the other's resolution, the two enclosures do not overlap. Asked only where dp-accounting 0.6 is sound: its
accountants drop the count of randomized response, so distributions are composed two by two and no count is
ever handed over; and its convolutions by FFT lose deltas below some 1e-12, so none below 1e-9 is asked.
Elsewhere there is no opinion, and the reason is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from dpaudit.accountants.bridges.dp_accounting_pairs import Pair, no_opinion, pair_of, points
from dpaudit.accountants.composition.composition import Composition, compose_ledger
from dpaudit.certificate.second_opinion import SecondOpinion
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import AnyMechanism, PoissonSampled

METHOD = "dp-accounting PLD"

#: The range asked about: with these limits it takes seconds.
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


def second_opinion(
    ledger: Ledger, bounds: Sequence[Bound], composition: Composition | None = None
) -> SecondOpinion:
    """What dp-accounting says at the delta at which dpaudit's bounds stand.

    Args:
        ledger: the releases.
        bounds: what dpaudit proves of them as (epsilon, delta)-DP, tightest first.
        composition: the ledger's; left out, it is composed here.
    """
    about: dict[str, Any] = {"method": METHOD, "version": version("dp-accounting")}
    try:
        return SecondOpinion(**about, **_figures(ledger, bounds, composition))
    except CannotBound as error:
        return SecondOpinion(**about, none_because=error.what)


def _figures(ledger: Ledger, bounds: Sequence[Bound], composition: Composition | None) -> dict[str, Any]:
    if ledger.header.budget is not None:
        raise no_opinion("what proves this run is its budget, not its releases")
    if not bounds or not isinstance(bounds[0].guarantee, ApproxDP):
        raise no_opinion("nothing is proved on the scale of (epsilon, delta)-DP")
    proved, delta = bounds[0].guarantee.epsilon, bounds[0].guarantee.delta
    if not LEAST_DELTA <= delta <= LARGEST_DELTA:
        raise no_opinion(
            f"it is asked about deltas from {LEAST_DELTA:g}, below which its rounding spoils them, to "
            f"{LARGEST_DELTA:g}, and this one is {delta:g}"
        )
    if proved > MOST_EPSILON:
        raise no_opinion(
            f"it is not asked about an epsilon above {MOST_EPSILON:g}, and this one is {proved:.6g}"
        )
    if len(ledger.releases) > MOST_RUNS:
        raise no_opinion(f"it is not asked about more than {MOST_RUNS} releases")
    composition = compose_ledger(ledger) if composition is None else composition
    exposures = composition.exposures()
    if len(exposures) > MOST_EXPOSURES:
        raise no_opinion(f"units can meet the parts of the splits in {len(exposures)} ways: too many to ask")
    needed = max(_convolutions(exposure) for exposure in exposures)
    spacing = _SPACING * max(1.0, proved / _EPSILON_AT_SPACING, needed / _CONVOLUTIONS_AT_SPACING)
    try:
        composed = [_composed(exposure, composition.sampling_relation, spacing) for exposure in exposures]
        pessimistic = _largest([one.rounded_up for one in composed], delta)
        optimistic = _largest([one.rounded_down for one in composed], delta)
    except CannotBound:
        raise
    except Exception as error:  # noqa: BLE001  (whatever another library raises, the proof stands without it)
        raise no_opinion(f"it fails: {type(error).__name__}: {error}") from None
    lower_ends = [bound.at_least for bound in bounds if bound.at_least is not None]
    same = all(one.same for one in composed)
    return {
        "delta": delta,
        "proved": proved,
        "proved_at_least": max(lower_ends) if same and lower_ends else None,
        "epsilon": pessimistic,
        "at_least": optimistic,
    }


def _convolutions(exposure: Mapping[AnyMechanism, int]) -> int:
    """How many convolutions composing takes; `CannotBound` where these are too many."""
    runs = sum(exposure.values())
    if runs > MOST_RUNS:
        raise no_opinion(f"it is not asked about more than {MOST_RUNS} runs, and these are {runs}")
    # Sampled noise has two distributions, one for each order of its pair.
    needed = sum(
        (count.bit_length() + count.bit_count()) * (2 if isinstance(mechanism, PoissonSampled) else 1)
        for mechanism, count in exposure.items()
    )
    if needed > MOST_CONVOLUTIONS:
        raise no_opinion(
            f"it would take too long: {needed} convolutions, and {MOST_CONVOLUTIONS} are the limit"
        )
    return needed


def _largest(losses: Iterable[Any], delta: float) -> float:
    epsilons = [0.0 if one is None else float(one.get_epsilon_for_delta(delta)) for one in losses]
    if not all(math.isfinite(epsilon) for epsilon in epsilons):
        raise no_opinion("it has no finite figure")
    return max(0.0, *epsilons)


def _composed(exposure: Mapping[AnyMechanism, int], neighbouring: Neighbouring, spacing: float) -> Pair:
    """All that one unit is exposed to, composed."""
    up = down = None
    same = True
    for mechanism, count in exposure.items():
        if points(mechanism, spacing) > _MOST_POINTS:
            raise no_opinion(f"a {mechanism.kind} release takes it too long an array")
        pair = pair_of(mechanism, neighbouring, spacing)
        if pair is None:
            continue
        same &= pair.same
        up = _both(up, _repeated(pair.rounded_up, pair.times * count))
        # Releases left out of the optimistic figure only lower it.
        if pair.rounded_down is not None:
            down = _both(down, _repeated(pair.rounded_down, pair.times * count))
    return Pair(up, down, same=same)


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
