"""Neighbouring relations, trust models and views."""

import math
from enum import StrEnum
from fractions import Fraction


class Neighbouring(StrEnum):
    """The relation between two neighbouring data sets, stated in units of privacy."""

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"

    def sum_sensitivity(self, bound: float, norm: str, *, acute: bool = False) -> float:
        """Return the sensitivity, rounded up, of a sum of the units' vectors, each of `norm` at most `bound`.

        Removing or zeroing a unit removes one contribution: `bound`. Replacing a unit removes one
        contribution and adds another: `2 bound` by the triangle inequality. `acute` says that any two
        contributions have a non-negative inner product, for example counts or positive semi-definite
        matrices; a Euclidean norm then gives ``|x - y|^2 = |x|^2 + |y|^2 - 2 <x, y> <= 2 bound^2``.
        """
        match self:
            case Neighbouring.ADD_OR_REMOVE_ONE | Neighbouring.ZERO_OUT:
                return bound
            case Neighbouring.REPLACE_ONE:
                return _sqrt_2_times(bound) if acute and norm != "l1" else 2.0 * bound

    def parts_touched(self, *, split_by_values: bool) -> int:
        """Return the number of parts of a split that one unit can change.

        A split by position keeps a replaced record in its part. Under a split by values the old record leaves
        one part and the new record may enter another.
        """
        return 2 if split_by_values and self is not Neighbouring.ADD_OR_REMOVE_ONE else 1


def _sqrt_2_times(bound: float) -> float:
    """Return a double that is at least sqrt(2) times the bound, at most one above the least such double."""
    root = math.sqrt(2.0) * bound
    # Compare exactly: in doubles the square of a small bound underflows, and of a large one overflows.
    while math.isfinite(root) and Fraction(root) ** 2 < 2 * Fraction(bound) ** 2:
        root = math.nextafter(root, math.inf)
    return root


class TrustModel(StrEnum):
    """The parties that see the data: a central curator, each user only, or joint (see the glossary)."""

    CENTRAL = "central"
    LOCAL = "local"
    JOINT = "joint"


class View(StrEnum):
    """The outputs that the adversary of a claim sees."""

    ALL_RELEASES = "all-releases"
    FINAL_OUTPUT = "final-output"
    ALL_BUT_OWN = "all-but-own"
