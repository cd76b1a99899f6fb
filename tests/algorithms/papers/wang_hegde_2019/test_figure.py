"""The runs behind figures 1 and 2 of Wang and Hegde (2019), and how their shape is judged."""

from dataclasses import replace

import numpy as np
import pytest

from dpaudit.algorithms.environments.line_world import greedy_return, middle_rewards
from dpaudit.algorithms.figures.picture import panel
from dpaudit.algorithms.papers.wang_hegde_2019.figure import (
    RUNS,
    SIGMAS,
    STUDIES,
    Curve,
    Point,
    Returns,
    algorithm_of,
    compared_curves,
    compared_sentences,
    curve_points,
    declared,
    noise_curves,
    noise_sentences,
    noiseless,
    returns_of,
)
from dpaudit.algorithms.papers.wang_hegde_2019.functional_q import CodedCalibration, CodedQLearning
from dpaudit.curator.noise import NoNoise
from dpaudit.curator.running import run
from dpaudit.page.chart import axis
from tests.sweeps import sweep

SHORT = 200


def test_the_curves_are_those_of_the_paper() -> None:
    panels = dict.fromkeys(c.panel for c in noise_curves())
    assert len(panels) == 6
    for heading in list(panels)[:5]:
        assert [c.sigma for c in noise_curves() if c.panel == heading] == list(SIGMAS)
    assert {(c.epsilon, c.sigma) for c in compared_curves() if c.sigma} == {(0.9, 0.32), (0.45, 0.74)}
    assert {study.runs for study in STUDIES.values()} == {10}


@pytest.mark.parametrize("curve", [c for c in compared_curves() if not noiseless(c)], ids=str)
def test_every_line_claims_what_its_panel_says(curve: Curve) -> None:
    guarantee = algorithm_of(curve).claim.guarantee
    assert f"epsilon = {guarantee.epsilon:g}" in curve.panel  # type: ignore[union-attr]
    assert guarantee.delta == 1e-4  # type: ignore[union-attr]


def test_a_cell_is_the_policy_of_the_function_learnt_so_far() -> None:
    curve = Curve("corrected", "corrected")
    cells = RUNS.finished(curve_points(curve, [3], SHORT))
    algorithm = algorithm_of(curve, SHORT)
    states = run(
        lambda data, curator: list(algorithm.learning(data, curator)),  # type: ignore[union-attr]
        middle_rewards(),
        noise=NoNoise(),
        public_seed=3,
    ).output
    assert [cell.samples for cell in cells] == list(range(20, 201, 20))
    for place in (0, 4, 9):
        expected = greedy_return(states[2 * place + 1].learnt, middle_rewards(), 200, 20191208)
        assert cells[place].learnt == expected


# The first eight are one of each kind.
@sweep("curve", [*compared_curves()[:8], *noise_curves()[1::7]], everyday=range(8), ids=str)
def test_runs_are_repeatable_alone_and_together(curve: Curve) -> None:
    wanted = curve_points(curve, [0, 1], SHORT)
    together = RUNS.finished(wanted)
    alone = RUNS.finished([cell for cell in wanted if cell.seed == 1])
    assert [repr(cell) for cell in together[10:]] == [repr(cell) for cell in alone]
    assert all(np.isfinite(cell.learnt) and 0.0 < cell.learnt < 25.0 for cell in together)


def drawn(curves: list[Curve], ends: list[float]) -> Returns:
    """Runs that begin at 5 and end where they are told to, a little apart."""
    cells: list[Point] = []
    for curve, end in zip(curves, ends, strict=True):
        for cell in curve_points(curve, range(6)):
            value = 5.0 + (end - 5.0) * (cell.samples - 500) / 4500
            cells.append(replace(cell, learnt=value + 1e-3 * (cell.seed % 2) * end, trained=value))
    return returns_of(cells)


def test_the_published_shape_of_figure_1_and_its_opposite() -> None:
    curves = noise_curves()
    reset, kept = [20.0, 18.0, 15.0, 12.0, 9.0, 6.0], [20.0, 12.0, 10.0, 8.0, 7.0, 3.0]
    down = [*reset, *kept, *reset, *reset, *kept, *reset]
    assert {s.appears for s in noise_sentences(drawn(curves, down))} == {"yes"}
    reset, kept = [10.0, 5.0, 11.0, 12.0, 13.0, 14.0], [10.0, 11.0, 15.0, 16.0, 17.0, 18.0]
    up = [*reset, *kept, *reset, *reset, *kept, *(v + 2.0 for v in reset[:1]), 13.0, 14.0, 15.0, 16.0, 17.0]
    found = noise_sentences(drawn(curves, up))
    assert [s.appears for s in found if "against J = 1" in s.about] == ["no"] * 10
    assert found[0].appears == "no"
    assert {s.appears for s in found if "corrected" in s.about} == {"no"}


def test_the_published_shape_of_figure_2_and_its_opposite() -> None:
    curves = compared_curves()
    shaped = drawn(curves, [20.0, 19.0, 19.5, 18.8, 5.0, 4.5, 4.0, 18.5] * 2)
    assert {s.appears for s in compared_sentences(shaped)} == {"yes"}
    opposite = drawn(curves, [20.0, 9.0, 8.0, 7.0, 15.0, 14.0, 13.0, 16.0] * 2)
    found = compared_sentences(opposite)
    assert len(found) == 2 * (3 + 3 + 6 + 2)
    assert {s.appears for s in found} == {"no"}


@pytest.mark.parametrize("resets", [None, 1, 2])
def test_the_ledger_without_the_run_is_that_of_the_run(resets: int | None) -> None:
    algorithm = CodedQLearning(CodedCalibration(samples=120, batch=5), resets)
    one, other = (
        run(what, middle_rewards(), seed=0).ledger.releases for what in (algorithm, declared(algorithm))
    )
    assert list(one) == list(other)
    fresh = CodedQLearning(CodedCalibration(samples=20, batch=5), view="fresh")
    assert declared(fresh) is fresh


@pytest.mark.parametrize(("curves", "marked"), [(6, False), (8, True)])
def test_more_curves_than_colours_are_told_apart_by_their_marks(curves: int, marked: bool) -> None:
    rows = [
        {"curve": f"curve {i}", "samples": k, "mean": 1.0, "low": None, "high": None}
        for i in range(curves)
        for k in (1, 2)
    ]
    drawn = panel(rows, axis("samples", "samples"), axis("mean", "mean"))
    told = [layer["encoding"].get("shape") for layer in drawn["layer"]]
    assert any(told) == marked
    if marked:
        (shape,) = filter(None, told)
        # Vega's own shapes are eight, and more than the colours: no pair of both is there twice.
        assert len(shape["scale"]["domain"]) == curves <= 8
