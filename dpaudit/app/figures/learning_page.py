"""The pages beside figures 1 and 2 of Wang and Hegde (2019): what of them appears, and with which numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.environments.line_world import greedy_return, middle_rewards
from dpaudit.app.figures.figure_002 import (
    BATCH,
    DELTA,
    EPISODES,
    EVALUATION_SEED,
    STEP_SIZE,
    algorithm_of,
    noiseless,
)
from dpaudit.app.figures.figure_002_shape import LIMITED, Returns
from dpaudit.app.figures.published_claims import Sentence, estimate
from dpaudit.app.report.blocks import Block, Grid, Heading, Paragraph, Picture
from dpaudit.app.text.output import upper
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.curator.running import run

#: Whether what accounting speaks of is what is drawn, where it is not.
_COVERED = {"published": "no: line 24 leaks", "evaluation": "no: it is about one trajectory"}

_COUNTS = {"002-figure-1": "Figure 1", "002-figure-2": "Figure 2"}


def page(
    returns: Returns, judged: Sequence[Sentence], *, name: str, title: str, command: str, picture: str
) -> list[Block]:
    """The page's blocks.

    Args:
        returns: the runs.
        judged: what the paper says of the figure, judged.
        name: as in `dpaudit reproduce NAME`.
        title: of the figure.
        command: the command line that made it.
        picture: the file name of its picture.
    """
    single = "" if len(returns.seeds) == 1 else "; bands: one standard deviation"
    return [
        Heading(f"{name}: {title}"),
        Paragraph(
            f"{_COUNTS[name]} of Wang and Hegde, Privacy-preserving Q-Learning with Functional Noise in "
            f"Continuous Spaces (NeurIPS 2019), drawn again by `{command}`: {returns.total} samples, "
            f"{len(returns.seeds)} runs, seeds {returns.seeds[0]} to {returns.seeds[-1]}. Going one "
            f"way always returns {_one_way():.1f}, going inwards {_inwards():.1f}."
        ),
        Picture(
            picture,
            f"Return of the greedy policy of what was learnt, mean of {len(returns.seeds)} runs{single}",
        ),
        Heading("What the paper says, and what these runs say"),
        Grid(
            ("published", "about", "appears", "numbers"),
            [(s.published, s.about, s.appears, s.numbers) for s in judged],
        ),
        Heading("What the text leaves open"),
        Paragraph(_choices(returns)),
        Heading("Privacy of these runs"),
        *_privacy(returns),
        Heading("Return at the end, mean and 95% interval"),
        Grid(
            ("panel", "curve", "learnt", "last episodes of the training"),
            [
                (c.panel, str(c), str(estimate(returns.end(c))), str(estimate(returns.trained(c))))
                for c in returns.curves
            ],
        ),
    ]


def _choices(returns: Returns) -> str:
    batches = returns.total // BATCH
    return (
        f"gamma = 1/2. With the paper's alpha = 3e-4, plain gradient descent learns nothing in {batches} "
        f"batches of {BATCH}, and a greedy agent stays at one end of [0, 1]. Chosen: alpha = {STEP_SIZE:g}, "
        "and random actions with a chance that falls from 1 to 0. The kernel's beta follows alpha by the "
        "paper's formula. Drawn is the greedy policy of the network itself, which line 24 returns, on "
        f"{EPISODES} episodes apart from the training; the agent itself acts on noisy values, and earns what "
        f"the last table has. 'Limited' is read as within {LIMITED:.0%} of the return without noise. The "
        "corrected algorithm takes steps in the kernel's function space instead of a network's."
    )


def _one_way() -> float:
    return greedy_return(
        lambda states: np.tile([1.0, 0.0], (len(states), 1)), middle_rewards(), EPISODES, EVALUATION_SEED
    )


def _inwards() -> float:
    return greedy_return(
        lambda states: np.stack([states, 1.0 - states], axis=1), middle_rewards(), EPISODES, EVALUATION_SEED
    )


def _privacy(returns: Returns) -> Iterator[Block]:
    yield Paragraph(
        f"What accounting proves of a run's ledger at delta = {DELTA:g}. For the published algorithm it "
        "believes the sensitivity of the paper's proof at this alpha, and speaks of noisy values alone: what "
        "line 24 returns is a leak whatever sigma is, and so is a path that is kept (docs/papers.md)."
    )
    rows = []
    for curve in returns.curves:
        if noiseless(curve):
            continue
        algorithm = algorithm_of(curve, returns.total)
        found = account(run(algorithm, middle_rewards(), seed=0).ledger)
        claimed = algorithm.claim.guarantee if curve.epsilon < float("inf") else None
        rows.append(
            (
                curve.panel,
                str(curve),
                "none" if claimed is None else f"{curve.epsilon:g}",
                "none" if claimed is None else str(found.verdict),
                upper(leading_figure(found.bounds[0].guarantee)),
                _COVERED.get(curve.algorithm, "yes"),
            )
        )
    yield Grid(
        ("panel", "curve", "epsilon claimed", "claim", "epsilon of the ledger", "covers the reward function"),
        rows,
    )


def summary(returns: Returns, judged: Sequence[Sentence]) -> dict[str, Any]:
    """What the page says, as plain JSON types."""
    return {
        "runs": len(returns.seeds),
        "samples": returns.total,
        "sentences": [
            {"published": s.published, "about": s.about, "appears": s.appears, "numbers": s.numbers}
            for s in judged
        ],
        "returns": [
            {"panel": curve.panel, "curve": str(curve), "mean": float(returns.end(curve).mean())}
            for curve in returns.curves
        ],
    }
