"""What mechanisms calibrated to a sensitivity share: the norms in which their theorem measures it."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from dpaudit.claims.sensitivity import CONVERSIONS, Norm, Sensitivity
from dpaudit.errors import InvalidParameter, NormMismatch
from dpaudit.models import Model

Array = NDArray[np.float64]

#: What a ledger may name as having drawn its noise.
Sampler = Literal["numpy-float64", "opendp-discrete"]

#: The sampler that draws real-valued noise in floating point; a certificate says that it is not exact.
FLOATING_POINT_SAMPLER: Final = "numpy-float64"


class Calibrated(Model):
    """A mechanism whose noise is calibrated to the largest change of its query."""

    #: The norms in which the mechanism's theorem measures sensitivity.
    norms: ClassVar[tuple[Norm, ...]]

    sensitivity: Sensitivity

    @property
    def norm(self) -> Norm:
        """The norm of this mechanism's sensitivity, one of `norms`."""
        return self.sensitivity.norm

    @model_validator(mode="after")
    def _norm_fits(self) -> Self:
        given = self.sensitivity.norm
        if given not in self.norms:
            needed = " or ".join(repr(norm) for norm in self.norms)
            known = [CONVERSIONS[given, norm] for norm in self.norms if (given, norm) in CONVERSIONS]
            conversion = known[0] if known else "no sound conversion is known"
            raise NormMismatch(
                f"a {type(self).__name__} mechanism needs its sensitivity in norm {needed}, got {given!r}",
                where=f"{type(self).__name__}.sensitivity",
                remedy=f"{conversion}; or derive the sensitivity in norm {needed}",
            )
        return self


def distance(norm: Norm, difference: Array) -> float:
    """The size of a difference of queries in a mechanism's norm; at most the largest double.

    For ``"rkhs"`` ask the kernel.
    """
    limit = np.finfo(np.float64).max
    entries = np.minimum(np.abs(difference).ravel(), limit)
    largest = float(entries.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    # Scaled to the largest entry first, so that squares neither overflow nor vanish.
    entries = entries / largest
    length = float(entries.sum() if norm == "l1" else np.linalg.norm(entries))
    return min(length * largest, float(limit))


def residual(output: Array, query: Array) -> Array:
    """`output` minus `query`, entry by entry; never broadcast.

    Raises:
        InvalidParameter: their shapes differ.
    """
    if output.shape != query.shape:
        raise InvalidParameter(
            f"an output of shape {output.shape} for a query of shape {query.shape}",
            where="log_density",
            remedy="give the output of this query",
        )
    return output - query
