"""Figure 2 of Liao, He and Gu (2023): regret of LDP-UCRL-VTR and UCRL-VTR on two rivers.

What the paper does not state is chosen; budgets go from hardly any learning to nearly that of UCRL-VTR.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from dpaudit.algorithms.environments.hard_mixture import experiment_gap, hard_mixture
from dpaudit.algorithms.environments.linear_mixture import LinearMixtureMDP, one_hot_mixture
from dpaudit.algorithms.environments.online_users import online_users
from dpaudit.algorithms.environments.riverswim import figure_river
from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.figures.picture import rows_of
from dpaudit.algorithms.figures.published_claims import Sentence, Table, larger, table
from dpaudit.algorithms.figures.regrets import (
    RegretPoint,
    panels,
    sublinear,
    tuned,
    upward,
    worth,
)
from dpaudit.algorithms.figures.run_cache import RunCache, bits, noise_seed
from dpaudit.algorithms.figures.study import TUNING_SEEDS, Figure, Option, Session, Study
from dpaudit.algorithms.optimism import cumulative_regret
from dpaudit.algorithms.papers.liao_he_gu_2023.ldp_ucrl_vtr import (
    LDPUCRLVTR,
    MixtureCalibrationName,
    MixtureConstants,
)
from dpaudit.algorithms.papers.liao_he_gu_2023.value_targeted import MixtureModel, jia_widths, ucrl_vtr
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.running import run
from dpaudit.page.blocks import Block, Grid, Heading, Paragraph
from dpaudit.page.chart import specification

N_STATES = 3
NOISES = ("published-noise", "exact")
RIVERS = ("homogeneous", "inhomogeneous")
#: The instance of the lower bound, Theorem 5.6, with the sizes of the authors' published code.
HARD, HARD_DIMENSION, HARD_HORIZON = "hard", 5, 6
#: Its budgets, those of the published code, each with the grid of c; the same under either noise.
HARD_GRIDS: Mapping[float, tuple[float, ...]] = {
    math.inf: (0.003, 0.03, 0.3),
    **dict.fromkeys((0.1, 1.0, 10.0), (0.0003, 0.003, 0.03)),
}
#: delta and alpha of section 6.2, and its number of users.
DELTA, ALPHA, USERS = 0.1, 0.01, 10_000

#: Budgets under each noise, each with the grid of c. Above about 590 the published noise, which falls as
#: 1/epsilon, no longer meets its claim on these rivers: what is needed falls as 1/sqrt(epsilon).
GRIDS: Mapping[str, Mapping[float, tuple[float, ...]]] = {
    "none": {math.inf: (0.05, 0.1, 0.2, 0.4)},
    "published-noise": {10.0: (0.01, 0.03, 0.1), 100.0: (0.003, 0.01, 0.03), 500.0: (0.001, 0.003, 0.01)},
    "exact": {10.0: (0.003, 0.01, 0.03), 100.0: (0.001, 0.003, 0.01), 500.0: (0.0003, 0.001, 0.003)},
}


@dataclass(frozen=True)
class Curve:
    """One line of the panel of a river: ``ucrl-vtr``, or ``ldp-ucrl-vtr`` with its budget and noise.

    Without noise epsilon is infinite, and the calibration ``none``.
    """

    river: str
    algorithm: str
    epsilon: float
    calibration: str

    def __str__(self) -> str:
        return "UCRL-VTR" if math.isinf(self.epsilon) else f"LDP-UCRL-VTR, epsilon={self.epsilon:g}"


Point: TypeAlias = RegretPoint[Curve]


def grids(calibration: str, instance: str = "rivers") -> dict[Curve, tuple[float, ...]]:
    """The lines of both panels, or of the hard instance, the non-private one first, with their grids of c."""
    if instance == HARD:
        return {
            Curve(HARD, "ucrl-vtr", epsilon, "none")
            if math.isinf(epsilon)
            else Curve(HARD, "ldp-ucrl-vtr", epsilon, calibration): grid
            for epsilon, grid in HARD_GRIDS.items()
        }
    return {
        Curve(river, "ucrl-vtr" if noise == "none" else "ldp-ucrl-vtr", epsilon, noise): grid
        for river in RIVERS
        for noise in ("none", calibration)
        for epsilon, grid in GRIDS[noise].items()
    }


@cache
def river(name: str, users: int = USERS) -> TabularMDP:
    """Return a panel's process; in the hard one, the gap between actions depends on the number of users."""
    if name == HARD:
        return hard_mixture(HARD_DIMENSION, HARD_HORIZON, experiment_gap(HARD_HORIZON, users), seed=0)
    return figure_river(name, N_STATES)


