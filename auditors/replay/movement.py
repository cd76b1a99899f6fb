"""How far the queries of one run moved from those of another, against what the ledger declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.curator.noise import Entry
from dpaudit.mechanisms import Answer


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
    releases: dict[int, list[tuple[Entry, Entry]]] = {}
    for twin in zip(recorded, other, strict=False):
        releases.setdefault(twin[0].number, []).append(twin)
    for twins in releases.values():
        one, two = zip(*twins, strict=True)
        with np.errstate(over="ignore"):  # the distance of two finite queries may exceed every double
            moves = _moves(one, two)
        yield from moves


def _moves(one: Sequence[Entry], two: Sequence[Entry]) -> list[Movement]:
    """What the release's mechanism measures; of repetitions, the one that moved most."""
    last, release = one[-1], one[0].release
    parts = zip(_repetitions(one, release.count), _repetitions(two, release.count), strict=True)
    each = [release.mechanism.moves(*part) for part in parts]
    largest = [max(moves, key=lambda move: move.measured) for moves in zip(*each, strict=True)]
    return [Movement(last, *move) for move in largest]


def _repetitions(entries: Sequence[Entry], count: int) -> list[Sequence[Answer]]:
    """The entries, repetition by repetition: with `count` > 1, along the first axis of the only one."""
    if count == 1:
        return [entries]
    entry = entries[0]
    return [
        [Answer(query=np.asarray(query), output=np.asarray(output))]
        for query, output in zip(entry.query, entry.output, strict=True)
    ]
