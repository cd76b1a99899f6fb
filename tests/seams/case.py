"""One row of the table of seams: code that does not do what its ledger states, or an innocent twin of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """What was done, and what dpaudit says of it with default options.

    Attributes:
        kind: the kind of fault, as a few words: "sample not used".
        name: what was done, as a few words; unique.
        planted: whether a fault was planted; False for an innocent twin.
        verdict: runs it and returns what a user is told, such as "REFUTED sampling" or "PROVED, NOT_REFUTED".
        expected: a regular expression that the whole verdict has to match.
        nightly: whether it is too slow for every change.
        engines: whether it needs data frame engines that are too large for every change.
    """

    kind: str
    name: str
    planted: bool
    verdict: Callable[[], str]
    expected: str
    nightly: bool = False
    engines: bool = False
