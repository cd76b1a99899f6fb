"""Assumptions behind a mechanism's figures: conditions that no ledger can show."""

import functools
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dpaudit.certificate.conditions import MOST_LABELS, Code, Condition, Releases
from dpaudit.ledger.columns import PlainReleases
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import KINDS, OWN_KINDS, OnSample, SampledSum
from dpaudit.mechanisms.base import BaseMechanism

#: The condition behind the composition of a split's parts, by the rule that assigns a unit to its part.
_OF_SPLITS: Final = {"position": Code.SPLIT_BY_POSITION, "values": Code.SPLIT_BY_VALUES}


_FRESH: Final = (Code.FRESH_SAMPLES, None)


class TrustedConditions:
    """A collector of such conditions, release by release.

    `drawn_here` says whether curators of this process drew the samples, except those that an algorithm's own
    samplers drew. In that case a release without a sample name has a sample of its own.
    """

    def __init__(self, *, drawn_here: bool = False) -> None:
        self._drawn_here = drawn_here
        self._sampled = 0  # number of runs on a sample, in total
        self._resting: dict[tuple[Code, str | None], _Resting] = {}
        self._splits: set[Code] = set()

    def add(self, release: Release | PlainReleases) -> None:
        """Add one release, or a block of releases."""
        if isinstance(release, PlainReleases):
            self._add_block(release)
            return
        for code, text in _conditions_of(release.mechanism, drawn_here=self._drawn_here):
            self._record(release.label, code, text)
        mechanism = release.mechanism
        if isinstance(mechanism, SampledSum) and not _by_curator(mechanism, self._drawn_here):
            self._sampled += release.count
            if release.sample is None:
                self._record(release.label, Code.FRESH_SAMPLES)
        if release.partition is not None:
            self._splits.add(_OF_SPLITS[release.partition.by])

    def _add_block(self, block: PlainReleases) -> None:
        if len(declared := np.flatnonzero(block.basis == "declared")):
            resting = self._resting.setdefault((Code.DECLARED_SENSITIVITY, None), _Resting())
            resting.number += len(declared)
            for place in declared.tolist():
                if len(resting.labels) > MOST_LABELS:
                    break
                resting.labels.setdefault(block.labels[place])
        self._splits |= {_OF_SPLITS[form.partition.by] for form in block.forms if form.partition is not None}

    def found(self) -> list[Condition]:
        """Return the conditions, each with the number of releases that rest on it and the first labels."""
        # A run alone on its sample shares the sample with no other run.
        resting = [one for one in self._resting.items() if self._sampled > 1 or one[0] != _FRESH]
        found = [
            Condition(
                code=code,
                text=text,
                releases=rest.releases(),
                replayed=False if code is Code.SAMPLE_SUMMED else None,
            )
            for (code, text), rest in resting
        ]
        return [*found, *(Condition(code=code) for code in _OF_SPLITS.values() if code in self._splits)]

    def _record(self, label: str, code: Code, text: str | None = None) -> None:
        resting = self._resting.setdefault((code, text), _Resting())
        resting.number += 1
        if len(resting.labels) <= MOST_LABELS:  # one extra label shows that there are more
            resting.labels.setdefault(label)


def _by_curator(mechanism: SampledSum, drawn_here: bool) -> bool:  # noqa: FBT001  (a fact, no option)
    """Return whether a curator is known to have drawn a mechanism's samples."""
    return drawn_here and not mechanism.drawn_by_caller


@functools.lru_cache(maxsize=1024, typed=True)
def _conditions_of(mechanism: BaseMechanism, *, drawn_here: bool) -> tuple[tuple[Code, str | None], ...]:
    """Return the conditions of a mechanism and of every mechanism inside it, each once."""
    found: dict[tuple[Code, str | None], None] = {}
    sensitivity = mechanism.declared_sensitivity
    if sensitivity is not None and sensitivity.basis == "declared":
        found[Code.DECLARED_SENSITIVITY, None] = None
    kind = type(mechanism).model_fields["kind"].default
    if kind not in OWN_KINDS:
        found[Code.ADDED_MECHANISM, f"the mechanism {kind} of the package {KINDS.package(kind)}"] = None
    if mechanism.condition is not None:
        found[Code(mechanism.condition), getattr(mechanism, "justification", None)] = None
    if isinstance(mechanism, SampledSum):
        mapped = sensitivity is not None and sensitivity.basis == "mapped"
        if (isinstance(mechanism, OnSample) and not mapped) or not _by_curator(mechanism, drawn_here):
            found[Code.SAMPLE_SUMMED, None] = None  # otherwise the curator drew the records itself
    for name in type(mechanism).model_fields:
        value = getattr(mechanism, name)
        for part in value if isinstance(value, tuple) else (value,):
            inner = part if isinstance(part, BaseMechanism) else getattr(part, "mechanism", None)
            if isinstance(inner, BaseMechanism):
                found |= dict.fromkeys(_conditions_of(inner, drawn_here=drawn_here))
    return tuple(found)


@dataclass(slots=True)
class _Resting:
    """The number of releases that rest on a condition, and their first distinct labels in order."""

    number: int = 0
    labels: dict[str, None] = field(default_factory=dict)

    def releases(self) -> Releases:
        labels = list(self.labels)
        first = tuple(sorted(labels[:MOST_LABELS]))
        return Releases(number=self.number, labels=first, more_labels=len(labels) > MOST_LABELS)
