"""When an online algorithm updates its policy: where the released matrices have grown, or at fixed times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from dpaudit.algorithms.online.value_targeted import Array
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.errors import InvalidParameter


class UpdateTimes(Protocol):
    """When the policy is updated."""

    def due(self, k: int, made: int, growth: Array, /) -> bool:
        """Whether before user k, from 1.

        Args:
            k: the user.
            made: how many updates there have been.
            growth: log det of every step's matrix over that of the last update, [H].
        """


@dataclass(frozen=True)
class Doubling:
    """Line 8: an update where a determinant has grown by a factor, as long as there are updates left.

    Attributes:
        factor: C.
        most: how many there may be.
    """

    factor: float = 2.0
    most: int | None = None

    def due(self, k: int, made: int, growth: Array, /) -> bool:
        """As `UpdateTimes`."""
        del k
        left = self.most is None or made < self.most
        return left and bool(growth.max() >= math.log(self.factor))


@dataclass(frozen=True)
class FixedTimes:
    """Updates after each of ``most`` + 1 batches of users but the last, whatever is seen.

    Raises:
        InvalidParameter: fewer users than batches.
    """

    users: int
    most: int

    def __post_init__(self) -> None:
        if public_size(self.most, "updates") >= public_size(self.users, "users"):
            raise InvalidParameter(
                f"{self.most} updates for {self.users} users",
                where="updates",
                why="an update follows a batch of users and serves another",
                remedy="give fewer updates than users",
            )

    def due(self, k: int, made: int, growth: Array, /) -> bool:
        """As `UpdateTimes`."""
        del growth
        return made < self.most and k == 1 + math.ceil((made + 1) * self.users / (self.most + 1))
