"""Mechanisms, releases, ledgers and compositions with defaults, for tests of something else."""

from collections.abc import Iterable, Sequence
from typing import Any

from dpaudit import (
    L1,
    L2,
    ApproxDP,
    Claim,
    Curator,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Header,
    Laplace,
    Ledger,
    MatrixMechanism,
    Neighbouring,
    Partition,
    PoissonSampled,
    Release,
    Toeplitz,
    TreeAggregation,
)
from dpaudit.accountants.accounting import account, bounds
from dpaudit.accountants.composition.composition import Composition, compose
from dpaudit.mechanisms import AnyMechanism

#: A release, or a mechanism that is released once, or so many times.
Made = Release | AnyMechanism | tuple[AnyMechanism, int]


def gaussian(sigma: float = 1.0, moves: float = 1.0) -> Gaussian:
    return Gaussian(sigma=sigma, sensitivity=L2(moves))


def laplace(scale: float = 1.0, moves: float = 1.0) -> Laplace:
    return Laplace(scale=scale, sensitivity=L1(moves))


def discrete_gaussian(sigma: float = 1.0, moves: float = 1.0) -> DiscreteGaussian:
    return DiscreteGaussian(sigma=sigma, sensitivity=L2(moves))


def discrete_laplace(scale: float = 1.0, moves: float = 1.0) -> DiscreteLaplace:
    return DiscreteLaplace(scale=scale, sensitivity=L1(moves))


def tree(sigma: float = 1.0, steps: int = 100, moves: float = 1.0) -> TreeAggregation:
    return TreeAggregation(sigma=sigma, steps=steps, sensitivity=L2(moves))


def banded(
    sigma: float = 1.0,
    steps: int = 9,
    coefficients: Sequence[float] = (1.0, 0.5),
    moves: float = 1.0,
    **fields: Any,
) -> MatrixMechanism:
    """Noise correlated by the inverse of a Toeplitz matrix; `participations` and `separation` are fields."""
    strategy = Toeplitz(coefficients=tuple(coefficients))
    return MatrixMechanism(sigma=sigma, steps=steps, strategy=strategy, sensitivity=L2(moves), **fields)


def poisson(mechanism: Any, rate: float = 0.01, contribution: float | None = None) -> PoissonSampled:
    return PoissonSampled(rate=rate, mechanism=mechanism, contribution=contribution)


def release(
    mechanism: AnyMechanism,
    count: int = 1,
    *,
    part: str | None = None,
    split: str = "split",
    by: str = "position",
    **fields: Any,
) -> Release:
    """One release, labelled "r"; of the `part` of a split where there is one."""
    if part is not None:
        fields["partition"] = Partition(part=part, split=split, by=by)
    return Release(**{"label": "r", "mechanism": mechanism, "count": count, **fields})


def releases(made: Iterable[Made], **fields: Any) -> list[Release]:
    """Each as a release; `fields` are for those that are not yet."""
    found = []
    for one in made:
        mechanism, count = one if isinstance(one, tuple) else (one, 1)
        found.append(one if isinstance(one, Release) else release(mechanism, count, **fields))
    return found


def header(neighbouring: str = "add-or-remove-one", **fields: Any) -> Header:
    return Header(**{"algorithm": "a", "unit": "row", "neighbouring": Neighbouring(neighbouring), **fields})


def ledger(*made: Made, **fields: Any) -> Ledger:
    """A finished ledger; the fields are the header's."""
    written = Ledger(header(**fields))
    for one in releases(made):
        written.append(one)
    written.finish()
    return written


def curator(neighbouring: str = "add-or-remove-one", noise: Any = None, **options: Any) -> Curator:
    return Curator(Ledger(header(neighbouring)), noise, **options)


def composition(
    *made: Made, relation: Neighbouring = Neighbouring.ADD_OR_REMOVE_ONE, units: int = 1
) -> Composition:
    return compose(releases(made), relation, units)


def figures(composed: Composition, delta: float) -> dict[str, float]:
    """The epsilon of each method that has one."""
    found = bounds(composed, ApproxDP(epsilon=0.0, delta=delta))
    return {bound.method: bound.guarantee.epsilon for bound in found}  # type: ignore[union-attr]


def epsilon(written: Ledger, delta: float = 1e-6, method: str | None = None) -> float:
    """The least epsilon that a ledger's account has, or that one method finds."""
    found = account(written, Claim(ApproxDP(epsilon=0.0, delta=delta))).bounds
    return next(b.guarantee.epsilon for b in found if method in {None, b.method})  # type: ignore[union-attr]
