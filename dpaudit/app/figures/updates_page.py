"""The page beside the picture of Private LSVI-UCB: what appears, with which numbers, and what was chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.online.online import online_users
from dpaudit.app.figures.figure_004 import (
    DIMENSION,
    FAILURE_PROBABILITY,
    GRIDS,
    HORIZON,
    N_ACTIONS,
    N_STATES,
    RIDGE,
    TUNING_SEEDS,
    algorithm_of,
    fixed_updates,
    jin_bonus,
    process,
)
from dpaudit.app.figures.figure_004_shape import PUBLISHED, Switches
from dpaudit.app.figures.published_claims import Sentence
from dpaudit.app.report.blocks import Block, Grid, Heading, Paragraph, Picture
from dpaudit.app.text.output import upper
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.curator.running import run

TITLE = "regret and updates of Private LSVI-UCB"


def page(runs: Switches, judged: Sequence[Sentence], *, name: str, command: str, picture: str) -> list[Block]:
    """The page's blocks.

    Args:
        runs: the finished runs.
        judged: what the paper promises, judged.
        name: as in `dpaudit reproduce NAME`.
        command: the command line that made it.
        picture: the file name of its picture.
    """
    count = len(runs.regret.seeds)
    single = "" if count == 1 else "; bands: one standard deviation"
    return [
        Heading(f"{name}: {TITLE}"),
        Paragraph(
            "Ngo, Vietri and Wu, Improved Regret for Differentially Private Exploration in Linear MDP (ICML "
            f"2022), have no experiments; this one is made by `{command}`. {_setting(runs)}"
        ),
        Picture(picture, f"Cumulative regret and updates, mean of {count} runs{single}"),
        Heading("What the paper promises, and what these runs say"),
        Grid(
            ("promised", "about", "appears", "numbers"),
            [(s.published, s.about, s.appears, s.numbers) for s in judged],
        ),
        Heading("What is chosen here"),
        Paragraph(_choices(runs)),
        Heading("The published beta"),
        Paragraph(_published(runs, judged)),
        Heading("Privacy of these runs"),
        *_privacy(runs),
        Heading("At the end, mean and 95% interval"),
        Grid(
            ("curve", "times beta", "regret", "updates"),
            [
                (
                    str(curve),
                    f"{runs.regret.bonus[curve]:g}",
                    str(runs.regret.estimate(curve, runs.users)),
                    str(runs.updates.estimate(curve, runs.users)),
                )
                for curve in runs.regret.curves
            ],
        ),
    ]


def _setting(runs: Switches) -> str:
    mdp = process().tabular
    best = float(mdp.initial @ mdp.optimal_values()[0])
    first = mdp.suboptimality(np.zeros((HORIZON, N_STATES), dtype=np.int64))
    seeds = runs.regret.seeds
    return (
        f"A random linear process, S={N_STATES}, A={N_ACTIONS}, H={HORIZON}, d={DIMENSION}; K={runs.users} "
        f"users, {len(seeds)} runs, seeds {seeds[0]} to {seeds[-1]}; p={FAILURE_PROBABILITY}, C=2, sound "
        f"noise, values in [0, H-h+1]. The optimal value is {best:.3f}, of which always taking action 0 "
        f"loses {first:.3f}."
    )


def _choices(runs: Switches) -> str:
    grids = "; ".join(
        f"{schedule if math.isfinite(rho) else 'LSVI-UCB'}"
        f"{f', rho={rho:g}' if math.isfinite(rho) else ''}: {', '.join(f'{c:g}' for c in grid)}"
        for (schedule, rho), grid in GRIDS.items()
    )
    return (
        "Process, budgets and the factor of beta, which has the least mean regret over "
        f"{len(TUNING_SEEDS)} runs on other users, of the grid {grids}. LSVI-UCB has doubling updates "
        f"without a cap, matrices that begin at {RIDGE:g} I, and a factor of d H sqrt(log(2 d K H / p)) = "
        f"{jin_bonus(runs.users):.4g}. The fixed schedule has {fixed_updates(runs.users)} updates, K^(2/5). "
        "Before the first update the policy is that of no data, w = 0. Rewards are 1 or 0 with the expected "
        "reward as their chance."
    )


def _published(runs: Switches, judged: Sequence[Sentence]) -> str:
    curve = next(curve for curve in runs.regret.curves if curve.schedule == PUBLISHED)
    algorithm = algorithm_of(curve, 1.0, runs.users)
    (found,) = (s for s in judged if s.about == str(curve))
    return (
        f"Theorem 16 has beta = {algorithm.bonus:.4g} here, and matrices that begin at 2 lambda = "
        f"{2 * algorithm.ridge:.4g}: where nobody has been, the bonus is up to "
        f"{algorithm.bonus / math.sqrt(2 * algorithm.ridge):.4g}, where no value exceeds {HORIZON}. Every "
        f"value stays at its bound: in these runs {found.numbers}. "
        f"Whether nothing is learnt: {found.appears}."
    )


def _privacy(runs: Switches) -> Iterator[Block]:
    yield Paragraph(
        "What accounting says of the ledger of such a run: unit a user, replace-one, joint trust. Updates "
        "that never came are made up for by releases of zero, so that every ledger is the same."
    )
    rows = []
    for curve in runs.regret.curves:
        if math.isinf(curve.rho):
            continue
        algorithm = algorithm_of(curve, runs.regret.bonus[curve], runs.users)
        ledger = run(algorithm, online_users(process().tabular, 2, seed=0), seed=0).ledger
        found = account(ledger)
        rows.append(
            (
                str(curve),
                str(found.verdict),
                upper(leading_figure(found.bounds[0].guarantee)),
                str(len(ledger.releases)),
                str(algorithm.noise.updates),
                f"{algorithm.noise.gram.sigma:.4g}",
                f"{math.sqrt(algorithm.noise.target_variance):.4g}",
            )
        )
    yield Grid(
        ("curve", "claim", "rho proved", "releases", "most updates", "sigma of a node", "sigma of y"), rows
    )


def summary(runs: Switches, judged: Sequence[Sentence]) -> dict[str, Any]:
    """What the page says, as plain JSON types."""
    return {
        "runs": len(runs.regret.seeds),
        "users": runs.users,
        "sentences": [
            {"published": s.published, "about": s.about, "appears": s.appears, "numbers": s.numbers}
            for s in judged
        ],
        "curves": [
            {
                "curve": str(curve),
                "bonus": runs.regret.bonus[curve],
                "regret": runs.regret.estimate(curve, runs.users).mean,
                "updates": runs.updates.estimate(curve, runs.users).mean,
            }
            for curve in runs.regret.curves
        ],
    }
