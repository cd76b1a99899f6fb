"""Many releases of plain noise in columns, as they are read from a long ledger and accounted for."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from dpaudit.claims.sensitivity import Basis
from dpaudit.ledger.columnar import ClaimKind, Kind, PlainNoise, PlainRelease
from dpaudit.ledger.releases import Partition

Numbers: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]


class PlainColumns(NamedTuple):
    """Releases [n] as `PlainRelease` has them; noise that is not Gaussian is Laplace noise.

    `figure` is the rho (`zcdp`) or epsilon (`pure`) that is claimed.
    """

    labels: Sequence[str]
    gaussian: Flags
    bases: Sequence[Basis]
    sensitivity: Numbers
    scale: Numbers
    runs: NDArray[np.int64]
    zcdp: Flags
    pure: Flags
    figure: Numbers
    partitions: Sequence[Partition | None]
    grids: Sequence[int | None]


class PlainReleases(Sequence[PlainRelease]):
    """Releases in columns; each is made when it is asked for."""

    def __init__(self, columns: PlainColumns) -> None:
        self.columns = columns

    @classmethod
    def of(cls, releases: Sequence[PlainRelease]) -> "PlainReleases":
        """The same releases, filled into columns one by one, without rows between."""
        size = len(releases)

        def numbers(column: Iterator[float]) -> Numbers:
            return np.fromiter(column, np.float64, size)

        def flags(column: Iterator[bool]) -> Flags:
            return np.fromiter(column, np.bool_, size)

        columns = PlainColumns(
            labels=[one.label for one in releases],
            gaussian=flags(one.noise.kind == "gaussian" for one in releases),
            bases=[one.noise.basis for one in releases],
            sensitivity=numbers(one.noise.sensitivity for one in releases),
            scale=numbers(one.noise.scale for one in releases),
            runs=np.fromiter((one.runs for one in releases), np.int64, size),
            zcdp=flags(one.claim_kind == "zcdp" for one in releases),
            pure=flags(one.claim_kind == "pure-dp" for one in releases),
            figure=numbers(one.claimed for one in releases),
            partitions=[one.partition for one in releases],
            grids=[one.grid for one in releases],
        )
        return cls(columns)

    def __len__(self) -> int:
        return len(self.columns.labels)

    @overload
    def __getitem__(self, index: int) -> PlainRelease: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PlainRelease]: ...
    def __getitem__(self, index: int | slice) -> PlainRelease | Sequence[PlainRelease]:
        """The release at an index, or a list of those in a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        own = self.columns
        kind: Kind = "gaussian" if own.gaussian[index] else "laplace"
        noise = PlainNoise(kind, own.bases[index], float(own.sensitivity[index]), float(own.scale[index]))
        claim_kind: ClaimKind | None = "zcdp" if own.zcdp[index] else "pure-dp" if own.pure[index] else None
        runs, claimed = int(own.runs[index]), float(own.figure[index])
        place = own.partitions[index]
        return PlainRelease(own.labels[index], noise, runs, place, claim_kind, claimed, own.grids[index])


#: Stands in columns for a release that has no plain numbers: its cost is NaN.
NOT_PLAIN = PlainRelease("", PlainNoise("gaussian", "declared", math.nan, math.nan))
