"""One run of an algorithm with all its questions, how two runs differ, and how far queries moved."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from dpaudit.auditors.comparison.output_comparison import NotComparable, first_difference
from dpaudit.auditors.replay.likelihood import releases_of
from dpaudit.auditors.replay.sampled_rows import brought_in, out_of_place
from dpaudit.certificate.verdicts import Finding
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.curator.coins import Coins, ForcedSamples
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import Entry, LiveNoise, NoiseSource, ReplayDiverged, ReplayedNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.curator.views import UserViews
from dpaudit.errors import InputError, TargetDied, TargetRaised
from dpaudit.mechanisms import Answer, Array
from dpaudit.processes.changes import size_of
from dpaudit.processes.host import TIMEOUT
from dpaudit.processes.hosted import HostedData

#: A measured sensitivity may exceed the declared one by this relative amount: distances are rounded.
SENSITIVITY_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Recording:
    """One run: its output, its releases, and the error that ended it, if one did.

    `output` is a copy of what was returned, made at once; `held` is what was returned itself, with all that a
    copy leaves out: the base of a view, and whatever an object excludes from pickling. `public` are the names
    that findings may quote, as in `Runs`.
    """

    output: Any
    transcript: Transcript
    error: Exception | None = None
    held: Any = None
    public: frozenset[str] | None = None

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """Every question with its answer; a release whose label may quote records has a number for one."""
        return [self._shown(entry) for entry in self.transcript.entries]

    def _shown(self, entry: Entry) -> Entry:
        if self.public is None or entry.release.label in self.public:
            return entry
        label = f"release {entry.number + 1}"
        return replace(entry, release=entry.release.model_copy(update={"label": label}))


@dataclass(frozen=True)
class Runs:
    """How an algorithm is run on either side of a pair, with further arguments of `dpaudit.run` as options.

    Under joint trust the changed user's own view, the one at the position `unit`, is not compared; under
    local trust only one user's releases may move. The relation says how many parts of a split a unit touches.
    `one_more` is whether one side of the pair has one record more than the other.
    """

    algorithm: Callable[[Any, Curator], Any]
    options: Mapping[str, Any]
    trust_model: TrustModel = TrustModel.CENTRAL
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    unit: int | None = None
    one_more: bool = False
    ran: Callable[[], object] | None = None  # called after each run
    #: The names of releases and parts that findings may quote; None: these and all else that runs say.
    public: frozenset[str] | None = None
    #: The labels of releases whose query moved in a replay on a neighbour, of ordinary recordings.
    moved: set[str] = field(default_factory=set, compare=False)

    def record(self, data: Any, noise: NoiseSource, coins: Coins | None = None) -> Recording:
        """Run once on a copy of the data; an error is kept with what had been released by then.

        `coins` force the samples that the algorithm draws.
        """
        transcript = Transcript()
        noise = noise if coins is None else ForcedSamples(noise, coins)
        try:
            # Copies of the data, since an algorithm may change them in place;
            # of the options, since a budget that one run spends must be whole again for the next;
            # and of the algorithm, since what it keeps from one run must not reach the next.
            options = copy.deepcopy(dict(self.options))
            algorithm, data = fresh(self.algorithm), copy.deepcopy(data)
            result = run(algorithm, data, noise=noise, transcript=transcript, **options)
        except Exception as error:  # noqa: BLE001  (an error on one side only is a finding, whatever it is)
            return Recording(None, transcript, error, public=self.public)
        finally:
            if self.ran is not None:
                self.ran()
        # Copied: an algorithm may hand out the same object again, changed, from its next run.
        return Recording(fresh(result.output), transcript, held=result.output, public=self.public)

    def replay(self, data: Any, recorded: Recording, coins: Coins | None = None) -> Recording:
        """Run with every release forced to return the recorded output; `coins` are as in `record`."""
        noise = ReplayedNoise(recorded.transcript)
        result = self.record(data, noise, coins)
        # An algorithm that caught the divergence and continued has diverged nevertheless.
        error = noise.divergence or result.error
        return replace(result, error=error)

    def held_to_public(self, pairs: Iterable[Pair], seed: int) -> Self:
        """The same; if pairs are of private records, findings quote what is said on public data alone."""
        stand_ins = [pair.stand_ins for pair in pairs if pair.stand_ins is not None]
        if not stand_ins:
            return self
        noise = LiveNoise(np.random.SeedSequence([seed, 0x9B11C]))
        made = [entry.release for data in stand_ins[0] for entry in self.record(data, noise).entries]
        split = [part for release in made if (part := release.partition)]
        names = (
            [release.label for release in made],
            [part.split for part in split],
            [part.part for part in split],
        )
        return replace(self, public=frozenset().union(*names))

    def words(self, said: str, instead: str) -> str:
        """What a run said, or other words where that may quote records."""
        return said if self.public is None else instead

    def failure(self, error: Exception) -> Exception:
        """A run's error as it is raised: one of ours that may quote records is as any other's."""
        if self.public is None or not isinstance(error, InputError) or isinstance(error, TargetDied):
            return error
        return TargetRaised(type(error).__name__, str(error), error.raised_at, "")

    def between_sides(
        self, recorded: Recording, other: Recording, *, circumstance: str = "", rounding: float = 0.0
    ) -> list[Finding]:
        """What differs in the releases of a replay on the neighbour although each of them returned the same.

        `circumstance`, what was special about the recording, is added to each detail; `rounding` is by how
        much more a sensitivity may be exceeded, relative to the queries' own size.
        """
        entries = recorded.entries
        size = max((float(np.abs(entry.query).sum()) for entry in entries), default=0.0) if rounding else 0.0
        moves = list(movements(entries, other.entries))
        findings = []
        for move in moves:
            # The other side's query has a last place up to twice as large.
            least = move.measured - 3 * float(off_by(move.entry.query).sum()) - rounding * size
            if not circumstance and least > SENSITIVITY_TOLERANCE * move.declared:
                self.moved.add(move.entry.release.label)
            if not least <= move.declared * (1 + SENSITIVITY_TOLERANCE):
                far = f"by {move.measured:.6g} {move.measure}; the ledger declares {move.declared:.6g}"
                findings.append(
                    _sensitivity(move.entry, f"the query moves {far}", move.declared, move.measured)
                )
        if not circumstance:
            removed = self.one_more and self.neighbouring is Neighbouring.ADD_OR_REMOVE_ONE
            findings += brought_in(entries, other.entries) if removed else []
            findings += out_of_place(entries, other.entries)
        moved = [move.entry for move in moves if move.measured > SENSITIVITY_TOLERANCE * move.declared]
        findings += _parts(moved, self.neighbouring, self.public)
        users = {entry.user: entry for entry in moved}
        if self.trust_model is TrustModel.LOCAL and len(users) > 1:
            detail = f"one user's data move the releases of {len(users)} users"
            findings.append(_sensitivity(list(users.values())[-1], detail, 1.0, float(len(users))))
        flow = flow_difference(recorded, other)
        if flow is not None:
            entry = entries[min(len(other.entries), len(entries) - 1)] if entries else None
            label, where = (entry.release.label, entry.where) if entry else (None, "")
            findings.append(Finding(kind="control-flow", label=label, detail=flow, where=where))
        if circumstance:
            findings = [f.model_copy(update={"detail": f"{f.detail} ({circumstance})"}) for f in findings]
        return findings

    def leaks(self, recorded: Recording, other: Recording) -> list[Finding]:
        """What differs in the outputs although the releases were the same.

        `NotComparable` is raised for an output whose content cannot be inspected, or outputs that differ
        although their copies are the same. That is no finding: a view's base may be uninitialised memory, and
        a later run may have changed what an earlier one returned.
        """
        if flow_difference(recorded, other) is not None:
            return []
        leak = self._output_difference(recorded.output, other.output)
        if leak is not None:
            place = self.words("the output" if leak == "output" else leak, "the output")
            detail = f"every release was the same, yet {place} differs on the neighbour"
            return [Finding(kind="leak", detail=detail)]
        hidden = None
        with suppress(NotComparable):
            hidden = self._output_difference(recorded.held, other.held)
        if hidden is not None:
            raise NotComparable(f"{hidden} differs, which a copy of the output does not hold: return a copy")
        return []

    def _output_difference(self, one: Any, other: Any) -> str | None:
        if self.trust_model is not TrustModel.JOINT:
            return first_difference(one, other)
        both_views = isinstance(one, UserViews) and isinstance(other, UserViews)
        if both_views and self.unit is not None:
            # A user that only one side has is left out of that side's views; the others keep their order.
            most = max(len(one.views), len(other.views))
            left, right = (v.without(self.unit) if len(v.views) == most else v.views for v in (one, other))
            return first_difference(left, right, "another user's view")
        difference = first_difference(one, other)
        if difference is not None:
            lacking = "the pair names no unit" if both_views else "the output is no UserViews"
            raise NotComparable(f"under joint trust {lacking}, so the changed user's view is not known")
        return None


def one_more(pair: Pair) -> bool:
    """Whether one side of a pair has one record more than the other, as far as they say."""
    one, other = (
        side.size if isinstance(side, HostedData) else size_of(side) for side in (pair.data, pair.neighbour)
    )
    return one is not None and other is not None and abs(one - other) == 1


def fresh(value: Any) -> Any:
    """A copy of an algorithm, without what it keeps from a run, or of an output; itself, if it has none."""
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  (whatever an object's own copying raises)
        return value


def repeat_difference(recorded: Recording, again: Recording) -> str | None:
    """How the releases of a replay on the same data differ from the recording's, or None."""
    flow = flow_difference(recorded, again)
    if flow is not None:
        return flow
    for one, two in zip(recorded.entries, again.entries, strict=True):
        if first_difference(one.query, two.query) is not None:
            return f"the query of {one.release.label!r}"
    return None


