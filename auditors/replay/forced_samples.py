"""Forced samples: a test that each sum contains exactly the units drawn for it.

An algorithm that receives the places of the drawn units may sum other rows than the sample in the ledger. So
the auditor forces the samples, in several runs on the same data whose releases return the same values
(`dpaudit.curator.coins`). It checks that

- each sum satisfies the equations of its own draw: it adds the rows of the units that were drawn for it, and
  each row is a function of its own unit's record, wherever the algorithm stores that record;
- the releases, their draws and the output are the same in all runs: nothing else may reveal who was drawn;
- the pair's unit is in all sums on one draw, or in none of them (`on_other_units`).

Every replay also checks that the rows of a pair's two data sets differ in one unit's row. Together these
checks show that each sum is over the secret sample in the ledger. Any order or relabelling of the records
that does not depend on a sample is allowed.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from dpaudit.auditors.comparison.output_comparison import NotComparable
from dpaudit.auditors.replay.recording import Recording, Runs, flow_difference, off_by
from dpaudit.auditors.replay.sampled_rows import OF_OTHERS, first_apart, on_other_units, shared_draws
from dpaudit.certificate.verdicts import Finding
from dpaudit.claims.pairs import Pair
from dpaudit.curator.coins import RUNS, Coins, equations
from dpaudit.curator.noise import Entry, LiveNoise
from dpaudit.errors import TargetDied, TargetRaised
from dpaudit.mechanisms import Array, FixedSizeSampled, OnSample, distance
from dpaudit.mechanisms.samples import subsets

_OTHERS = f"{RUNS} runs draw different units"
SAME = f"{_OTHERS}, and the sum is the same in all of them: the sample that was drawn is not the one summed"
OTHER_DRAW = f"{_OTHERS}, and the sum follows those who were drawn for"
NOT_ADDED = (
    f"{_OTHERS}, and the sums do not add up as sums over those units would: the sample that was drawn is not "
    "the one summed, or a unit's row depends on who else was drawn"
)
#: The largest pair, in units, in which units are drawn one by one.
MOST_ALONE = 16
#: A sum over samples of one size that is the same in all runs is a finding if the log of that chance is at
#: most this; and the number of samples that the simulation of the chance draws.
_BY_CHANCE, _SIMULATED = math.log(1e-6), 9999


def drawn_by_place(recorded: Recording) -> set[str]:
    """Return the labels of the releases for which the algorithm receives the sample as places."""
    return {entry.release.label for entry in recorded.entries if entry.batch is not None}


def runs_needed(recorded: Recording) -> int:
    """Return the number of runs for the test of samples in one direction: two more if sums share a draw."""
    if not drawn_by_place(recorded):
        return 0
    return RUNS + 2 * any(entry.batch is not None and entry.release.sample for entry in recorded.entries)


@dataclass
class SampleTest:
    """The tests of samples so far, over all pairs and directions.

    Attributes:
        drawn: the labels of releases with samples drawn by places.
        tested: the labels of sums that were compared with their draws.
        undecided: the labels of sums that share a draw with others, if it is unknown whether their rows
            belong to the same units.
        still: by label, for samples of fixed size: the log probability that the sums are equal in all runs by
            chance (None once they differed), and the release's place in the code.
    """

    drawn: set[str] = field(default_factory=set)
    tested: set[str] = field(default_factory=set)
    undecided: set[str] = field(default_factory=set)
    still: dict[str, tuple[float | None, str]] = field(default_factory=dict)

    def direction(
        self, runs: Runs, pilot: Recording, pair: Pair, seed: np.random.SeedSequence
    ) -> list[Finding]:
        """Force samples in `RUNS` runs on a pair's data; `pilot` is an ordinary recording on them."""
        data = pair.data
        self.drawn |= drawn_by_place(pilot)
        noise, coins = seed.spawn(2)
        number = int(coins.generate_state(1, np.uint32)[0])
        base = runs.record(data, LiveNoise(noise), Coins(number, 0))
        if base.error is not None:
            return _failed(runs, pilot, base, data)
        others = [runs.replay(data, base, Coins(number, run)) for run in range(1, RUNS)]
        findings = [*_flow(base, others), *self._sums(pilot, [base, *others], number)]
        if not findings and runs_needed(pilot) > RUNS:
            everybody, neighbour = runs.replay(data, base), runs.replay(pair.neighbour, base)
            forced = [one.entries for one in (base, *others)]
            findings += on_other_units(everybody.entries, neighbour.entries, forced)
            if not findings:
                findings += self._one_by_one(runs, pair, base, everybody, neighbour)
        for other in others:
            with suppress(NotComparable):
                for leak in runs.leaks(base, other):
                    detail = leak.detail.replace("on the neighbour", "when other units are drawn")
                    findings.append(
                        Finding(kind="sampling", detail=f"{detail}: it tells who is in the sample")
                    )
        return findings

    def _one_by_one(
        self, runs: Runs, pair: Pair, base: Recording, everybody: Recording, neighbour: Recording
    ) -> Iterator[Finding]:
        """Return findings for sums on one draw in which a unit's rows depend on several units' records.

        A unit's rows in all sums on a draw are functions of its record. So only the pair's unit may change
        its rows, even if many units have the same row in one sum. When everybody is drawn, the sums may add
        rows in different orders; units are drawn one by one only if rows seem to differ.
        """
        sides, groups = (everybody.entries, neighbour.entries), shared_draws(everybody.entries)
        doubtful = {
            sample: positions
            for sample, positions in groups.items()
            if _first_apart(positions, [[side[at].rows for at in positions] for side in sides], sides[0])
            is not None
        }
        if not doubtful:
            return
        made: list[list[Sequence[Entry]]] = []
        for data, side in zip((pair.data, pair.neighbour), sides, strict=True):
            units = max(_units(side, positions) for positions in doubtful.values())
            alone = range(units if units <= MOST_ALONE else 0)
            made.append([runs.replay(data, base, Coins(0, 0, place)).entries for place in alone])
        for positions in doubtful.values():
            rows = [
                [_each_alone(entries, at, _units(side, positions)) for at in positions]
                for entries, side in zip(made, sides, strict=True)
            ]
            if any(one is None for side_rows in rows for one in side_rows):
                self.undecided |= {sides[0][at].release.label for at in positions}
                continue
            last = _first_apart(positions, rows, sides[0])
            if last is not None:
                entry = sides[0][positions[last]]
                label, where = entry.release.label, entry.where
                yield Finding(kind="sampling", label=label, where=where, detail=OF_OTHERS)

    def _sums(self, pilot: Recording, made: Sequence[Recording], seed: int) -> Iterator[Finding]:
        """Return the findings about the sums: at most one for each label."""
        found: set[str] = set()
        draws: dict[int, Entry] = {}
        for position, asked in enumerate(zip(*(one.entries for one in made), strict=False)):
            own = asked[0]
            mechanism, label = own.release.mechanism, own.release.label
            same = len({(one.batch, one.query.shape) for one in asked}) == 1
            if own.batch is None or not isinstance(mechanism, OnSample) or not same:
                continue
            draws.setdefault(own.batch, own)
            self.tested.add(label)
            if isinstance(mechanism, FixedSizeSampled):
                rows = pilot.entries[position].rows if position < len(pilot.entries) else None
                self._stood_still(asked, rows, seed)
            if label in found or _adds_up(asked, seed, own.batch, mechanism):
                continue
            found.add(label)
            yield Finding(kind="sampling", label=label, where=own.where, detail=_why(asked, seed, draws))

    def _stood_still(self, asked: Sequence[Entry], rows: Array | None, seed: int) -> None:
        """Note whether a sum was the same in all runs, and the probability of that by chance."""
        label, where = asked[0].release.label, asked[0].where
        before, where = self.still.get(label, (0.0, where))
        if before is None or len({one.query.tobytes() for one in asked}) > 1:
            self.still[label] = None, where
        elif before > _BY_CHANCE:
            size = 0 if asked[0].rows is None else len(asked[0].rows)
            self.still[label] = before + _log_chance(rows, size, seed), where

    def unmoved(self) -> list[Finding]:
        """Return the findings about sums over samples of one size that no draw moved."""
        return [
            Finding(kind="sampling", label=label, where=where, detail=SAME)
            for label, (chance, where) in self.still.items()
            if chance is not None and chance <= _BY_CHANCE
        ]

    @property
    def untested(self) -> list[str]:
        """Return the labels of releases with samples that no pair tested."""
        still = {
            label for label, (chance, _) in self.still.items() if chance is not None and chance > _BY_CHANCE
        }
        return sorted(self.drawn - (self.tested - still - self.undecided))


