"""How close the bounds of one run come: the table of docs/auditing/auditing.md, in half a minute.

    python benchmarks/one_run.py

Medians of 200 audits of the Gaussian mechanism with 1,000 canaries at 95%, delta = 1e-5; the last row is of
four such runs together.
"""

from __future__ import annotations

import sys

import numpy as np

import dpaudit
from dpaudit import GDP, Claim
from dpaudit.auditors.statistics.gaussian_pair import epsilon_below

CANARIES, AUDITS, DELTA = 1_000, 200, 1e-5


def gaussian_run(mu: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The scores [m] and coins [m] of one run: each canary shows through noise of its own."""
    random = np.random.default_rng([41, seed])
    coins = random.random(CANARIES) < 0.5
    return random.normal(size=CANARIES) + mu * coins, coins


def row(mu: float, runs: int) -> str:
    """One line of the table."""
    found = []
    for seed in range(0, AUDITS * runs, runs):
        pooled = [gaussian_run(mu, seed + run) for run in range(runs)]
        given = [scores for scores, _ in pooled], [coins for _, coins in pooled]
        on_mu = dpaudit.one_run(*given, claim=Claim(GDP(mu=mu)), delta=DELTA)
        on_epsilon = dpaudit.one_run(*given, delta=DELTA)
        found.append((on_mu.mu_lower, on_mu.epsilon_if_gaussian, on_epsilon.epsilon_lower))
    on_mu, gaussian, epsilon = np.median(np.array(found, dtype=float), axis=0)
    true = f"{mu:g} | {epsilon_below(DELTA, mu):.2f}"
    return f"| {runs} | {true} | {on_mu:.2f} | {gaussian:.2f} | {epsilon:.2f} |"


def main() -> None:
    """Print the table in Markdown."""
    head = "| runs | mu | epsilon | bound on mu | as epsilon, if Gaussian | bound on epsilon |"
    rows = (row(mu, runs) for mu, runs in ((0.5, 1), (1.0, 1), (2.0, 1), (4.0, 1), (1.0, 4)))
    sys.stdout.writelines(f"{line}\n" for line in (head, "|---|---|---|---|---|---|", *rows))


if __name__ == "__main__":
    main()
