"""Local trust: one curator per user, each held to what the ledger says of all."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import ScheduleBroken
from dpaudit.ledger.releases import Release


class UserCurator(Curator):
    """One user's local curator: a context in which exactly the first user's releases are made.

    The first user's releases are charged and written to the ledger, which describes one user; every
    later user must make the same, in the same order, no more and no fewer.

    Args:
        everyone: the run's curator.
        index: the user.
        first: whether this user's releases are the ones that are written.
    """

    def __init__(self, everyone: Curator, index: int, *, first: bool) -> None:
        noise, transcript, numbers = everyone.for_user()
        super().__init__(everyone.ledger, noise, transcript=transcript)
        self._numbers = numbers
        self._everyone = everyone
        self._index = self._user = index
        self._first = first
        self._made = 0

    def public(self, name: str) -> np.random.Generator:
        """The whole run's public stream of that name."""
        return self._everyone.public(name)

    def user(self, index: int) -> UserCurator:
        """A user has no users; raises `ScheduleBroken`."""
        raise ScheduleBroken(
            f"user {index} inside user {self._index}",
            where=f"ledger of {self.ledger.header.algorithm!r}",
            why="a user's releases are that user's alone",
            remedy="ask the run's curator",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.require_whole()

    def require_whole(self) -> None:
        """Raise `ScheduleBroken` where this user made fewer releases than the first one."""
        expected = len(self.ledger.releases)
        if self._made != expected:
            raise ScheduleBroken(
                f"user {self._index} made {self._made} releases, the first user {expected}",
                where=f"ledger of {self.ledger.header.algorithm!r}",
                why="the number of releases would tell users apart",
                remedy="let every user make the same releases",
            )

    def admit(self, release: Release) -> int:
        """Charge and write the first user's release; hold every other user's against it."""
        if self._first:
            self._everyone.charge(release)
        else:
            schedule = self.ledger.releases
            if self._made >= len(schedule) or release != schedule[self._made]:
                raise ScheduleBroken(
                    f"user {self._index} asks for release {self._made + 1}, {release.label!r}, "
                    "which the first user did not make there",
                    where=f"ledger of {self.ledger.header.algorithm!r}",
                    why="the ledger describes every user by the first one",
                    remedy="let every user make the same releases with the same noise",
                )
        self._made += 1
        return next(self._numbers)