def _units(side: Sequence[Entry], positions: Sequence[int]) -> int:
    """Return the number of units: the rows of the sums on a draw in a run that draws everybody."""
    return max(len(rows) for at in positions if (rows := side[at].rows) is not None)


def _each_alone(made: Sequence[Sequence[Entry]], at: int, units: int) -> Array | None:
    """Return the rows [units, ...] of one sum from runs that each draw one unit; None if not shown."""
    found = [entries[at].rows if at < len(entries) else None for entries in made[:units]]
    known = [rows for rows in found if rows is not None and len(rows) == 1]
    if known and isinstance(made[0][at].release.mechanism, FixedSizeSampled):
        return None  # no unit of such a sample is drawn alone
    return np.concatenate(known) if known and len(known) == units else None


def _first_apart(
    positions: Sequence[int], rows: Sequence[Sequence[Array | None]], entries: Sequence[Entry]
) -> int | None:
    """Return `first_apart` of the sums at these positions; None if their numbers of rows differ."""
    declared = [entries[at].release.mechanism.declared_sensitivity for at in positions]
    known = [[one for one in side if one is not None] for side in rows]
    stated = [one for one in declared if one is not None]
    whole = all(len(side) == len(stated) == len(positions) for side in known)
    if not whole or any(len({len(one) for one in side}) > 1 for side in known):
        return None
    return first_apart(known, stated)


