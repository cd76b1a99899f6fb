"""Section 5, again: preprocessing faults that the search for pairs was not made for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dpaudit import L2, Curator, Gaussian, Pair
from tests.seams.case import Case
from tests.seams.pairs import cases_of

_GENERATOR = np.random.default_rng(501)
_X = np.round(_GENERATOR.normal(size=(40, 3)), 3)
_X_OTHER = np.concatenate([_X[:5], np.round(1.5 * _GENERATOR.normal(size=(1, 3)), 3), _X[6:]])
_Y = np.round(_X @ np.array([0.5, -0.3, 0.2]) + 0.1 * _GENERATOR.normal(size=40), 3)
_Y_OTHER = np.concatenate([_Y[:5], [0.7], _Y[6:]])
_V = np.round(_GENERATOR.uniform(0.0, 1.0, 60), 3)
_V[7] = 0.2
_V_OTHER = np.concatenate([_V[:7], [0.8], _V[8:]])
_GAPS, _GAPS_OTHER = (np.where(np.arange(60) % 6 == 4, np.nan, rows) for rows in (_V, _V_OTHER))
PAIRS = {
    "vectors": Pair(_X, _X_OTHER),
    "vectors removed": Pair(_X, np.delete(_X, 5, axis=0)),
    "examples": Pair((_X, _Y), (_X, _Y_OTHER)),
    "examples removed": Pair((_X, _Y), (np.delete(_X, 5, axis=0), np.delete(_Y, 5))),
    "numbers": Pair(_V, _V_OTHER),
    "numbers removed": Pair(_V, np.delete(_V, 7)),
    "series": Pair(_GAPS, _GAPS_OTHER),
    "series removed": Pair(_GAPS, np.delete(_GAPS, 7)),
}
_SUM = Gaussian(sigma=4.0, sensitivity=L2(1.0))
_REPLACED = Gaussian(sigma=8.0, sensitivity=L2(2.0))


def _unit(rows: Any) -> Any:
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def _twice_the_mean_norm(data: Any, curator: Curator, *, planted: bool) -> Any:
    norms = np.linalg.norm(data, axis=1)
    bound = max(2.0 * float(norms.mean()), 1e-9) if planted else 2.0
    return curator.release((data / np.maximum(norms, bound)[:, None]).sum(axis=0), _REPLACED, label="sum")


def _around_the_median(data: Any, curator: Curator, *, planted: bool) -> Any:
    middle = np.median(data, axis=0) if planted else np.zeros(3)
    return curator.release(_unit(data - middle).sum(axis=0), _REPLACED, label="sum")


def _without_large_norms(data: Any, curator: Curator, *, planted: bool) -> Any:
    norms = np.linalg.norm(data, axis=1)
    kept = norms <= (np.quantile(norms, 0.75) if planted else 2.0)
    return curator.release(_unit(data[kept]).sum(axis=0), _REPLACED, label="sum")


def _stops_early(data: Any, curator: Curator, *, planted: bool) -> Any:
    x, y = data
    weights, last = np.zeros(3), np.inf
    for step in range(4):
        loss = float(((x @ weights - y) ** 2).mean())
        if planted and loss > last:
            break
        last = loss
        total = _unit((x @ weights - y)[:, None] * x).sum(axis=0)
        weights = weights - 0.0125 * curator.release(total, _REPLACED, label=f"gradient {step}")
    return weights


def _best_feature(data: Any, curator: Curator, *, planted: bool) -> Any:
    x, y = data
    best = int(np.argmax(np.abs(x.T @ y))) if planted else 0
    total = float(np.clip(x[:, best] * y, -1.0, 1.0).sum())
    return best, curator.release(total, _REPLACED, label="product")


def _ridge_by_validation(data: Any, curator: Curator, *, planted: bool) -> Any:
    x, y = data
    half, ridges = len(y) // 2, (0.1, 1.0, 10.0)
    fits = (
        np.linalg.solve(x[:half].T @ x[:half] + ridge * np.eye(3), x[:half].T @ y[:half]) for ridge in ridges
    )
    errors = [((x[half:] @ fit - y[half:]) ** 2).sum() for fit in fits]
    ridge = ridges[int(np.argmin(errors))] if planted else 1.0
    square = curator.release(_unit(x).T @ _unit(x), _REPLACED, label="square")
    product = curator.release(_unit(x).T @ np.clip(y, -1.0, 1.0), _REPLACED, label="product")
    return np.linalg.solve(square @ square.T + ridge * np.eye(3), product)


def _logs_between_quantiles(data: Any, curator: Curator, *, planted: bool) -> Any:
    logs = np.log1p(np.clip(data, 0.0, 1.0))
    low, high = np.quantile(logs, [0.01, 0.99]) if planted else (0.0, np.log(2.0))
    shares = (np.clip(logs, low, high) - low) / max(high - low, 1e-9)
    return curator.release(shares.sum(), _SUM, label="sum")


def _robustly_scaled(data: Any, curator: Curator, *, planted: bool) -> Any:
    middle = float(np.median(data)) if planted else 0.5
    scale = max(float(np.median(np.abs(data - middle))), 1e-9) if planted else 0.25
    return curator.release(np.clip((data - middle) / scale, -1.0, 1.0).sum() / 2.0, _SUM, label="sum")


def _bins_of_quantiles(data: Any, curator: Curator, *, planted: bool) -> Any:
    edges = np.quantile(data, [0.0, 0.25, 0.5, 0.75, 1.0]) if planted else np.linspace(0.0, 1.0, 5)
    places = np.clip(np.searchsorted(edges, data, side="right") - 1, 0, 3)
    counts = np.bincount(places, minlength=4).astype(float)
    return curator.release(counts, Gaussian(sigma=8.0, sensitivity=L2(2**0.5)), label="counts")


def _of_series(rows: Any, curator: Curator) -> Any:
    return curator.release(float(rows.fillna(0.0).clip(0.0, 1.0).sum()), _SUM, label="sum")


def _filled_backward(data: Any, curator: Curator, *, planted: bool) -> Any:
    rows = pd.Series(data)
    return _of_series(rows.bfill() if planted else rows, curator)


def _interpolated(data: Any, curator: Curator, *, planted: bool) -> Any:
    rows = pd.Series(data)
    return _of_series(rows.interpolate() if planted else rows, curator)


def _largest_of_five(data: Any, curator: Curator, *, planted: bool) -> Any:
    rows = pd.Series(data).fillna(0.0)
    return _of_series(rows.rolling(5, min_periods=1).max() if planted else rows, curator)


_FAULTS = {
    "vectors": {
        "clipped to twice the mean norm": _twice_the_mean_norm,
        "moved by the median": _around_the_median,
        "large norms left out": _without_large_norms,
    },
    "examples": {
        "stops when the loss rises": _stops_early,
        "best feature": _best_feature,
        "ridge by validation": _ridge_by_validation,
    },
    "numbers": {
        "logarithms between quantiles": _logs_between_quantiles,
        "scaled by the median deviation": _robustly_scaled,
        "bins of quantiles": _bins_of_quantiles,
    },
    "series": {
        "filled from the row after": _filled_backward,
        "interpolated": _interpolated,
        "largest of five rows": _largest_of_five,
    },
}
CASES: list[Case] = [
    case
    for kind, faults in _FAULTS.items()
    for name, algorithm in faults.items()
    for pair in (kind, f"{kind} removed")
    for case in cases_of(name, algorithm, pair, PAIRS[pair])
]
