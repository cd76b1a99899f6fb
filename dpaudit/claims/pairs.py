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
    #: Public data of the same form, where the two are made of private records: findings on such a pair quote
    #: no name that an algorithm does not also give on these. None: the pair is itself public.
    stand_ins: tuple[Any, ...] | None = None
