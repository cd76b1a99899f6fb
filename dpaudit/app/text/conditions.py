"""What was not checked, in sentences: the one place where a condition gets its words."""

from collections.abc import Iterable, Mapping
from typing import Final

from rich.console import RenderableType

from dpaudit.app.text.output import bullets, counted
from dpaudit.app.text.streams import printable
from dpaudit.certificate.conditions import Code, Condition

#: Each stands under the heading "Not checked". Fields in braces are filled from the condition's parameters.
SENTENCES: Final[Mapping[Code, str]] = {
    Code.NO_FOOTER: "that the file holds every release of the run: it has no footer",
    Code.NO_HASHES: "that no line was edited: the file has no hashes",
    Code.DECLARED_SENSITIVITY: "the declared sensitivity of {releases}",
    Code.SCORE_SENSITIVITY: "the declared sensitivity of the scores in {releases}",
    Code.ONE_ANSWER_PER_UNIT: (
        "that one unit gives at most one of the answers randomized in {releases}, and that their number is "
        "public"
    ),
    Code.SMOOTH_BOUND: "that the noise scale of {releases} bounds the local sensitivity and is smooth",
    Code.HIDDEN_SAMPLE: "that it stays secret who was sampled in {releases}",
    Code.SAMPLE_SUMMED: (
        "that each sum is over the units that were drawn for it, and no others, in {releases} ({replayed})"
    ),
    Code.HIDDEN_TURNS: (
        "that it stays secret whose turn is when in {releases}, and that a row is of the same unit in every "
        "step"
    ),
    Code.FRESH_SAMPLES: ("that each release draws a sample of its own: no `sample` is stated by {releases}"),
    Code.JUSTIFIED_GUARANTEE: "the guarantee of {releases}, which its author justifies as follows: {text}",
    Code.STREAM_PLACES: (
        "that items keep their places in the stream of {releases}, so that removing one leaves a zero"
    ),
    Code.INDEPENDENT_TRIALS: (
        "that the trials of {releases} are independent, and that a trial's score and output are made of its "
        "releases alone"
    ),
    Code.STREAM_PARTICIPATIONS: (
        "that items keep their places in the stream of {releases}, so that removing one leaves a zero, and "
        "that no unit is in more of them, or in items less far apart, than the release says"
    ),
    Code.SPLIT_BY_POSITION: (
        "that the parts of a split follow from positions that no change of one unit shifts, not from what "
        "the records say, and that a release on a part looks at no other"
    ),
    Code.SPLIT_BY_VALUES: (
        "that no unit is in two parts of a split by values, and that a release on a part looks at no other"
    ),
    Code.SINGLE_FIGURES_ROUNDED: (
        "the rounding of the figures of single releases, which are float-pessimistic"
    ),
    Code.FIXED_SEQUENCE: "that the sequence of releases is the same for every data set ({replayed})",
    Code.ONLY_THROUGH_LEDGER: "that nothing left the algorithm except through the ledger ({replayed})",
    Code.IN_PROCESS: (
        "that the algorithm's code left dpaudit's own alone: it ran in the process that drew the noise and "
        "wrote the ledger"
    ),
    Code.PUBLIC_STAND_IN: "that the data of the twin, {text}, are public",
    Code.RECORDS_STOP_NOTHING: (
        "that no unit's record stops or delays the run: an output that is late, or never published, would "
        "reveal it"
    ),
    Code.OWN_RECORD: "that what each unit contributes is computed from that unit's record alone",
    Code.MAPPED_RECORDS: (
        "that each record given to `map=` is made of one unit's data, and that the data did not decide which "
        "function is given: dpaudit does not see what the algorithm does before"
    ),
    Code.NOTHING_SHARED: (
        "that the algorithm takes the data from its argument alone, and that its runs leave nothing for each "
        "other outside their processes: in files, in memory that processes share, with other programs, or "
        "by the time that they take"
    ),
    Code.HONEST_WORKER: (
        "that the algorithm's author did not set out to deceive: code written for that could send values "
        "that were not clipped, or change what else the user who ran it may change"
    ),
    Code.FLOATING_POINT_NOISE: (
        "the noise was drawn in floating point, whose grid can reveal more than the real-valued mechanism "
        "(Mironov 2012); the bounds are those of the real-valued mechanism"
    ),
    Code.SEEDED_NOISE: (
        "the noise came from a seed that the caller chose: whoever knows the seed can subtract the noise, so "
        "this run's output must not be published"
    ),
    Code.ASSUMED: "assumed: {text}",
    Code.STATED: "{text}",
    Code.NO_AUDIT: "no audit was run",
    Code.AUDIT_JUDGED_NOTHING: "the claim by experiment, since an audit judged nothing: {text}",
    Code.GIVEN_PAIRS: "a sampling audit covers only the given pairs",
    Code.RARE_EVENTS: (
        "a sampling audit does not see an event that is rarer than its resolution, whatever the event reveals"
    ),
    Code.ROUNDED_SCORES: "the floating-point grid of the noise: scores were rounded before they were tested",
    Code.MU_ONLY: "the audit lower-bounds mu only: a refuted mu says nothing about epsilon",
    Code.GAUSSIAN_CURVE: (
        "that the privacy curve is Gaussian, as the epsilon of a Gaussian curve supposes; the audit itself "
        "lower-bounds mu only"
    ),
    Code.STOPPING_TIME: "that the moment at which {ended_by} ended the runs did not depend on their results",
    Code.INDEPENDENT_CANARIES: (
        "that the canaries were inserted independently, each as a unit of privacy of its own"
    ),
    Code.CANARIES_TIMES_DELTA: (
        "the bound of a one-run audit falls to 0 as the number of canaries times delta grows, however little "
        "is private"
    ),
    Code.REPLAYED_OUTPUTS: (
        "replay covers only the given pairs, and the outputs that the noise took or was set to"
    ),
    Code.UNMOVED: "what releases reveal that no pair moved in a recording of drawn noise ({releases})",
    Code.UNMOVED_SHARE: (
        "what releases reveal that no pair moved in a recording of drawn noise ({releases}); alone they cost "
        "{share} of the whole, in {scale}"
    ),
    Code.UNMOVED_MOST: (
        "what releases reveal that no pair moved in a recording of drawn noise ({releases}); alone they cost "
        "{share} of the whole, in {scale}, half of the budget or more: give a pair that moves them"
    ),
    Code.PAIRS_NOT_SEARCHED: (
        "worse pairs than the given ones: no change is known of records of their kind, they differ in "
        "several, or a unit may have several"
    ),
    Code.ALL_RELEASES: "the bound is for all releases together; the final output alone may reveal less",
    Code.BESIDE_RELEASES: (
        "replay compares only releases and the returned value: not files, prints, global variables, or what "
        "the algorithm does where it is not audited"
    ),
    Code.SAMPLER_RESOLUTION: (
        "the noise of each mechanism is compared with its stated distribution over at most {draws} draws, "
        "which do not show an error of the scale below about 3%"
    ),
    Code.SAMPLERS: "the samplers of {releases}: only some kinds of mechanism are tested, 16 of them at most",
    Code.SAMPLES_UNTESTED: (
        "that each sum is over the units that were drawn for it, in {releases}: no pair has data of which "
        "two samples differ"
    ),
    Code.FIXED_QUERIES: (
        "that no query depends on an earlier output, as the caller stated; none did in any recording"
    ),
    Code.ROUTED_NOISE: (
        "the samplers of {text}: dpaudit drew the noise that its mechanisms state, and took all other "
        "randomness of the library to be public"
    ),
    Code.NO_EXTREME_OUTPUTS: "branches that the noise takes too rarely for any recording to show",
    Code.ACCOUNTANTS_DISAGREE: (
        "which of two accountants is right: the second opinion, by {accountant}, contradicts what is proved"
    ),
    Code.BASELINE: (
        "that the figures of the baseline {path} follow from its ledger: there is no ledger.jsonl beside it"
    ),
}

