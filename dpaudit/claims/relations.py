"""Whom a guarantee protects, against which change, and who is trusted with the data."""

import math
from enum import StrEnum
from fractions import Fraction


class Neighbouring(StrEnum):
    """The relation between two neighbouring data sets, stated in units of privacy."""

    ADD_OR_REMOVE_ONE = "add-or-remove-one"
    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"

    def sum_sensitivity(self, bound: float, norm: str, *, acute: bool = False) -> float:
        """The sensitivity of a sum whose units contribute vectors of `norm` at most `bound`, rounded up.

        Removing or zeroing a unit takes away one contribution: `bound`. Replacing a unit takes one away and
        adds another: by the triangle inequality `2 bound`. Where contributions are `acute` - any two have a
        non-negative inner product, as counts and positive semi-definite matrices do - a Euclidean norm gives
        ``|x - y|^2 = |x|^2 + |y|^2 - 2 <x, y> <= 2 bound^2``.
        """
        match self:
            case Neighbouring.ADD_OR_REMOVE_ONE | Neighbouring.ZERO_OUT:
                return bound
            case Neighbouring.REPLACE_ONE:
                return _sqrt_2_times(bound) if acute and norm != "l1" else 2.0 * bound

    def parts_touched(self, *, split_by_values: bool) -> int:
        """How many parts of one split a single unit can touch.

        A split that looks only at a record's position keeps a replaced record in its part. A split by
        the records' values does not: the old record leaves one part and the new one enters another.
        """
        return 2 if split_by_values and self is not Neighbouring.ADD_OR_REMOVE_ONE else 1


def _sqrt_2_times(bound: float) -> float:
    """The least double, or the one after it, that is not below sqrt(2) times the bound."""
    root = math.sqrt(2.0) * bound
    # Compared exactly: in doubles the square of a small bound vanishes, and a large one's overflows.
    while math.isfinite(root) and Fraction(root) ** 2 < 2 * Fraction(bound) ** 2:
        root = math.nextafter(root, math.inf)
    return root


class TrustModel(StrEnum):
    """Who holds the data and who sees what: central curator, each user alone, or billboard and own view."""

    CENTRAL = "central"
    LOCAL = "local"
    JOINT = "joint"


class View(StrEnum):
    """What the adversary of a claim sees."""

    ALL_RELEASES = "all-releases"
    FINAL_OUTPUT = "final-output"
    ALL_BUT_OWN = "all-but-own"
