"""Whether updates at doubled determinants are better than a fixed schedule, with many users.

`python docs/programs/papers/schedules.py DIR [--users 100000] [--tuned-at 20000] [--runs 20] [--rho 10]` prints
the table of docs/papers/lsvi.md; finished runs are kept in DIR, and the same command continues. The factors of
beta and of lambda have the least mean regret over two runs of other users, as in `dpaudit reproduce
ngo-vietri-wu-2022-regret --tune-lambda`, of which these are two lines alone.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

from dpaudit.algorithms.figures.published_claims import above_zero, table
from dpaudit.algorithms.figures.regrets import grid_points, line_points
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.figure import GRIDS, RIDGES, RUNS, Curve, Point, factors


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--tuned-at", type=int, default=20_000, help="users of the runs that choose factors")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rho", type=float, default=10.0)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    kept = given.folder / "schedules-runs.csv"
    doubling, fixed = curves = [Curve(schedule, given.rho) for schedule in ("doubling", "fixed")]
    grid = [
        replace(point, ridge=ridge)
        for curve, ridge in product(curves, RIDGES)
        for point in grid_points(Point, curve, GRIDS[curve], given.tuned_at)
    ]
    best = factors(RUNS.finished(grid, path=kept))
    wanted = [
        replace(point, ridge=ridge)
        for curve, (bonus, ridge) in best.items()
        for point in line_points(Point, curve, bonus, given.users, range(given.runs), most=1)
    ]
    found = RUNS.finished(wanted, path=kept)
    regret, updates = table(found, "regret"), table(found, "updates")
    sys.stdout.write("| | factor of beta, of lambda | regret at the end | updates |\n|---|---|---|---|\n")
    for curve, (bonus, ridge) in best.items():
        ends = f"{regret.estimate(curve)} | {updates.estimate(curve)}"
        sys.stdout.write(f"| {curve} | {bonus:g}, {ridge:g} | {ends} |\n")
    less = regret.gap(fixed, doubling)
    sys.stdout.write(f"\ndoubling loses less by {less}: {above_zero(less)}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