#: Shown before all others: no experiment has judged the claim.
_FIRST: Final = frozenset({Code.NO_AUDIT, Code.AUDIT_JUDGED_NOTHING})

#: Shown beside an audit's verdict, which says little where they hold.
WARNED: Final = frozenset({Code.UNMOVED_MOST})

_REPLAYED = {False: "an audit by replay tests it", True: "the audit by replay tested it on its pairs"}
_ENDED_BY = {"interrupt": "Ctrl-C", "time-limit": "the time limit"}


def sentence(condition: Condition) -> str:
    """A condition in words, on one line of printable characters."""
    fields = dict(condition)
    if condition.releases is not None:
        releases = condition.releases
        labels = ", ".join(map(repr, releases.labels)) + (", ..." if releases.more_labels else "")
        fields["releases"] = f"{counted(releases.number, 'release', 'releases')}: {labels}"
    if condition.replayed is not None:
        fields["replayed"] = _REPLAYED[condition.replayed]
    if condition.share is not None:
        fields["share"] = f"{100.0 * condition.share:.3g}%"
    if condition.ended_by is not None:
        fields["ended_by"] = _ENDED_BY[condition.ended_by]
    return printable(" ".join(SENTENCES[condition.code].format(**fields).split()))


def sentences(conditions: Iterable[Condition]) -> list[str]:
    """Conditions in words, each once, in their order; that no experiment judged the claim comes first."""
    ordered = sorted(conditions, key=lambda condition: condition.code not in _FIRST)
    return list(dict.fromkeys(map(sentence, ordered)))


def not_checked(conditions: Iterable[Condition]) -> list[RenderableType]:
    """What was not checked, as a list under that heading, but for what `warnings` shows."""
    return bullets("Not checked", sentences(one for one in conditions if one.code not in WARNED))


def warnings(conditions: Iterable[Condition]) -> list[RenderableType]:
    """What stands beside an audit's verdict."""
    return bullets(
        "Warning", [f"not checked: {text}" for text in sentences(c for c in conditions if c.code in WARNED)]
    )
