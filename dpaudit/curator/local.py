"""Local trust: every user makes the same releases as the first user."""

from dpaudit.claims.relations import TrustModel
from dpaudit.errors import ScheduleBroken
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Release


class UserSchedule:
    """The releases of one user.

    The first user's releases are charged and written to the ledger, which describes one user; every later
    user must make exactly the same releases in the same order.
    """

    def __init__(self, ledger: Ledger, index: int, *, first: bool) -> None:
        self._ledger = ledger
        self.index = index
        self._first = first
        self._made = 0

    def take(self, release: Release) -> bool:
        """Count one more release; return whether it must be charged.

        Raises:
            ScheduleBroken: the first user made another release, or none, at this position.
        """
        if not self._first and release not in self._ledger.releases[self._made : self._made + 1]:
            raise ScheduleBroken(
                f"user {self.index} asks for release {self._made + 1}, {release.label!r}, "
                "which the first user did not make there",
                where=f"ledger of {self._ledger.header.algorithm!r}",
                why="the ledger describes every user by the first one",
                remedy="let every user make the same releases with the same noise",
            )
        self._made += 1
        return self._first

    def require_whole(self) -> None:
        """Raise `ScheduleBroken` if this user made fewer releases than the first user."""
        expected = self._ledger.number
        if self._made != expected:
            what = f"user {self.index} made {self._made} releases, the first user {expected}"
            where = f"ledger of {self._ledger.header.algorithm!r}"
            why = "the number of releases would distinguish users"
            raise ScheduleBroken(what, where=where, why=why, remedy="let every user make the same releases")


class Users:
    """The users of one run, each served once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._served: set[int] = set()
        self._last: UserSchedule | None = None

    def begin(self, index: int) -> UserSchedule:
        """Finish the previous user's releases and begin those of the next user.

        Raises:
            ScheduleBroken: the trust model is not local, the user was served before, the index is not
                below the header's number of users, or the previous user made fewer releases than the first.
        """
        header = self._ledger.header
        where = f"user {index} of {header.algorithm!r}"
        if header.trust_model is not TrustModel.LOCAL or header.users is None:
            what = f"a local curator under {header.trust_model} trust"
            raise ScheduleBroken(what, where=where, remedy="state trust_model local and the number of users")
        if index in self._served:
            why = "the ledger accounts for one round of each user's randomizer"
            remedy = "put all of a user's releases into one round"
            raise ScheduleBroken("this user has been served", where=where, why=why, remedy=remedy)
        if not 0 <= index < header.users:
            raise ScheduleBroken(
                f"the ledger covers {header.users} users", where=where, remedy="count from 0"
            )
        self.end()
        self._served.add(index)
        self._last = UserSchedule(self._ledger, index, first=len(self._served) == 1)
        return self._last

    def end(self) -> None:
        """Raise `ScheduleBroken` if the last user made fewer releases than the first user."""
        if self._last is not None:
            self._last.require_whole()
