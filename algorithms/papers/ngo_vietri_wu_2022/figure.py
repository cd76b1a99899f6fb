"""Regret and updates of Private LSVI-UCB, LSVI-UCB and a fixed schedule on a small linear process.

Ngo, Vietri and Wu (2022) have no experiments: process, budgets, numbers of users and the grids of beta are
chosen here. What they promise is judged, and that with the published beta nothing is learnt at these sizes.

A fixed schedule follows Luyo, Garcelon, Lazaric and Pirotta (2021) in that its times do not depend on the
data. It has ceil(K^(2/5)) updates: what a batch of K/U users costs, and what noise for U updates costs, which
grows as K^(1/2) U^(1/4), are then of one order, their K^(3/5). All else about it is as in Private LSVI-UCB.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np

from dpaudit.algorithms.environments.linear_mdp import LinearMDP, random_linear_mdp
from dpaudit.algorithms.environments.online_users import online_users
from dpaudit.algorithms.figures.picture import rows_of
from dpaudit.algorithms.figures.published_claims import Appears, Sentence, Table, estimate, larger, table
from dpaudit.algorithms.figures.regrets import (
    RegretPoint,
    grid_points,
    line_points,
    panels,
    sublinear,
    tuned,
    upward,
    worth,
)
from dpaudit.algorithms.figures.run_cache import RunCache, bits, noise_seed
from dpaudit.algorithms.figures.study import TUNING_SEEDS, Figure, Option, Session, Study, best_settings
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.lsvi import LinearModel, lsvi_ucb, views_regret
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.private_lsvi_ucb import LSVIConstants, PrivateLSVIUCB
from dpaudit.claims.guarantees import ZCDP
from dpaudit.curator.running import run
from dpaudit.page.blocks import Block, Grid, Heading, Paragraph
from dpaudit.page.chart import specification

N_STATES, N_ACTIONS, HORIZON, DIMENSION = 6, 4, 5, 5
FAILURE_PROBABILITY, RIDGE = 0.05, 1.0
USERS = 20_000
#: For fewer users the published counter allows no update at the smallest budget.
LEAST_USERS = 50


@dataclass(frozen=True)
class Curve:
    """One line: a schedule of updates, and the budget, infinite without noise.

    Schedules are ``doubling``, ``fixed``, ``published beta`` (doubling, factor 1) and ``none`` (LSVI-UCB).
    """

    schedule: str
    rho: float

    def __str__(self) -> str:
        kinds = {"doubling": "private", "fixed": "private, fixed schedule"}
        kind = kinds.get(self.schedule, f"private, {self.schedule}")
        return "LSVI-UCB" if math.isinf(self.rho) else f"{kind}, rho={self.rho:g}"


#: The factors by which the published lambda is multiplied where it is tuned.
RIDGES = (1.0, 0.2, 0.05)
PLAIN, PUBLISHED = Curve("none", math.inf), Curve("published beta", 1.0)
#: The factors by which the published beta is multiplied, by curve, the non-private one first.
GRIDS: Mapping[Curve, tuple[float, ...]] = {
    PLAIN: (0.003, 0.01, 0.03, 0.1),
    **dict.fromkeys((Curve("doubling", rho) for rho in (10.0, 1.0, 0.1)), (1e-5, 1e-4, 1e-3)),
    **dict.fromkeys((Curve("fixed", rho) for rho in (10.0, 1.0)), (1e-5, 1e-4, 1e-3)),
    PUBLISHED: (1.0,),
}


@dataclass(frozen=True)
class Point(RegretPoint[Curve]):
    """One run up to one user, with how many updates came before; NaN before the run."""

    updates: float = math.nan
    ridge: float = 1.0  # the factor of lambda


@cache
def process() -> LinearMDP:
    """The process: 6 states, 4 actions, 5 steps, features that are mixtures of 5 anchors."""
    return random_linear_mdp(N_STATES, N_ACTIONS, HORIZON, DIMENSION, seed=0)


def fixed_updates(users: int) -> int:
    """ceil(K^(2/5)), fewer than users."""
    # A power that is whole may come out a rounding above.
    return min(users - 1, math.ceil(math.pow(users, 0.4) - 1e-9))


def algorithm_of(curve: Curve, bonus: float, users: int, ridge: float = 1.0) -> PrivateLSVIUCB:
    """The private algorithm of a line."""
    return PrivateLSVIUCB(
        LinearModel(process().features, HORIZON),
        users,
        ZCDP(rho=curve.rho),
        constants=LSVIConstants(bonus, ridge, failure_probability=FAILURE_PROBABILITY),
        fixed_updates=fixed_updates(users) if curve.schedule == "fixed" else None,
        mdp=process(),
    )


def jin_bonus(users: int) -> float:
    """The beta d H sqrt(log(2 d T / p)), T = K H, of Jin et al. (2020), Theorem 3.1, without its constant."""
    logarithm = math.log(2.0 * DIMENSION * users * HORIZON / FAILURE_PROBABILITY)
    return DIMENSION * HORIZON * math.sqrt(logarithm)


def _run(points: Sequence[Point]) -> list[Point]:
    asked, curve = points[0], points[0].curve
    users = online_users(process(), asked.users, asked.seed, random_rewards=True)
    if math.isinf(curve.rho):
        model = LinearModel(process().features, HORIZON)
        # The matrices begin at 2 lambda I, which is the identity then, as there.
        views = lsvi_ucb(users, model, ridge=RIDGE / 2.0, bonus=asked.bonus * jin_bonus(asked.users))
    else:
        changed = () if asked.ridge == 1.0 else (asked.ridge,)
        seed = noise_seed(asked.seed, *bits(curve.rho, asked.bonus, *changed), curve.schedule == "fixed")
        algorithm = algorithm_of(curve, asked.bonus, asked.users, asked.ridge)
        views = run(algorithm, users, seed=seed).output
    regret, seen = views_regret(process(), views), views.views
    at = [(p, p.episode - 1) for p in points]
    return [replace(p, regret=float(regret[k]), updates=float(seen[k].updates)) for p, k in at]


RUNS = RunCache(frozenset({"regret", "updates"}), _run, frozenset({"episode"}))


def tuned_with_ridge(
    session: Session, users: int
) -> tuple[list[Point], dict[Curve, float], dict[Curve, float]]:
    """As `tuned`, with lambda chosen together with beta; the points, and the factors of beta and lambda."""

    def lines(tried: Sequence[Point]) -> list[Point]:
        runs = ((r, line_points(Point, c, b, users, session.seeds)) for c, (b, r) in factors(tried).items())
        return [replace(p, ridge=ridge) for ridge, points in runs for p in points]

    grid = [
        replace(p, ridge=ridge)
        for curve, scales in GRIDS.items()
        for ridge in (RIDGES if curve not in (PLAIN, PUBLISHED) else (1.0,))
        for p in grid_points(Point, curve, scales, users)
    ]
    tried, points = session.finished(RUNS, grid, lines)
    best = factors(tried)
    return points, {c: bonus for c, (bonus, _) in best.items()}, {c: ridge for c, (_, ridge) in best.items()}


def factors(tried: Sequence[Point]) -> dict[Curve, tuple[float, float]]:
    """By curve, the factors of beta and of lambda with the least mean regret; the first of several."""
    return best_settings((p.curve, (p.bonus, p.ridge), p.regret) for p in tried)


def sentences(
    found: Mapping[str, Table[Curve]],
    bonus: Mapping[Curve, float],
    users: int,
    ridge: Mapping[Curve, float] | None = None,
) -> list[Sentence]:
    """Each about one curve, or a curve and the one that it is compared with.

    `bonus` and `ridge` are the factors of beta and of lambda.
    """
    regret = found["regret"]
    private = [curve for curve in regret.curves if curve.schedule == "doubling"]
    judged = [sublinear(regret, curve, str(curve)) for curve in regret.curves if curve != PUBLISHED]
    for curve in private:
        about = f"{curve} against {PLAIN}"
        judged.append(larger("privacy costs regret", about, regret.gap(curve, PLAIN), "more"))
    for large, small in pairwise(sorted(private, key=lambda curve: -curve.rho)):
        about = f"rho={large.rho:g} against {small.rho:g}"
        judged.append(larger("less the larger the budget", about, regret.gap(small, large), "less"))
    for curve in private:
        made, factor = found["updates"].at(curve), (ridge or {}).get(curve, 1.0)
        cap = algorithm_of(curve, bonus[curve], users, factor).noise.updates
        numbers = f"{made.min():.0f} to {made.max():.0f} of at most {cap}"
        few: Appears = "yes" if made.max() <= cap else "no"
        judged.append(Sentence("at most N_max updates", str(curve), few, numbers))
    for curve in private:
        fixed = Curve("fixed", curve.rho)
        if fixed in regret.curves:
            about, less = f"{curve} against {fixed}", regret.gap(fixed, curve)
            judged.append(larger("less regret than a fixed schedule", about, less, "less"))
    # Whether all users lose the same: the first policy is never left for a better one.
    losses = np.array([regret.at(PUBLISHED, k) / k for k in regret.places])  # [places, runs]
    least, most = float(losses.min()), float(losses.max())
    published = "(not the paper's) with the published beta nothing is learnt"
    if most - least <= 1e-9 * most:
        numbers = f"every user loses {estimate(losses[-1]).mean:.4g}"
        return [*judged, Sentence(published, str(PUBLISHED), "yes", numbers)]
    return [*judged, Sentence(published, str(PUBLISHED), "no", f"a user loses {least:.4g} to {most:.4g}")]


def regret(session: Session, *, users: int, tune_lambda: bool) -> Figure:
    """Run the experiment: cumulative regret and policy updates over users, with and without joint privacy."""
    ridge: dict[Curve, float] = dict.fromkeys(GRIDS, 1.0)
    if tune_lambda:
        points, bonus, ridge = tuned_with_ridge(session, users)
    else:
        points, bonus = tuned(session, RUNS, Point, GRIDS, users)
    found = {name: table(points, name) for name in ("regret", "updates")}
    judged = sentences(found, bonus, users, ridge)
    rows = [
        {"quantity": quantity, **row}
        for quantity, table in found.items()
        for row in rows_of(
            table, "episodes", upward, lambda curve: {"bonus": bonus[curve], "ridge": ridge[curve]}
        )
    ]
    title = "regret and updates of Private LSVI-UCB"
    # The published beta's regret, a straight line above all others, is in the tables only.
    drawn = [row for row in rows if row["curve"] != str(PUBLISHED)]
    quantities = {"regret": "cumulative regret", "updates": "policy updates so far"}
    picture = specification(panels(drawn, "quantity", quantities, title))
    ends = {curve: [table.estimate(curve) for table in found.values()] for curve in bonus}
    tried = "; ".join(
        f"{f'{curve.schedule}, rho={curve.rho:g}' if math.isfinite(curve.rho) else curve}: "
        f"{', '.join(f'{factor:g}' for factor in grid)}"
        for curve, grid in GRIDS.items()
    )
    best, left = worth(process())
    algorithm = algorithm_of(PUBLISHED, 1.0, users)
    return Figure(
        title=title,
        about="Ngo, Vietri and Wu, Improved Regret for Differentially Private Exploration in Linear MDP "
        f"(ICML 2022), have no experiments; this one is made by `{session.command}`. A random linear "
        f"process, S={N_STATES}, A={N_ACTIONS}, H={HORIZON}, d={DIMENSION}; K={users} users, "
        f"{session.setting()}; p={FAILURE_PROBABILITY}, C=2, sound noise, values in [0, H-h+1]. The optimal "
        f"value is {best}, of which always taking action 0 loses {left}.",
        caption=session.caption("Cumulative regret and updates"),
        charts={f"{session.name}{'-lambda' if tune_lambda else ''}": (picture, rows)},
        sentences=judged,
        blocks=[
            Heading("What is chosen here"),
            Paragraph(
                "Process, budgets and the factor of beta, which has the least mean regret over "
                f"{len(TUNING_SEEDS)} runs on other users, of the grid {tried}. LSVI-UCB has doubling "
                f"updates without a cap, matrices that begin at {RIDGE:g} I, and a factor of d H sqrt(log(2 "
                f"d K H / p)) = {jin_bonus(users):.4g}. The fixed schedule has {fixed_updates(users)} "
                "updates, K^(2/5). Before the first update the policy is that of no data, w = 0. Rewards are "
                "1 or 0 with the expected reward as their chance."
            ),
            Heading("The published beta"),
            Paragraph(
                f"Theorem 16 has beta = {algorithm.bonus:.4g} here, and matrices that begin at 2 lambda = "
                f"{2 * algorithm.ridge:.4g}: at states that no user has visited, the bonus is up to "
                f"{algorithm.bonus / math.sqrt(2 * algorithm.ridge):.4g}, where no value exceeds {HORIZON}. "
                f"Every value stays at its bound: in these runs {judged[-1].numbers}. Whether nothing is "
                f"learnt: {judged[-1].appears}."
            ),
            Heading("Privacy of these runs"),
            *_privacy(session, bonus, users, ridge),
            Heading("At the end, mean and 95% interval"),
            Grid(
                ("curve", "times beta", "times lambda", "regret", "updates"),
                [(str(c), f"{bonus[c]:g}", f"{ridge[c]:g}", *map(str, end)) for c, end in ends.items()],
            ),
        ],
        summary={
            "users": users,
            "curves": [
                {"curve": str(c), "bonus": bonus[c], "regret": end[0].mean, "updates": end[1].mean}
                for c, end in ends.items()
            ],
        },
    )


def _privacy(
    session: Session, bonus: Mapping[Curve, float], users: int, ridge: Mapping[Curve, float]
) -> Iterator[Block]:
    yield Paragraph(
        "What accounting proves from the ledger of such a run: unit a user, replace-one, joint trust. "
        "Updates that never came are made up for by releases of zero, so that every ledger is the same."
    )
    rows = []
    for curve, factor in bonus.items():
        if math.isinf(curve.rho):
            continue
        algorithm = algorithm_of(curve, factor, users, ridge[curve])
        found, proved = session.accounted(algorithm, online_users(process(), 2, seed=0))
        noise = algorithm.noise
        updates = (str(len(found.releases)), str(noise.updates))
        sigmas = (f"{noise.gram.sigma:.4g}", f"{math.sqrt(noise.target_variance):.4g}")
        rows.append((str(curve), str(found.verdict), proved, *updates, *sigmas))
    head = ("curve", "claim", "rho proved", "releases", "most updates", "sigma of a node", "sigma of y")
    yield Grid(head, rows)


_OPTIONS = (
    Option("--users", "K, the users of one run.", USERS, least=LEAST_USERS),
    Option("--tune-lambda", "Also choose the factor of lambda, with that of beta.", default=False),
)

STUDIES = {"ngo-vietri-wu-2022-regret": Study(regret, 10, _OPTIONS, ("", "--tune-lambda"))}
