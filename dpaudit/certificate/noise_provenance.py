"""How noise was drawn, how figures are compared, by which versions, and what follows for the reader."""

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
    """How the noise was drawn and how figures are compared.

    Attributes:
        floating_point: whether any of the releases was drawn in floating point.
        claim_tolerance: by how much, relatively, a bound may exceed a claim and still meet it.
    """

    sampler: Sampler
    floating_point: bool
    seeded: bool
    claim_tolerance: float = CLAIM_TOLERANCE

    @classmethod
    def of(cls, sampler: Sampler, mechanisms: Iterable[AnyMechanism], *, seeded: bool) -> Self:
        """What a sampler makes of a run's mechanisms."""
        if sampler == FLOATING_POINT_SAMPLER:
            in_floats = not all(m.integer_noise for m in mechanisms)
        else:
            in_floats = sampler == EXACT_SAMPLER and not all(m.drawn_exactly for m in mechanisms)
        return cls(sampler=sampler, floating_point=in_floats, seeded=seeded)

    def not_checked(self) -> list[Condition]:
        """What the noise leaves unchecked."""
        codes = {Code.FLOATING_POINT_NOISE: self.floating_point, Code.SEEDED_NOISE: self.seeded}
        return [Condition(code=code) for code, applies in codes.items() if applies]


@functools.cache
def versions() -> Mapping[str, str]:
    """The versions that the figures depend on."""
    found = {"python": platform.python_version()}
    for package in ("dpaudit", "numpy", "scipy", "pydantic"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed as a package"
    return MappingProxyType(found)
