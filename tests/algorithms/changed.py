"""An algorithm with something else in its place, and data at random."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.curator.curator import Curator


@dataclass(frozen=True)
class Changed:
    """Under the algorithm's claim: what `do` makes of the algorithm, data and a curator."""

    inner: Any
    do: Callable[[Any, Any, Curator], Any]

    name = "changed"

    @property
    def claim(self) -> Any:
        return self.inner.claim

    def __call__(self, data: Any, curator: Curator) -> Any:
        return self.do(self.inner, data, curator)


def random_data(rng: np.random.Generator, n: int, horizon: int, sizes: tuple[int, ...]) -> TrajectoryData:
    return TrajectoryData(
        rng.integers(0, sizes[0], (n, horizon + 1)),
        rng.integers(0, sizes[1], (n, horizon)),
        rng.random((n, horizon)) ** 0.2,
        sizes[0],
        sizes[1],
    )
