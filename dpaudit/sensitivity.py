"""How much one unit can change a query, in which norm, and on what ground that is believed."""

from __future__ import annotations

from typing import Literal

from dpaudit.models import Model, NonNegative

Norm = Literal["l1", "l2", "frobenius", "rkhs"]

#: proved: by an argument about the query; clipped: enforced on every record by the curator;
#: declared: the author's word, which the certificate repeats as not checked.
Basis = Literal["proved", "clipped", "declared"]

#: What can soundly be done when a sensitivity stands in another norm than the mechanism needs.
CONVERSIONS = {
    ("l1", "l2"): "a vector's L2 norm never exceeds its L1 norm, so L2 with the same value is sound",
    (
        "l2",
        "l1",
    ): "in d dimensions the L1 norm is at most sqrt(d) times the L2 norm: L1(value * sqrt(d)) is sound",
    (
        "frobenius",
        "l2",
    ): "the Frobenius norm is the L2 norm of the flattened matrix: L2 with the same value is sound",
    (
        "l2",
        "frobenius",
    ): "the L2 norm of a flattened matrix is its Frobenius norm: Frobenius with the same value is sound",
}


class Sensitivity(Model):
    """The largest change of a query between neighbouring data sets.

    The relation is the ledger's: a sensitivity is always meant for the header's `neighbouring`.
    """

    value: NonNegative
    norm: Norm
    basis: Basis = "declared"


def L1(value: float, basis: Basis = "declared") -> Sensitivity:
    """A sensitivity in the sum of absolute values, which the Laplace mechanism needs."""
    return Sensitivity(value=value, norm="l1", basis=basis)


def L2(value: float, basis: Basis = "declared") -> Sensitivity:
    """A sensitivity in the Euclidean norm, which the Gaussian mechanism needs."""
    return Sensitivity(value=value, norm="l2", basis=basis)
