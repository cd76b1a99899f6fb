"""Checks of the rows behind a secret sample, on both sides of a pair: their units and their places.

Every recording and its replay hold the rows before sampling. `SampledSum.moves` measures their distance. The
sample's figures also assume that removing a unit removes its row and adds no other row, and that a unit
keeps its place in all steps of a stream.
"""

import math
from collections.abc import Sequence

import numpy as np

from dpaudit.auditors.replay.likelihood import releases_of
from dpaudit.certificate.verdicts import Finding
from dpaudit.claims.sensitivity import Sensitivity
from dpaudit.curator.noise import Entry
from dpaudit.mechanisms import Array, InTurns, OnSample, distance
from dpaudit.mechanisms.samples.subsets import ROUNDED, moved_rows, others_moved

BROUGHT_IN = (
    "a record that one side lacks has a row in the sum there, and another record's row is in the sum of the "
    "other side alone: whose rows are in it depends on what other units' data say"
)


def brought_in(recorded: Sequence[Entry], other: Sequence[Entry]) -> list[Finding]:
    """Return findings for sums that another unit enters when a unit is removed from the data."""
    findings: dict[str, Finding] = {}
    for one, two in zip(recorded, other, strict=False):
        mechanism, rows, theirs = one.release.mechanism, one.rows, two.rows
        if not isinstance(mechanism, OnSample) or mechanism.swaps or rows is None or theirs is None:
            continue
        left, right = (side[side.any(axis=tuple(range(1, side.ndim)))] for side in moved_rows(rows, theirs))
        if len(left) == len(right) == 1 and not _near(left, right, mechanism.sensitivity):
            label, where = one.release.label, one.where
            findings.setdefault(label, Finding(kind="sampling", label=label, where=where, detail=BROUGHT_IN))
    return list(findings.values())


def _near(one: Array, other: Array, declared: Sensitivity) -> bool:
    """Return whether rows differ only by the rounding of rows that are computed together."""
    return distance(declared.norm, one - other) <= ROUNDED * declared.value


OUT_OF_PLACE = (
    "the changed unit's row stands at another place in another step, or in another release on the sample: "
    "places are drawn, so that a unit that moves is in more sums, or in fewer, than the ledger says"
)


def out_of_place(recorded: Sequence[Entry], other: Sequence[Entry]) -> list[Finding]:
    """Return findings for streams in which the changed unit changes its place between steps of a side.

    Releases on one sample that the curator draws are judged in the same way. The algorithm may choose the
    place, and may choose another place on the other side.
    """
    findings = []
    made = recorded[: len(other)]
    named: dict[str, list[int]] = {}
    for position, entry in enumerate(made):
        if entry.release.sample is not None and entry.batch is None:
            named.setdefault(entry.release.sample, []).append(position)
    for group in [*releases_of(made), *named.values()]:
        last = made[group[-1]]
        together = isinstance(last.release.mechanism, InTurns) or last.release.sample is not None
        if not together:
            continue
        sides: list[set[int] | None] = [None, None]
        for at in group:
            declared, step = made[at].release.mechanism.declared_sensitivity, (made[at].rows, other[at].rows)
            if step[0] is None or step[1] is None or declared is None:
                continue
            own = moved_rows(step[0], step[1])
            if max(map(len, own)) > 1 or (len(own[0]) == len(own[1]) and _near(*own, declared)):
                continue  # rounded with other rows: the unit's row is not known
            for side, rows in enumerate(step):
                if rows is not None and len(own[side]) == 1:
                    same = (rows == own[side]).all(axis=tuple(range(1, rows.ndim)))
                    places, before = set(np.flatnonzero(same).tolist()), sides[side]
                    sides[side] = places if before is None else places & before
        if set() in sides:
            label, where = last.release.label, last.where
            findings.append(Finding(kind="sampling", label=label, where=where, detail=OUT_OF_PLACE))
    return findings


OF_OTHERS = (
    "in runs that draw different units the changed unit is in one sum on a draw and not in another one on "
    "the same draw: the other sum is over other units, where the ledger says that both are over one sample"
)


def on_other_units(
    everybody: Sequence[Entry], neighbour: Sequence[Entry], forced: Sequence[Sequence[Entry]]
) -> list[Finding]:
    """Return findings for sums on one draw that are over different units.

    The changed unit is recognized by its row. Runs that draw everybody give this row: on the data and on the
    neighbour, with the same outputs as in the runs with forced samples.

    Args:
        everybody: the entries of the run on the data in which everybody is drawn.
        neighbour: those of the run on the neighbour.
        forced: those of each run on the data whose samples are forced.
    """
    members: dict[str, list[Sequence[bool | None]]] = {}
    findings: dict[str, Finding] = {}
    for one, two, *made in zip(everybody, neighbour, *forced, strict=False):
        sample, declared = one.release.sample, one.release.mechanism.declared_sensitivity
        if sample is None or one.batch is None or one.rows is None or two.rows is None or declared is None:
            continue
        own, _ = moved_rows(one.rows, two.rows)
        if len(own) != 1:
            continue  # the unit has no row of its own there, or other rows move too
        alike = _how_many_near(one.rows, own[0], declared)
        now = [_is_in(entry.rows, own[0], alike, declared) for entry in made]
        for before in members.setdefault(sample, []):
            if any(a is not None and b is not None and a != b for a, b in zip(before, now, strict=True)):
                label, where = one.release.label, one.where
                finding = Finding(kind="sampling", label=label, where=where, detail=OF_OTHERS)
                findings.setdefault(label, finding)
        members[sample].append(now)
    return list(findings.values())


def _is_in(rows: Array | None, own: Array, alike: int, declared: Sensitivity) -> bool | None:
    """Return whether a unit's row is among these, given `alike` such rows of all units; None: not known."""
    found = None if rows is None else _how_many_near(rows, own, declared)
    return {0: False, alike: True}.get(found) if found is not None else None


def _how_many_near(rows: Array, own: Array, declared: Sensitivity) -> int:
    return sum(_near(row, own, declared) for row in rows)


def shared_draws(entries: Sequence[Entry]) -> dict[str, list[int]]:
    """Return the positions of the sums on each draw with several sums."""
    found: dict[str, list[int]] = {}
    for position, entry in enumerate(entries):
        sample = entry.release.sample
        if sample is not None and entry.batch is not None and entry.rows is not None:
            found.setdefault(sample, []).append(position)
    return {sample: positions for sample, positions in found.items() if len(positions) > 1}


def first_apart(sides: Sequence[Sequence[Array]], declared: Sequence[Sensitivity]) -> int | None:
    """Return the first sum with rows that, together with earlier sums' rows, move for more than one unit.

    Args:
        sides: for either data set, the rows [n, ...] of each sum; row i of all sums is the unit at place i.
        declared: the sensitivity of each sum.
    """
    one, other = ([rows.reshape(len(rows), math.prod(rows.shape[1:])) for rows in side] for side in sides)
    for last in range(1, len(one)):
        left, right = np.hstack(one[: last + 1]), np.hstack(other[: last + 1])
        rounded = ROUNDED * sum(each.value for each in declared[: last + 1]) * math.sqrt(left.shape[1])
        if others_moved(left, right, "l2", 1, rounded) > 0.0:
            return last
    return None
