"""Releases of the commonest noise as plain numbers, each convertible from and to its `Release`.

A ledger of a million lines is held in them: a validated model costs some kilobytes and ten microseconds, a
tuple of numbers a hundred bytes and none.
"""

import functools
from typing import Literal, NamedTuple

from dpaudit.claims.guarantees import ZCDP, AnyGuarantee, PureDP, leading_figure
from dpaudit.claims.sensitivity import L1, L2, Basis
from dpaudit.ledger.releases import Partition, Release
from dpaudit.mechanisms import AnyMechanism, Gaussian, Laplace

Kind = Literal["gaussian", "laplace"]
ClaimKind = Literal["zcdp", "pure-dp"]

#: A plain release was made fewer times than this, so that a billion of them are counted without rounding.
MOST_RUNS = 10**9


class PlainNoise(NamedTuple):
    """A Gaussian (`scale` is sigma) or Laplace mechanism: equal ones are equal, and hash alike."""

    kind: Kind
    basis: Basis
    sensitivity: float
    scale: float

    @functools.lru_cache(maxsize=1024)  # noqa: B019  (keeps numbers alone)
    def mechanism(self) -> Gaussian | Laplace:
        """The mechanism with these numbers; most lines of a ledger share theirs with others."""
        if self.kind == "gaussian":
            return Gaussian(sigma=self.scale, sensitivity=L2(self.sensitivity, self.basis))
        return Laplace(scale=self.scale, sensitivity=L1(self.sensitivity, self.basis))


class PlainRelease(NamedTuple):
    """`runs` independent runs of plain noise; `claimed` is rho or epsilon, and nothing without its kind."""

    label: str
    noise: PlainNoise
    runs: int = 1
    partition: Partition | None = None
    claim_kind: ClaimKind | None = None
    claimed: float = 0.0
    grid: int | None = None

    def release(self) -> Release:
        """The same ledger line as a `Release`."""
        claimed: AnyGuarantee | None = None
        if self.claim_kind is not None:
            zcdp = self.claim_kind == "zcdp"
            claimed = ZCDP(rho=self.claimed) if zcdp else PureDP(epsilon=self.claimed)
        noise = self.noise.mechanism()
        return Release(
            label=self.label,
            mechanism=noise,
            count=self.runs,
            partition=self.partition,
            grid=self.grid,
            claimed=claimed,
        )


def plain_noise(mechanism: AnyMechanism) -> PlainNoise | None:
    """A mechanism as plain numbers; None if it is neither Gaussian nor Laplace."""
    if not isinstance(mechanism, Gaussian | Laplace):
        return None
    sensitivity = mechanism.sensitivity
    scale = mechanism.sigma if isinstance(mechanism, Gaussian) else mechanism.scale
    return PlainNoise(mechanism.kind, sensitivity.basis, sensitivity.value, scale)


def plain_release(release: Release) -> PlainRelease | None:
    """A release as plain numbers; None if its mechanism, count or claim has no place among them."""
    noise = plain_noise(release.mechanism)
    claimed = release.claimed
    if noise is None or release.count >= MOST_RUNS or not isinstance(claimed, ZCDP | PureDP | None):
        return None
    kind, figure = (None, 0.0) if claimed is None else (claimed.kind, leading_figure(claimed))
    return PlainRelease(release.label, noise, release.count, release.partition, kind, figure, release.grid)
