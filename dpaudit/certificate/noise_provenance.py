"""The source of the noise, the comparison of figures, the versions, and the conditions that follow."""

import functools
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Self

from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.verdicts import CLAIM_TOLERANCE
from dpaudit.mechanisms import AnyMechanism
from dpaudit.models import Model
from dpaudit.noise.randomness import EXACT_SAMPLER, FLOATING_POINT_SAMPLER, Sampler


class Numerics(Model):
    """The way the noise was drawn and the way figures are compared.

    Attributes:
        floating_point: whether any of the releases was drawn in floating point.
        claim_tolerance: the relative amount by which a bound may exceed a claim and still meet it.
    """

    sampler: Sampler
    floating_point: bool
    seeded: bool
    claim_tolerance: float = CLAIM_TOLERANCE

    @classmethod
    def of(cls, sampler: Sampler, mechanisms: Iterable[AnyMechanism], *, seeded: bool) -> Self:
        """Return the numerics of a run's mechanisms under a sampler."""
        if sampler == FLOATING_POINT_SAMPLER:
            in_floats = not all(m.integer_noise for m in mechanisms)
        else:
            in_floats = sampler == EXACT_SAMPLER and not all(m.drawn_exactly for m in mechanisms)
        return cls(sampler=sampler, floating_point=in_floats, seeded=seeded)

    def not_checked(self) -> list[Condition]:
        """Return the conditions that the noise leaves unchecked."""
        codes = {Code.FLOATING_POINT_NOISE: self.floating_point, Code.SEEDED_NOISE: self.seeded}
        return [Condition(code=code) for code, applies in codes.items() if applies]


@functools.cache
def versions() -> Mapping[str, str]:
    """Return the versions of the libraries behind the figures."""
    found = {"python": platform.python_version()}
    for package in ("dpaudit", "numpy", "scipy", "pydantic"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed as a package"
    return MappingProxyType(found)
