"""The conditions that a proof or an audit leaves unchecked: each with its code, occasion and sentence."""

from collections.abc import Sequence
from enum import StrEnum
from string import Formatter
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from dpaudit.errors import InvalidParameter
from dpaudit.models import Count, Model

#: The largest number of labels kept of the releases that rest on a condition.
MOST_LABELS: Final = 5


class Code(StrEnum):
    """The codes of conditions that are not checked; new conditions are added here.

    An entry is the code, the case in which a certificate states it, and on the next lines the sentence.

    Attributes:
        when: that case; it begins with "every" if the condition is general, independent of the run.
        sentence: completes the heading "Not checked:"; a field in braces is a parameter of the condition.
        parameters: the names of the fields in braces.
    """

    when: str
    sentence: str
    parameters: frozenset[str]

    def __new__(cls, entry: str) -> Self:
        """Make a member from its entry."""
        head, _, words = entry.partition("\n")
        made = str.__new__(cls, head.partition(": ")[0])
        made._value_ = str(made)
        made.when, made.sentence = head.partition(": ")[2], " ".join(words.split())
        made.parameters = frozenset(name for _, name, _, _ in Formatter().parse(words) if name)
        return made

    @property
    def general(self) -> bool:
        """Whether every certificate of its kind states it."""
        return self.when.startswith("every ")

    # Special to a run; the most important conditions come first.
    NO_AUDIT = """no-audit: no audit was run
        the claim by experiment: no audit was run"""
    AUDIT_JUDGED_NOTHING = """audit-judged-nothing: an audit is inconclusive
        the claim by experiment: an audit was inconclusive ({text})"""
    SEEDED_NOISE = """seeded-noise: the caller chose the seed of the noise
        the secrecy of the noise: whoever knows the seed that the caller chose can subtract the
        noise, so do not publish this output"""
    NO_FOOTER = """no-footer: the ledger has no footer
        whether the file holds every release of the run: it has no footer"""
    NO_HASHES = """no-hashes: the ledger has no hashes
        whether somebody edited a line: the file has no hashes"""
    ACCOUNTANTS_DISAGREE = """accountants-disagree: a second opinion contradicts the proof
        which of two accountants is right: the second opinion, by {accountant}, contradicts the
        proof"""
    IN_PROCESS = """in-process: the algorithm ran in dpaudit's own process
        whether the algorithm tampered with dpaudit, in whose process it ran"""
    FLOATING_POINT_NOISE = """floating-point-noise: noise was drawn in floating point
        the grid of floating-point noise, which can reveal more than the bounds say (Mironov 2012)"""
    DECLARED_SENSITIVITY = """declared-sensitivity: a sensitivity is declared
        the declared sensitivity of {releases}"""
    SCORE_SENSITIVITY = """score-sensitivity: the sensitivity of a selection's scores is declared
        the declared sensitivity of the scores in {releases}"""
    JUSTIFIED_GUARANTEE = """justified-guarantee: an author justifies a guarantee
        the guarantee of {releases}; its author's justification: {text}"""
    ADDED_MECHANISM = """added-mechanism: another package adds a mechanism
        the cost and the noise of {text}, in {releases}"""
    ADDED_AUDITOR = """added-auditor: another package adds the method of an audit
        the bound and the verdict of {text}"""
    SMOOTH_BOUND = """smooth-bound: noise follows a smooth sensitivity
        whether the noise scale bounds the local sensitivity and is smooth, in {releases}"""
    ONE_ANSWER_PER_UNIT = """one-answer-per-unit: answers are randomized one by one
        whether each unit gives at most one answer, and the number of answers is public, in
        {releases}"""
    HIDDEN_SAMPLE = """hidden-sample: a release is on a secret sample
        whether the sample stays secret, in {releases}"""
    SAMPLE_SUMMED = """sample-summed: a sum is on a sample
        whether each sum contains exactly the units drawn for it, in {releases} ({replayed})"""
    SAMPLES_UNTESTED = """samples-untested: a replay could not compare two samples
        whether each sum contains exactly the units drawn for it: no pair tests it in {releases}"""
    HIDDEN_TURNS = """hidden-turns: a participation schedule is random
        whether participations stay secret, and rows keep their units in all steps, in {releases}"""
    FRESH_SAMPLES = """fresh-samples: several runs are on samples without a name
        whether each run of a release without a `sample` draws its own sample: {releases}"""
    STREAM_PLACES = """stream-places: a stream is summed
        whether a removed item leaves a zero at its place in the stream, in {releases}"""
    STREAM_PARTICIPATIONS = """stream-participations: units take part in a stream several times
        whether a removed item leaves a zero at its place in the stream, and each unit keeps the
        stated number and separation of participations, in {releases}"""
    INDEPENDENT_TRIALS = """independent-trials: the best of several trials is released
        whether trials are independent, and each one's result depends on its releases alone, in
        {releases}"""
    SPLIT_BY_POSITION = """split-by-position: a split is by position
        whether parts depend on positions that no unit can shift, and a release on a part reads no
        other"""
    SPLIT_BY_VALUES = """split-by-values: a split is by values
        whether each unit is in one part of a split by values, and a release on a part reads no
        other"""
    PUBLIC_STAND_IN = """public-stand-in: the run has a twin
        whether the twin's data are public: {text}"""
    OWN_RECORD = """own-record: the run has a twin, and a release is not of mapped records
        whether each unit's contribution is computed from that unit's record alone"""
    UNMOVED_MOST = """unmoved-most: releases that no pair changed cost half of the budget or more
        leaks in releases that no pair changed in a recording with drawn noise ({releases}); they
        cost {share} of the total {scale}, half of the budget or more: give a pair of public data
        that changes them (`--pair`)"""
    UNMOVED_SHARE = """unmoved-share: releases that no pair changed cost less than half of the budget
        leaks in releases that no pair changed in a recording with drawn noise ({releases}); they
        cost {share} of the total {scale}"""
    UNMOVED = """unmoved: releases that no pair changed have no known cost
        leaks in releases that no pair changed in a recording with drawn noise ({releases})"""
    PAIRS_NOT_SEARCHED = """pairs-not-searched: a replay did not search for worse pairs
        pairs with other records: the search changes one record, but these pairs differ in several
        records, their data are of an unknown kind, or one unit may have several records"""
    FIXED_QUERIES = """fixed-queries: the caller states that queries are fixed
        whether a query depends on an earlier output: the caller denies it, and no recording shows
        it"""
    NO_EXTREME_OUTPUTS = """no-extreme-outputs: a replay set no noise to an extreme
        branches that the noise takes too rarely for any recording to show"""
    SAMPLERS = """samplers: a replay left samplers out
        the samplers of {releases}: only some kinds of mechanism are tested, and at most 16
        mechanisms"""
    ROUTED_NOISE = """routed-noise: another library's noise is routed through the curator
        the samplers of {text}: dpaudit drew the noise that it states, and took the rest as public"""
    STOPPING_TIME = """stopping-time: a sampling audit ended early
        whether the moment at which {ended_by} ended the runs is independent of their results"""
    BASELINE = """baseline: the gate compares with a certificate that has no ledger
        whether the figures of the baseline {path} follow from its ledger: no ledger.jsonl stands
        beside it"""
    ASSUMED = """assumed: the author states an assumption
        assumed: {text}"""
    STATED = """stated: another library's record states it
        {text}"""

    # General: these apply to every certificate of their kind.
    ONLY_THROUGH_LEDGER = """only-through-ledger: every ledger without a twin
        whether anything left the algorithm outside the ledger ({replayed})"""
    FIXED_SEQUENCE = """fixed-sequence: every ledger without a filter and without a twin
        whether the sequence of releases is the same for every data set ({replayed})"""
    RECORDS_STOP_NOTHING = """records-stop-nothing: every run
        whether a unit's record can stop or delay the run: a late or missing output would reveal it"""
    HONEST_WORKER = """honest-worker: every run in a process of its own
        whether the author is honest: hostile code could send unclipped values, or do all that its
        user may"""
    NOTHING_SHARED = """nothing-shared: every run with a twin
        whether the algorithm takes data from its argument alone, and its runs exchange nothing
        through files, shared memory, other programs or timing"""
    MAPPED_RECORDS = """mapped-records: every run with a twin whose releases are all of mapped records
        whether each record given to `map=` holds one unit's data, and the data did not choose the
        function"""
    SINGLE_FIGURES_ROUNDED = """single-figures-rounded: every proof by interval arithmetic
        the rounding of the figures of single releases, which are float-pessimistic"""
    REPLAYED_OUTPUTS = """replayed-outputs: every audit by replay
        pairs other than the given ones, and noise values that the replay neither drew nor set"""
    ALL_RELEASES = """all-releases: every audit by replay
        the final output alone: the bound is for all releases together, and the output may reveal
        less"""
    BESIDE_RELEASES = """beside-releases: every audit by replay
        files, prints, global variables and behaviour outside an audit: a replay compares none of
        them"""
    SAMPLER_RESOLUTION = """sampler-resolution: every audit by replay
        errors of a noise scale below about 3%, which {draws} draws of each mechanism do not show"""
    GIVEN_PAIRS = """given-pairs: every sampling audit
        pairs other than the given ones, in a sampling audit"""
    RARE_EVENTS = """rare-events: every sampling audit
        events rarer than a sampling audit's resolution, whatever they reveal"""
    ROUNDED_SCORES = """rounded-scores: every sampling audit that does not attack the grid
        the floating-point grid of the noise: the audit rounded the scores before it tested them"""
    MU_ONLY = """mu-only: every audit of a Gaussian trade-off
        epsilon: the audit bounds mu alone, and a refuted mu says nothing about epsilon"""
    GAUSSIAN_CURVE = """gaussian-curve: every one-run audit of mu
        whether the privacy curve is Gaussian, as the stated epsilon assumes: the audit bounds mu
        alone"""
    INDEPENDENT_CANARIES = """independent-canaries: every one-run audit
        whether the canaries were inserted independently, each as a unit of privacy of its own"""
    CANARIES_TIMES_DELTA = """canaries-times-delta: every one-run audit at a positive delta
        leaks that one run cannot show: the bound falls to 0 as the number of canaries times delta
        grows"""


