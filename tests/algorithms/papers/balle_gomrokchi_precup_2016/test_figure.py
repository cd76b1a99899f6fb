"""The runs of figure 1 of Balle, Gomrokchi and Precup (2016), and the sentences judged from them."""

import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016 import figure as balle_gomrokchi_precup_2016
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.figure import (
    CHAIN,
    RIDGES,
    RUNS,
    Asked,
    Line,
    Point,
    Results,
    _picture,
    _private,
    best_ridge,
    figure_points,
    line_of,
    results_of,
    run_batch,
    sentences,
)
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.least_squares import DPLSW
from dpaudit.curator.running import run
from dpaudit.errors import UsageError

BATCHES, SWEPT = (20, 60), (20, 60)
WANTED = figure_points((0, 1), BATCHES, SWEPT)


@pytest.mark.nightly
def test_every_algorithm_runs_with_every_noise_on_the_same_batch() -> None:
    cells = RUNS.finished(WANTED)
    assert {point.asked for point in WANTED} == {cell.asked for cell in cells}
    assert len({cell.asked for cell in cells}) == len(cells)
    kinds = {(c.asked.algorithm, c.asked.calibration, c.asked.aggregate) for c in cells}
    private = {(f"dp-{a}", noise, k) for a in ("lsw", "lsl") for noise in ("lemma", "exact") for k in (1, 2)}
    assert kinds == private | {(a, "none", k) for a in ("lsw", "lsl") for k in (1, 2)}
    assert all(math.isfinite(c.error) and c.error > 0.0 for c in cells)
    # The non-private ones minimise their own risk; noise is always above it.
    assert all((c.excess == 0.0) == (c.asked.calibration == "none") for c in cells)
    assert RUNS.finished(WANTED, workers=2) == cells
    # Exact noise and the lemma's differ by their alphas alone: over many seeds by a factor of about 43.
    results = results_of(cells, BATCHES, SWEPT)
    ratio = [results.excess.at(line_of("dp-lsw", noise), 60).mean() ** 0.5 for noise in ("lemma", "exact")]
    assert 20 < ratio[0] / ratio[1] < 90


def test_a_cell_is_the_same_whatever_else_runs() -> None:
    whole = run_batch([cell for cell in WANTED if (cell.asked.episodes, cell.asked.seed) == (20, 1)])
    for cell in whole[::7]:
        (alone,) = run_batch([Point(cell.asked)])
        assert alone == cell


def test_sampled_visits_give_what_the_episodes_themselves_give() -> None:
    stays = CHAIN.stays(50, np.random.default_rng(3))
    asked = Asked("dp-lsw", "exact", 2, 0.0, 50, 0)
    on_visits = balle_gomrokchi_precup_2016.algorithm_of(asked)
    on_episodes = DPLSW(CHAIN.features(2), CHAIN.discount, 1.0, calibration="exact")
    one = run(on_visits, CHAIN.visits(stays), seed=5).output
    two = run(on_episodes, CHAIN.episodes(stays), seed=5).output
    assert one.theta == pytest.approx(two.theta, rel=1e-9)


def test_an_interrupted_figure_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cells.csv"
    cells = RUNS.finished(WANTED, path=path)
    runs = len(BATCHES) * 2
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-3]) + lines[-3][:20])
    told: list[int] = []
    assert RUNS.finished(WANTED, path=path, progress=told.append) == cells
    assert told == [runs - 1, runs]
    assert sorted(path.read_text().splitlines()) == sorted("".join(lines).splitlines())
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UsageError):
        RUNS.finished(WANTED, path=path)


def made_up(errors: dict[str, float], seeds: tuple[int, ...] = (0, 1, 2)) -> Results:
    """Results in which an algorithm's error is a number over m, and lambda is best at the root of m."""

    def filled(point: Point) -> Point:
        cell = point.asked
        error = errors[cell.algorithm] * (1 + 0.001 * cell.seed)
        if cell.aggregate == 1 and cell.algorithm == "dp-lsl" and cell.ridge in RIDGES:
            error = 1 + abs(math.log(cell.ridge / (10 * math.sqrt(cell.episodes))))
        size = cell.episodes if cell.algorithm == "dp-lsw" else math.sqrt(cell.episodes)
        return replace(point, error=error / size, excess=1.0 / cell.aggregate + 0.01 * cell.seed)

    batches, swept = (100, 10_000), (100, 10_000)
    return results_of([filled(point) for point in figure_points(seeds, batches, swept)], batches, swept)


def test_sentences_are_judged_by_their_numbers() -> None:
    results = made_up({"lsw": 0.1, "lsl": 0.2, "dp-lsw": 500.0, "dp-lsl": 20.0})
    found = {(s.published[:30], s.about): s.appears for s in sentences(results)}
    assert found["LSW converges faster", "tabular"] == "yes"
    assert found["LSL works better with small ba", "lemma, pairs"] == "yes"
    assert found["LSW works better with large ba", "lemma, pairs"] == "yes"
    assert found["lambda should grow like sqrt(m", "DP-LSL, exact, tabular"] == "yes"
    assert found["function approximation helps b", "DP-LSW, lemma"] == "yes"
    assert found["for large enough batch sizes t", "DP-LSW, exact, pairs"] == "no"
    assert best_ridge(results.swept[100], Line("dp-lsl", "exact", 1)) == 100.0
    # The other way round, and with a single run.
    other = made_up({"lsw": 0.2, "lsl": 0.1, "dp-lsw": 1.0, "dp-lsl": 20.0})
    found = {(s.published[:30], s.about): s.appears for s in sentences(other)}
    assert found["LSW converges faster", "tabular"] == "no"
    assert found["LSL works better with small ba", "lemma, pairs"] == "no"
    single = made_up({"lsw": 0.2, "lsl": 0.1, "dp-lsw": 1.0, "dp-lsl": 20.0}, seeds=(0,))
    assert {s.appears for s in sentences(single) if "faster" in s.published} == {"not told apart"}


def test_no_two_curves_of_a_panel_look_alike() -> None:
    lines = [*_private(1), *_private(2)]
    assert len(lines) == 8  # of six colours
    numbers = {"episodes": 10, "ridge": 1.0, "mean": 1.0, "low": 0.5, "high": 2.0}
    rows = [
        {"panel": panel, "curve": str(line), **asdict(line), **numbers} for panel in "abcd" for line in lines
    ]
    *_, halves = _picture(rows, "title")["vconcat"]
    for panel in halves["hconcat"]:
        _, drawn, points = (layer["encoding"] for layer in panel["layer"])
        colours = dict(zip(*(drawn["color"]["scale"][part] for part in ("domain", "range")), strict=True))
        shapes = dict(zip(*(points["shape"]["scale"][part] for part in ("domain", "range")), strict=True))
        looks = {(colours[str(line)], line.calibration, shapes[str(line)]) for line in lines}
        assert len(looks) == len(lines)