def model_of(mdp: TabularMDP) -> MixtureModel:
    """What is public of a panel's process: one-hot features of a river."""
    mixture = mdp if isinstance(mdp, LinearMixtureMDP) else one_hot_mixture(mdp)
    return MixtureModel(mixture.features, mdp.rewards)


def algorithm_of(curve: Curve, bonus: float, users: int = USERS) -> LDPUCRLVTR:
    """The private algorithm of a line."""
    mdp = river(curve.river, users)
    calibration: MixtureCalibrationName = "exact" if curve.calibration == "exact" else "published-noise"
    return LDPUCRLVTR(
        model_of(mdp),
        ApproxDP(epsilon=curve.epsilon, delta=DELTA),
        calibration,
        MixtureConstants(bonus=bonus, failure_probability=ALPHA),
        mdp=mdp,
    )


def _run(points: Sequence[Point]) -> list[Point]:
    asked = points[0]
    curve, mdp = asked.curve, river(asked.curve.river, asked.users)
    users = online_users(mdp, asked.users, asked.seed)
    if curve.algorithm == "ucrl-vtr":
        model = model_of(mdp)
        output = ucrl_vtr(users, model, widths=jia_widths(model, asked.users, asked.bonus))
    else:
        seed = noise_seed(asked.seed, *bits(curve.epsilon, asked.bonus))
        output = run(algorithm_of(curve, asked.bonus, asked.users), users, seed=seed).output
    regret = cumulative_regret(mdp, output.policies)
    return [replace(point, regret=float(regret[point.episode - 1])) for point in points]


RUNS = RunCache(frozenset({"regret"}), _run, frozenset({"episode"}))


def sentences(regret: Table[Curve]) -> list[Sentence]:
    """The paper's three sentences, each about one curve, or a curve and the one that it is compared with."""
    rivers = dict.fromkeys(curve.river for curve in regret.curves)
    panels = [[curve for curve in regret.curves if curve.river == name] for name in rivers]
    found = [sublinear(regret, curve, f"{curve.river}, {curve}") for curve in regret.curves]
    for plain, *private in panels:
        for curve in private:
            about = f"{plain.river}, {curve} against {plain}"
            found.append(larger("a larger regret than UCRL-VTR", about, regret.gap(curve, plain), "more"))
    for _, *private in panels:
        for small, large in pairwise(private):
            about = f"{large.river}, epsilon={large.epsilon:g} against {small.epsilon:g}"
            found.append(larger("closer as epsilon grows", about, regret.gap(small, large), "less"))
    return found