def flow_difference(recorded: Recording, other: Recording) -> str | None:
    """How the sequence of releases differs, or None.

    A run that did not end in its time says nothing about the data where another one may have been near it:
    its `TargetDied` is raised.
    """
    for error in (recorded.error, other.error):
        if isinstance(error, TargetDied) and error.where == TIMEOUT:
            raise error
    if isinstance(other.error, ReplayDiverged):
        return other.error.what if other.public is None else "a release is asked for that was not recorded"
    kinds = [None if error is None else _kind(error) for error in (recorded.error, other.error)]
    if kinds[0] != kinds[1]:
        raised = [kind for kind in kinds if kind is not None]
        # The error's kind alone: its message may contain private data.
        return f"one side raises {' and the other '.join(raised)}"
    made, expected = len(other.entries), len(recorded.entries)
    if made != expected:
        if other.public is not None:
            return "another number of releases is made than was recorded"
        return f"the number of releases is {made}, where {expected} were recorded"
    return None


def _kind(error: Exception) -> str:
    """What was raised, by its own name wherever it was raised."""
    return error.kind if isinstance(error, TargetRaised) else type(error).__name__


def _parts(
    moved: Sequence[Entry], neighbouring: Neighbouring, public: frozenset[str] | None
) -> list[Finding]:
    """Releases that move in more parts of a split than one unit can touch."""
    splits: dict[str, dict[str, Entry]] = {}
    by_values: set[str] = set()
    for entry in moved:
        partition = entry.release.partition
        if partition is not None:
            splits.setdefault(partition.split, {}).setdefault(partition.part, entry)
            if partition.by == "values":
                by_values.add(partition.split)
    findings = []
    for split, parts in splits.items():
        touched = neighbouring.parts_touched(split_by_values=split in by_values)
        if len(parts) > touched:
            detail = f"one unit moves {len(parts)} parts of a split, of which it can touch {touched}"
            if public is None or public.issuperset((split, *parts)):
                detail = detail.replace("a split", f"split {split!r}", 1)
                detail += f": {', '.join(map(repr, parts))}"
            findings.append(_sensitivity(list(parts.values())[-1], detail, float(touched), float(len(parts))))
    return findings


