"""Each user's view: the output of an algorithm under joint trust."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class UserViews:
    """One view for each user, in the order of the data's users.

    Joint differential privacy covers everything except the changed user's own view (Kearns, Pai, Roth and
    Ullman 2014, Definition 3): an audit compares the views of all other users.
    """

    views: tuple[Any, ...]

    def without(self, unit: int) -> tuple[Any, ...]:
        """Return every view except the one of user `unit`, in order."""
        return self.views[:unit] + self.views[unit + 1 :]
