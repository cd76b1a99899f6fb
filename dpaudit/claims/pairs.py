"""Neighbouring pairs of data sets, the inputs of every audit."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets; an audit's result is about this pair only."""

    data: Any
    neighbour: Any  # the same data with one unit of privacy changed
    description: str = "given pair"  # the property that makes the pair hard
    unit: int | None = None  # the changed unit's position, if any; under joint trust its view is not compared
    #: Public data of the same form, for a pair made of private records: findings then quote only names that
    #: the algorithm also gives on these data. None: the pair itself is public.
    stand_ins: tuple[Any, ...] | None = None
