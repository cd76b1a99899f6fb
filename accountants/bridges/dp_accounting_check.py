"""The second check: an enclosure of epsilon by the privacy-loss distributions of Google's dp-accounting.

Certificates show it as a second opinion, and calibration uses it where ball arithmetic takes long. It is
computed from the mechanisms' own parameters, not from dpaudit's dominating pairs, so it can find a slip
there. (For samples that dp-accounting does not know, dpaudit's own table is used, and only later steps are
checked.) dp-accounting gives one figure rounded upwards and one rounded downwards. If either library is wrong
by more than the other's resolution, the two enclosures do not overlap.

It is used only where dp-accounting 0.6 is sound. Its accountants drop the count of randomized response, so
distributions are composed two by two and dp-accounting never receives a count. Its convolutions by FFT lose
deltas below about 1e-12, so no delta below 1e-9 is checked. Elsewhere there is a reason instead of an
opinion.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

from dpaudit import mechanisms as ours
from dpaudit.accountants.composition.composition import Composition, compose_ledger
from dpaudit.accountants.pairs.dominating_pairs import losses
from dpaudit.accountants.pairs.tables import MOST_MOVES, table_term
from dpaudit.accountants.privacy_loss.terms import DiscreteTerm
from dpaudit.certificate.second_opinion import DP_ACCOUNTING, SecondOpinion
from dpaudit.claims.bounds import Bound
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.ledger.ledger import Ledger
from dpaudit.mechanisms import (
    AnyMechanism,
    FixedSizeSampled,
    HiddenSample,
    OnSample,
    PoissonSampled,
    Tabulated,
    TruncatedPoissonSampled,
    dominating,
)

#: Limits of the check: within them it takes seconds.
LEAST_DELTA, LARGEST_DELTA = 1e-9, 0.1
MOST_EPSILON, MOST_RUNS = 100.0, 10_000
MOST_CONVOLUTIONS, MOST_EXPOSURES = 200, 2
_ADDED = "rounded_probability_mass_function_add", "infinity_mass_add"
_MOST_POINTS = 500_000  # longest array for one mechanism
_MOST_SHIFTS = 64

#: The exposure of one unit: mechanisms with their numbers of runs.
Runs = Collection[tuple[AnyMechanism, int]]


class Enclosure(NamedTuple):
    """dp-accounting's epsilon at one delta, rounded upwards, and downwards for releases with such a figure.

    `same` says whether it describes exactly the pairs that dpaudit composes. Otherwise it describes the
    mechanisms' real pairs, and dpaudit's figure may be larger.
    """

    epsilon: float
    at_least: float
    same: bool


def second_opinion(
    ledger: Ledger, bounds: Sequence[Bound], composition: Composition | None = None
) -> SecondOpinion:
    """Return dp-accounting's enclosure, and dpaudit's own bounds as (epsilon, delta)-DP, tightest first.

    `composition` is the ledger's; None composes it here.
    """
    about: dict[str, Any] = {"method": DP_ACCOUNTING, "version": version("dp-accounting")}
    try:
        if ledger.header.budget is not None:
            raise _no_opinion("the run is bounded by its budget, not by its releases")
        if not bounds or not isinstance(proved := bounds[0].guarantee, ApproxDP):
            raise _no_opinion("no bound on the scale of (epsilon, delta)-DP is proved")
        if (runs := len(ledger.releases)) > MOST_RUNS:
            raise _no_opinion(f"it is limited to {MOST_RUNS} releases, but the ledger has {runs}")
        composition = compose_ledger(ledger) if composition is None else composition
        exposures = [list(exposure.items()) for exposure in composition.exposures()]
        found = enclose(exposures, composition.sampling_relation, proved)
    except CannotBound as error:
        return SecondOpinion(**about, none_because=error.what)
    lower_ends = [bound.at_least for bound in bounds if bound.at_least is not None]
    about |= {"delta": proved.delta, "proved": proved.epsilon, "epsilon": found.epsilon}
    about["proved_at_least"] = max(lower_ends) if found.same and lower_ends else None
    return SecondOpinion(**about, at_least=found.at_least)


def enclose(
    exposures: Sequence[Runs], neighbouring: Neighbouring, near: ApproxDP, *, coarsely: bool = False
) -> Enclosure:
    """Enclose the largest epsilon over all exposures at the delta of `near`; its epsilon sets the spacing.

    `coarsely` computes only the upper end, at twice that spacing, in a quarter of the time. Raises
    `CannotBound`: dp-accounting is not sound or not fast for this input, or it fails.
    """
    epsilon, delta = near.epsilon, near.delta
    if not LEAST_DELTA <= delta <= LARGEST_DELTA:
        raise _no_opinion(
            f"it is limited to deltas from {LEAST_DELTA:g} (its rounding errors dominate below) to "
            f"{LARGEST_DELTA:g}, but the delta is {delta:g}"
        )
    if epsilon > MOST_EPSILON:
        raise _no_opinion(f"it is not used for epsilons above {MOST_EPSILON:g}, but epsilon is {epsilon:.6g}")
    if (ways := len(exposures)) > MOST_EXPOSURES:
        raise _no_opinion(f"units can meet the parts of the splits in {ways} ways, which is too many")
    needed = max(map(_convolutions, exposures))
    # dp-accounting's own spacing of losses is widened for larger figures, to limit the length of arrays, and
    # for more convolutions, to limit the total time. Both loosen both of its figures.
    spacing = (2e-4 if coarsely else 1e-4) * max(1.0, epsilon / 8.0, needed / 40)
    try:
        composed = [_composed(exposure, neighbouring, spacing, coarsely=coarsely) for exposure in exposures]
        pessimistic = _largest([one.rounded_up for one in composed], delta)
        optimistic = _largest([one.rounded_down for one in composed], delta)
        return Enclosure(pessimistic, optimistic, all(one.same for one in composed))
    except CannotBound:
        raise
    except Exception as error:  # noqa: BLE001  (the proof stands whatever another library raises)
        raise _no_opinion(f"it fails: {type(error).__name__}: {error}") from None


def _convolutions(exposure: Runs) -> int:
    """Return the number of convolutions for composing; `CannotBound` if it is too large."""
    runs = sum(count for _, count in exposure)
    if runs > MOST_RUNS:
        raise _no_opinion(f"it is limited to {MOST_RUNS} runs, but there are {runs}")
    # Sampled noise has two distributions, one for each order of its pair.
    orders = ((2 if isinstance(mechanism, HiddenSample) else 1, count) for mechanism, count in exposure)
    needed = sum(both * (count.bit_length() + count.bit_count()) for both, count in orders)
    if needed > MOST_CONVOLUTIONS:
        limit = f"{needed} convolutions, but the limit is {MOST_CONVOLUTIONS}"
        raise _no_opinion(f"it would take too long: {limit}")
    return needed


def _largest(losses: Iterable[Any], delta: float) -> float:
    epsilons = [0.0 if one is None else float(one.get_epsilon_for_delta(delta)) for one in losses]
    if not all(math.isfinite(epsilon) for epsilon in epsilons):
        raise _no_opinion("it has no finite figure")
    return max(0.0, *epsilons)


@dataclass(frozen=True)
class _Losses:
    """One run's privacy losses, `times` over, rounded both ways (None if there are none); see `Enclosure`."""

    rounded_up: Any
    rounded_down: Any
    times: int = 1
    same: bool = True


