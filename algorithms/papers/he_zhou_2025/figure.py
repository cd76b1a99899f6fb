"""What DP-PG loses on a small contextual bandit, over the number of users: He and Zhou (2025).

The paper's own experiments are on other problems; bandit, budgets and step size are chosen here, and what its
theorems promise is judged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np

from dpaudit.algorithms.environments.linear_mdp import one_hot_features
from dpaudit.algorithms.environments.online_users import online_users
from dpaudit.algorithms.environments.tabular import TabularMDP, random_mdp
from dpaudit.algorithms.figures.picture import interval, panel, rows_of
from dpaudit.algorithms.figures.published_claims import Sentence, Table, estimate, larger, table
from dpaudit.algorithms.figures.run_cache import RunCache, bits, noise_seed
from dpaudit.algorithms.figures.study import Figure, Session, Study
from dpaudit.algorithms.papers.he_zhou_2025.dp_policy_gradient import (
    DPPolicyGradient,
    GradientCalibrationName,
)
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.noise import NoNoise
from dpaudit.curator.running import run
from dpaudit.page.blocks import Grid, Heading, Paragraph
from dpaudit.page.chart import HEIGHT, WIDTH, axis, specification

N_STATES, N_ACTIONS, UPDATES, STEP, DELTA = 3, 4, 20, 4.0, 1e-5
#: m, the users of one update.
BATCHES = (10, 30, 100, 300)


@dataclass(frozen=True)
class Curve:
    """One line: epsilon, infinite without noise, and how the noise is calibrated."""

    epsilon: float
    calibration: GradientCalibrationName = "exact"

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return "without noise"
        words = f"epsilon={self.epsilon:g}"
        return words if self.calibration == "exact" else f"{words}, published noise"


CURVES = (Curve(math.inf), Curve(10.0), Curve(1.0), Curve(1.0, "as-published"), Curve(0.1))


@dataclass(frozen=True)
class Point:
    """One run and its result."""

    curve: Curve
    users: int  # N = m T
    seed: int  # of the users, the actions and the noise
    suboptimality: float = math.nan  # of the last policy, exact; NaN before the run


@cache
def bandit() -> TabularMDP:
    """The contextual bandit: one step."""
    return random_mdp(N_STATES, N_ACTIONS, 1, seed=20240612)


def algorithm_of(curve: Curve, users: int) -> DPPolicyGradient:
    """The algorithm of a line; that of one without noise has any budget."""
    guarantee = ApproxDP(epsilon=1.0 if math.isinf(curve.epsilon) else curve.epsilon, delta=DELTA)
    batch, features = users // UPDATES, one_hot_features(N_STATES, N_ACTIONS)
    return DPPolicyGradient(features, batch, UPDATES, guarantee, curve.calibration, STEP, bandit())


def _run(points: Sequence[Point]) -> list[Point]:
    done = []
    for point in points:
        algorithm = algorithm_of(point.curve, point.users)
        users = online_users(bandit(), point.users, point.seed, random_rewards=True)
        seed = noise_seed(point.seed, point.users, *bits(point.curve.epsilon))
        without = {"noise": NoNoise()} if math.isinf(point.curve.epsilon) else {"seed": seed}
        output = run(algorithm, users, public_seed=point.seed, **without).output
        done.append(replace(point, suboptimality=bandit().suboptimality(output.policy)))
    return done


RUNS: RunCache[Point] = RunCache(frozenset({"suboptimality"}), _run)


def sentences(found: Table[Curve]) -> list[Sentence]:
    """What the theorems promise, on each curve that it is about."""
    first, last = found.places[0], found.places[-1]
    judged = []
    for curve in found.curves:
        gap = estimate(found.at(curve, first) - found.at(curve, last))
        about = f"{curve}, N={last:g} against {first:g}"
        judged.append(larger("less is lost the more users there are", about, gap, "less"))
    exact = [curve for curve in found.curves if curve.calibration == "exact"]
    for large, small in pairwise(exact):
        about = f"{large} against {small}, N={last:g}"
        judged.append(larger("less the larger the budget", about, found.gap(small, large), "less"))
    return judged


def users(session: Session) -> Figure:
    """Run the experiment: what the last policy loses, over the number of users, with and without privacy."""
    sizes = [UPDATES * batch for batch in BATCHES]
    wanted = [Point(curve, n, seed) for curve in CURVES for n in sizes for seed in session.seeds]
    points, _ = session.finished(RUNS, wanted)
    found: Table[Curve] = table(points, "suboptimality", "users")
    rows = rows_of(found, "users", interval)
    title = "what DP-PG loses on a contextual bandit"
    x = axis("users", "users N = m T", {"type": "log", "nice": False}, tickCount=5)
    drawn = {**panel(rows, x, axis("mean", "suboptimality")), "title": title}
    uniform = bandit().suboptimality(np.full((1, N_STATES, N_ACTIONS), 1.0 / N_ACTIONS))
    proofs = []
    for curve in found.curves:
        if not math.isinf(curve.epsilon):
            algorithm = algorithm_of(curve, sizes[0])
            proved, figure = session.accounted(algorithm, algorithm.stand_in(None))
            sigma = f"{algorithm.mechanism.sigma:.4g}"
            proofs.append((str(curve), str(proved.verdict), figure, sigma))
    return Figure(
        title=title,
        about="He and Zhou, On the Sample Complexity of Differentially Private Policy Optimization (NeurIPS "
        f"2025), Algorithms 1 and 2, run by `{session.command}`. A random contextual bandit, S={N_STATES}, "
        f"A={N_ACTIONS}, softmax policies; T={UPDATES}, eta={STEP:g}, delta={DELTA:g}; {session.setting()}. "
        f"Uniformly random actions lose {uniform:.3f}.",
        caption=session.caption("Suboptimality of the last policy", "bands: 95% intervals of the mean"),
        charts={session.name: (specification({**drawn, "width": WIDTH, "height": HEIGHT + 60}), rows)},
        sentences=sentences(found),
        blocks=[
            Heading("Privacy of these runs"),
            Paragraph(
                "What accounting proves from the ledger of such a run. That of the published noise has the "
                "sensitivity of its own argument, 2 sqrt(2) R G, which two users can exceed: docs/papers/"
                "exploration.md."
            ),
            Grid(("curve", "claim", "epsilon proved", "sigma of a sum"), proofs),
            Heading("Suboptimality, mean and 95% interval"),
            Grid(
                ("N", *map(str, found.curves)),
                [(f"{n:g}", *(str(found.estimate(c, n)) for c in found.curves)) for n in found.places],
            ),
        ],
        summary={
            "suboptimality": [
                {"curve": str(c), "users": n, "mean": found.estimate(c, n).mean}
                for c in found.curves
                for n in found.places
            ]
        },
    )


STUDIES = {"he-zhou-2025-users": Study(users, runs=10)}
