"""The curator: the one door through which private data leaves an algorithm.

It draws the noise and writes the ledger in one call, so the two cannot drift apart. Live, noiseless,
recorded and replayed runs are curators with other noise sources, never patched algorithms.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.claims.relations import TrustModel
from dpaudit.claims.sensitivity import Norm
from dpaudit.curator.admission import Filter, as_query, new_release, require_count
from dpaudit.curator.clipping import bounded, clip_rows, count_cells, doubles
from dpaudit.curator.noise import NoiseSource, Transcript
from dpaudit.curator.shapes import Shapes
from dpaudit.errors import InvalidParameter, ScheduleBroken
from dpaudit.ledger.ledger import Ledger
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import AnyMechanism, Array, PoissonSampled, ValueMechanism

if TYPE_CHECKING:
    from dpaudit.curator.local import UserCurator

__all__ = ["Curator", "Filter"]


class Curator(Shapes):
    """Answers an algorithm's queries with noise, and writes each into the ledger.

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
        super().__init__(ledger, noise, budget=budget, transcript=transcript)
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
            mechanism: one that answers values, whose sensitivity is that of one repetition.
            label: what this is, in the ledger.
            count: how many repetitions `value` holds.
            partition: the part of a split that alone this release touches.
            claimed: the guarantee claimed for all repetitions together.

        Returns:
            The noisy value, same shape.

        Raises:
            InvalidParameter: the value is not a finite array of numbers such as the mechanism takes, or
                `count` does not fit it, or the mechanism answers no values.
            BudgetExceeded: the budget does not suffice; nothing was sampled or written.
        """
        where = f"release {label!r}"
        if not isinstance(mechanism, ValueMechanism):
            method = getattr(mechanism, "released_by", "release_opaque")
            raise InvalidParameter(
                f"a {getattr(mechanism, 'kind', type(mechanism).__name__)} mechanism for a value",
                where=where,
                why="it cannot answer a value by itself",
                remedy=f"release through curator.{method}, or use a mechanism that adds noise to values",
            )
        release = new_release(label, mechanism, partition, claimed, count)
        query = as_query(value, label)
        require_count(query, count, label)
        mechanism.require_fits(query, where)
        if self.ledger.header.trust_model is TrustModel.LOCAL:
            mechanism.require_single(query, count, where)
        return self._answer(release, query, lambda randomness: mechanism.answer(query, randomness))

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
            mechanism: its sensitivity must be at least what `bound` implies under the ledger's relation;
                a `PoissonSampled` one draws the sample itself, a discrete one rounds rows towards zero.
            label: what this is, in the ledger.
            nonnegative: clip entries at 0 from below too; two non-negative contributions are never
                opposed, which makes the replace-one L2 sensitivity sqrt(2) times the bound, not twice.
            partition: as in `release`.
            claimed: as in `release`.

        Raises:
            SensitivityTooSmall: the declared sensitivity is below what the bound implies.
            InvalidParameter: the bound is not positive.
        """
        clipped, norm = self._bounded(mechanism, bound, acute=nonnegative, label=label)
        rows = clip_rows(
            doubles(contributions, f"release {label!r}"),
            bound,
            norm,
            nonnegative=nonnegative,
            whole=mechanism.integer_noise,
        )
        total = rows.sum(axis=0)
        if isinstance(clipped, PoissonSampled):
            sampled = clipped
            release = new_release(label, sampled, partition, claimed)
            return self._answer(
                release, total, lambda r: sampled.sample(rows, r.generator), exact=sampled.rate * total
            )
        return self.release(total, clipped, label=label, partition=partition, claimed=claimed)

    def release_gram(
        self,
        vectors: ArrayLike,
        *,
        bound: float,
        mechanism: AnyMechanism,
        label: str,
        partition: Partition | str | None = None,
        claimed: AnyGuarantee | None = None,
    ) -> Array:
        """Clip each unit's vector x, and release the sum of the outer products x x'.

        Two of them are never opposed, <x x', y y'> = <x, y>^2 >= 0: under replace-one the Frobenius
        sensitivity is sqrt(2) times the squared bound.

        Args:
            vectors: [n, d], one row per unit of privacy.
            bound: the L2 norm to which a row is scaled down.
            mechanism: as in `release_sum`, with a sensitivity in a Euclidean norm of the matrix.
            label: what this is, in the ledger.
            partition: as in `release`.
            claimed: as in `release`.

        Returns:
            The noisy matrix, [d, d].

        Raises:
            SensitivityTooSmall: the declared sensitivity is below what the bound implies.
            InvalidParameter: the bound is not positive, or the norm is not Euclidean.
        """
        clipped, norm = self._bounded(mechanism, bound * bound, acute=True, label=label)
        if norm not in {"frobenius", "l2"}:
            raise InvalidParameter(
                f"a sensitivity in norm {norm!r} for a Gram matrix",
                where=f"release {label!r}",
                why="the squared bound is the Euclidean norm of an outer product and no other",
                remedy="use a symmetric-gaussian mechanism, with its sensitivity in the Frobenius norm",
            )
        rows = clip_rows(np.asarray(vectors, dtype=np.float64), bound, "l2")
        gram = rows.T @ rows
        symmetric = (gram + gram.T) / 2  # to the last bit, as the mechanism asks
        return self.release(symmetric, clipped, label=label, partition=partition, claimed=claimed)

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
            mechanism: as in `release_sum`, but not sampled; counts are never opposed. A discrete one
                leaves out a unit that is past the bound.
            label: what this is, in the ledger.
            partition: as in `release`.
            claimed: as in `release`.

        Returns:
            The noisy table, of `shape`.
        """
        clipped, norm = self._bounded(mechanism, bound, acute=True, label=label)
        table = count_cells(cells, shape, bound, norm, whole=mechanism.integer_noise)
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
        from dpaudit.curator.local import UserCurator

        self._last_user = UserCurator(self, index, first=len(self._users_served) == 1)
        return self._last_user

    def end(self) -> None:
        """The run is over, or the next user's turn: the last user must have made all its releases.

        Raises:
            ScheduleBroken: it made fewer than the first user.
        """
        if self._last_user is not None:
            self._last_user.require_whole()

    def _bounded(
        self, mechanism: AnyMechanism, bound: float, *, acute: bool, label: str
    ) -> tuple[AnyMechanism, Norm]:
        return bounded(mechanism, bound, self.ledger.header.neighbouring, acute=acute, label=label)
