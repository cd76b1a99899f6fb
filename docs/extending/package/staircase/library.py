"""An adapter: `dpaudit audit TARGET --library toylib` draws the noise of `staircase.toylib` in a curator."""

from collections.abc import Iterator
from contextlib import contextmanager

from dpaudit import L1, Curator, Laplace
from dpaudit.auditors.libraries.adapter import Adapter, replaced
from staircase import toylib


@contextmanager
def _routing(curator: Curator) -> Iterator[None]:
    """While it lasts, each private sum is released by the curator."""

    def private_sum(values: list[float], bound: float, epsilon: float) -> float:
        exact = sum(min(max(value, -bound), bound) for value in values)
        mechanism = Laplace(scale=bound / epsilon, sensitivity=L1(bound))
        return float(curator.release(exact, mechanism, label="private_sum"))

    with replaced([(toylib, "private_sum", private_sum)]):
        yield


ADAPTER = Adapter(
    module="staircase.toylib",
    distribution="dpaudit-staircase",
    install="pip install dpaudit-staircase",
    versions=("1.0", "2.0"),
    routing=_routing,
)
