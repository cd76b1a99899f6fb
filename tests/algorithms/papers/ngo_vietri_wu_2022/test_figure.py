import math
from dataclasses import replace

import numpy as np
import pytest

from dpaudit.algorithms.environments.online_users import online_users
from dpaudit.algorithms.figures.published_claims import Sentence, table
from dpaudit.algorithms.figures.regrets import grid_points, line_points
from dpaudit.algorithms.figures.study import TUNING_SEEDS
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.figure import (
    GRIDS,
    HORIZON,
    PUBLISHED,
    RUNS,
    Curve,
    Point,
    algorithm_of,
    factors,
    fixed_updates,
    jin_bonus,
    process,
    sentences,
)
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.lsvi import LinearModel, lsvi_ucb

PLAIN, NOISY, FIXED = Curve("none", math.inf), Curve("doubling", 1.0), Curve("fixed", 1.0)


def test_curves_and_their_grids() -> None:
    assert next(iter(GRIDS)) == PLAIN
    assert len({str(curve) for curve in GRIDS}) == len(GRIDS)
    for curve, grid in GRIDS.items():
        cells = grid_points(Point, curve, grid, 100)
        assert {cell.bonus for cell in cells} == set(grid)
        assert {cell.seed for cell in cells} == set(TUNING_SEEDS)
        assert {cell.episode for cell in cells} == {100}
        if curve != PLAIN:
            algorithm = algorithm_of(curve, 1e-4, 100)
            assert algorithm.guarantee.rho == curve.rho
            assert (algorithm.fixed_updates is None) == (curve.schedule != "fixed")
    assert fixed_updates(100_000) == 100
    assert fixed_updates(2) == 1


def test_a_run_is_the_algorithms_own() -> None:
    cells = RUNS.finished(line_points(Point, PLAIN, 0.03, 80, [5]))
    users = online_users(process(), 80, 5, random_rewards=True)
    model = LinearModel(process().features, HORIZON)
    views = lsvi_ucb(users, model, ridge=0.5, bonus=0.03 * jin_bonus(80)).views
    losses = np.cumsum([process().suboptimality(view.policy) for view in views])
    for cell in cells:
        assert cell.regret == pytest.approx(losses[cell.episode - 1], rel=1e-9)
        assert cell.updates == views[cell.episode - 1].updates


def test_noise_changes_with_the_curve_and_a_run_can_be_repeated() -> None:
    wanted = [cell for curve in (NOISY, FIXED) for cell in line_points(Point, curve, 1e-4, 60, [0, 1])]
    found = RUNS.finished(wanted)
    assert found == RUNS.finished(wanted)
    assert [replace(c, regret=0.0, updates=0.0) for c in found] == [
        replace(c, regret=0.0, updates=0.0) for c in wanted
    ]
    assert all(math.isfinite(cell.regret) for cell in found)
    assert max(cell.updates for cell in found if cell.curve == FIXED) == fixed_updates(60)


def drawn(powers: dict[Curve, float], updates: float) -> list[Point]:
    """Regret growing as a power of k, a little apart from run to run; of the published beta linearly."""
    return [
        replace(
            cell,
            regret=float(cell.episode**power) * (1.0 + (0.0 if power == 1.0 else 1e-3 * cell.seed)),
            updates=updates,
        )
        for curve, power in powers.items()
        for cell in line_points(Point, curve, 1e-4, 1000, range(5))
    ]


def judged(points: list[Point]) -> list[Sentence]:
    found = {name: table(points, name) for name in ("regret", "updates")}
    return sentences(found, {point.curve: point.bonus for point in points}, points[0].users)


@pytest.mark.parametrize(
    ("powers", "updates", "answers"),
    [
        ((0.5, 0.6, 0.8, 0.7, 0.85, 1.0), 10.0, ("yes",) * 6),
        ((1.2, 1.15, 0.9, 1.1, 0.85, 1.1), 1e6, (None, "no", "no", "no", "no", "no")),
    ],
)
def test_what_is_promised_is_recognised_and_its_opposite_is_not(
    powers: tuple[float, ...], updates: float, answers: tuple[str | None, ...]
) -> None:
    ordered = (PLAIN, Curve("doubling", 10.0), Curve("doubling", 0.1), NOISY, FIXED)
    named = dict(zip((*ordered, PUBLISHED), powers, strict=True))
    found = judged(drawn(named, updates))
    kinds = list(dict.fromkeys(s.published for s in found))
    assert len(kinds) == 6
    for kind, answer in zip(kinds, answers, strict=True):
        given = {s.appears for s in found if s.published == kind}
        assert answer is None or given == {answer} or (answer == "no" and kind == kinds[1])


def test_of_a_single_run_nothing_is_told_that_could_be_chance() -> None:
    powers = {PLAIN: 0.5, NOISY: 0.6, FIXED: 0.7, PUBLISHED: 1.0}
    cells = [cell for cell in drawn(powers, 3.0) if cell.seed == 0]
    sure = ("at most", "(not the paper's)")
    for sentence in judged(cells):
        assert sentence.appears == ("yes" if sentence.published.startswith(sure) else "not told apart")


def test_lambda_is_chosen_with_beta_by_the_mean_and_reaches_the_algorithm() -> None:
    grid = [replace(p, ridge=r) for r in (1.0, 0.2) for p in grid_points(Point, NOISY, (1e-4, 1e-3), 60)]
    planted = [
        replace(p, regret=(1.0 if (p.bonus, p.ridge) == (1e-3, 0.2) else 2.0) + i % 2)
        for i, p in enumerate(grid)
    ]
    assert factors(planted) == {NOISY: (1e-3, 0.2)}
    whole, fifth = (algorithm_of(NOISY, 1e-4, 1000, ridge) for ridge in (1.0, 0.2))
    assert fifth.ridge == pytest.approx(whole.ridge / 5)
    # A smaller lambda bounds the updates less, and the noise pays for more of them.
    assert fifth.noise.updates > whole.noise.updates
    points = line_points(Point, NOISY, 1e-4, 60, [0])
    runs = [RUNS.finished([replace(p, ridge=ridge) for p in points])[-1].regret for ridge in (1.0, 0.05)]
    assert runs[0] != runs[1]
