import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpaudit.algorithms.environments.online_users import online_users
from dpaudit.algorithms.figures.published_claims import table
from dpaudit.algorithms.figures.regrets import grid_points, line_points, sublinear
from dpaudit.algorithms.figures.study import TUNING_SEEDS, best_settings
from dpaudit.algorithms.papers.liao_he_gu_2023.figure import (
    GRIDS,
    RIVERS,
    RUNS,
    Curve,
    Point,
    algorithm_of,
    grids,
    river,
    sentences,
)
from dpaudit.algorithms.papers.liao_he_gu_2023.value_targeted import MixtureModel, jia_widths, ucrl_vtr
from dpaudit.errors import UsageError

HARD = Curve("hard", "ldp-ucrl-vtr", 1.0, "exact")
PLAIN = Curve("homogeneous", "ucrl-vtr", math.inf, "none")
NOISY = Curve("inhomogeneous", "ldp-ucrl-vtr", 100.0, "exact")


@pytest.mark.parametrize("calibration", ["exact", "published-noise"])
def test_each_panel_has_the_non_private_line_first(calibration: str) -> None:
    drawn = list(grids(calibration))
    for name in RIVERS:
        plain, *private = [curve for curve in drawn if curve.river == name]
        assert plain.algorithm == "ucrl-vtr"
        assert [curve.epsilon for curve in private] == sorted(GRIDS[calibration])
        assert {curve.calibration for curve in private} == {calibration}
    assert len(set(drawn)) == len(drawn) == 8


def test_points_end_at_the_last_user() -> None:
    assert [cell.episode for cell in line_points(Point, PLAIN, 0.1, 3, [0])] == [1, 2, 3]
    points = [cell.episode for cell in line_points(Point, PLAIN, 0.1, 10_000, [0])]
    assert (len(points), points[0], points[-1]) == (50, 200, 10_000)


def test_a_run_is_the_algorithms_own() -> None:
    cells = RUNS.finished(line_points(Point, PLAIN, 0.1, 40, [5]))
    mdp = river("homogeneous")
    model = MixtureModel(algorithm_of(NOISY, 0.1).model.features, mdp.rewards)
    policies = ucrl_vtr(online_users(mdp, 40, 5), model, widths=jia_widths(model, 40, 0.1)).policies
    best = mdp.initial @ mdp.optimal_values()[0]
    losses = [best - mdp.initial @ mdp.evaluate(policy)[0] for policy in policies]
    np.testing.assert_allclose([cell.regret for cell in cells], np.cumsum(losses), rtol=1e-9)


