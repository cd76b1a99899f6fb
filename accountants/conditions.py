"""What a mechanism's figures take on trust: conditions that no ledger can show."""

import functools
from dataclasses import dataclass, field

from dpaudit.certificate.conditions import MOST_LABELS, Code, Condition, Releases
from dpaudit.ledger.columnar import PlainRelease
from dpaudit.ledger.columns import PlainReleases
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms.base import BaseMechanism


class TrustedConditions:
    """Collects such conditions, release by release."""

    def __init__(self) -> None:
        self._resting: dict[tuple[Code, str | None], _Resting] = {}
        self._split_by_position = False

    def add(self, release: Release | PlainRelease | PlainReleases) -> None:
        """Take one more release in, or a block of them."""
        if isinstance(release, PlainReleases):
            self._add_block(release)
            return
        if isinstance(release, Release):
            for code, text in _of(release.mechanism):
                self._rests(release.label, code, text)
        elif release.noise.basis == "declared":
            self._rests(release.label, Code.DECLARED_SENSITIVITY)
        if release.partition is not None and release.partition.by == "position":
            self._split_by_position = True

    def _add_block(self, block: PlainReleases) -> None:
        columns = block.columns
        if number := columns.bases.count("declared"):
            resting = self._resting.setdefault((Code.DECLARED_SENSITIVITY, None), _Resting())
            resting.number += number
            for label, basis in zip(columns.labels, columns.bases, strict=True):
                if len(resting.labels) > MOST_LABELS:
                    break
                if basis == "declared":
                    resting.labels.setdefault(label)
        by_position = (place is not None and place.by == "position" for place in set(columns.partitions))
        self._split_by_position = self._split_by_position or any(by_position)

    def found(self) -> list[Condition]:
        """The conditions, each with how many releases rest on it and the labels of the first."""
        resting = self._resting.items()
        found = [Condition(code=code, text=text, releases=rest.releases()) for (code, text), rest in resting]
        return [*found, Condition(code=Code.SPLIT_BY_POSITION)] if self._split_by_position else found

    def _rests(self, label: str, code: Code, text: str | None = None) -> None:
        resting = self._resting.setdefault((code, text), _Resting())
        resting.number += 1
        if len(resting.labels) <= MOST_LABELS:  # one more tells that there are more
            resting.labels.setdefault(label)


@functools.lru_cache(maxsize=1024, typed=True)
def _of(mechanism: BaseMechanism) -> tuple[tuple[Code, str | None], ...]:
    """What a mechanism's figures take on trust, and those of every mechanism inside it, each once."""
    found: dict[tuple[Code, str | None], None] = {}
    sensitivity = mechanism.declared_sensitivity
    if sensitivity is not None and sensitivity.basis == "declared":
        found[Code.DECLARED_SENSITIVITY, None] = None
    if mechanism.condition is not None:
        found[Code(mechanism.condition), getattr(mechanism, "justification", None)] = None
    for name in type(mechanism).model_fields:
        value = getattr(mechanism, name)
        for part in value if isinstance(value, tuple) else (value,):
            inner = part if isinstance(part, BaseMechanism) else getattr(part, "mechanism", None)
            if isinstance(inner, BaseMechanism):
                found |= dict.fromkeys(_of(inner))
    return tuple(found)


@dataclass(slots=True)
class _Resting:
    """How many releases rest on a condition, and their first distinct labels in order."""

    number: int = 0
    labels: dict[str, None] = field(default_factory=dict)

    def releases(self) -> Releases:
        labels = list(self.labels)
        first = tuple(sorted(labels[:MOST_LABELS]))
        return Releases(number=self.number, labels=first, more_labels=len(labels) > MOST_LABELS)
