"""Neighbouring pairs of data sets, on which every audit runs."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets; an audit's result is about this pair only."""

    data: Any
    neighbour: Any  # the same with one unit of privacy changed
    description: str = "given pair"  # what makes the pair a hard one
    unit: int | None = None  # the changed unit's position, if any; under joint trust its view is not compared
