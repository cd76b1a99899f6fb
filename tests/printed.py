"""What a page shows is what a command prints, but for the rounding of one processor."""

import re
from math import isclose

#: A number of so many digits that the last ones depend on how a processor adds.
_COMPUTED = re.compile(r"\d+\.\d{9,}(?:e[-+]?\d+)?")


#: A column is as wide as its numbers: runs of blanks, and of what a table is ruled with.
_WIDTH = re.compile(r"([ ─])\1+")


def is_printed(printed: str, shown: str) -> bool:
    """Whether the two texts agree in all but the last digits of long numbers, which are within 1e-9.

    Nor need the columns of their tables be of the same width.
    """
    printed, shown = _WIDTH.sub(r"\1", printed), _WIDTH.sub(r"\1", shown)
    if _COMPUTED.sub("#", printed) != _COMPUTED.sub("#", shown):
        return False
    pairs = zip(_COMPUTED.findall(printed), _COMPUTED.findall(shown), strict=True)
    return all(isclose(float(one), float(other), rel_tol=1e-9) for one, other in pairs)
