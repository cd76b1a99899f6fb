"""How far the queries of one run moved from those of another, against what the ledger declares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.auditors.replay.likelihood import releases_of
from dpaudit.curator.noise import Entry
from dpaudit.mechanisms import Answer, Array


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