def _composed(exposure: Runs, neighbouring: Neighbouring, spacing: float, *, coarsely: bool) -> _Losses:
    """Compose the losses of everything that one unit is exposed to."""
    up = down = None
    same = True
    for mechanism, count in exposure:
        sensitivity = mechanism.declared_sensitivity
        part = getattr(mechanism, "contribution", None)
        if sensitivity is not None and sensitivity.value == 0 and part is None:
            continue
        run = _as_poisson(mechanism, neighbouring)
        pair = run.dominating_pair()
        if isinstance(pair, dominating.Mixture) and pair.steps == 1:
            known: _Losses | None = _mixture(pair, spacing, coarsely=coarsely)
        else:
            tabulated = isinstance(pair, dominating.Mixture) or (
                isinstance(run, OnSample) and _own_table(run, neighbouring)
            )
            known = (_profile if tabulated else _losses)(run, neighbouring, spacing, coarsely=coarsely)
        if known is None:
            continue
        same &= known.same
        up = _compose_two(up, _repeated(known.rounded_up, known.times * count))
        # Releases left out of the optimistic figure only lower it.
        if known.rounded_down is not None:
            down = _compose_two(down, _repeated(known.rounded_down, known.times * count))
    return _Losses(up, down, same=same)


def _compose_two(first: Any, second: Any) -> Any:
    return second if first is None else first.compose(second)


def _repeated(losses: Any, count: int) -> Any:
    """Compose a distribution with itself by repeated squaring, so that dp-accounting receives no count."""
    power, result = losses, None
    while True:
        if count & 1:
            result = _compose_two(result, power)
        count >>= 1
        if not count:
            return result
        power = power.compose(power)


