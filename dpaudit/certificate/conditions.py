"""What a proof or an audit leaves unchecked: a code with parameters, put in words by `dpaudit.app`."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from dpaudit.errors import InvalidParameter
from dpaudit.models import Count, Model

#: So many labels are kept of the releases that rest on a condition.
MOST_LABELS: Final = 5


class Code(StrEnum):
    """What is not checked; docs/publishing/certificate.md says in which words each is shown."""

    # The file of the ledger.
    NO_FOOTER = "no-footer"
    NO_HASHES = "no-hashes"
    # What a release's figures rest on.
    DECLARED_SENSITIVITY = "declared-sensitivity"
    SCORE_SENSITIVITY = "score-sensitivity"
    ONE_ANSWER_PER_UNIT = "one-answer-per-unit"
    SMOOTH_BOUND = "smooth-bound"
    HIDDEN_SAMPLE = "hidden-sample"
    SAMPLE_SUMMED = "sample-summed"
    HIDDEN_TURNS = "hidden-turns"
    FRESH_SAMPLES = "fresh-samples"
    JUSTIFIED_GUARANTEE = "justified-guarantee"
    STREAM_PLACES = "stream-places"
    STREAM_PARTICIPATIONS = "stream-participations"
    INDEPENDENT_TRIALS = "independent-trials"
    SPLIT_BY_POSITION = "split-by-position"
    SPLIT_BY_VALUES = "split-by-values"
    SINGLE_FIGURES_ROUNDED = "single-figures-rounded"
    # The run as a whole.
    FIXED_SEQUENCE = "fixed-sequence"
    ONLY_THROUGH_LEDGER = "only-through-ledger"
    IN_PROCESS = "in-process"
    PUBLIC_STAND_IN = "public-stand-in"
    RECORDS_STOP_NOTHING = "records-stop-nothing"
    OWN_RECORD = "own-record"
    MAPPED_RECORDS = "mapped-records"
    NOTHING_SHARED = "nothing-shared"
    HONEST_WORKER = "honest-worker"
    FLOATING_POINT_NOISE = "floating-point-noise"
    SEEDED_NOISE = "seeded-noise"
    # What its author, or the author of another record, states.
    ASSUMED = "assumed"
    STATED = "stated"
    # Audits, second opinions and baselines.
    NO_AUDIT = "no-audit"
    AUDIT_JUDGED_NOTHING = "audit-judged-nothing"
    GIVEN_PAIRS = "given-pairs"
    RARE_EVENTS = "rare-events"
    ROUNDED_SCORES = "rounded-scores"
    MU_ONLY = "mu-only"
    GAUSSIAN_CURVE = "gaussian-curve"
    STOPPING_TIME = "stopping-time"
    INDEPENDENT_CANARIES = "independent-canaries"
    CANARIES_TIMES_DELTA = "canaries-times-delta"
    REPLAYED_OUTPUTS = "replayed-outputs"
    UNMOVED = "unmoved"
    UNMOVED_SHARE = "unmoved-share"
    UNMOVED_MOST = "unmoved-most"
    PAIRS_NOT_SEARCHED = "pairs-not-searched"
    ALL_RELEASES = "all-releases"
    BESIDE_RELEASES = "beside-releases"
    SAMPLER_RESOLUTION = "sampler-resolution"
    SAMPLERS = "samplers"
    SAMPLES_UNTESTED = "samples-untested"
    FIXED_QUERIES = "fixed-queries"
    NO_EXTREME_OUTPUTS = "no-extreme-outputs"
    ROUTED_NOISE = "routed-noise"
    ACCOUNTANTS_DISAGREE = "accountants-disagree"
    BASELINE = "baseline"


class Releases(Model):
    """The releases that rest on a condition: how many, and their first distinct labels, sorted."""

    number: Count
    labels: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_LABELS)]
    more_labels: bool = False

    @classmethod
    def of(cls, labels: Sequence[str]) -> Self:
        """Releases with these labels, of which there is at least one."""
        distinct = sorted(set(labels))
        first = tuple(distinct[:MOST_LABELS])
        return cls(number=len(labels), labels=first, more_labels=len(distinct) > MOST_LABELS)


#: The codes whose conditions have a parameter, by the parameter's name.
_CODES_WITH: Final[dict[str, set[Code]]] = {
    "releases": {
        Code.DECLARED_SENSITIVITY,
        Code.SCORE_SENSITIVITY,
        Code.ONE_ANSWER_PER_UNIT,
        Code.SMOOTH_BOUND,
        Code.HIDDEN_SAMPLE,
        Code.SAMPLE_SUMMED,
        Code.HIDDEN_TURNS,
        Code.FRESH_SAMPLES,
        Code.JUSTIFIED_GUARANTEE,
        Code.STREAM_PLACES,
        Code.STREAM_PARTICIPATIONS,
        Code.INDEPENDENT_TRIALS,
        Code.UNMOVED,
        Code.UNMOVED_SHARE,
        Code.UNMOVED_MOST,
        Code.SAMPLERS,
        Code.SAMPLES_UNTESTED,
    },
    "share": {Code.UNMOVED_SHARE, Code.UNMOVED_MOST},
    "scale": {Code.UNMOVED_SHARE, Code.UNMOVED_MOST},
    "text": {
        Code.JUSTIFIED_GUARANTEE,
        Code.ASSUMED,
        Code.STATED,
        Code.PUBLIC_STAND_IN,
        Code.ROUTED_NOISE,
        Code.AUDIT_JUDGED_NOTHING,
    },
    "replayed": {Code.SAMPLE_SUMMED, Code.FIXED_SEQUENCE, Code.ONLY_THROUGH_LEDGER},
    "ended_by": {Code.STOPPING_TIME},
    "draws": {Code.SAMPLER_RESOLUTION},
    "accountant": {Code.ACCOUNTANTS_DISAGREE},
    "path": {Code.BASELINE},
}


class Condition(Model):
    """One condition that was not checked.

    Attributes:
        text: what an author states in words of their own: an assumption, or a guarantee's justification; or
            a library's name and version; or why an audit judged nothing.
        replayed: whether an audit by replay tested it on its pairs.
        ended_by: what ended an audit's runs before their planned number.
        draws: of each mechanism's noise, at most.
        share: of the budget, what the releases carry; `scale` is what it is measured in.
        accountant: the one whose figure contradicts the proved one.
        path: of the file whose content is taken on trust.
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
        given = {name for name in _CODES_WITH if getattr(self, name) is not None}
        wanted = {name for name, codes in _CODES_WITH.items() if self.code in codes}
        if given != wanted:
            what = f"a condition {str(self.code)!r} with {', '.join(sorted(given)) or 'no parameters'}"
            remedy = f"give exactly {', '.join(sorted(wanted)) or 'the code alone'}"
            raise InvalidParameter(what, where="Condition", remedy=remedy)
        return self
