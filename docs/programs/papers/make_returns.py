"""Write what each form of Q-learning returns into docs/papers/functional-noise.md.

    python docs/programs/papers/make_returns.py DIR --runs 3

DIR is the folder of `dpaudit reproduce wang-hegde-2019-figure-1 -o DIR --runs 3`, and of `wang-hegde-2019-figure-2`
too: finished runs are taken from it, and those that the table needs beside them are made and kept there.
"""

from __future__ import annotations

import argparse
import math
from itertools import chain
from pathlib import Path

from common import table

from dpaudit.algorithms.environments.line_world import middle_rewards
from dpaudit.algorithms.papers.wang_hegde_2019.figure import (
    CODED,
    KERNEL,
    PRINTED,
    RUNS,
    Curve,
    algorithm_of,
    compared_curves,
    curve_points,
    declared,
    noise_curves,
    noiseless,
    returns_of,
)
from dpaudit.app.figures.engine import accounted

PAGE = Path(__file__).parents[2] / "papers" / "functional-noise.md"
BEGIN, END = "<!-- written by make_returns.py -->", "<!-- end -->"


def shown() -> list[Curve]:
    """The lines of the figure that the table has: a noiseless learner, and one or more of each form."""
    wanted = {CODED: (0.0, 0.4), KERNEL: (0.4,), PRINTED: (0.4,)}
    budgets = (math.inf, 256.0, 64.0, 0.9)
    return [
        curve
        for curve in noise_curves()
        if curve.sigma in wanted.get(curve.algorithm, ())
        or (curve.panel == "corrected" and curve.epsilon in budgets)
        if curve.resets == 0
    ]


def baselines() -> list[Curve]:
    """The other algorithms that the second figure has at the claim of the first."""
    return [
        curve
        for curve in compared_curves()
        if curve.panel.endswith(" 0.9") and curve.algorithm not in {CODED, KERNEL, PRINTED, "corrected"}
    ]


def block(folder: Path, runs: int) -> str:
    """The table, as Markdown."""
    found, of_figure = [], {"1": shown(), "2": baselines()}
    for number, lines in of_figure.items():
        points = [point for curve in lines for point in curve_points(curve, range(runs))]
        found += RUNS.finished(points, path=folder / f"wang-hegde-2019-figure-{number}-runs.csv")
    returns, rows = returns_of(found), []
    for curve in chain.from_iterable(of_figure.values()):
        epsilon = "infinite"
        if not noiseless(curve):
            epsilon = accounted(declared(algorithm_of(curve)), middle_rewards())[1]
            if curve.algorithm in {CODED, KERNEL, PRINTED}:
                epsilon = f"infinite: line 24 leaks; {epsilon} by the proof's own sensitivity"
        estimates = (str(part.estimate(curve)) for part in returns)
        rows.append((str(curve), *estimates, epsilon))
    columns = ("form", "last tenth of the training", "greedy policy learnt", "epsilon at 1e-4")
    words = f"Mean returns of {runs} runs of 5000 samples with 95% intervals."
    return f"{BEGIN}\n\n{words}\n\n{table(columns, rows)}\n\n{END}"


def main() -> None:
    """Replace what stands between the two comments of the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + block(asked.folder, asked.runs) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
