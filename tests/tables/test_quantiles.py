"""Quantiles as one choice: scores from their definition, and by how much a row moves them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit import Claim, Curator, Neighbouring, PureDP, account, judge, run
from dpaudit.curator.noise import NoNoise
from dpaudit.mechanisms import Exponential
from dpaudit.tables.quantiles import Quantiles

POINTS = [0.0, 1.0, 2.0]
#: Below, at and between the candidates.
VALUES = [-1.0, 0.0, 0.5, 1.0, 1.0, 3.0]
ASKED: list[list[float]] = [[0.5], [0.1], [0.25, 0.5], [0.25, 0.75], [0.1, 0.5, 0.8]]


def scored(asked: Quantiles, values: list[float]) -> Any:
    below = np.array([sum(v < p for v in values) for p in POINTS])
    up_to = np.array([sum(v <= p for v in values) for p in POINTS])
    return asked.scores(asked.choices(), below, up_to, len(values))


def best_division(chosen: tuple[int, ...], q: list[Fraction], values: list[float], parts: int) -> Fraction:
    """The least sum of |n_j - p_j n| over all divisions that the candidates allow, in steps of 1/`parts`."""
    ranges = []
    for i in chosen:
        below, up_to = sum(v < POINTS[i] for v in values), sum(v <= POINTS[i] for v in values)
        ranges.append([below + Fraction(k, parts) for k in range((up_to - below) * parts + 1)])
    n, targets = len(values), [b - a for a, b in itertools.pairwise([Fraction(0), *q, Fraction(1)])]
    return min(
        sum(
            (abs(b - a - p * n) for (a, b), p in zip(itertools.pairwise([0, *cut, n]), targets, strict=True)),
            start=Fraction(0),
        )
        for cut in itertools.product(*ranges)
        if list(cut) == sorted(cut)
    )


@pytest.mark.parametrize("given", [[0.5], [0.25, 0.5], pytest.param(ASKED[-1], marks=pytest.mark.nightly)])
def test_a_score_is_that_of_the_best_division(given: list[float]) -> None:
    asked, q = Quantiles.of(given, 3), [Fraction(str(each)) for each in given]
    for values in itertools.combinations(VALUES, 4):
        found = scored(asked, list(values))
        for chosen, score in zip(asked.choices().tolist(), found.tolist(), strict=True):
            assert score == -asked.parts * best_division(tuple(chosen), q, list(values), asked.parts)


@pytest.mark.parametrize("relation", list(Neighbouring))
@pytest.mark.parametrize("given", ASKED)
def test_no_row_moves_a_score_further_than_stated(given: list[float], relation: Neighbouring) -> None:
    asked = Quantiles.of(given, 3)
    most, allowed = 0.0, asked.score_sensitivity(1, relation)
    for number in range(4):
        for values in itertools.combinations_with_replacement(sorted(set(VALUES)), number):
            without = scored(asked, list(values))
            added = [scored(asked, [*values, each]) for each in sorted(set(VALUES))]
            pairs = [(without, each) for each in added]
            if relation is Neighbouring.REPLACE_ONE:
                pairs += list(itertools.combinations(added, 2))
            most = max(most, *(float(np.abs(one - other).max()) for one, other in pairs))
    assert most <= allowed
    # The bound is reached: it could be no smaller for several rows either, which may all be alike.
    assert most == allowed


def answered(values: list[float], q: Any, epsilon: float = 1.0, **options: Any) -> Any:
    def algorithm(frame: Any, curator: Curator) -> Any:
        table = curator.table(frame, unit="person").bound(rows_per_unit=1)
        cost = PureDP(epsilon=epsilon)
        return table.quantile("x", q, lower=0.0, upper=20.0, candidates=21, cost=cost)

    frame = pd.DataFrame({"person": range(len(values)), "x": values})
    claim = Claim(PureDP(epsilon=epsilon), unit="person", neighbouring="add-or-remove-one")
    return run(algorithm, frame, claim=claim, **options)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([float(i) for i in range(1, 21)], [5.0, 10.0, 18.0]),
        ([7.0] * 30, [7.0, 7.0, 7.0]),
        ([3.0] * 20 + [9.0] * 20, [3.0, 3.0, 9.0]),
        ([-5.0] * 10 + [50.0] * 10, [0.0, 0.0, 20.0]),
    ],
)
def test_without_noise_the_quantiles_come_out(values: list[float], expected: list[float]) -> None:
    """Many equal values, and values beyond the bounds."""
    asked = [0.25, 0.5, 0.9]
    found = answered(values, asked, noise=NoNoise()).output
    for one, q, known in zip(found, asked, expected, strict=True):
        below, up_to = sum(v < one for v in values), sum(v <= one for v in values)
        assert one == known or (0.0 < one < 20.0 and below <= q * len(values) <= up_to)


def test_several_quantiles_are_one_release_and_cost_what_one_costs() -> None:
    found = answered([float(i % 20) for i in range(400)], [0.25, 0.5, 0.75], seed=3)
    (release,) = found.ledger.releases
    assert release.mechanism == Exponential(epsilon=1.0)
    assert release.label == "0.25, 0.5, 0.75 quantiles of x"
    assert judge(found.ledger, account(found.ledger), (), command="run").all_proved
    # The noise moves a part by a few of 400 values: 20 of 400 are at each candidate.
    assert found.output == sorted(found.output)
    assert np.abs(np.array(found.output) - [5.0, 10.0, 15.0]).max() <= 3.0