def _losses(
    mechanism: AnyMechanism, neighbouring: Neighbouring, spacing: float, *, coarsely: bool
) -> _Losses | None:
    """Return a mechanism's worst pair in dp-accounting's terms; None for one that reveals nothing.

    Raises `CannotBound`: dp-accounting has no such pair, or its array would be too long.
    """
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.privacy_accountant import NeighboringRelation

    def require_short(largest: float) -> None:
        # For noise without a largest loss, all but a mass of 1e-22 counts.
        if largest > _MOST_POINTS * spacing:
            raise _no_opinion(f"a {mechanism.kind} release needs too long an array there")

    def both(
        make: Callable[..., Any], largest: float, *, dots: bool = False, **parameters: Any
    ) -> tuple[Any, Any]:
        require_short(largest)

        def rounded(*, up: bool) -> Any:
            # For figures rounded downwards dp-accounting supports only buckets, and would log a warning.
            connected = {"use_connect_dots": up} if dots else {}
            return make(
                value_discretization_interval=spacing, pessimistic_estimate=up, **connected, **parameters
            )

        return rounded(up=True), None if coarsely else rounded(up=False)

    inner, sampled, own = mechanism, dict[str, Any](), None
    if isinstance(mechanism, PoissonSampled) and isinstance(
        mechanism.mechanism, ours.Gaussian | ours.Laplace
    ):
        inner, sampled, own = mechanism.mechanism, {"sampling_prob": mechanism.rate}, mechanism.contribution
    replaced = bool(sampled) and neighbouring is Neighbouring.REPLACE_ONE
    match inner:
        case ours.GaussianNoise():
            moved, sigma = _moved(inner), inner.sigma
            mu, times = moved / sigma, inner.levels if isinstance(inner, ours.TreeAggregation) else 1
            if replaced:  # rows of that length, or half the sensitivity: one against its negative
                moved = 0.5 * moved if own is None else own
                sampled["neighboring_relation"] = NeighboringRelation.REPLACE_ONE
            sampled |= {"standard_deviation": sigma, "sensitivity": moved}
            gaussian = both(pld.from_gaussian_mechanism, (0.5 * mu + 10.0) * mu, dots=True, **sampled)
            return _Losses(*gaussian, times=times, same=not replaced or own is not None)
        case ours.Laplace() if not replaced:
            make, moved, scale = pld.from_laplace_mechanism, inner.sensitivity.value, inner.scale
            return _Losses(
                *both(make, moved / scale, dots=True, parameter=scale, sensitivity=moved, **sampled)
            )
        case ours.DiscreteLaplace() | ours.DiscreteGaussian():
            # One coordinate moves by the whole amount: for Laplace noise this is the worst pair, for Gaussian
            # noise one possible pair.
            moves = math.floor(inner.sensitivity.value)
            if moves == 0:
                return None
            if isinstance(inner, ours.DiscreteGaussian):
                mu, outcomes = moves / inner.sigma, 20.0 * inner.sigma
                largest = max(outcomes * spacing, (0.5 * mu + 10.0) * mu)
                make = pld.from_discrete_gaussian_mechanism
                found = both(make, largest, sigma=inner.sigma, sensitivity=moves)
                return _Losses(*found, same=inner.dominating_pair().squared == 1)
            make, scale = pld.from_discrete_laplace_mechanism, inner.scale
            found = both(make, moves / scale, parameter=1.0 / scale, sensitivity=moves)
            return _Losses(*found, same=moves <= MOST_MOVES)
        case ours.RandomizedResponse(epsilon=epsilon, categories=k):
            replaced_by_any = k / (math.exp(epsilon) + k - 1)
            make = pld.from_randomized_response
            return _Losses(*both(make, epsilon, noise_parameter=replaced_by_any, num_buckets=k))
        case ours.Choice() | ours.SparseVector() | ours.OpaquePureDP() | ours.OpaqueApproxDP():
            require_short(inner.epsilon)
            delta = inner.delta if isinstance(inner, ours.OpaqueApproxDP) else 0.0
            stated = common.DifferentialPrivacyParameters(inner.epsilon, delta)
            # Rounded upwards only; a bounded range also costs less than the pure guarantee used here.
            up = pld.from_privacy_parameters(stated, spacing)
            return _Losses(up, None, same=not isinstance(inner, ours.Exponential))
        case Tabulated():
            require_short(max(map(abs, inner.losses)))
            # dpaudit composes a table by its largest loss alone if its rows imply no more.
            same = isinstance(table_term(inner.dominating_pair()), DiscreteTerm)
            down = _table(inner, spacing, pessimistic=False) if same and not coarsely else None
            return _Losses(_table(inner, spacing, pessimistic=True), down, same=same)
        case _:
            raise _no_opinion(f"it has no privacy losses of a {mechanism.kind} mechanism")