def _failed(runs: Runs, pilot: Recording, base: Recording, data: object) -> list[Finding]:
    """Return the findings if the first run fails, but succeeds when everybody is drawn."""
    if isinstance(base.error, TargetDied) or flow_difference(base, runs.replay(data, base)) is None:
        return []
    made, planned = len(base.entries), pilot.entries
    label, where = (planned[made].release.label, planned[made].where) if made < len(planned) else (None, "")
    kind = base.error.kind if isinstance(base.error, TargetRaised) else type(base.error).__name__
    detail = f"the run raises {kind} where not everybody is drawn"
    return [Finding(kind="sampling", label=label, where=where, detail=detail)]


def _flow(base: Recording, others: Sequence[Recording]) -> list[Finding]:
    """Describe how the releases, or their draws, depend on who was drawn."""
    for other in others:
        flow = flow_difference(base, other)
        pairs = zip(base.entries, other.entries, strict=False)
        at = next((one for one, two in pairs if one.batch != two.batch), None)
        if flow is None and at is None:
            continue
        if at is None and base.entries:
            at = base.entries[min(len(other.entries), len(base.entries) - 1)]
        label, where = (at.release.label, at.where) if at else (None, "")
        what = flow or "a draw is thrown away, or made anew,"
        detail = f"{what} when other units are drawn: it tells who is in the sample"
        return [Finding(kind="sampling", label=label, where=where, detail=detail)]
    return []


def _adds_up(asked: Sequence[Entry], seed: int, number: int, mechanism: OnSample) -> bool:
    """Return whether a release's sums in the runs satisfy a draw's equations, up to rounding.

    Rows of one record may differ by rounding, as in `SampledSum.moves`.
    """
    queries = np.stack([one.query for one in asked])
    declared = asked[0].release.mechanism.declared_sensitivity
    rows = max(0 if one.rows is None else len(one.rows) for one in asked)
    if declared is None:
        return True
    allowed = subsets.ROUNDED * declared.value * rows + 4.0 * float(off_by(queries).sum())
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.tensordot(equations(seed, number, mechanism), queries, axes=1)
        return all(distance(declared.norm, each) <= allowed for each in sums)


def _why(asked: Sequence[Entry], seed: int, draws: dict[int, Entry]) -> str:
    """Name the sample of a sum that violates the equations of its own draw."""
    if len({one.query.tobytes() for one in asked}) == 1:
        return SAME
    for number, entry in draws.items():
        mechanism = entry.release.mechanism
        if number == asked[0].batch or not isinstance(mechanism, OnSample):
            continue
        if _adds_up(asked, seed, number, mechanism):
            same = entry.release.label == asked[0].release.label
            return f"{OTHER_DRAW} {'an earlier sum' if same else repr(entry.release.label)}"
    return NOT_ADDED


def _log_chance(rows: Array | None, size: int, seed: int) -> float:
    """Return the log of the chance that sums over samples of one size agree, simulated and rounded up.

    There are four samples: two samples, and the two that result from exchanging some of their units.
    """
    if rows is None or not 0 < size < len(rows):
        return 0.0
    generator = np.random.default_rng([seed, size])
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    values = flat @ generator.normal(size=flat.shape[1])
    close = 1e-9 * float(np.abs(values).sum())
    some = (min(size, len(rows) - size) + 1) // 2
    times, hits = max(1, min(_SIMULATED, 20_000_000 // len(rows))), 0
    for _ in range(times):
        shuffled = generator.permutation(values)
        apart = shuffled[:size].sum() - shuffled[::-1][:size].sum()
        swapped = shuffled[:some].sum() - shuffled[::-1][:some].sum()
        hits += bool(abs(apart) <= close and abs(swapped) <= close)
    return math.log((hits + 1) / (times + 1))
