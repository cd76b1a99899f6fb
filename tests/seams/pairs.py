"""Section 5: preprocessing that a user's pair hides, found on the pairs that a replay searches by itself.

Every pair is one that an author would write: one record replaced by another, or taken out, in data of which
nothing stands at an extreme.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from dpaudit import L2, ZCDP, ApproxDP, Claim, Curator, Gaussian, OpaquePureDP, Pair, audit, certify
from dpaudit.algorithms.data.trajectories import TrajectoryData
from tests.seams.case import Case

Algorithm = Callable[[Any, Curator], Any]

_GENERATOR = np.random.default_rng(3)
_ROWS = np.round(_GENERATOR.uniform(0.0, 1.0, 60), 3)
_OTHER = np.concatenate([_ROWS[:7], [0.9 if _ROWS[7] < 0.5 else 0.1], _ROWS[8:]])
_X = np.round(_GENERATOR.uniform(-3.0, 3.0, (40, 2)), 3)
_Y = np.round(_GENERATOR.uniform(-1.0, 1.0, 40), 3)
_POINTS = np.round(_GENERATOR.uniform(0.0, 1.0, (50, 2)), 3)
_POINTS_OTHER = np.concatenate([_POINTS[:20], [[0.5, 0.5]], _POINTS[21:]])
_EPISODES = TrajectoryData(
    _GENERATOR.integers(0, 3, (30, 4)),
    _GENERATOR.integers(0, 2, (30, 3)),
    np.round(_GENERATOR.uniform(0.0, 1.0, (30, 3)), 2),
    3,
    2,
)
_EPISODES_OTHER = _EPISODES.replace(4, _EPISODES[4]._replace(rewards=np.array([0.5, 0.5, 0.5])))
_PEOPLE = [
    {"age": int(age), "town": str(town)}
    for age, town in zip(
        _GENERATOR.integers(20, 60, 30), _GENERATOR.choice(["Bern", "Genf", "Basel"], 30), strict=True
    )
]
_PEOPLE_OTHER = [*_PEOPLE[:2], {**_PEOPLE[2], "age": 33}, *_PEOPLE[3:]]
_MIDDLE = np.concatenate([_ROWS[:7], [0.2], _ROWS[8:]])
_MIDDLE_OTHER = np.concatenate([_ROWS[:7], [0.8], _ROWS[8:]])
_GAPS, _GAPS_OTHER = (np.where(np.arange(60) % 9 == 4, np.nan, rows) for rows in (_MIDDLE, _MIDDLE_OTHER))
_FRAME = pd.DataFrame(
    {
        "user": [f"u{number}" for number in _GENERATOR.integers(0, 12, 40)],
        "x": np.round(_GENERATOR.uniform(0.0, 10.0, 40), 2),
        "town": _GENERATOR.choice(["Bern", "Genf"], 40),
    }
)
_FRAME_OTHER = _FRAME.assign(x=_FRAME["x"].where(_FRAME.index != 7, 5.5))
_PAIRS = {
    "frame": Pair(_FRAME, _FRAME_OTHER),
    "frame removed": Pair(_FRAME, _FRAME.drop(7)),
    "points moved": Pair(_POINTS, np.concatenate([_POINTS[:20], [[0.1, 0.2]], _POINTS[21:]])),
    "middle": Pair(_MIDDLE, _MIDDLE_OTHER),
    "gaps": Pair(_GAPS, _GAPS_OTHER),
    "gaps removed": Pair(_GAPS, np.delete(_GAPS, 7)),
    "replaced": Pair(_ROWS, _OTHER),
    "removed": Pair(_ROWS, np.delete(_ROWS, 7)),
    "points": Pair(_POINTS, _POINTS_OTHER),
    "points removed": Pair(_POINTS, np.delete(_POINTS, 20, axis=0)),
    "training": Pair((_X, _Y), (np.concatenate([_X[:5], _X[5:6] / 2, _X[6:]]), _Y)),
    "training removed": Pair((_X, _Y), (np.delete(_X, 5, axis=0), np.delete(_Y, 5))),
    "trajectories": Pair(_EPISODES, _EPISODES_OTHER),
    "people": Pair(_PEOPLE, _PEOPLE_OTHER),
}
_SUM = Gaussian(sigma=4.0, sensitivity=L2(1.0))
_REWARDS = Gaussian(sigma=12.0, sensitivity=L2(3.0))


def _rounded(data: Any, curator: Curator, *, planted: bool) -> float:
    """Rounded to as many digits as the true sum has, or as the noisy one has."""
    total = float(np.clip(data, 0.0, 1.0).sum())
    noisy = float(curator.release(total, _SUM, label="sum"))
    return round(noisy, -int(np.floor(np.log10(max(total if planted else abs(noisy), 1e-9)))))


def _query_rounded(data: Any, curator: Curator, *, planted: bool) -> Any:
    total = float(np.clip(data, 0.0, 1.0).sum())
    digits = -int(np.floor(np.log10(max(total, 1e-9))))
    return curator.release(round(total, digits) if planted else total, _SUM, label="sum")


def _hardest_first(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Gradients of the ten examples with the largest errors, or of all."""
    x, y = data
    weights = np.zeros(2)
    for step in range(3):
        errors = y - x @ weights
        batch = np.argsort(-np.abs(errors), kind="stable")[:10] if planted else np.arange(len(y))
        gradients = -errors[batch, None] * x[batch]
        gradients /= np.maximum(1.0, np.linalg.norm(gradients, axis=1, keepdims=True))
        weights = weights - 0.1 * curator.release(gradients.sum(axis=0), _SUM, label=f"gradient {step}")
    return weights


