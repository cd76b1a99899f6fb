"""Replay: the white-box audit.

Run the algorithm on one data set and record every release; run it on a neighbour with each release
forced to return the recorded output. Any remaining difference is not in the ledger, and the likelihood
of the recording on either side gives the pair's exact privacy loss. The method goes back to DPCheck (Zhang,
Roth, Haeberlen, Pierce, Roth 2020) and dp-recorder (Cebere et al. 2026).
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from dpaudit.auditors.comparison.output_comparison import NotComparable, first_difference
from dpaudit.auditors.replay import exact_loss, likelihood
from dpaudit.auditors.replay.forced_outputs import extremes
from dpaudit.auditors.replay.forced_samples import SampleTest, runs_needed
from dpaudit.auditors.replay.hidden_samples import Unit, best_excess
from dpaudit.auditors.replay.importance_sampling import TiltedNoise, Tilts
from dpaudit.auditors.replay.pair_search import WorsePair, require_records, search
from dpaudit.auditors.replay.public_noise import public_noise
from dpaudit.auditors.replay.recording import (
    Recording,
    Runs,
    flow_difference,
    fresh,
    one_more,
    repeat_difference,
)
from dpaudit.auditors.replay.rng_tripwire import Watch
from dpaudit.auditors.replay.sampler_check import DRAWS, SamplerProbe
from dpaudit.auditors.replay.smallest_pair import DescribedPair, described, smallest_pair
from dpaudit.auditors.replay.worse_pairs import CandidatePair, SearchResult, search_records
from dpaudit.certificate.conditions import Code, Condition, Releases
from dpaudit.certificate.verdicts import Audit, Experiment, Finding
from dpaudit.claims.arguments import checked
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import AnyGuarantee, ApproxDP, PureDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, TrustModel, View
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise, NoiseSource
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.releases import Release
from dpaudit.processes.host import NO_LIMITS, Host, Limits
from dpaudit.processes.hosted import Hosted
from dpaudit.processes.hosting import conditions_of, hosting, is_own
from dpaudit.progress import Work

#: At extreme outputs a query may also exceed its sensitivity by this fraction of its own size: later
#: queries computed from such outputs have coarse rounding.
ROUNDING = 2.0**-48

#: The default numbers of replays in each direction: at first, and at most.
FIRST, MOST = 6, 100

#: Separates the seeds of forced samples, and of custom samplers, from all other seeds.
_OF_SAMPLES, _OF_SAMPLERS = 0xC0125, 0x09A9E
#: The number of recordings on a pair that a search found.
_CONFIRMING = 5

#: A billion replays of the shortest algorithm take days.
MOST_REPLAYS = 10**9

LIMITS = (
    Condition(code=Code.REPLAYED_OUTPUTS),
    Condition(code=Code.ALL_RELEASES),
    Condition(code=Code.BESIDE_RELEASES),
    Condition(code=Code.SAMPLER_RESOLUTION, draws=DRAWS),
)
#: Computes a share and its scale from some releases of a recording, the rest, the relation and the group
#: size.
BudgetShare: TypeAlias = Callable[
    [Sequence[Release], Sequence[Release], Neighbouring, int], tuple[float, str] | None
]
ONE_UNIT = "give two that differ in one unit of privacy"
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
    replays: int | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    fixed_queries: bool = False,
    extreme_outputs: bool = True,
    in_process: bool | None = None,
    limits: Limits = NO_LIMITS,
    search_pairs: bool | None = None,
    search_seconds: float | None = None,
    keep_pair: Callable[[str], object] | None = None,
    budget_share: BudgetShare | None = None,
) -> Audit:
    """Replay an algorithm on neighbouring pairs, in both directions.

    >>> from dpaudit import L1, Claim, Laplace, Pair, PureDP, replay
    >>> def leaks(rows, curator):
    ...     noisy = curator.release(len(rows), Laplace(scale=2.0, sensitivity=L1(1.0)), label="count")
    ...     return noisy, max(rows)  # a leak past the curator
    >>> claim = Claim(PureDP(epsilon=0.5), unit="row", neighbouring="add-or-remove-one")
    >>> [one.kind for one in replay(leaks, [Pair([1, 9], [1])], claim=claim, in_process=True).findings]
    ['leak']

    Args:
        algorithm: any callable ``(data, curator) -> output``; it is copied before each run, like the data.
        pairs: neighbouring pairs.
        claim: what to refute; by default the algorithm's own ``claim``, if it has one.
        seed: root seed; all noise is drawn from it.
        run_options: further arguments of `dpaudit.run` (unit, neighbouring, trust_model, users, ...).
        replays: recordings in each direction, each replayed on the neighbour; they determine the exact loss.
            Default: 6, and up to 100 while the evidence against the claim grows fast enough to refute it
            within these; with fewer recordings of extreme outputs.
        delta: where to bound epsilon; by default the claim's own, or 1e-5.
        confidence: of the bound and the verdict together, over all pairs and both directions.
        fixed_queries: the caller states that no query depends on an earlier output: then the loss of all
            Gaussian releases is known in closed form. The statement is checked in every recording.
        in_process: whether to run the algorithm in this process, as a debugger needs. By default each run
            has its own process, so that no cache, module state or patched library passes from one run to
            another; algorithms that come with dpaudit run in this process.
        limits: on the time and memory of each run in a process of its own.
        search_pairs: None tries other pairs of the given records, in up to 64 runs, unless the algorithm
            comes with dpaudit. True tries them for every algorithm, and also looks for a worse pair with
            other values, in up to 120 runs, and audits it. False searches nothing.
        search_seconds: time after which the search among the given records begins no further run.
        keep_pair: called if a public pair refutes the claim. Its argument is the source of a module with a
            function ``pair`` that makes the smallest refuting pair found.
        budget_share: computes the cost of some releases as a share of the total, and its scale. By default
            releases that no pair moved are named without their share.
        extreme_outputs: also make recordings with extremely rare outputs: up to 42 in each direction, or
            15 without `replays`.

    The audit is REFUTED by any finding or if the exact loss contradicts the claim. It is INCONCLUSIVE if an
    output cannot be compared, a release has no density, or nothing is released on a pair.

    Raises:
        Exception: an error of the algorithm on both data sets of a pair, after the same releases; an error on
            one of them alone is a ``control-flow`` finding.
        UsageError: a search for pairs is requested, but the claim's unit may have several records.
        InvalidParameter: `replays` below 1 or above 10^9, or `delta` or `confidence` out of range.
    """
    _require_in_range(replays, confidence, delta)
    options = {"claim": claim, **(run_options or {})}
    same = [pair.description for pair in pairs if _is_one_data_set(pair)]
    claim = claim if claim is not None else getattr(algorithm, "claim", None)
    trust = options.get("trust_model") or (claim and claim.trust_model) or TrustModel.CENTRAL
    relation = options.get("neighbouring") or (claim and claim.neighbouring) or Neighbouring.REPLACE_ONE
    unit = options.get("unit") or (claim and claim.unit) or "record"
    if search_pairs:
        require_records(unit)
    until = None if search_seconds is None else time.monotonic() + search_seconds
    guarantee = None if claim is None else claim.guarantee
    own = guarantee.delta if isinstance(guarantee, ApproxDP) else exact_loss.DEFAULT_DELTA
    not_checked = [*LIMITS, *conditions_of(algorithm)]
    not_checked += [Condition(code=Code.FIXED_QUERIES)] if fixed_queries else []
    not_checked += [] if extreme_outputs else [Condition(code=Code.NO_EXTREME_OUTPUTS)]
    hosted = hosting(algorithm, None, pairs, in_process=in_process, limits=limits)
    with Work("replays") as work, hosted as target:
        replayed: Any = target.replayed
        if isinstance(replayed, Hosted):  # under joint trust parts of outputs are compared
            replayed = replace(replayed, unread=TrustModel(trust) is not TrustModel.JOINT)
        runs = Runs(replayed, options, trust_model=TrustModel(trust), neighbouring=Neighbouring(relation))
        runs = runs.held_to_public(target.pairs, seed)
        searches = search_pairs or (search_pairs is None and not is_own(replayed))
        searched = search(runs, target.pairs, seed=seed) if search_pairs else WorsePair(None, 0)
        audited_pairs = [*target.pairs, *searched.pairs]
        tests = exact_loss.number_of_tests(max(1, 2 * len(audited_pairs)), guarantee, delta)
        needed = math.log(tests / (1.0 - confidence))
        wanted = guarantee if claim is not None and claim.view is View.ALL_RELEASES else None
        plan = ReplayPlan(replays, extreme_outputs, wanted, needed, len(audited_pairs), work)
        audited = _Audited(replace(runs, ran=plan.ran), plan, delta or own, fixed_queries)
        audited.reasons += [f"both data sets of the pair {name!r} are the same: {ONE_UNIT}" for name in same]
        if audited_pairs:
            last = np.random.SeedSequence([seed, 2 * len(audited_pairs)])
            not_checked += audited.test_samplers(audited_pairs[0].data, last)
        for index, pair in enumerate(audited_pairs):
            audited.both_directions(index, pair, seed)
        more = audited.search(target.pairs if searches else (), seed=seed, unit=unit, until=until)
        not_searched = searches and pairs and not more.possible and not searched.tried
        not_checked += [Condition(code=Code.PAIRS_NOT_SEARCHED)] if not_searched else []
        not_checked += audited.unmoved(budget_share, int(options.get("group_size", 1)))
        figures: dict[str, Any] = audited.figures(claim, delta, confidence)
        not_checked += audited.samples_untested(figures)
        none_given = [] if pairs else ["no neighbouring pair was given"]
        reasons = [*audited.reasons, *figures.pop("inconclusive", ()), *none_given]
        made = Audit(
            method="replay",
            claim=claim,
            pairs=len(audited_pairs) + (more.candidate is not None),
            trials=replays or max((len(one.losses.losses) for one in audited.directions), default=FIRST),
            seed=seed,
            about="transcript",
            findings=tuple(audited.findings.values()),
            searched="; ".join([*searched.words(), *more.words()]) or None,
            inconclusive=tuple(dict.fromkeys(reasons)),
            not_checked=tuple(not_checked),
            **figures,
        )
        smallest = audited.smallest(made, unit, delta)
    if smallest is None:
        return made
    if keep_pair is not None and smallest.source is not None:
        keep_pair(smallest.source)
    return made.model_copy(update={"smallest_pair": smallest.words})


def _require_in_range(replays: int | None, confidence: float, delta: float | None) -> None:
    known = replays is None or 1 <= replays <= MOST_REPLAYS
    known = known and 0.0 < confidence < 1.0 and (delta is None or 0.0 <= delta < 1.0)
    if not known:
        what = f"{replays} replays, confidence {confidence}, delta {delta}"
        remedy = f"give 1 to {MOST_REPLAYS} replays, a confidence in (0, 1), a delta in [0, 1)"
        raise InvalidParameter(what, where="replay", remedy=remedy)


def _is_one_data_set(pair: Pair) -> bool:
    with suppress(NotComparable):
        return first_difference(pair.data, pair.neighbour) is None
    return False


def _watch(algorithm: Any, *, by_line: bool = False) -> Any:
    """Return the algorithm inside a `Watch`, in the process that runs the algorithm."""
    if isinstance(algorithm, Hosted):
        return algorithm.inside(Watch, by_line=by_line)
    return Watch(fresh(algorithm), by_line=by_line)


@dataclass
class ReplayPlan:
    """The number of recordings in each direction, and the progress of their runs.

    `replays` fixes the number. Without it the number follows the evidence against a `guarantee`, if there is
    one: the logarithm of an e-value that must reach `needed`.
    """

    replays: int | None
    extreme_outputs: bool
    guarantee: AnyGuarantee | None
    needed: float
    pairs: int
    work: Work
    #: Runs so far; the start and the expected end of this direction; the remaining directions.
    done: int = 0
    _begun: int = 0
    _until: int = 1
    _left: int = 0

    def begin(self, direction: int) -> None:
        """Begin a direction of a pair, by its index from 0."""
        self._begun, self._left = self.done, 2 * self.pairs - direction - 1
        self._until = self.done + 3 + 2 * (self.replays or FIRST)

    def expect(self, runs: int) -> None:
        """Expect this number of further runs in this direction, and the same in later directions."""
        self._until += runs

    def ran(self) -> None:
        """Note that one more run was made."""
        self.done += 1
        expected = self._until + self._left * (self._until - self._begun)
        self.work(self.done, total=max(self.done, expected))

    def goes_on(self, made: int, losses: Callable[[], exact_loss.Losses], *, decided: bool) -> bool:
        """Return whether to make another recording after this number; decided at each doubling.

        The e-value is valid whenever recordings end, so it may itself decide when they end.
        """
        if self.replays is not None or made < FIRST:
            return made < (self.replays or FIRST)
        if made >= MOST:
            return False
        doublings, rest = divmod(made, FIRST)
        if rest or doublings & (doublings - 1):
            return True
        if decided or self.guarantee is None or isinstance(self.guarantee, PureDP):
            return False
        evidence = losses().evidence(self.guarantee)
        goes_on = evidence < self.needed <= evidence * MOST / made
        self.expect(2 * (min(2 * made, MOST) - made) if goes_on else 0)
        return goes_on


@dataclass
class _Audited:
    """The results so far; `target_delta` is the delta at which recordings should be most informative."""

    runs: Runs
    plan: ReplayPlan
    target_delta: float
    fixed_queries: bool
    findings: dict[tuple[str, str | None, str], Finding] = field(default_factory=dict)
    directions: list[exact_loss.Direction] = field(default_factory=list)
    losing: list[Pair] = field(default_factory=list)  # the pair of each direction
    reasons: list[str] = field(default_factory=list)
    made: Sequence[Release] = ()
    samples: SampleTest = field(default_factory=SampleTest)
    #: The pair on which the first finding was made.
    shown: Pair | CandidatePair | None = None

    def note(self, found: Iterable[Finding]) -> None:
        """Keep one finding of each kind and place: the first one, or the largest sensitivity."""
        for finding in found:
            key = finding.kind, finding.label, finding.where
            known = self.findings.get(key)
            if known is None or (finding.measured or 0.0) > (known.measured or 0.0):
                self.findings[key] = finding

    def unmoved(self, budget_share: BudgetShare | None, group_size: int) -> list[Condition]:
        """Name the releases of the longest first recording that no pair moved, with their cost."""
        still = [release for release in self.made if release.label not in self.runs.moved]
        if not still:
            return []
        releases = Releases.of([release.label for release in still])
        rest = [release for release in self.made if release.label in self.runs.moved]
        found = budget_share and budget_share(still, rest, self.runs.neighbouring, group_size)
        if not found:
            return [Condition(code=Code.UNMOVED, releases=releases)]
        code = Code.UNMOVED_MOST if found[0] >= 0.5 else Code.UNMOVED_SHARE
        return [Condition(code=code, releases=releases, share=found[0], scale=found[1])]

    def test_samplers(self, data: Any, seed: np.random.SeedSequence) -> list[Condition]:
        """Test every mechanism's live noise against its stated distribution; return the untested labels."""
        probe = SamplerProbe(seed)
        recorded = self.runs.record(data, probe)
        made = zip(reversed(recorded.transcript.entries), reversed(recorded.entries), strict=True)
        places = {own.release.label: (entry.release.label, entry.where) for own, entry in made}
        for label, p_value in probe.faulty():
            detail = f"the noise is not distributed as stated: p = {p_value:.3g} over {DRAWS} draws"
            shown, where = places.get(label, (None, ""))
            self.note([Finding(kind="sampler", label=shown, detail=detail, where=where)])
        untested = [places[label][0] for label in probe.untested()]
        return [Condition(code=Code.SAMPLERS, releases=Releases.of(untested))] if untested else []

    def direction(self, pair: Pair, seed: np.random.SeedSequence, *, turned: bool) -> None:
        """Audit one pair in one direction."""
        runs = replace(self.runs, unit=pair.unit, one_more=one_more(pair))
        pilot_seed, extreme_seed = seed.spawn(2)
        pilot = self._watched(runs, pair.data, pilot_seed)
        before = len(self.findings)
        try:
            other = self._first_replays(runs, pilot, pair)
            if other is None:
                return
            if pilot.error is not None:
                if len(self.findings) == before:
                    raise runs.failure(pilot.error)
                return
            self._samples(runs, pilot, pair, seed)
            if self.plan.extreme_outputs:
                how: dict[str, bool] = {"turned": turned, "singly": self.plan.replays is not None}
                made = list(extremes(extreme_seed, pilot.transcript.entries, other.entries, **how))
                self.plan.expect(2 * len(made))
                for noise in made:
                    with np.errstate(all="ignore"):  # overflow is expected there
                        self._record_and_compare(runs, pair, noise, noise.circumstance(runs.public), ROUNDING)
            self._losses(runs, pilot, other, pair, seed)
        except likelihood.NoDensity as error:
            if any(entry.release.mechanism.drawn_by_caller for entry in pilot.transcript.entries):
                self.note(
                    public_noise(
                        runs, pilot, pair, np.random.SeedSequence([*seed.generate_state(4), _OF_SAMPLERS])
                    )
                )
            self.reasons.append(f"the exact loss is not known: {error}")

    def figures(self, claim: Claim | None, delta: float | None, confidence: float) -> dict[str, Any]:
        """Return the figures of the exact loss over all directions."""
        return exact_loss.loss_figures(self.directions, claim, delta, confidence) if self.directions else {}

    def samples_untested(self, figures: dict[str, Any]) -> list[Condition]:
        """Return the condition that names releases with untested samples, after all pairs.

        The exact loss assumes that the sums use the stated samples; if that was not tested, the detection
        limit is unknown.
        """
        self.note(self.samples.unmoved())
        if not (untested := self.samples.untested):
            return []
        figures.pop("largest_refutable_epsilon", None)
        return [Condition(code=Code.SAMPLES_UNTESTED, releases=Releases.of(untested))]

    def _samples(self, runs: Runs, pilot: Recording, pair: Pair, seed: np.random.SeedSequence) -> None:
        """Test that sums are over the drawn samples, if the algorithm learns who was drawn."""
        if needed := runs_needed(pilot):
            self.plan.expect(needed)
            own = np.random.SeedSequence([*seed.generate_state(4).tolist(), _OF_SAMPLES])
            self.note(self.samples.direction(runs, pilot, pair, own))

    def both_directions(self, index: int, pair: Pair, seed: int) -> None:
        """Audit the pair with this index in both directions."""
        for turn, one in enumerate((pair, replace(pair, data=pair.neighbour, neighbour=pair.data))):
            self.plan.begin(2 * index + turn)
            self.direction(one, np.random.SeedSequence([seed, 2 * index + turn]), turned=turn == 1)
            self.shown = one if self.findings and self.shown is None else self.shown

    @property
    def host(self) -> Host | None:
        """Return the process that runs the algorithm, if it is not this process."""
        return self.runs.algorithm.host if isinstance(self.runs.algorithm, Hosted) else None

    def search(self, pairs: Sequence[Pair], *, seed: int, unit: str, until: float | None) -> SearchResult:
        """Search from these pairs if nothing was found, and run a pair that shows a difference again."""
        if self.findings or not pairs:
            return SearchResult(possible=bool(self.findings))
        searched = search_records(self.runs, pairs, seed=seed, unit=unit, host=self.host, until=until)
        if searched.candidate is not None:
            self.shown = searched.candidate
            self.confirm(searched.candidate.pair(), np.random.SeedSequence([seed, 0xC0F1]))
        return searched

    def smallest(self, audit: Audit, unit: str, delta: float | None) -> DescribedPair | None:
        """Return the smallest pair tried that still refutes, by the first finding or else by its loss."""
        claimed = None if audit.claim is None else audit.claim.guarantee
        wanted = next(iter(self.findings.values()), claimed)
        if audit.verdict is not Experiment.REFUTED or wanted is None:
            return None
        start: Pair | CandidatePair | None = self.shown
        if not self.findings:
            start = max(zip(self.directions, self.losing, strict=True), key=lambda one: one[0].size())[1]
        if isinstance(start, Pair):
            start = CandidatePair.of(start, unit, self.host)
        if start is None:
            return None
        made = smallest_pair(self.runs, start, wanted, seed=audit.seed)
        if not self.findings and (made is None or not self._refuted_by_loss(made.pair(), audit, delta)):
            made = start
        if made is None:
            return None
        private = self.runs.public is not None or made.base.stand_ins is not None
        return described(made, private=private, host=self.host)

    def _refuted_by_loss(self, pair: Pair, audit: Audit, delta: float | None) -> bool:
        """Return whether the loss of this pair alone, in fresh recordings, refutes the claim."""
        plan = replace(self.plan, extreme_outputs=False, pairs=1)
        again = _Audited(self.runs, plan, self.target_delta, self.fixed_queries)
        try:
            again.direction(pair, np.random.SeedSequence([audit.seed, 0x5E1F]), turned=False)
        except Exception:  # noqa: BLE001  (an algorithm may raise on smaller data)
            return False
        if again.findings or audit.confidence is None:
            return False
        figures = again.figures(audit.claim, delta, audit.confidence)
        figures.pop("inconclusive", None)
        return audit.model_copy(update=figures).verdict is Experiment.REFUTED

    def confirm(self, pair: Pair, seed: np.random.SeedSequence) -> None:
        """Compare recordings of fresh noise with their replays, on a pair that a search found.

        Some faults, for example a stop at a threshold, show only with some noise: so several recordings are
        made.
        """
        runs = replace(self.runs, unit=pair.unit, one_more=one_more(pair))
        for one in seed.spawn(_CONFIRMING):
            self._first_replays(runs, self._watched(runs, pair.data, one), pair)
            if self.findings:
                return

    def _record_and_compare(
        self, runs: Runs, pair: Pair, noise: NoiseSource, circumstance: str = "", rounding: float = 0.0
    ) -> tuple[Recording, Recording]:
        """Return a recording on the data and its replay on the neighbour; note their findings."""
        recorded = runs.record(pair.data, noise)
        other = runs.replay(pair.neighbour, recorded)
        self._compare(runs, recorded, other, circumstance, rounding)
        return recorded, other

    def _compare(
        self, runs: Runs, recorded: Recording, other: Recording, circumstance: str, rounding: float
    ) -> None:
        """Note the differences of the releases, then of the outputs, as far as these can be compared."""
        self.note(runs.between_sides(recorded, other, circumstance=circumstance, rounding=rounding))
        try:
            self.note(runs.leaks(recorded, other))
        except NotComparable as error:
            self._not_comparable(error)

    def _not_comparable(self, error: NotComparable) -> None:
        reason = "outputs cannot be compared bit for bit"
        self.reasons.append(self.runs.words(f"{reason}: {error}", reason))

    def _watched(self, runs: Runs, data: Any, seed: np.random.SeedSequence) -> Recording:
        """Make the first recording, and detect randomness from outside the curator during it."""
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
        """Return the pilot's replay on the neighbour; None if further replays would show nothing more."""
        again = runs.replay(pair.data, pilot)
        repeated = repeat_difference(pilot, again)
        if repeated is None:
            try:
                repeated = first_difference(pilot.output, again.output)
                repeated = repeated and runs.words(repeated, "the output")
            except NotComparable as error:
                self._not_comparable(error)
        if repeated is not None:
            # An algorithm with its own randomness differs between runs on the same data.
            detail = (
                f"same data and same noise, yet different: {repeated}; "
                "the algorithm draws randomness that is not the curator's"
            )
            self.note([Finding(kind="nondeterminism", detail=detail)])
            return None
        other = runs.replay(pair.neighbour, pilot)
        own = [entry for entry in pilot.entries if entry.user == pilot.entries[0].user]  # one user's
        first = {entry.number: entry.release for entry in own}
        self.made = max(self.made, tuple(first.values()), key=len)
        self._compare(runs, pilot, other, "", 0.0)
        return None if flow_difference(pilot, other) is not None else other

    def _losses(
        self, runs: Runs, pilot: Recording, other: Recording, pair: Pair, seed: np.random.SeedSequence
    ) -> None:
        """Return the losses of recordings shifted to a large loss, each replayed on the neighbour."""
        differences = exact_loss.query_differences(pilot.entries, other.entries)
        shares = likelihood.gaussian_share(pilot.entries, differences)
        square = sum(share for share, _ in shares)
        units = [Unit.of(*pair) for pair in zip(pilot.entries, other.entries, strict=True)]
        lines = [unit.line(entry) for unit, entry in zip(units, pilot.entries, strict=True) if unit]
        if shapes := [line[0] for line in lines if line]:
            tilts = Tilts.by(best_excess(shapes, square, self.target_delta))
        else:
            tilts = Tilts.toward(math.sqrt(square), self.target_delta)
        losses: list[float] = []
        log_weights: list[float] = []

        def sampled() -> exact_loss.Losses:
            return exact_loss.Losses(np.array(losses), np.array(log_weights), 1.0 + tilts.multiples[-1])

        same = True
        while self.plan.goes_on(len(losses), sampled, decided=bool(self.findings)):
            noise_seed, choice = seed.spawn(1)[0].spawn(2)
            multiple = np.random.default_rng(choice).choice(tilts.multiples, p=tilts.shares)
            noise = TiltedNoise(noise_seed, differences, pilot.entries, float(multiple), units)
            recorded, replayed = self._record_and_compare(runs, pair, noise)
            if flow_difference(recorded, replayed) is not None:
                return
            entries, others = recorded.entries, replayed.entries
            likelihood.require_densities(entries)
            sides = likelihood.queries_of(entries), likelihood.queries_of(others)
            losses.append(likelihood.log_ratio(entries, *sides))
            log_weights.append(noise.log_weight(entries, tilts))
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
        self.directions.append(exact_loss.Direction(sampled(), fixed))
        self.losing.append(pair)
