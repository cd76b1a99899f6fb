"""DP-APVI's suboptimality over the number of episodes and rho, beside the non-private APVI.

    python examples/dp_apvi_utility.py [--runs 10] [-o utility.csv]

Prints a Markdown table: the mean over runs, each on fresh data with fresh noise, of the value that the
policy loses against the exact optimum. The noise is seeded, so the table can be repeated; on
private data it never is.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpaudit import ZCDP, run
from dpaudit.algorithms.environments.treatment import treatment_data
from dpaudit.algorithms.offline.dp_apvi import DPAPVI, PenaltyConstants, apvi

EPISODES = (1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000)
RHOS = (10.0, 1.0, 0.1)


def rows(runs: int, constant: float) -> Iterator[dict[str, float]]:
    """One row per number of episodes: mean suboptimality without noise and for each rho."""
    constants = PenaltyConstants(privacy=constant)
    for episodes in EPISODES:
        lost: dict[str, list[float]] = {}
        for seed in range(runs):
            data, mdp = treatment_data(episodes, seed=seed)
            exact = apvi(data, mdp.rewards, constants=constants)
            lost.setdefault("no noise", []).append(mdp.suboptimality(exact.actions))
            for rho in RHOS:
                algorithm = DPAPVI(mdp.rewards, guarantee=ZCDP(rho=rho), constants=constants)
                output = run(algorithm, data, seed=seed).output
                lost.setdefault(f"rho={rho:g}", []).append(mdp.suboptimality(output.actions))
        yield {
            "C2": constant,
            "episodes": episodes,
            **{name: float(np.mean(values)) for name, values in lost.items()},
        }


def main() -> None:
    """Print the table; write it where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    table = [row for constant in (16.0, 0.1) for row in rows(options.runs, constant)]
    names = list(table[0])
    print("| " + " | ".join(names) + " |")
    print("|" + "---|" * len(names))
    for row in table:
        figures = [f"{row[name]:.7g}" if name in {"C2", "episodes"} else f"{row[name]:.3f}" for name in names]
        print("| " + " | ".join(figures) + " |")
    if options.output:
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
