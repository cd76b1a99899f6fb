"""The curator: the one door through which private data leaves an algorithm.

It draws the noise and writes the ledger in one call, so the two cannot drift apart. Live, noiseless,
recorded and replayed runs are curators with other noise sources, never patched algorithms.
"""

from __future__ import annotations

import hashlib
import inspect
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.errors import InvalidParameter, ScheduleBroken, SensitivityTooSmall
from dpaudit.guarantees import AnyGuarantee
from dpaudit.ledger import Ledger
from dpaudit.mechanisms import AnyMechanism, Array
from dpaudit.noise import Entry, LiveNoise, NoiseSource, Transcript
from dpaudit.relations import Neighbouring, TrustModel
from dpaudit.releases import Partition, Release
from dpaudit.sums import clip_rows, count_cells, doubles

if TYPE_CHECKING:
    from dpaudit.local import UserCurator


class Filter(Protocol):
    """A budget that decides, before anything is sampled, whether a release may happen.

    A privacy filter (Rogers, Roth, Ullman, Vadhan 2016): the whole run satisfies `budget` although
    the releases and their number may depend on earlier outputs.
    """

    @property
    def budget(self) -> AnyGuarantee:
        """The guarantee that the whole run is held to."""

    @property
    def neighbouring(self) -> Neighbouring:
        """The relation under which releases are charged."""

    def spend(self, release: Release) -> None:
        """Charge one release; raises `BudgetExceeded`, and charges nothing, where too little is left."""


