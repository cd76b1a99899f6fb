"""Replay: the white-box audit.

Run the algorithm on one data set and record every release; run it on a neighbour with each release
forced to return what was recorded. Whatever then still differs is not in the ledger, and the likelihood
of the recording on either side gives the pair's exact privacy loss. The method goes back to DPCheck (Zhang,
Roth, Haeberlen, Pierce, Roth 2020) and dp-recorder (Cebere et al. 2026).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpaudit.auditors.comparison.output_comparison import NotComparable, first_difference
from dpaudit.auditors.replay import exact_loss, likelihood
from dpaudit.auditors.replay.forced_outputs import extremes
from dpaudit.auditors.replay.importance_sampling import TiltedNoise, Tilts
from dpaudit.auditors.replay.recording import Recording, Runs, flow_difference, fresh, repeat_difference
from dpaudit.auditors.replay.rng_tripwire import Watch
from dpaudit.auditors.replay.sampler_check import DRAWS, SamplerProbe
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import Audit, Finding
from dpaudit.claims.arguments import checked
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise, NoiseSource
from dpaudit.errors import InvalidParameter
from dpaudit.processes.host import NO_LIMITS, Limits
from dpaudit.processes.hosted import Hosted
from dpaudit.processes.hosting import conditions_of, hosting

#: At extreme outputs a query may exceed its sensitivity by this much of its own size besides: later
#: queries that are computed from such outputs are rounded as coarsely.
ROUNDING = 2.0**-48

#: A billion replays of the shortest algorithm take days.
MOST_REPLAYS = 10**9

LIMITS = (
    Condition(code=Code.REPLAYED_OUTPUTS),
    Condition(code=Code.ALL_RELEASES),
    Condition(code=Code.BESIDE_RELEASES),
    Condition(code=Code.SAMPLER_RESOLUTION, draws=DRAWS),
)
NOTHING_RELEASED = (
    "nothing was released through the curator, so that replay compared empty transcripts: account for what "
    "comes out by releasing it there, or audit it by sampling (method sequential)"
)


@checked("replay", pairs=[Pair])
def replay(
    algorithm: Callable[[Any, Curator], Any],
    pairs: Sequence[Pair],
    *,
    claim: Claim | None = None,
    seed: int = 0,
    run_options: Mapping[str, Any] | None = None,
    replays: int = 100,
    delta: float | None = None,
    confidence: float = 0.95,
    fixed_queries: bool = False,
    extreme_outputs: bool = True,
    in_process: bool | None = None,
    limits: Limits = NO_LIMITS,
) -> Audit:
    """Replay an algorithm on neighbouring pairs, in both directions.

    Args:
        algorithm: any callable ``(data, curator) -> output``; it is copied before each run, like the data.
        pairs: neighbouring pairs.
        claim: what to refute; by default the algorithm's own ``claim``, if it has one.
        seed: root seed; all noise is drawn from it.
        run_options: further arguments of `dpaudit.run` (unit, neighbouring, trust_model, users, ...).
        replays: recordings in each direction, each of which is replayed; the exact loss is from them.
        delta: where to bound epsilon; by default the claim's own, or 1e-5.
        confidence: of the bound and the verdict together, over all pairs and both directions.
        fixed_queries: the caller states that no query depends on an earlier output: then the loss of all
            Gaussian releases is known in closed form. The statement is checked in every recording.
        in_process: whether to run the algorithm in this process, as a debugger needs; left out, each run of
            one that does not come with dpaudit has a process of its own, so that no cache, module state or
            patched library goes from one run to another.
        limits: on the time and memory of each run in a process of its own.
        extreme_outputs: also make up to 42 recordings in each direction with extremely rare outputs.

    The audit is REFUTED by any finding or where the exact loss contradicts the claim, INCONCLUSIVE where an
    output cannot be compared, a release has no density, or nothing is released on a pair.

    Raises:
        Exception: whatever the algorithm raises on both data sets of a pair, after the same releases;
            raised on one of them alone it is a ``control-flow`` finding.
        InvalidParameter: `replays` below 1 or above 10^9, or `delta` or `confidence` out of range.
    """
    known = 1 <= replays <= MOST_REPLAYS and 0.0 < confidence < 1.0 and (delta is None or 0.0 <= delta < 1.0)
    if not known:
        what = f"{replays} replays, confidence {confidence}, delta {delta}"
        remedy = f"give 1 to {MOST_REPLAYS} replays, a confidence in (0, 1), a delta in [0, 1)"
        raise InvalidParameter(what, where="replay", remedy=remedy)
    options = {"claim": claim, **(run_options or {})}
    same = [pair.description for pair in pairs if _is_one_data_set(pair)]
    claim = claim if claim is not None else getattr(algorithm, "claim", None)
    trust = options.get("trust_model") or (claim and claim.trust_model) or TrustModel.CENTRAL
    relation = options.get("neighbouring") or (claim and claim.neighbouring) or Neighbouring.REPLACE_ONE
    guarantee = claim and claim.guarantee
    own = guarantee.delta if isinstance(guarantee, ApproxDP) else exact_loss.DEFAULT_DELTA
    not_checked = [*LIMITS, *conditions_of(algorithm)]
    not_checked += [Condition(code=Code.FIXED_QUERIES)] if fixed_queries else []
    not_checked += [] if extreme_outputs else [Condition(code=Code.NO_EXTREME_OUTPUTS)]
    with hosting(algorithm, None, pairs, in_process=in_process, limits=limits) as target:
        runs = Runs(
            target.replayed, options, trust_model=TrustModel(trust), neighbouring=Neighbouring(relation)
        )
        audited = _Audited(runs, replays, delta or own, fixed_queries, extreme_outputs)
        audited.reasons += [f"both data sets of the pair {name!r} are the same" for name in same]
        if target.pairs:
            audited.test_samplers(target.pairs[0].data, np.random.SeedSequence([seed, 2 * len(pairs)]))
        for index, pair in enumerate(target.pairs):
            for turn, one in enumerate((pair, replace(pair, data=pair.neighbour, neighbour=pair.data))):
                audited.direction(one, np.random.SeedSequence([seed, 2 * index + turn]))
    figures: dict[str, Any] = {}
    if audited.directions:
        figures = exact_loss.loss_figures(audited.directions, claim, delta, confidence)
    reasons = [*audited.reasons, *figures.pop("inconclusive", ())]
    if not pairs:
        reasons.append("no neighbouring pair was given")
    return Audit(
        method="replay",
        claim=claim,
        pairs=len(pairs),
        trials=replays,
        seed=seed,
        about="transcript",
        findings=tuple(audited.findings.values()),
        inconclusive=tuple(dict.fromkeys(reasons)),
        not_checked=tuple(not_checked),
        **figures,
    )


def _is_one_data_set(pair: Pair) -> bool:
    with suppress(NotComparable):
        return first_difference(pair.data, pair.neighbour) is None
    return False


def _watch(algorithm: Any, *, by_line: bool = False) -> Any:
    """The algorithm inside a `Watch`, which is in the process where the algorithm runs."""
    if isinstance(algorithm, Hosted):
        return algorithm.inside(Watch, by_line=by_line)
    return Watch(fresh(algorithm), by_line=by_line)


@dataclass
class _Audited:
    """The results so far; `target_delta` is the delta at which recordings should be most informative."""

    runs: Runs
    replays: int
    target_delta: float
    fixed_queries: bool
    extreme_outputs: bool
    findings: dict[tuple[str, str | None, str], Finding] = field(default_factory=dict)
    directions: list[exact_loss.Direction] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def note(self, found: Iterable[Finding]) -> None:
        """Keep one finding of each kind and place: the first, or of sensitivities the largest."""
        for finding in found:
            key = finding.kind, finding.label, finding.where
            known = self.findings.get(key)
            if known is None or (finding.measured or 0.0) > (known.measured or 0.0):
                self.findings[key] = finding

    def test_samplers(self, data: Any, seed: np.random.SeedSequence) -> None:
        """Test every mechanism's live noise against its stated distribution."""
        probe = SamplerProbe(seed)
        recorded = self.runs.record(data, probe)
        places = {entry.release.label: entry.where for entry in reversed(recorded.entries)}
        for label, p_value in probe.faulty():
            detail = f"the noise is not distributed as stated: p = {p_value:.3g} over {DRAWS} draws"
            self.note([Finding(kind="sampler", label=label, detail=detail, where=places.get(label, ""))])

    def direction(self, pair: Pair, seed: np.random.SeedSequence) -> None:
        """Audit one pair in one direction."""
        runs = replace(self.runs, unit=pair.unit)
        pilot_seed, extreme_seed = seed.spawn(2)
        pilot = self._watched(runs, pair.data, pilot_seed)
        before = len(self.findings)
        try:
            other = self._first_replays(runs, pilot, pair)
            if other is None:
                return
            if pilot.error is not None:
                if len(self.findings) == before:
                    raise pilot.error
                return
            if self.extreme_outputs:
                for noise in extremes(extreme_seed, pilot.entries, other.entries):
                    with np.errstate(all="ignore"):  # overflow is expected there
                        self._record_and_compare(runs, pair, noise, noise.circumstance, ROUNDING)
            self._losses(runs, pilot, other, pair, seed)
        except likelihood.NoDensity as error:
            self.reasons.append(f"the exact loss is not known: {error}")

    def _record_and_compare(
        self, runs: Runs, pair: Pair, noise: NoiseSource, circumstance: str = "", rounding: float = 0.0
    ) -> tuple[Recording, Recording]:
        """A recording on the data and its replay on the neighbour, after their findings were noted."""
        recorded = runs.record(pair.data, noise)
        other = runs.replay(pair.neighbour, recorded)
        self._compare(runs, recorded, other, circumstance, rounding)
        return recorded, other

    def _compare(
        self, runs: Runs, recorded: Recording, other: Recording, circumstance: str, rounding: float
    ) -> None:
        """Note what differs in the releases, then in the outputs, as far as they can be compared."""
        self.note(runs.between_sides(recorded, other, circumstance=circumstance, rounding=rounding))
        try:
            self.note(runs.leaks(recorded, other))
        except NotComparable as error:
            self.reasons.append(f"outputs cannot be compared bit for bit: {error}")

    def _watched(self, runs: Runs, data: Any, seed: np.random.SeedSequence) -> Recording:
        """The first recording, during which randomness that is not the curator's is detected."""
        watch = _watch(runs.algorithm)
        pilot = replace(runs, algorithm=watch).record(data, LiveNoise(seed))
        if watch.drawn is not None:
            source, where = watch.drawn
            if not where:
                watch = _watch(runs.algorithm, by_line=True)
                replace(runs, algorithm=watch).record(data, LiveNoise(seed))
                source, where = watch.drawn or (source, where)
            detail = f"randomness was drawn from {source}, which no ledger accounts for"
            self.note([Finding(kind="nondeterminism", detail=detail, where=where)])
        return pilot

    def _first_replays(self, runs: Runs, pilot: Recording, pair: Pair) -> Recording | None:
        """The pilot's replay on the neighbour; None where further replays would show nothing more."""
        again = runs.replay(pair.data, pilot)
        repeated = repeat_difference(pilot, again)
        if repeated is None:
            try:
                repeated = first_difference(pilot.output, again.output)
            except NotComparable as error:
                self.reasons.append(f"outputs cannot be compared bit for bit: {error}")
        if repeated is not None:
            # An algorithm with randomness of its own differs from itself, whatever the data.
            detail = (
                f"same data and same noise, yet different: {repeated}; "
                "the algorithm draws randomness that is not the curator's"
            )
            self.note([Finding(kind="nondeterminism", detail=detail)])
            return None
        other = runs.replay(pair.neighbour, pilot)
        self._compare(runs, pilot, other, "", 0.0)
        return None if flow_difference(pilot, other) is not None else other

    def _losses(
        self,
        runs: Runs,
        pilot: Recording,
        other: Recording,
        pair: Pair,
        seed: np.random.SeedSequence,
    ) -> None:
        """The losses of recordings shifted to where the loss is large, each replayed on the neighbour."""
        differences = exact_loss.query_differences(pilot.entries, other.entries)
        shares = likelihood.gaussian_share(pilot.entries, differences)
        mu = float(np.sqrt(sum(share for share, _ in shares)))
        tilts = Tilts.toward(mu, self.target_delta)
        losses, log_weights = np.zeros(self.replays), np.zeros(self.replays)
        same = True
        for i in range(self.replays):
            noise_seed, choice = seed.spawn(1)[0].spawn(2)
            multiple = np.random.default_rng(choice).choice(tilts.multiples, p=tilts.shares)
            noise = TiltedNoise(noise_seed, differences, pilot.entries, float(multiple))
            recorded, replayed = self._record_and_compare(runs, pair, noise)
            if flow_difference(recorded, replayed) is not None:
                return
            entries, others = recorded.entries, replayed.entries
            likelihood.require_densities(entries)
            sides = likelihood.queries_of(entries), likelihood.queries_of(others)
            losses[i] = likelihood.log_ratio(entries, *sides)
            log_weights[i] = noise.log_weight(entries, tilts)
            if self.fixed_queries:
                now = exact_loss.query_differences(entries, others)
                same = same and len(now) == len(differences)  # up to the rounding of the queries
                same = same and all(
                    a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12)
                    for a, b in zip(now, differences, strict=True)
                )
        if not pilot.entries:
            self.reasons.append(NOTHING_RELEASED)
            return
        fixed = exact_loss.FixedPair.of(pilot.entries, other.entries, whole=self.fixed_queries and same)
        sampled = exact_loss.Losses(losses, log_weights, 1.0 + tilts.multiples[-1])
        self.directions.append(exact_loss.Direction(sampled, fixed))
