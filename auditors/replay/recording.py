"""One run of an algorithm with all its questions; the differences between two runs; the moves of queries."""

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
    """One run: its output, its releases, and the error that ended it, if any.

    `output` is a copy of the returned object, made at once. `held` is the returned object itself, with the
    parts that a copy lacks: the base of a view, and anything that an object excludes from pickling. `public`
        are the names that
    findings may quote, as in `Runs`.
    """

    output: Any
    transcript: Transcript
    error: Exception | None = None
    held: Any = None
    public: frozenset[str] | None = None

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """Return every question with its answer; a label that may quote records is replaced by a number."""
        return [self._shown(entry) for entry in self.transcript.entries]

    def _shown(self, entry: Entry) -> Entry:
        if self.public is None or entry.release.label in self.public:
            return entry
        label = f"release {entry.number + 1}"
        return replace(entry, release=entry.release.model_copy(update={"label": label}))


@dataclass(frozen=True)
class Runs:
    """The way to run an algorithm on either side of a pair; `options` are arguments of `dpaudit.run`.

    Under joint trust the changed user's own view, at the position `unit`, is not compared. Under local trust
    only one user's releases may move. The relation determines the number of parts of a split that a unit
    touches. `one_more`: one side of the pair has one record more than the other.
    """

    algorithm: Callable[[Any, Curator], Any]
    options: Mapping[str, Any]
    trust_model: TrustModel = TrustModel.CENTRAL
    neighbouring: Neighbouring = Neighbouring.REPLACE_ONE
    unit: int | None = None
    one_more: bool = False
    ran: Callable[[], object] | None = None  # called after each run
    #: The names of releases and parts that findings may quote; None: findings may quote everything.
    public: frozenset[str] | None = None
    #: The labels of releases with a query that moved when an ordinary recording was replayed on a neighbour.
    moved: set[str] = field(default_factory=set, compare=False)

    def record(self, data: Any, noise: NoiseSource, coins: Coins | None = None) -> Recording:
        """Run once on a copy of the data; keep an error together with the releases before it.

        `coins` force the samples that the algorithm draws.
        """
        transcript = Transcript()
        noise = noise if coins is None else ForcedSamples(noise, coins)
        try:
            # Copies of the data, since an algorithm may change them in place;
            # of the options, since each run needs an unspent budget;
            # and of the algorithm, since state from one run must not reach the next.
            options = copy.deepcopy(dict(self.options))
            algorithm, data = fresh(self.algorithm), copy.deepcopy(data)
            result = run(algorithm, data, noise=noise, transcript=transcript, **options)
        except Exception as error:  # noqa: BLE001  (any error on one side only is a finding)
            return Recording(None, transcript, error, public=self.public)
        finally:
            if self.ran is not None:
                self.ran()
        # Copied: the next run may change the same object and return it again.
        return Recording(fresh(result.output), transcript, held=result.output, public=self.public)

    def replay(self, data: Any, recorded: Recording, coins: Coins | None = None) -> Recording:
        """Run with every release forced to return the recorded output; `coins` are as in `record`."""
        noise = ReplayedNoise(recorded.transcript)
        result = self.record(data, noise, coins)
        # An algorithm that caught the divergence and continued has diverged nevertheless.
        error = noise.divergence or result.error
        return replace(result, error=error)

    def held_to_public(self, pairs: Iterable[Pair], seed: int) -> Self:
        """Return these runs; for pairs of private records, findings quote only names seen on public data."""
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
        """Return a run's words, or other words if they may quote records."""
        return said if self.public is None else instead

    def failure(self, error: Exception) -> Exception:
        """Return a run's error for raising; our errors that may quote records are treated like any other."""
        if self.public is None or not isinstance(error, InputError) or isinstance(error, TargetDied):
            return error
        return TargetRaised(type(error).__name__, str(error), error.raised_at, "")

    def between_sides(
        self, recorded: Recording, other: Recording, *, circumstance: str = "", rounding: float = 0.0
    ) -> list[Finding]:
        """Return the differences of a replay on the neighbour, where each release returned the same output.

        `circumstance` describes the recording and is added to each detail. `rounding` is the further excess
        over a sensitivity that is allowed, relative to the queries' own size.
        """
        entries = recorded.entries
        size = max((float(np.abs(entry.query).sum()) for entry in entries), default=0.0) if rounding else 0.0
        moves = list(movements(entries, other.entries))
        findings = []
        for move in moves:
            # The last binary place of the other side's query may be twice as large.
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
        """Return the differences of the outputs of runs with the same releases.

        An output with content that cannot be inspected raises `NotComparable`, and so do outputs that differ
        although their copies are equal. The latter is no finding: a view's base may be uninitialised memory,
        and a later run may have changed the object that an earlier run returned.
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
            # A user on one side only is removed from that side's views; the others keep their order.
            most = max(len(one.views), len(other.views))
            left, right = (v.without(self.unit) if len(v.views) == most else v.views for v in (one, other))
            return first_difference(left, right, "another user's view")
        difference = first_difference(one, other)
        if difference is not None:
            lacking = "the pair names no unit" if both_views else "the output is no UserViews"
            raise NotComparable(f"under joint trust {lacking}, so the changed user's view is not known")
        return None


def one_more(pair: Pair) -> bool:
    """Return whether one side of a pair has one record more than the other, if their sizes are known."""
    one, other = (
        side.size if isinstance(side, HostedData) else size_of(side) for side in (pair.data, pair.neighbour)
    )
    return one is not None and other is not None and abs(one - other) == 1


def fresh(value: Any) -> Any:
    """Return a copy of an algorithm, without state from a run, or of an output; itself if uncopyable."""
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  (an object's own copying may raise anything)
        return value


def repeat_difference(recorded: Recording, again: Recording) -> str | None:
    """Describe how the releases of a replay on the same data differ from the recording, or return None."""
    flow = flow_difference(recorded, again)
    if flow is not None:
        return flow
    for one, two in zip(recorded.entries, again.entries, strict=True):
        if first_difference(one.query, two.query) is not None:
            return f"the query of {one.release.label!r}"
    return None


def flow_difference(recorded: Recording, other: Recording) -> str | None:
    """Describe how the sequence of releases differs, or return None.

    If one run exceeded its time limit and another run may have been near it, the time-out shows nothing
    about the data: its `TargetDied` is raised.
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
    """Return the name of the error's class, in whichever process it was raised."""
    return error.kind if isinstance(error, TargetRaised) else type(error).__name__