class Releases(Model):
    """The releases that rest on a condition: their number, and their first distinct labels, sorted."""

    number: Count
    labels: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_LABELS)]
    more_labels: bool = False

    @classmethod
    def of(cls, labels: Sequence[str]) -> Self:
        """Return the releases with these labels, at least one."""
        distinct = sorted(set(labels))
        first = tuple(distinct[:MOST_LABELS])
        return cls(number=len(labels), labels=first, more_labels=len(distinct) > MOST_LABELS)


class Condition(Model):
    """One condition that was not checked.

    Attributes:
        text: an author's own words (an assumption, or a guarantee's justification); or a library's name and
            version; or the reason why an audit judged nothing.
        replayed: whether an audit by replay tested it on its pairs.
        ended_by: the event that ended an audit's runs before their planned number.
        draws: the largest number of draws of each mechanism's noise.
        share: the releases' share of the budget; `scale` is its measure.
        accountant: the accountant that contradicts the proved figure.
        path: the path of the file that is taken on trust.
    """

    code: Code
    releases: Releases | None = None
    text: str | None = None
    replayed: bool | None = None
    ended_by: Literal["interrupt", "time-limit"] | None = None
    draws: Count | None = None
    share: Annotated[float, Field(ge=0, le=1, strict=True, allow_inf_nan=False)] | None = None
    scale: str | None = None
    accountant: str | None = None
    path: str | None = None

    @model_validator(mode="after")
    def _has_its_parameters(self) -> Self:
        given = {name for name, value in self if name != "code" and value is not None}
        wanted = self.code.parameters
        if given != wanted:
            what = f"a condition {str(self.code)!r} with {', '.join(sorted(given)) or 'no parameters'}"
            remedy = f"give exactly {', '.join(sorted(wanted)) or 'the code alone'}"
            raise InvalidParameter(what, where="Condition", remedy=remedy)
        return self