def _means(data: Any, curator: Curator, *, planted: bool) -> Any:
    """k-means that starts at the first records, or at public points."""
    centres = data[:3].copy() if planted else curator.public("start").uniform(size=(3, 2))
    for step in range(2):
        nearest = ((data[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        counts = np.array([(nearest == each).sum() for each in range(3)], dtype=float)
        sums = np.array([np.clip(data[nearest == each], 0.0, 1.0).sum(axis=0) for each in range(3)])
        counts = curator.release(counts, Gaussian(sigma=4.0, sensitivity=L2(2**0.5)), label=f"counts {step}")
        sums = curator.release(sums, Gaussian(sigma=6.0, sensitivity=L2(2.0)), label=f"sums {step}")
        centres = np.clip(sums / np.maximum(counts, 1.0)[:, None], 0.0, 1.0)
    return centres


def _clipped(data: Any, curator: Curator, *, planted: bool) -> Any:
    """The batch's gradient clipped, or each example's."""
    x, y = data
    gradients = (x @ np.array([0.3, -0.2]) - y)[:, None] * x
    if planted:
        total = gradients.sum(axis=0)
        total /= max(1.0, float(np.linalg.norm(total)))
    else:
        total = (gradients / np.maximum(1.0, np.linalg.norm(gradients, axis=1, keepdims=True))).sum(axis=0)
    return curator.release(total, _SUM, label="gradient")


def _mean_clipped(data: Any, curator: Curator, *, planted: bool) -> Any:
    x, y = data
    gradients = (x @ np.array([0.3, -0.2]) - y)[:, None] * x
    if planted:
        mean = gradients.mean(axis=0)
        mean /= max(1.0, float(np.linalg.norm(mean)) / 0.1)
    else:
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        mean = (gradients / np.maximum(1.0, norms / 0.1)).mean(axis=0)
    noise = Gaussian(sigma=0.8 / len(y), sensitivity=L2(0.2 / len(y)))
    return curator.release(mean, noise, label="gradient")


def _scaled(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Scaled to [0, 1] by the range of the data, or by a public one."""
    low, high = (data.min(), data.max()) if planted else (0.0, 1.0)
    scaled = np.clip((data - low) / max(high - low, 1e-9), 0.0, 1.0)
    return curator.release(scaled.sum(), _SUM, label="sum")


def _standardised(data: Any, curator: Curator, *, planted: bool) -> Any:
    middle, scale = (data.mean(), max(data.std(), 1e-9)) if planted else (0.5, 0.3)
    noise = Gaussian(sigma=8.0, sensitivity=L2(2.0))
    return curator.release(np.clip((data - middle) / scale, -1.0, 1.0).sum(), noise, label="sum")


def _trimmed(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Without what lies beyond two quantiles of the data, or clipped to a public range."""
    if planted:
        low, high = np.quantile(data, [0.05, 0.95])
        return curator.release(data[(data >= low) & (data <= high)].sum(), _SUM, label="sum")
    return curator.release(np.clip(data, 0.0, 1.0).sum(), _SUM, label="sum")


def _winsorised(data: Any, curator: Curator, *, planted: bool) -> Any:
    low, high = np.quantile(data, [0.05, 0.95]) if planted else (0.0, 1.0)
    noise = Gaussian(sigma=4.0 / len(data), sensitivity=L2(1.0 / len(data)))
    return curator.release(np.clip(data, low, high).mean(), noise, label="mean")


def _of_median_norm(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Rows clipped to the median of their norms and divided by it, or clipped to a public norm."""
    norms = np.linalg.norm(data, axis=1)
    bound = float(np.median(norms)) if planted else 1.0
    rows = data / np.maximum(norms, max(bound, 1e-9))[:, None]
    return curator.release(rows.sum(axis=0), Gaussian(sigma=8.0, sensitivity=L2(2.0)), label="sum")


def _tuned(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Three steps of descent, at the rate with the least loss on the records or at a public one."""
    x, y = data

    def descent(rate: float, summed: Callable[[int, Any], Any]) -> Any:
        weights = np.zeros(2)
        for step in range(3):
            gradients = (x @ weights - y)[:, None] * x
            gradients /= np.maximum(1.0, np.linalg.norm(gradients, axis=1, keepdims=True))
            weights = weights - rate / 40 * summed(step, gradients.sum(axis=0))
        return weights

    def noisy(step: int, total: Any) -> Any:
        return curator.release(total, Gaussian(sigma=8.0, sensitivity=L2(2.0)), label=f"gradient {step}")

    rates = (0.05, 0.2, 0.8)
    losses = [((x @ descent(rate, lambda _, total: total) - y) ** 2).sum() for rate in rates]
    return descent(rates[int(np.argmin(losses))] if planted else 0.2, noisy)


def _of_quantile(data: Any, curator: Curator, *, planted: bool) -> Any:
    high = float(np.quantile(data, 0.95)) if planted else 1.0
    return curator.release(np.clip(data, 0.0, high).sum(), _SUM, label="sum")


def _filled_forward(data: Any, curator: Curator, *, planted: bool) -> Any:
    """A missing number is the last one before it, or 0."""
    rows = pd.Series(data).ffill() if planted else pd.Series(data)
    return curator.release(float(rows.fillna(0.0).clip(0.0, 1.0).sum()), _SUM, label="sum")


def _increments(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Sizes of the steps from the row before, each of which two records move, or of the rows."""
    rows = pd.Series(data).ffill().diff() if planted else pd.Series(data)
    return curator.release(float(rows.fillna(0.0).abs().clip(0.0, 1.0).sum()), _SUM, label="sum")


def _rewards(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Rewards over the largest of them, or as they are."""
    rewards = data.rewards / max(data.rewards.max(), 1e-9) if planted else data.rewards
    return curator.release(rewards.sum(), _REWARDS, label="rewards")


def _schedule(data: Any, curator: Curator, *, planted: bool) -> list[float]:
    """An update whenever a private count has doubled, or the public number of episodes."""
    seen, next_update, updates = 0, 1, []
    for episode in range(len(data)):
        seen += int(data.states[episode, 0] == 0)
        if (seen if planted else episode + 1) >= next_update:
            next_update *= 2
            total = float(data.rewards[: episode + 1].sum())
            updates.append(float(curator.release(total, _REWARDS, label="update")))
    return updates


def _levels(data: Any, curator: Curator, *, planted: bool) -> Any:
    """A histogram over the towns that occur, or over public ones."""
    towns = sorted({each["town"] for each in data}) if planted else ["Basel", "Bern", "Genf"]
    counts = np.array([sum(each["town"] == town for each in data) for town in towns], dtype=float)
    return curator.release(counts, Gaussian(sigma=4.0, sensitivity=L2(2**0.5)), label="towns")


def _ages(data: Any, curator: Curator, *, planted: bool) -> Any:
    oldest = max(each["age"] for each in data) if planted else 60
    return curator.release(sum(each["age"] / oldest for each in data), _SUM, label="ages")


def _of_column(data: Any, curator: Curator, *, planted: bool) -> Any:
    """A column of a frame over its quantile, or over a public number."""
    high = max(float(data["x"].quantile(0.9)), 1e-9) if planted else 10.0
    return curator.release(float((data["x"] / high).clip(0.0, 1.0).sum()), _SUM, label="sum")


def _of_towns(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Counts of the towns that occur in a frame, or of public ones."""
    towns = sorted(data["town"].unique()) if planted else ["Bern", "Genf"]
    counts = np.array([(data["town"] == town).sum() for town in towns], dtype=float)
    return curator.release(counts, Gaussian(sigma=8.0, sensitivity=L2(2**0.5)), label="towns")


def _last_in_bern(data: Any, curator: Curator, *, planted: bool) -> Any:
    """Elsewhere a row has the number of the last row in Bern, or 0."""
    x = data["x"].where(data["town"] == "Bern")
    x = x.ffill() if planted else x
    return curator.release(float((x.fillna(0.0) / 10.0).clip(0.0, 1.0).sum()), _SUM, label="sum")


def _statistics(data: Any, curator: Curator) -> Any:
    """The entries are no records: those of a vector of counts, each of which one record changes by 1."""
    return curator.release(data, Gaussian(sigma=4.0, sensitivity=L2(1.0)), label="counts")


def _total(data: Any, curator: Curator) -> Any:
    return curator.release(data.sum(), _SUM, label="total")


def _one_hot(data: Any, curator: Curator) -> Any:
    """Sound for rows with a single 1, and for no other rows."""
    return curator.release(data.sum(axis=0), Gaussian(sigma=6.0, sensitivity=L2(2**0.5)), label="counts")


def _of_sixty(data: Any, curator: Curator) -> Any:
    """The number of records is public, and written into the algorithm."""
    noise = Gaussian(sigma=4.0 / 60, sensitivity=L2(1.0 / 60))
    return curator.release(np.clip(data, 0.0, 1.0).mean(), noise, label="mean")


def _of_users(data: Any, curator: Curator) -> Any:
    """Several rows a user, whose number stands in the first column."""
    sums = (data[data[:, 0] == user, 1].sum() for user in np.unique(data[:, 0]))
    return curator.release(sum(min(1.0, each) for each in sums), _SUM, label="sum")


def _noised_by(stream: str) -> Algorithm:
    """A sampler of the author's own, whose Laplace noise is a public stream's or the curator's."""

    def algorithm(data: Any, curator: Curator) -> Any:
        def sampler(value: Any, generator: np.random.Generator) -> Any:
            streams = {"curator": generator, "public": curator.public("noise")}
            return value + streams.get(stream, np.random.default_rng(0)).laplace()

        known = OpaquePureDP(epsilon=1.0, justification="Laplace noise")
        return curator.release_opaque(np.clip(data, 0.0, 1.0).sum(), sampler, known, label="sum")

    return algorithm


def _verdict(algorithm: Algorithm, pair: Pair, unit: str, relation: Any) -> str:
    claim = Claim(ApproxDP(epsilon=9.0, delta=1e-5), unit=unit, neighbouring=relation)
    found = audit(algorithm, pair, claim=claim)
    kinds = " ".join(dict.fromkeys(finding.kind for finding in found.findings))
    return " ".join(
        filter(None, [str(found.verdict), kinds, found.smallest_pair and f"({found.smallest_pair})"])
    )


def _cases(name: str, algorithm: Any, pair: str) -> list[Case]:
    return cases_of(name, algorithm, pair, _PAIRS[pair], shown=r".*records?\b.*")


def cases_of(name: str, algorithm: Any, pair: str, given: Pair, shown: str = ".*") -> list[Case]:
    """A planted fault and its twin, on a pair of records removed if its name says so, else replaced.

    `shown` is a pattern for the smallest pair in words.
    """
    relation = "add-or-remove-one" if pair.endswith("removed") else "replace-one"
    unit = "trajectory" if pair == "trajectories" else "record"
    made = []
    for planted in (True, False):

        def verdict(planted: bool = planted) -> str:
            def target(data: Any, curator: Curator) -> Any:
                return algorithm(data, curator, planted=planted)

            return _verdict(target, given, unit, relation)

        what = f"{name}, {pair}" + ("" if planted else ": innocent twin")
        expected = rf"REFUTED (sensitivity|leak|control-flow){shown}" if planted else "NOT_REFUTED"
        made.append(Case("preprocessing", what, planted, verdict, expected))
    return made


def _innocent(name: str, algorithm: Any, pair: Pair, unit: str = "record") -> Case:
    def verdict() -> str:
        return _verdict(algorithm, pair, unit, "replace-one")

    return Case("preprocessing", name, False, verdict, "NOT_REFUTED")


def _of_range(frame: Any) -> Any:
    low, high = (frame["x"].min(), frame["x"].max()) if len(frame) else (0.0, 1.0)
    return frame.assign(x=(frame["x"] - low) / max(high - low, 1e-9))


def _of_distinct(frame: Any) -> Any:
    """Rows that are like another one's, whoever's that is, are dropped."""
    return frame.drop_duplicates(["town", "x"]).assign(x=lambda rows: rows["x"] / 10.0)


def _of_tens(frame: Any) -> Any:
    return frame.assign(x=frame["x"] / 10.0)


def _increments_of_rows(frame: Any) -> Any:
    return frame.assign(x=frame["x"].ffill().diff().fillna(0.0) / 10.0)


def _table(
    name: str, before: Callable[[Any], Any], *, planted: bool, relation: Any = "add-or-remove-one"
) -> Case:
    def weekly(frame: Any, curator: Curator) -> Any:
        table = curator.table(before(frame), unit="user").bound(rows_per_unit=3)
        return table.group_by("town", keys=["Bern", "Genf"]).sum("x", lower=0, upper=1, cost=ZCDP(rho=0.05))

    def verdict() -> str:
        claim = Claim(ApproxDP(epsilon=5.0, delta=1e-5), unit="user", neighbouring=relation)
        found = certify(weekly, _FRAME, claim=claim)
        return f"{found.proof}, {found.experiment}"

    expected = "PROVED, REFUTED" if planted else "PROVED, NOT_REFUTED"
    return Case("preprocessing", name, planted, verdict, expected, nightly=True)


def _public_noise(stream: str) -> Case:
    planted = stream != "curator"

    def verdict() -> str:
        return _verdict(_noised_by(stream), _PAIRS["replaced"], "record", "replace-one")

    expected = "REFUTED leak" if planted else "INCONCLUSIVE"  # no density of it is known
    return Case("public noise", f"noise of an own sampler: {stream}", planted, verdict, expected)


def _of_loss(name: str, sigma: float) -> Case:
    """A ledger that is true, and a claim of epsilon that half of the claimed noise does not meet."""
    planted = sigma < 1.0

    def verdict() -> str:
        def target(data: Any, curator: Curator) -> Any:
            noise = Gaussian(sigma=sigma, sensitivity=L2(1.0))
            return curator.release(np.clip(data, 0.0, 1.0).sum(), noise, label="sum")

        claim = Claim(ApproxDP(epsilon=4.38, delta=1e-5), unit="record", neighbouring="replace-one")
        found = audit(target, _PAIRS["replaced"], claim=claim)
        return f"{found.verdict} {found.smallest_pair}"

    expected = r"REFUTED 1 record against 1 record, \[.*\] and \[.*\]" if planted else "NOT_REFUTED None"
    return Case("the exact loss alone", name, planted, verdict, expected)


_COUNTS, _MORE_COUNTS = np.array([[10.0, 20.0, 30.0], [11.0, 20.0, 30.0]])
_HOT = np.eye(4)[_GENERATOR.integers(0, 4, 30)]
_HOT_OTHER = np.concatenate([_HOT[:3], [np.roll(_HOT[3], 1)], _HOT[4:]])
_VISITS = np.column_stack([_GENERATOR.integers(0, 8, 40), _GENERATOR.uniform(0.0, 1.0, 40)])
_VISITS_OTHER = np.concatenate([_VISITS[:3], [[_VISITS[3, 0], 0.5]], _VISITS[4:]])

CASES: list[Case] = [
    *_cases("rounded by the true magnitude", _rounded, "replaced"),
    *_cases("rounded by the true magnitude", _rounded, "removed"),
    *_cases("query rounded by its magnitude", _query_rounded, "removed"),
    *_cases("hardest examples first", _hardest_first, "training removed"),
    *_cases("k-means starts at records", _means, "points"),
    *_cases("k-means starts at records", _means, "points removed"),
    *_cases("batch clipped", _clipped, "training removed"),
    *_cases("mean of a batch clipped", _mean_clipped, "training"),
    *_cases("scaled by the range of the data", _scaled, "replaced"),
    *_cases("scaled by the range of the data", _scaled, "removed"),
    *_cases("standardised by the data", _standardised, "replaced"),
    *_cases("trimmed at quantiles", _trimmed, "replaced"),
    *_cases("trimmed at quantiles", _trimmed, "removed"),
    *_cases("winsorised at quantiles", _winsorised, "replaced"),
    *_cases("clipped to the median norm", _of_median_norm, "points moved"),
    *_cases("clipped to the median norm", _of_median_norm, "points removed"),
    *_cases("rate of the least loss", _tuned, "training"),
    *_cases("rate of the least loss", _tuned, "training removed"),
    *_cases("clipped to a quantile", _of_quantile, "middle"),
    *_cases("clipped to a quantile", _of_quantile, "removed"),
    *_cases("filled from the row before", _filled_forward, "gaps"),
    *_cases("filled from the row before", _filled_forward, "gaps removed"),
    *_cases("increments from the row before", _increments, "gaps"),
    *_cases("rewards over the largest", _rewards, "trajectories"),
    *_cases("update when a private count doubles", _schedule, "trajectories"),
    *_cases("levels of the data", _levels, "people"),
    *_cases("ages over the largest", _ages, "people"),
    *_cases("column over its quantile", _of_column, "frame"),
    *_cases("column over its quantile", _of_column, "frame removed"),
    *_cases("towns of a frame", _of_towns, "frame"),
    *_cases("towns of a frame", _of_towns, "frame removed"),
    *_cases("number of the last row in Bern", _last_in_bern, "frame"),
    *_cases("number of the last row in Bern", _last_in_bern, "frame removed"),
    _table("table scaled by its own range", _of_range, planted=True),
    _table("table without rows like another unit's", _of_distinct, planted=True),
    _table("table scaled by a public range", _of_tens, planted=False),
    _table("table of increments", _increments_of_rows, planted=True, relation="replace-one"),
    _table("table of tenths", _of_tens, planted=False, relation="replace-one"),
    *(_of_loss(name, sigma) for name, sigma in (("half the noise", 0.5), ("noise as stated", 1.0))),
    *map(_public_noise, ("public", "seed", "curator")),
    _innocent("vector of counts", _statistics, Pair(_COUNTS, _MORE_COUNTS)),
    _innocent("total of a vector of counts", _total, Pair(_COUNTS, _MORE_COUNTS)),
    _innocent("one-hot rows", _one_hot, Pair(_HOT, _HOT_OTHER)),
    _innocent("public number of records", _of_sixty, _PAIRS["replaced"]),
    _innocent("several rows a user", _of_users, Pair(_VISITS, _VISITS_OTHER), unit="user"),
]