def _parts(
    moved: Sequence[Entry], neighbouring: Neighbouring, public: frozenset[str] | None
) -> list[Finding]:
    """Return findings for releases that move in more parts of a split than one unit can touch."""
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
    """One release's move: the measured and the declared distance, and the measure in words.

    `entry` is the last recorded entry of the release.
    """

    entry: Entry
    measured: float
    declared: float
    measure: str


def movements(recorded: Sequence[Entry], other: Sequence[Entry]) -> Iterator[Movement]:
    """Return the move of every release that both runs made; all items of one stream make one move."""
    made = recorded[: len(other)]
    for group in releases_of(made):
        one, two = ([side[at] for at in group] for side in (made, other))
        last, release = one[-1], one[0].release
        parts = zip(_repetitions(one, release.count), _repetitions(two, release.count), strict=True)
        with np.errstate(over="ignore"):  # the distance of two finite queries may exceed every double
            each = [release.mechanism.moves(*part) for part in parts]
        # the repetition that moved most
        for moves in zip(*each, strict=True):
            yield Movement(last, *max(moves, key=lambda move: move.measured))


def off_by(query: Array) -> Array:
    """Return a bound on the distance of each double in a query from its exact value."""
    return np.asarray(np.spacing(np.abs(query)) / 2)


def _repetitions(entries: Sequence[Entry], count: int) -> list[Sequence[Answer]]:
    """Return the entries by repetition: with `count` > 1, along the first axis of the only entry."""
    if count == 1:
        return [entries]
    entry = entries[0]
    return [
        [Answer(query=np.asarray(query), output=np.asarray(output))]
        for query, output in zip(entry.query, entry.output, strict=True)
    ]
