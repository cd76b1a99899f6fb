"""One table in every engine, and queries whose exact answers must be the same in all of them."""

from __future__ import annotations

import math
import random
from typing import Any

import pandas as pd
import pyarrow as pa

from dpaudit import ZCDP, ApproxDP, Claim, Curator, PureDP, run
from dpaudit.curator.noise import NoNoise
from dpaudit.tables.hashing import PRIMES

#: A name that engines could read as a column of a table, as the end of a name, or as the start of a text.
WARD = 'the.ward `of` "it\'s"'


def columns(rows: int, seed: int = 1) -> dict[str, list[Any]]:
    """People with one to hundreds of rows; every odd number, missing values, and rows that are alike.

    And two people of whose rows many have the same hash, so that their values must decide.
    """
    draw = random.Random(seed)  # noqa: S311  (made-up rows)
    odd = [math.nan, math.inf, -math.inf, 1e300, -0.0, None, 5e-324, 0.1, 2.0, 2.0**53 - 1, 2.0**53]
    close = [1e-12, 2e-12, -0.0, 0.0, 1e19, 2e19, None, math.nan]
    people = {
        "person": [f"p{int(draw.expovariate(0.05))}" for _ in range(rows)],
        WARD: [draw.choice(["ICU", "ER", "it's", 'Ä"', "", None]) for _ in range(rows)],
        "day": [draw.choice([1, 2, -3, 4_000_000_000_000, -(2**63), 2**63 - 1]) for _ in range(rows)],
        "urgent": [draw.random() < 0.3 for _ in range(rows)],
        "minutes": [draw.choice([draw.gauss(0, 3), draw.choice(odd)]) for _ in range(rows)],
    }
    alike = {
        "person": [f"alike {i % 2}" for i in range(60)],
        WARD: ["ICU"] * 60,
        "day": [draw.choice([1, 1 + PRIMES[0] * PRIMES[1]]) for _ in range(60)],
        "urgent": [False] * 60,
        "minutes": [draw.choice(close) for _ in range(60)],
    }
    return {name: people[name] + alike[name] for name in people}


def arrow(made: dict[str, list[Any]]) -> Any:
    kinds = (pa.string(), pa.string(), pa.int64(), pa.bool_(), pa.float64())
    arrays = [
        pa.array(each, kind, from_pandas=False) for each, kind in zip(made.values(), kinds, strict=True)
    ]
    return pa.table(arrays, names=list(made))


def pandas(made: dict[str, list[Any]]) -> Any:
    # Of numpy's columns no keys are chosen.
    return pd.DataFrame(made).astype({"day": "Int64", "urgent": "boolean"})


def answers(frame: Any, *, rows: int | None = 5, groups: int | None = 2, key: str = "") -> dict[str, Any]:
    """Every aggregate's exact answer."""

    def algorithm(given: Any, curator: Curator) -> dict[str, Any]:
        bounded = curator.table(given, unit="person", hash_key=key)
        bounded = bounded.bound(rows_per_unit=rows, groups_per_unit=groups)
        wards = bounded.group_by(WARD, keys=["ICU", "it's", 'Ä"', "", "none"])
        both = bounded.group_by([WARD, "day"], keys={WARD: ["ICU", "ER"], "day": [1, -(2**63), 7]})
        cost = ZCDP(rho=0.1)
        found: dict[str, Any] = {"people": wards.count_distinct_units(cost=cost)}
        selected = {"cost": ApproxDP(epsilon=1.0, delta=0.1)}
        found["keys"] = bounded.select_keys(["urgent", WARD, "day"], **selected)
        if rows is not None:
            found |= {
                "rows": wards.count(cost=cost),
                "sum": wards.sum("minutes", lower=-1.0, upper=2.7, cost=cost),
                "mean": wards.mean("minutes", lower=-1.0, upper=2.7, cost=cost),
                "variance": wards.variance("day", lower=-5, upper=10, cost=cost),
                "tiny": wards.sum("minutes", lower=-1e-11, upper=1e-11, cost=cost),
                "histogram": wards.histogram("minutes", edges=[-2.0, 0.0, 0.1, 9.0], cost=cost),
                "one bin": wards.histogram("minutes", edges=[0.0, 9.0], cost=cost),
                "by both": both.count(cost=cost),
                "by doubles": bounded.group_by("minutes", keys=[0, 2, 2**53 - 1]).count(cost=cost),
                "urgent": bounded.group_by("urgent", keys=[True]).count(cost=cost),
                "all": bounded.sum("urgent", lower=0, upper=1, cost=cost),
            }
            quantile = {"lower": -2.0, "upper": 2.0, "candidates": 5, "cost": PureDP(epsilon=5.0)}
            found["quantile"] = wards.quantile("minutes", 0.25, **quantile)
            found["quantiles"] = wards.quantile("minutes", [0.25, 0.5], **quantile)
        return found

    claim = Claim(ZCDP(rho=99.0), unit="person", neighbouring="add-or-remove-one")
    return run(algorithm, frame, claim=claim, noise=NoNoise()).output


#: People and wards that some collation takes for the same.
SPELLINGS = {"a": "e", "A": "é", "a ": "e\u0301", "á": "E", "a\u0301": "e ", "1": "1", "1.0": "1.0", "": ""}
SPELT = pa.table({"person": list(SPELLINGS), "ward": list(SPELLINGS.values())})


def spelt(frame: Any) -> Any:
    """Of how many people one row is kept, in all and in each ward."""

    def algorithm(given: Any, curator: Curator) -> Any:
        bounded = curator.table(given, unit="person").bound(rows_per_unit=1)
        wards = bounded.group_by("ward", keys=sorted(SPELLINGS.values()))
        return bounded.count(cost=ZCDP(rho=1.0)), wards.count(cost=ZCDP(rho=1.0))

    claim = Claim(ZCDP(rho=9.0), unit="person", neighbouring="add-or-remove-one")
    return run(algorithm, frame, claim=claim, noise=NoNoise()).output
