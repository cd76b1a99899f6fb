"""SmartNoise SQL: every number that its private reader releases is the curator's answer.

`Laplace.release` and `Gaussian.release` of its noise layer hand each number to OpenDP. They ask the curator
instead, with their scale, and with the sensitivity that the scale was made for: how far a row that is added,
removed or replaced moves a sum, times the number of rows of one person. `approx_bounds` asks it for every
count of its histogram.

Refused is what replay would misjudge: rows that the database samples for each person, whose sample nobody
else can repeat; and groups that are left out below a threshold, since which groups there are looks like a
leak, although the threshold hides it.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from dpaudit.auditors.libraries.adapter import NO_NOISE, Adapter, Asked, folder_of, refused, replaced
from dpaudit.claims.sensitivity import L1, L2
from dpaudit.curator.curator import Curator
from dpaudit.mechanisms import Gaussian, Laplace

_SAMPLED: Final = (
    "a query that samples the rows of each person",
    "the database draws the sample; say row_privacy: True or sample_max_ids: False in the metadata",
)
_CENSORED: Final = (
    "a query by groups that leaves out rare groups",
    "which groups there are looks like a leak, but a threshold hides it; say censor_dims: False if all know",
)


@contextmanager
def _public(curator: Curator) -> Iterator[None]:
    """While the context lasts, the global generators are public: they name columns."""
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002  (this very state)
    seed = int(curator.public("smartnoise").integers(2**32))
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002


@contextmanager
def _routing(curator: Curator) -> Iterator[None]:
    from snsql.sql import private_reader
    from snsql.sql._mechanisms import approx_bounds, gaussian, laplace

    asked = Asked((folder_of("snsql"),))
    own = private_reader.PrivateReader._execute_ast  # noqa: SLF001

    def answer(value: Any, noise: Laplace | Gaussian, label: str) -> float:
        return float(curator.release(float(value), noise, label=label))

    def moves(mechanism: Any) -> float:
        lower, upper = float(mechanism.lower), float(mechanism.upper)
        return max(abs(lower), abs(upper), upper - lower) * float(mechanism.max_contrib)

    def by_laplace(self: Any, vals: Any) -> list[float]:
        noise = Laplace(scale=self.scale or NO_NOISE, sensitivity=L1(moves(self)))
        return [answer(value, noise, _label(self)) for value in vals]

    def by_gaussian(self: Any, vals: Any) -> list[float]:
        noise = Gaussian(sigma=self.scale or NO_NOISE, sensitivity=L2(moves(self)))
        return [answer(value, noise, _label(self)) for value in vals]

    def measured(domain: Any, metric: Any, scale: float) -> Callable[[Any], float]:
        del domain, metric
        noise = Laplace(scale=scale, sensitivity=L1(1.0))
        return lambda value: answer(value, noise, "a count of approx_bounds")

    def executed(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        if query.sample_max_ids and not query.row_privacy:
            raise refused(*_SAMPLED)
        if query.agg is not None and (query.censor_dims or query.use_dpsu):
            raise refused(*_CENSORED)
        return own(self, query, *args, **options)

    places: list[tuple[Any, str, Any]] = [
        (laplace.Laplace, "release", by_laplace),
        (gaussian.Gaussian, "release", by_gaussian),
        (approx_bounds, "make_laplace", measured),
        (private_reader.PrivateReader, "_execute_ast", executed),
    ]
    with _public(curator), asked.passed_over(), replaced(places):
        yield


def _label(mechanism: Any) -> str:
    """What a mechanism says of the column that it is for: its bounds, since it does not know the name."""
    rows = "" if mechanism.max_contrib == 1 else f", {mechanism.max_contrib} rows of each person"
    return f"a column of values in [{mechanism.lower}, {mechanism.upper}]{rows}"


ADAPTER = Adapter(
    module="snsql",
    distribution="smartnoise-sql",
    install="pip install 'dpaudit[smartnoise]'",
    versions=("1.0.4", "1.1"),
    routing=_routing,
)
