"""Figures of DP-UCBVI and DP-PG: what they judge from planted runs, and their commands at a small size."""

import math
from typing import Any

import numpy as np
import pytest

from dpaudit.algorithms.environments.online_users import online_users
from dpaudit.algorithms.figures.published_claims import Table
from dpaudit.algorithms.figures.regrets import RegretPoint, line_points
from dpaudit.algorithms.papers.he_zhou_2025 import figure as he_zhou_2025
from dpaudit.algorithms.papers.qiao_wang_2024 import figure as qiao_wang_2024
from dpaudit.algorithms.papers.qiao_wang_2024.dp_ucbvi import UCBVIConstants, ucbvi

PLACES = [100.0, 200.0, 300.0, 400.0]


def planted(powers: dict[Any, float]) -> Table[Any]:
    """Regret k^power, a little different in each run."""
    rng = np.random.default_rng(0)
    factors = rng.lognormal(sigma=0.01, size=8)
    return Table({(c, k, s): k**p * factors[s] for c, p in powers.items() for k in PLACES for s in range(8)})


def test_what_the_theorems_promise_is_recognised_and_its_opposite_is_not() -> None:
    joint = [qiao_wang_2024.Curve("joint", rho) for rho in (10.0, 1.0, 0.1)]
    curves = [qiao_wang_2024.PLAIN, *joint, qiao_wang_2024.Curve("local", 10.0)]
    good = qiao_wang_2024.sentences(planted(dict(zip(curves, (0.5, 0.6, 0.7, 0.8, 0.9), strict=True))))
    assert {s.appears for s in good} == {"yes"}
    assert len({s.published for s in good}) == 3
    bad = qiao_wang_2024.sentences(planted(dict(zip(curves, (1.4, 1.3, 1.2, 1.1, 1.05), strict=True))))
    assert {s.appears for s in bad} == {"no"}


def test_losses_that_fall_are_recognised_and_losses_that_grow_are_not() -> None:
    for signs, answer in ((-1.0, "yes"), (1.0, "no")):
        curves = [he_zhou_2025.Curve(e) for e in (math.inf, 10.0, 1.0)]
        powers = dict(zip(curves, (signs * 0.7, signs * 0.5, signs * 0.3), strict=True))
        found = he_zhou_2025.sentences(planted(powers))
        assert {s.appears for s in found} == {answer}


def test_a_run_is_the_algorithms_own() -> None:
    cells = qiao_wang_2024.RUNS.finished(
        line_points(RegretPoint[qiao_wang_2024.Curve], qiao_wang_2024.PLAIN, 1e-3, 40, [5])
    )
    users = online_users(qiao_wang_2024.river(), 40, 5)
    told = ucbvi(users, UCBVIConstants(bonus=1e-3, noise=0.0))
    losses = np.cumsum([qiao_wang_2024.river().suboptimality(one.policy) for one in told])
    for cell in cells:
        assert cell.regret == pytest.approx(losses[cell.episode - 1], rel=1e-9)
