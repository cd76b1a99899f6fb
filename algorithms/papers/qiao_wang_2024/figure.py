"""Regret of DP-UCBVI on RiverSwim, under joint and local trust, and of UCBVI.

Qiao and Wang (2024) have no experiments, and no values of their constants: process, budgets and constants are
chosen here. What their theorems promise is judged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from dpaudit.algorithms.environments.online_users import online_users
from dpaudit.algorithms.environments.riverswim import figure_river
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.figures.picture import panel, rows_of
from dpaudit.algorithms.figures.published_claims import Sentence, Table, larger, table
from dpaudit.algorithms.figures.regrets import RegretPoint, sublinear, tuned, upward, worth
from dpaudit.algorithms.figures.run_cache import RunCache, bits, noise_seed
from dpaudit.algorithms.figures.study import TUNING_SEEDS, Figure, Option, Session, Study
from dpaudit.algorithms.optimism import cumulative_regret
from dpaudit.algorithms.papers.qiao_wang_2024.dp_ucbvi import DPUCBVI, Served, UCBVIConstants, ucbvi
from dpaudit.claims.guarantees import ZCDP, PureDP
from dpaudit.curator.running import run
from dpaudit.page.blocks import Grid, Heading, Paragraph
from dpaudit.page.chart import HEIGHT, WIDTH, axis, specification

N_STATES, USERS = 3, 1000
#: The factor of E wherever it is not the published 1.
NOISE = 0.1


@dataclass(frozen=True)
class Curve:
    """One line: ``none`` (UCBVI), ``joint`` or ``local`` trust, its budget, and ``published`` constants."""

    trust: str
    budget: float  # rho, epsilon under local trust; infinite without noise
    constants: str = "tuned"

    def __str__(self) -> str:
        if self.trust == "none":
            return "UCBVI"
        name = "rho" if self.trust == "joint" else "epsilon"
        words = f"{self.trust}, {name}={self.budget:g}"
        return words if self.constants == "tuned" else f"{words}, C2=1, E as published"


PLAIN, PUBLISHED = Curve("none", math.inf), Curve("joint", 1.0, "published")
_SCALES = (1e-4, 1e-3)
#: The values of C2, by curve, the non-private one first.
GRIDS: Mapping[Curve, tuple[float, ...]] = {
    PLAIN: _SCALES,
    **dict.fromkeys((Curve("joint", rho) for rho in (10.0, 1.0, 0.1)), _SCALES),
    Curve("local", 10.0): _SCALES,
    PUBLISHED: (1.0,),
}
Point: TypeAlias = RegretPoint[Curve]


@cache
def river() -> TabularMDP:
    """The homogeneous river of figure 2 of Liao, He and Gu (2023)."""
    return figure_river("homogeneous", N_STATES)


def algorithm_of(curve: Curve, bonus: float, users: int) -> DPUCBVI:
    """The private algorithm of a line."""
    guarantee: Any = ZCDP(rho=curve.budget) if curve.trust == "joint" else PureDP(epsilon=curve.budget)
    constants = UCBVIConstants(bonus=bonus, noise=NOISE if curve.constants == "tuned" else 1.0)
    return DPUCBVI(river().rewards, users, guarantee, constants=constants, mdp=river())


def _run(points: Sequence[Point]) -> list[Point]:
    asked, curve = points[0], points[0].curve
    users = online_users(river(), asked.users, asked.seed)
    if curve.trust == "none":
        told: Sequence[Any] = ucbvi(users, UCBVIConstants(bonus=asked.bonus, noise=0.0))
        policies = np.array([one.policy for one in told])
    else:
        seed = noise_seed(asked.seed, *bits(curve.budget, asked.bonus), curve.trust == "local")
        output = run(algorithm_of(curve, asked.bonus, asked.users), users, seed=seed).output
        served = isinstance(output, Served)
        policies = output.policies if served else np.array([one.policy for one in output.views])
    regret = cumulative_regret(river(), policies)
    return [replace(point, regret=float(regret[point.episode - 1])) for point in points]


RUNS: RunCache[Point] = RunCache(frozenset({"regret"}), _run, frozenset({"episode"}))


def sentences(regret: Table[Curve]) -> list[Sentence]:
    """What the theorems promise, on each curve that it is about."""
    judged = [sublinear(regret, curve, str(curve)) for curve in regret.curves if curve != PUBLISHED]
    joint = [curve for curve in regret.curves if curve.trust == "joint" and curve.constants == "tuned"]
    for curve in regret.curves:
        if curve not in (PLAIN, PUBLISHED):
            about = f"{curve} against {PLAIN}"
            judged.append(larger("privacy costs regret", about, regret.gap(curve, PLAIN), "more"))
    for large, small in pairwise(joint):
        about = f"rho={large.budget:g} against {small.budget:g}"
        judged.append(larger("less the larger the budget", about, regret.gap(small, large), "less"))
    return judged


def regret(session: Session, *, users: int) -> Figure:
    """Run the experiment: cumulative regret over users, with joint, local and no privacy."""
    points, bonus = tuned(session, RUNS, RegretPoint[Curve], GRIDS, users)
    found: Table[Curve] = table(points, "regret")
    rows = rows_of(found, "episodes", upward, lambda curve: {"C2": bonus[curve]})
    title = "cumulative regret of DP-UCBVI on RiverSwim"
    x, y = axis("episodes", "users", {"nice": False}), axis("mean", "cumulative regret", {"domainMin": 0})
    drawn = {**panel(rows, x, y), "title": title, "width": WIDTH, "height": HEIGHT + 60}
    best, left = worth(river())
    ends = {curve: found.estimate(curve) for curve in found.curves}
    lines = []
    for curve, factor in bonus.items():
        if curve.trust != "none":
            proved, figure = session.accounted(
                algorithm_of(curve, factor, users), online_users(river(), 2, seed=0)
            )
            lines.append((str(curve), str(proved.verdict), figure))
    tried = ", ".join(f"{scale:g}" for scale in _SCALES)
    return Figure(
        title=title,
        about="Qiao and Wang, Differentially Private Reinforcement Learning with Self-Play (NeurIPS 2024), "
        f"for one player; the paper has no experiments, and this one is made by `{session.command}`. "
        f"RiverSwim, S={N_STATES}, H={2 * N_STATES}, rewards divided by H; K={users} users, "
        f"{session.setting()}. The optimal value is {best}, of which always going left loses {left}.",
        caption=session.caption("Cumulative regret"),
        charts={session.name: (specification(drawn), rows)},
        sentences=sentences(found),
        blocks=[
            Heading("What is chosen here"),
            Paragraph(
                f"C1 = 0; E is {NOISE:g} times the published one; C2 has the least mean regret over "
                f"{len(TUNING_SEEDS)} runs on other users, of the grid {tried}. The last line has C2 = 1 and "
                "the published E. Noise under joint trust is Gaussian where the paper has Laplace noise."
            ),
            Heading("Privacy of these runs"),
            Paragraph("What accounting proves from the ledger of such a run."),
            Grid(("curve", "claim", "proved"), lines),
            Heading("Regret at the end, mean and 95% interval"),
            Grid(
                ("curve", "C2", "regret"),
                [(str(curve), f"{bonus[curve]:g}", str(end)) for curve, end in ends.items()],
            ),
        ],
        summary={
            "users": users,
            "regret": [{"curve": str(c), "C2": bonus[c], "mean": end.mean} for c, end in ends.items()],
        },
    )


_USERS = Option("--users", "K, the users of one run.", USERS, least=2)

STUDIES = {"qiao-wang-2024-regret": Study(regret, 5, (_USERS,))}
