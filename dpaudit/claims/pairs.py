"""Neighbouring pairs of data sets, on which every audit runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets; an audit's result is about this pair only.

    Attributes:
        data: one data set.
        neighbour: the same with one unit of privacy changed.
        description: what makes the pair a hard one.
        unit: the position of the changed unit, where it has one; under joint trust this user's own
            view is not compared.
    """

    data: Any
    neighbour: Any
    description: str = "given pair"
    unit: int | None = None