def _sensitivity(entry: Entry, detail: str, declared: float, measured: float) -> Finding:
    place = {"label": entry.release.label, "where": entry.where}
    return Finding(kind="sensitivity", detail=detail, declared=declared, measured=measured, **place)


@dataclass(frozen=True)
class Movement:
    """One release's move: how far its query moved and how far it may, by which measure, in words.

    `entry` is the last recorded entry of the release.
    """

    entry: Entry
    measured: float
    declared: float
    measure: str


def movements(recorded: Sequence[Entry], other: Sequence[Entry]) -> Iterator[Movement]:
    """The move of every release that both runs made; all items of one stream make one move."""
    made = recorded[: len(other)]
    for group in releases_of(made):
        one, two = ([side[at] for at in group] for side in (made, other))
        last, release = one[-1], one[0].release
        parts = zip(_repetitions(one, release.count), _repetitions(two, release.count), strict=True)
        with np.errstate(over="ignore"):  # the distance of two finite queries may exceed every double
            each = [release.mechanism.moves(*part) for part in parts]
        # Of repetitions, the one that moved most.
        for moves in zip(*each, strict=True):
            yield Movement(last, *max(moves, key=lambda move: move.measured))


def off_by(query: Array) -> Array:
    """How far the exact values may be, entry by entry, of which a query holds the nearest doubles."""
    return np.asarray(np.spacing(np.abs(query)) / 2)


def _repetitions(entries: Sequence[Entry], count: int) -> list[Sequence[Answer]]:
    """The entries, repetition by repetition: with `count` > 1, along the first axis of the only one."""
    if count == 1:
        return [entries]
    entry = entries[0]
    return [
        [Answer(query=np.asarray(query), output=np.asarray(output))]
        for query, output in zip(entry.query, entry.output, strict=True)
    ]