def _mixture(pair: dominating.Mixture, spacing: float, *, coarsely: bool) -> _Losses:
    """Return the losses of a mixture of Gaussians on one answer, by dp-accounting's own quadrature."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    shifts, weights = list(map(float, pair.shifts)), list(map(float, pair.weights))
    most = max(shifts)
    if most * (0.5 * most + 10.0) > _MOST_POINTS * spacing or len(shifts) > _MOST_SHIFTS:
        raise _no_opinion("a mixture of Gaussians needs too long an array there")
    up, down = (
        pld.from_mixture_gaussian_mechanism(
            1.0,
            shifts,
            weights,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=spacing,
            use_connect_dots=pessimistic,
        )
        if pessimistic or not coarsely
        else None
        for pessimistic in (True, False)
    )
    return _Losses(up, down)


def _as_poisson(mechanism: AnyMechanism, neighbouring: Neighbouring) -> AnyMechanism:
    """Return the Poisson sample whose sensitivity alone gives the same pair, if a unit is added to a sample.

    This applies to a sample of fixed size, and to one that states a removed unit's own part.
    """
    if isinstance(mechanism, PoissonSampled) and neighbouring is not Neighbouring.REPLACE_ONE:
        inner, own = mechanism.mechanism, mechanism.contribution
        if isinstance(inner, ours.Gaussian | ours.Laplace) and own is not None:
            moved = inner.sensitivity.model_copy(update={"value": own})
            return PoissonSampled(rate=mechanism.rate, mechanism=inner.with_sensitivity(moved))
    if not isinstance(mechanism, FixedSizeSampled) or neighbouring is not Neighbouring.ADD_OR_REMOVE_ONE:
        return mechanism
    return PoissonSampled(rate=mechanism.most_likely, mechanism=mechanism.mechanism)


def _moved(noise: ours.GaussianNoise) -> float:
    """Return the total shift of independent Gaussian noise."""
    reach = noise.reach.value if isinstance(noise, ours.MatrixMechanism) else 1.0
    return noise.sensitivity.value * reach


def _own_table(mechanism: OnSample, neighbouring: Neighbouring) -> bool:
    """Return whether dpaudit's own table is needed because dp-accounting lacks the mechanism's losses."""
    replaced, inner = neighbouring is Neighbouring.REPLACE_ONE, mechanism.mechanism
    known = isinstance(inner, ours.Gaussian) or (isinstance(inner, ours.Laplace) and not replaced)
    return not (known and isinstance(mechanism, PoissonSampled))


def _profile(
    mechanism: AnyMechanism, neighbouring: Neighbouring, spacing: float, *, coarsely: bool
) -> _Losses:
    """Return the tables of a sampled mechanism's profile, one for each order of its pair.

    For a truncated sample, the pair that holds in both orders has sharper bounds.
    """
    orders = (None, None) if isinstance(mechanism, TruncatedPoissonSampled) else (True, False)
    first, second = (losses(mechanism, neighbouring, mixture_first=order)[0][0] for order in orders)
    if not (isinstance(first, DiscreteTerm) and isinstance(second, DiscreteTerm)):
        raise _no_opinion(f"it has no privacy losses of a {mechanism.kind} mechanism")
    first, second = (_within(term, 0.4 * _MOST_POINTS * spacing) for term in (first, second))
    up = _table(first, spacing, pessimistic=True, other=second)
    return _Losses(up, None if coarsely else _table(first, spacing, pessimistic=False, other=second))


def _within(term: DiscreteTerm, most: float) -> DiscreteTerm:
    """Return the table; losses larger than `most`, of negligible mass, count as infinite."""
    rows = list(zip(term.losses, term.probabilities, strict=True))
    beyond = math.fsum(p for loss, p in rows if abs(loss) > most)
    if beyond > 1e-20:
        raise _no_opinion("a sampled release needs too long an array there")
    losses, probabilities = zip(*[row for row in rows if abs(row[0]) <= most], strict=True)
    return DiscreteTerm(losses, probabilities, term.infinite + beyond)


def _table(
    rows: Tabulated | DiscreteTerm, spacing: float, *, pessimistic: bool, other: DiscreteTerm | None = None
) -> Any:
    """Return a table's rows with losses rounded to multiples of the spacing; `other` is the other order."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def moved(rows: Tabulated | DiscreteTerm) -> tuple[dict[int, float], float]:
        masses: dict[int, float] = {}
        for loss, probability in zip(rows.losses, rows.probabilities, strict=True):
            at = math.ceil(loss / spacing) if pessimistic else math.floor(loss / spacing)
            masses[at] = masses.get(at, 0.0) + probability
        return masses, rows.infinity if isinstance(rows, Tabulated) else rows.infinite

    added = {} if other is None else dict(zip(_ADDED, moved(other), strict=True)) | {"symmetric": False}
    return pld.PrivacyLossDistribution.create_from_rounded_probability(
        *moved(rows), spacing, pessimistic_estimate=pessimistic, **added
    )


def _no_opinion(because: str) -> CannotBound:
    return CannotBound(because, where="second opinion")
