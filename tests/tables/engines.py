"""One table in every engine, and queries whose exact answers must be the same in all of them."""

from __future__ import annotations

import math
import random
from typing import Any

import pandas as pd
import pyarrow as pa

from dpaudit import ZCDP, ApproxDP, Claim, Curator, PureDP, run
from dpaudit.curator.noise import NoNoise


def columns(rows: int, seed: int = 1) -> dict[str, list[Any]]:
    """People with one to hundreds of rows; every odd number, missing values, and rows that are alike."""
    draw = random.Random(seed)  # noqa: S311  (made-up rows)
    odd = [math.nan, math.inf, -math.inf, 1e300, -0.0, None, 5e-324, 0.1]
    return {
        "person": [f"p{int(draw.expovariate(0.05))}" for _ in range(rows)],
        "ward": [draw.choice(["ICU", "ER", "it's", 'Ä"', "", None]) for _ in range(rows)],
        "day": [draw.choice([1, 2, -3, 4_000_000_000_000, -(2**63), 2**63 - 1]) for _ in range(rows)],
        "urgent": [draw.random() < 0.3 for _ in range(rows)],
        "minutes": [draw.choice([draw.gauss(0, 3), draw.choice(odd)]) for _ in range(rows)],
    }


def arrow(made: dict[str, list[Any]]) -> Any:
    kinds = (pa.string(), pa.string(), pa.int64(), pa.bool_(), pa.float64())
    arrays = [
        pa.array(each, kind, from_pandas=False) for each, kind in zip(made.values(), kinds, strict=True)
    ]
    return pa.table(arrays, names=list(made))


def pandas(made: dict[str, list[Any]]) -> Any:
    return pd.DataFrame(made)


def answers(frame: Any, *, rows: int | None = 5, groups: int | None = 2, key: str = "") -> dict[str, Any]:
    """Every aggregate's exact answer."""

    def algorithm(given: Any, curator: Curator) -> dict[str, Any]:
        bounded = curator.table(given, unit="person", hash_key=key)
        bounded = bounded.bound(rows_per_unit=rows, groups_per_unit=groups)
        wards = bounded.group_by("ward", keys=["ICU", "it's", 'Ä"', "", "none"])
        both = bounded.group_by(["ward", "day"], keys={"ward": ["ICU", "ER"], "day": [1, -(2**63), 7]})
        cost = ZCDP(rho=0.1)
        found: dict[str, Any] = {"people": wards.count_distinct_units(cost=cost)}
        selected = {"cost": ApproxDP(epsilon=1.0, delta=0.1)}
        found["keys"] = bounded.select_keys(["urgent", "ward", "day"], **selected)
        if rows is not None:
            found |= {
                "rows": wards.count(cost=cost),
                "sum": wards.sum("minutes", lower=-1.0, upper=2.7, cost=cost),
                "mean": wards.mean("minutes", lower=-1.0, upper=2.7, cost=cost),
                "variance": wards.variance("day", lower=-5, upper=10, cost=cost),
                "histogram": wards.histogram("minutes", edges=[-2.0, 0.0, 0.1, 9.0], cost=cost),
                "by both": both.count(cost=cost),
                "urgent": bounded.group_by("urgent", keys=[True]).count(cost=cost),
                "all": bounded.sum("urgent", lower=0, upper=1, cost=cost),
            }
            quantile = {"lower": -2.0, "upper": 2.0, "candidates": 5, "cost": PureDP(epsilon=5.0)}
            found["quantile"] = wards.quantile("minutes", 0.25, **quantile)
            found["quantiles"] = wards.quantile("minutes", [0.25, 0.5], **quantile)
        return found

    claim = Claim(ZCDP(rho=99.0), unit="person", neighbouring="add-or-remove-one")
    return run(algorithm, frame, claim=claim, noise=NoNoise()).output
