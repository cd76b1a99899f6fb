"""Sensitivity: the largest change of a query by one unit, with its norm and its basis."""

from typing import Annotated, Literal

from dpaudit.models import Enlarged, Model, NonNegative

Norm = Literal["l1", "l2", "frobenius", "rkhs"]

#: proved: by an argument about the query; clipped: the curator clips every contribution; mapped: clipped, and
#: each row is computed from one record alone; declared: stated by the author, and listed as not checked.
Basis = Literal["proved", "clipped", "declared", "mapped"]

#: How to convert a sensitivity from one norm to another.
CONVERSIONS = {
    ("l1", "l2"): "a vector's L2 norm never exceeds its L1 norm, so L2 with the same value is sound",
    ("l2", "l1"): "in d dimensions the L1 norm is at most sqrt(d) times the L2 norm: "
    "L1(value * sqrt(d)) is sound",
    ("frobenius", "l2"): "the Frobenius norm is the L2 norm of the flattened matrix: "
    "L2 with the same value is sound",
    ("l2", "frobenius"): "the L2 norm of a whole flattened matrix is its Frobenius norm: the same value is "
    "sound; for one triangle of a symmetric matrix alone, sqrt(2) times the value",
    ("l1", "frobenius"): "the Frobenius norm never exceeds the sum of all entries: the same value is sound",
    ("frobenius", "l1"): "for n entries the L1 norm is at most sqrt(n) times the Frobenius norm: "
    "L1(value * sqrt(n)) is sound",
}


class Sensitivity(Model):
    """The largest change of a query between neighbouring data sets.

    It refers to the neighbouring relation in the ledger's header.
    """

    value: Annotated[NonNegative, Enlarged]
    norm: Norm
    basis: Basis = "declared"


def L1(value: float, basis: Basis = "declared") -> Sensitivity:
    """Return a sensitivity in the L1 norm, which the Laplace mechanism needs.

    >>> L1(1.0).norm
    'l1'
    """
    return Sensitivity(value=value, norm="l1", basis=basis)


def L2(value: float, basis: Basis = "declared") -> Sensitivity:
    """Return a sensitivity in the Euclidean norm, which the Gaussian mechanism needs.

    >>> L2(2.0, basis="proved")
    Sensitivity(value=2.0, norm='l2', basis='proved')
    """
    return Sensitivity(value=value, norm="l2", basis=basis)


def Frobenius(value: float, basis: Basis = "declared") -> Sensitivity:
    """Return a sensitivity in the Frobenius norm, for mechanisms on symmetric matrices.

    >>> Frobenius(1.0).norm
    'frobenius'
    """
    return Sensitivity(value=value, norm="frobenius", basis=basis)


def RKHS(value: float, basis: Basis = "declared") -> Sensitivity:
    """Return a sensitivity in the norm of a kernel's function space, which the Gaussian process needs.

    >>> RKHS(1.0).norm
    'rkhs'
    """
    return Sensitivity(value=value, norm="rkhs", basis=basis)