def figure_2(session: Session, *, calibration: str, instance: str, users: int) -> Figure:
    """Draw the figure again: cumulative regret over users, with and without local privacy."""
    points, bonus = tuned(session, RUNS, Point, grids(calibration, instance), users)
    regret: Table[Curve] = table(points, "regret")
    rows = rows_of(regret, "episodes", upward, lambda curve: {"c": bonus[curve]})
    hard = instance == HARD
    panel_names = (HARD,) if hard else RIVERS
    title = f"cumulative regret of LDP-UCRL-VTR on {'the hard instance' if hard else 'two rivers'}"
    headings = dict.fromkeys(panel_names, "cumulative regret")
    picture = specification(panels(rows, "river", headings, f"{title}; noise {calibration}"))
    ends = {curve: regret.estimate(curve) for curve in regret.curves}
    tried = "; ".join(
        f"{'UCRL-VTR' if math.isinf(epsilon) else f'{noise}, epsilon={epsilon:g}'}: "
        f"{', '.join(f'{c:g}' for c in grid)}"
        for noise, by_budget in GRIDS.items()
        for epsilon, grid in by_budget.items()
    )
    if hard:
        tried = "; ".join(f"{e:g}: {', '.join(f'{c:g}' for c in grid)}" for e, grid in HARD_GRIDS.items())
    values = [
        "{1} on the {0} {3}, of which always {4} loses {2}".format(
            name,
            *worth(river(name, users)),
            *(("instance", "taking action 0") if hard else ("river", "going left")),
        )
        for name in panel_names
    ]
    # The gap of the published code, as `hard_mixture` has it.
    sizes = f"S={N_STATES}, H={2 * N_STATES}, one-hot features, rewards divided by H"
    if hard:
        sizes = f"d={HARD_DIMENSION}, H={HARD_HORIZON}, gap {experiment_gap(HARD_HORIZON, users):.4g}"
    return Figure(
        title=title,
        about="Figure 2 of Liao, He and Gu, Locally Differentially Private Reinforcement Learning for Linear "
        f"Mixture Markov Decision Processes (ACML 2023), drawn again by `{session.command}`. Noise "
        f"{calibration}; {sizes}, delta={DELTA}, alpha={ALPHA}, lambda=1; {users} users, "
        f"{session.setting()}. The optimal value is {'; '.join(values)}.",
        caption=session.caption("Cumulative regret"),
        charts={f"{session.name}-{calibration}{'-hard' if hard else ''}": (picture, rows)},
        sentences=sentences(regret),
        blocks=[
            Heading("What the text leaves open"),
            Paragraph(
                "S, the budgets, the homogeneous kernel, r and the grid of c are not in the text. Chosen: "
                "right succeeds with probability 0.9 on the homogeneous river, and on the other with one "
                "drawn from U(0.8, 1) for each step; else the swimmer stays or is swept down as 12 : 1. r is "
                "a bound on the noise's largest eigenvalue (see MixtureConstants). Values are clipped at 0 "
                "from below too. UCRL-VTR's width is scaled as a whole, c (sqrt(SA) + R (H-h+1) sqrt(2 log K "
                "+ log det M)): with c before the first term only, it learns nothing in so many users. c has "
                f"the least mean regret over {len(TUNING_SEEDS)} runs on other users, of the grid {tried}."
            ),
            Heading("Privacy of these runs"),
            *_privacy(session, bonus, users),
            Heading("Regret at the end, mean and 95% interval"),
            Grid(
                ("river", "curve", "c", "regret"),
                [(c.river, str(c), f"{bonus[c]:g}", str(end)) for c, end in ends.items()],
            ),
        ],
        summary={
            "users": users,
            "regret": [
                {"river": c.river, "curve": str(c), "c": bonus[c], "mean": e.mean} for c, e in ends.items()
            ],
        },
    )


def _privacy(session: Session, bonus: Mapping[Curve, float], users: int) -> Iterator[Block]:
    yield Paragraph(
        "What accounting proves from the ledger of such a run, which describes one user; every user is held "
        "to it. Sensitivities are those of the features, not the 1 that section 6.2 states; "
        "docs/papers/papers.md has both."
    )
    rows = []
    for curve, scale in bonus.items():
        if math.isinf(curve.epsilon):
            continue
        algorithm = algorithm_of(curve, scale, users)
        found, proved = session.accounted(algorithm, online_users(river(curve.river, users), 2, seed=0))
        noise = (f"{algorithm.noise.sigma:.4g}", f"{algorithm.noise.sensitivity:.4g}")
        rows.append((curve.river, f"{curve.epsilon:g}", str(found.verdict), proved, *noise))
    yield Grid(("river", "epsilon claimed", "claim", "epsilon proved", "sigma", "L2 sensitivity"), rows)


_OPTIONS = (
    Option("--calibration", "How the noise is calibrated.", NOISES[0], NOISES),
    Option("--instance", "hard: that of the lower bound, d=5, H=6.", "rivers", ("rivers", HARD)),
    Option("--users", "K, the users of one run.", USERS, least=2),
)

STUDIES = {
    "liao-he-gu-2023-figure-2": Study(figure_2, 10, _OPTIONS, ("--calibration exact", "--instance hard"))
}