def test_finished_runs_are_kept_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    wanted = [*line_points(Point, PLAIN, 0.1, 20, [0, 1]), *line_points(Point, NOISY, 0.1, 20, [0, 1])]
    done: list[int] = []
    first = RUNS.finished(wanted[: len(wanted) // 2], path=path)
    assert all(math.isfinite(cell.regret) for cell in first)
    found = RUNS.finished(wanted, path=path, progress=done.append)
    assert done == [2, 3, 4]
    assert found[: len(first)] == first
    assert [replace(cell, regret=0.0) for cell in found] == [replace(cell, regret=0.0) for cell in wanted]
    assert found == RUNS.finished(wanted)
    assert len({cell.regret for cell in found if cell.episode == 20}) > 2
    path.write_text("something else\n1\n")
    with pytest.raises(UsageError):
        RUNS.finished(wanted, path=path)


def test_c_is_chosen_on_other_users_by_its_mean_regret() -> None:
    cells = grid_points(Point, NOISY, GRIDS["exact"][100.0], 30)
    assert {cell.bonus for cell in cells} == set(GRIDS["exact"][100.0])
    assert {cell.seed for cell in cells} == set(TUNING_SEEDS)
    assert {cell.episode for cell in cells} == {30}
    by_scale = {0.001: (5.0, 9.0), 0.003: (6.0, 7.0), 0.01: (1.0, 12.0)}
    filled = [replace(cell, regret=by_scale[cell.bonus][cell.seed - TUNING_SEEDS[0]]) for cell in cells]
    assert best_settings((p.curve, p.bonus, p.regret) for p in filled) == {NOISY: 0.003}


def drawn(shapes: dict[Curve, float], scale: float = 1.0) -> list[Point]:
    """Regret growing as a power of k, a little apart from run to run."""
    return [
        replace(cell, regret=scale * (cell.episode**power) * (1.0 + 1e-3 * cell.seed))
        for curve, power in shapes.items()
        for cell in line_points(Point, curve, 0.1, 1000, range(5))
    ]


def test_the_published_shape_is_recognised_and_its_opposite_is_not() -> None:
    small, large = replace(NOISY, river="homogeneous", epsilon=10.0), replace(NOISY, river="homogeneous")
    kinds = ("sublinear in K", "a larger regret than UCRL-VTR", "closer as epsilon grows")
    for powers, answers in (
        ((0.5, 0.9, 0.7), ("yes", "yes", "yes")),
        ((1.2, 1.0, 1.1), ("no", "no", "no")),
        ((1.0, 1.0, 1.0), ("not told apart",) * 3),
    ):
        found = sentences(table(drawn(dict(zip((PLAIN, small, large), powers, strict=True))), "regret"))
        assert [s.published for s in found] == [kinds[0]] * 3 + [kinds[1]] * 2 + [kinds[2]]
        for kind, answer in zip(kinds, answers, strict=True):
            given = {s.appears for s in found if s.published == kind}
            assert given == {answer} or (kind == kinds[0] and powers[1] == 1.0 and answer == "no")


def test_from_how_many_users_on_regret_is_no_line() -> None:
    def numbers(loses: Callable[[int], float]) -> str:
        """What is said of five runs whose users lose so much each, up to 1000 of them."""
        points = [
            replace(cell, regret=(1 + 1e-3 * cell.seed) * sum(map(loses, range(cell.episode))))
            for cell in line_points(Point, PLAIN, 0.1, 1000, range(5))
        ]
        return sublinear(table(points, "regret"), PLAIN, "").numbers

    # The second half of the first 2k users costs less as soon as one of them is past the 400th.
    learns_late = numbers(lambda user: 1.0 if user < 400 else 0.1)
    assert learns_late == "regret per user 0.822 up to 500, then 0.1; told apart from K = 440 on"
    assert numbers(lambda user: 1.0) == "regret per user 1 up to 500, then 1"
    # For a while only: the line of all users is told apart at none.
    assert "told apart" not in numbers(lambda user: 0.1 if 100 <= user < 200 else 1.0)


def test_of_a_single_run_nothing_is_told() -> None:
    cells = [cell for cell in drawn({PLAIN: 0.5}) if cell.seed == 0]
    assert {s.appears for s in sentences(table(cells, "regret"))} == {"not told apart"}


def test_the_hard_instance_has_the_published_budgets_and_the_gap_of_its_users() -> None:
    drawn = list(grids("exact", "hard"))
    assert [curve.epsilon for curve in drawn] == [math.inf, 0.1, 1.0, 10.0]
    assert {curve.river for curve in drawn} == {"hard"}
    for users in (50, 200):
        algorithm = algorithm_of(HARD, 0.003, users)
        assert (algorithm.model.dimension, algorithm.model.horizon) == (5, 6)
        # The chance of leaving x_1 for the rewards is delta + <mu, a>: 4 gaps above 1/H for the best action.
        chances = river("hard", users).transitions[0, 0, :, 7]
        assert chances.max() - 1 / 6 == pytest.approx(4 * math.sqrt(1 / (6 * users)) / (4 * math.sqrt(2)))
    found = RUNS.finished(line_points(Point, HARD, 0.003, 50, [0]))
    assert 0.0 < found[-1].regret < 50 * 6
