"""What each user sees: the output of an algorithm under joint trust."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class UserViews:
    """One view for each user, in the order of the data's users.

    Joint differential privacy covers everything but the changed user's own view (Kearns, Pai, Roth and
    Ullman 2014, Definition 3): an audit compares the views of all the others.
    """

    views: tuple[Any, ...]

    def without(self, unit: int) -> tuple[Any, ...]:
        """Every view but that of one user, in order."""
        return self.views[:unit] + self.views[unit + 1 :]
