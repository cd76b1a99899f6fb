"""Mechanisms that were not written for dpaudit: any callable that draws its own noise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from dpaudit.claims.claims import Claim
from dpaudit.curator.curator import Curator
from dpaudit.curator.running import name_of
from dpaudit.errors import UsageError

#: Many independent runs at once: ``(data, generator, trials) -> outputs``, each [trials, ...].
Rows = Callable[[Any, np.random.Generator, int], Any]


@dataclass(frozen=True)
class Plain:
    """A mechanism ``(data, generator) -> output`` that draws its own noise.

    It has no ledger, so it can be neither accounted for nor replayed: only a sampling audit of its final
    output is possible. A mechanism that ignores the generator and takes its noise from the operating system
    can be audited too, but its trials cannot be repeated. `rows` makes many independent runs at once;
    `fingerprint` identifies the mechanism in a store of trials if its content cannot be inspected.
    """

    function: Callable[[Any, np.random.Generator], Any]
    rows: Rows | None = None
    claim: Claim | None = None
    fingerprint: str | None = None
    plain: ClassVar[bool] = True  # as what stands for one that is in a process of its own

    @property
    def name(self) -> str:
        """The name of the function."""
        return name_of(self.function)

    def __call__(self, data: Any, curator: Curator) -> NoReturn:
        """Raise `UsageError`: noise that the curator did not draw is in no ledger."""
        del data, curator
        why = "noise that the curator did not draw is in no ledger: it cannot be accounted for or replayed"
        remedy = "audit it by sampling (threshold, sequential), or release through a curator"
        raise UsageError(f"{self.name!r} draws its own noise", where="run", why=why, remedy=remedy)