class Curator:
    """Holds the noise, the ledger and, if there is one, the budget of one run.

    Args:
        ledger: where every release is written before its output is handed out.
        noise: live noise by default, seeded by the operating system.
        budget: a privacy filter; asked for more than is left, it raises before anything is sampled.
        transcript: where queries and outputs are kept for an auditor; private.
        public_seed: seeds the public random streams; whoever reads the output may know it.
    """

    def __init__(
        self,
        ledger: Ledger,
        noise: NoiseSource | None = None,
        *,
        budget: Filter | None = None,
        transcript: Transcript | None = None,
        public_seed: int = 0,
    ) -> None:
        self.ledger = ledger
        self._noise = noise if noise is not None else LiveNoise()
        self._budget = budget
        self._transcript = transcript
        self._public_seed = public_seed
        self._streams: dict[str, np.random.Generator] = {}
        self._users_served: set[int] = set()
        self._last_user: UserCurator | None = None

    def release(
        self,
        value: ArrayLike,
        mechanism: AnyMechanism,
        *,
        label: str,
        count: int = 1,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
    ) -> Array:
        """Release a vector, a matrix or a number through a mechanism.

        Args:
            value: the query's answer; with ``count`` > 1 its first axis runs over the repetitions.
            mechanism: the mechanism, whose sensitivity is that of one repetition.
            label: what this is, in the ledger.
            count: how many repetitions `value` holds.
            partition: the part of a split that alone this release touches.
            claimed: the guarantee claimed for all repetitions together.

        Returns:
            The noisy value, same shape.

        Raises:
            InvalidParameter: the value is not a finite array of numbers, or `count` does not fit it.
            BudgetExceeded: the budget does not suffice; nothing was sampled or written.
        """
        release = Release(
            label=label,
            mechanism=mechanism,
            count=count,
            partition=Partition(part=partition) if isinstance(partition, str) else partition,
            claimed=claimed,
        )
        query = _query(value, release)
        self._admit(release)
        output = self._noise.answer(query, release)
        if self._transcript is not None:
            self._transcript.entries.append(
                Entry(release=release, query=query, output=output.copy(), where=_call_site())
            )
        return output

    def release_sum(
        self,
        contributions: ArrayLike,
        *,
        bound: float,
        mechanism: AnyMechanism,
        label: str,
        nonnegative: bool = False,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
    ) -> Array:
        """Clip each unit's contribution, sum them and release the sum.

        The ledger then says that the sensitivity holds because every contribution was ``clipped``.

        Args:
            contributions: [n, ...], one row per unit of privacy.
            bound: the norm to which a row is scaled down, in the mechanism's norm.
            mechanism: its sensitivity must be at least what `bound` implies under the ledger's relation.
            label: what this is, in the ledger.
            nonnegative: clip entries at 0 from below too; two non-negative contributions are never
                opposed, which makes the replace-one L2 sensitivity sqrt(2) times the bound, not twice.
            partition: as in `release`.
            claimed: as in `release`.

        Raises:
            SensitivityTooSmall: the declared sensitivity is below what the bound implies.
            InvalidParameter: the bound is not positive.
        """
        clipped = self._bounded(mechanism, bound, acute=nonnegative, label=label)
        rows = clip_rows(
            doubles(contributions, f"release {label!r}"), bound, mechanism.norm, nonnegative=nonnegative
        )
        return self.release(rows.sum(axis=0), clipped, label=label, partition=partition, claimed=claimed)

    def release_counts(
        self,
        cells: NDArray[np.integer],
        *,
        shape: tuple[int, ...],
        bound: float,
        mechanism: AnyMechanism,
        label: str,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
    ) -> Array:
        """The sparse form of `release_sum` for counts: each unit increments a few cells of a table.

        Args:
            cells: [n, m] flat indices into a table of `shape`; row i lists unit i's increments.
            shape: the table's shape.
            bound: the norm of one unit's table to which it is scaled down, in the mechanism's norm.
            mechanism: as in `release_sum`; counts are never opposed.
            label: what this is, in the ledger.
            partition: as in `release`.
            claimed: as in `release`.

        Returns:
            The noisy table, of `shape`.
        """
        clipped = self._bounded(mechanism, bound, acute=True, label=label)
        table = count_cells(cells, shape, bound, mechanism.norm)
        return self.release(table, clipped, label=label, partition=partition, claimed=claimed)

    def public(self, name: str) -> np.random.Generator:
        """The public random stream of that name: exploration, splits, initial weights; never noise.

        A replay hands out the same streams, so both sides of a pair see the same public randomness.
        """
        if name not in self._streams:
            words = hashlib.sha256(name.encode()).digest()
            entropy = [self._public_seed, *np.frombuffer(words, dtype=np.uint32).tolist()]
            self._streams[name] = np.random.default_rng(np.random.SeedSequence(entropy))
        return self._streams[name]

    def user(self, index: int) -> UserCurator:
        """The local curator of one user, held to the releases that the first user made.

        Raises:
            ScheduleBroken: the trust model is not local, the user was served before, the index is not
                below the header's number of users, or the user before made fewer releases than the first.
        """
        header = self.ledger.header
        where = f"user {index} of {header.algorithm!r}"
        if header.trust_model is not TrustModel.LOCAL or header.users is None:
            raise ScheduleBroken(
                f"a local curator under {header.trust_model} trust",
                where=where,
                remedy="state trust_model local and the number of users",
            )
        if index in self._users_served:
            raise ScheduleBroken(
                "this user has been served",
                where=where,
                why="the ledger accounts for one round of each user's randomizer",
                remedy="put all of a user's releases into one round",
            )
        if not 0 <= index < header.users:
            raise ScheduleBroken(
                f"the ledger speaks of {header.users} users", where=where, remedy="count from 0"
            )
        self.end()
        self._users_served.add(index)
        from dpaudit.local import UserCurator

        self._last_user = UserCurator(self, index, first=len(self._users_served) == 1)
        return self._last_user

    def end(self) -> None:
        """The run is over, or the next user's turn: the last user must have made all its releases.

        Raises:
            ScheduleBroken: it made fewer than the first user.
        """
        if self._last_user is not None:
            self._last_user.require_whole()

    def for_user(self) -> tuple[NoiseSource, Transcript | None]:
        """The noise and the transcript that every user's local curator shares."""
        return self._noise, self._transcript

    def _admit(self, release: Release) -> None:
        """Charge and write a release before it is sampled: the ledger never holds less than came out."""
        if self.ledger.header.trust_model is TrustModel.LOCAL:
            raise ScheduleBroken(
                f"release {release.label!r} outside any user",
                where=f"ledger of {self.ledger.header.algorithm!r}",
                why="under local trust every release is some user's own",
                remedy="release through curator.user(index)",
            )
        self.charge(release)

    def charge(self, release: Release) -> None:
        """Take a release out of the budget, then write it; what the budget refuses is not written."""
        if self._budget is not None:
            self._budget.spend(release)
        self.ledger.append(release)

    def _bounded(self, mechanism: AnyMechanism, bound: float, *, acute: bool, label: str) -> AnyMechanism:
        if not np.isfinite(bound) or bound <= 0:
            raise InvalidParameter(f"contribution bound {bound}", where=f"release {label!r}")
        implied = self.ledger.header.neighbouring.sum_sensitivity(bound, mechanism.norm, acute=acute)
        declared = mechanism.sensitivity
        if declared.value < implied * (1 - 1e-12):
            raise SensitivityTooSmall(
                f"sensitivity {declared.value} declared, {implied} follows from the bound {bound} "
                f"under {self.ledger.header.neighbouring}",
                where=f"release {label!r}",
                remedy=f"declare a sensitivity of {implied}, and calibrate the noise to it",
            )
        sensitivity = declared.model_copy(update={"basis": "clipped", "value": max(declared.value, implied)})
        return mechanism.model_copy(update={"sensitivity": sensitivity})


def _query(value: ArrayLike, release: Release) -> Array:
    where = f"release {release.label!r}"
    query = doubles(value, where)
    if not np.isfinite(query).all():
        raise InvalidParameter(
            "a value that is not finite",
            where=where,
            why="NaN and infinity pass through the noise unchanged and tell the data apart",
            remedy="clip each unit's contribution, as release_sum does",
        )
    if release.count > 1 and (query.ndim == 0 or query.shape[0] != release.count):
        raise InvalidParameter(
            f"count {release.count} for a value of shape {query.shape}",
            where=where,
            why="the ledger would account for another number of repetitions than were made",
            remedy="let the first axis run over the repetitions",
        )
    return query


def _call_site() -> str:
    """File and line of the nearest frame outside this module: where the algorithm released."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
