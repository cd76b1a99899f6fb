"""The page beside figure 2 of Liao, He and Gu (2023): what of it appears, and with which numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.online.online import online_users
from dpaudit.app.figures.figure_003 import (
    ALPHA,
    DELTA,
    GRIDS,
    N_STATES,
    TUNING_SEEDS,
    Curve,
    algorithm_of,
    river,
)
from dpaudit.app.figures.published_claims import Sentence
from dpaudit.app.figures.regrets import Regrets
from dpaudit.app.report.blocks import Block, Grid, Heading, Paragraph, Picture
from dpaudit.app.text.output import upper
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.curator.running import run

TITLE = "cumulative regret of LDP-UCRL-VTR on two rivers"


def page(
    regrets: Regrets[Curve],
    judged: Sequence[Sentence],
    *,
    name: str,
    calibration: str,
    command: str,
    picture: str,
) -> list[Block]:
    """The page's blocks.

    Args:
        regrets: the runs.
        judged: what the paper says of the figure, judged.
        name: as in `dpaudit reproduce NAME`.
        calibration: of the noise.
        command: the command line that made it.
        picture: the file name of its picture.
    """
    single = "" if len(regrets.seeds) == 1 else "; bands: one standard deviation"
    return [
        Heading(f"{name}: {TITLE}"),
        Paragraph(
            "Figure 2 of Liao, He and Gu, Locally Differentially Private Reinforcement Learning for Linear "
            f"Mixture Markov Decision Processes (ACML 2023), drawn again by `{command}`. "
            f"{_setting(regrets, calibration)}"
        ),
        Picture(picture, f"Cumulative regret, mean of {len(regrets.seeds)} runs{single}"),
        Heading("What the paper says, and what these runs say"),
        Grid(
            ("published", "about", "appears", "numbers"),
            [(s.published, s.about, s.appears, s.numbers) for s in judged],
        ),
        Heading("What the text leaves open"),
        Paragraph(_choices()),
        Heading("Privacy of these runs"),
        *_privacy(regrets),
        Heading("Regret at the end, mean and 95% interval"),
        Grid(
            ("river", "curve", "c", "regret"),
            [
                (c.river, str(c), f"{regrets.bonus[c]:g}", str(regrets.estimate(c, regrets.points[-1])))
                for c in regrets.curves
            ],
        ),
    ]


def _setting(regrets: Regrets[Curve], calibration: str) -> str:
    rivers = dict.fromkeys(curve.river for curve in regrets.curves)
    worths = []
    for name in rivers:
        mdp = river(name)
        best = float(mdp.initial @ mdp.optimal_values()[0])
        left = mdp.suboptimality(np.zeros(mdp.rewards.shape[:2], dtype=np.int64))
        worths.append(f"{best:.3f} on the {name} river, of which always going left loses {left:.3f}")
    return (
        f"Noise {calibration}; S={N_STATES}, H={2 * N_STATES}, one-hot features, rewards divided by H, "
        f"delta={DELTA}, alpha={ALPHA}, lambda=1; {regrets.points[-1]} users, {len(regrets.seeds)} runs, "
        f"seeds {regrets.seeds[0]} to {regrets.seeds[-1]}. The optimal value is {'; '.join(worths)}."
    )


def _choices() -> str:
    grids = "; ".join(
        f"{'UCRL-VTR' if math.isinf(epsilon) else f'{noise}, epsilon={epsilon:g}'}: "
        f"{', '.join(f'{c:g}' for c in grid)}"
        for noise, by_budget in GRIDS.items()
        for epsilon, grid in by_budget.items()
    )
    return (
        "S, the budgets, the homogeneous kernel, r and the grid of c are not in the text. Chosen: right "
        "succeeds with probability 0.9 on the homogeneous river, and on the other with one drawn from "
        "U(0.8, 1) for each step; else the swimmer stays or is swept down as 12 : 1. r is a bound on the "
        "noise's largest eigenvalue (see MixtureConstants). Values are clipped at 0 from below too. "
        "UCRL-VTR's width is scaled as a whole, c (sqrt(SA) + R (H-h+1) sqrt(2 log K + log det M)): with c "
        "before the first term alone it learns nothing in so many users. c has the least mean regret over "
        f"{len(TUNING_SEEDS)} runs on other users, of the grid {grids}."
    )


def _privacy(regrets: Regrets[Curve]) -> Iterator[Block]:
    yield Paragraph(
        "What accounting says of the ledger of such a run, which describes one user; every user is held to "
        "it. Sensitivities are those of one-hot features, not the 1 that section 6.2 states; docs/papers.md "
        "has both."
    )
    rows = []
    for curve in regrets.curves:
        if math.isinf(curve.epsilon):
            continue
        algorithm = algorithm_of(curve, regrets.bonus[curve])
        ledger = run(algorithm, online_users(river(curve.river), 2, seed=0), seed=0).ledger
        found = account(ledger)
        rows.append(
            (
                curve.river,
                f"{curve.epsilon:g}",
                str(found.verdict),
                upper(leading_figure(found.bounds[0].guarantee)),
                f"{algorithm.noise.sigma:.4g}",
                f"{algorithm.noise.sensitivity:.4g}",
            )
        )
    yield Grid(("river", "epsilon claimed", "claim", "epsilon proved", "sigma", "L2 sensitivity"), rows)


def summary(regrets: Regrets[Curve], judged: Sequence[Sentence]) -> dict[str, Any]:
    """What the page says, as plain JSON types."""
    return {
        "runs": len(regrets.seeds),
        "users": regrets.points[-1],
        "sentences": [
            {"published": s.published, "about": s.about, "appears": s.appears, "numbers": s.numbers}
            for s in judged
        ],
        "regret": [
            {
                "river": curve.river,
                "curve": str(curve),
                "c": regrets.bonus[curve],
                "mean": regrets.estimate(curve, regrets.points[-1]).mean,
            }
            for curve in regrets.curves
        ],
    }
