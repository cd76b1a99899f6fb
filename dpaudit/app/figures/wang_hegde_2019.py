"""Figures 1 and 2 of Wang and Hegde (2019): the return of what private Q-learning has learnt.

A point is how well the greedy policy of what was learnt up to some sample does: of the network (line 24) in
the published algorithm and the baselines, of z in the corrected one. The page says what is chosen here.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import click
import numpy as np

from dpaudit.algorithms.environments.line_world import HORIZON, episode_returns, greedy_return, middle_rewards
from dpaudit.algorithms.q_learning.dp_q_learning import DPQLearning
from dpaudit.algorithms.q_learning.evaluated_policy import EvaluatedPolicy
from dpaudit.algorithms.q_learning.functional_q import FunctionalCalibration, FunctionalQLearning
from dpaudit.algorithms.q_learning.perturbed_q import Perturbed, PerturbedQLearning
from dpaudit.algorithms.q_learning.q_learning import NodeValues, QLearning
from dpaudit.app.figures.engine import Figure, Session, accounted, figure_command
from dpaudit.app.figures.picture import Row, named, panel, rows_of, spread
from dpaudit.app.figures.published_claims import Sentence, Table, below, estimate, larger, table
from dpaudit.app.figures.run_cache import RunCache, bits, noise_seed
from dpaudit.app.options.option import option
from dpaudit.app.report.blocks import Block, Grid, Heading, Paragraph
from dpaudit.app.report.chart import Spec, axis, resolved, specification
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.noise import LiveNoise, NoiseSource, NoNoise
from dpaudit.curator.running import run

#: Of the paper: noise levels, T and B of every run, delta, and sigma by claimed epsilon.
SIGMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SAMPLES, BATCH, DELTA = 5000, 64, 1e-4
CLAIMED = {0.9: 0.32, 0.45: 0.74}
#: Budgets of the corrected algorithm in figure 1, from no noise to the paper's.
EPSILONS = (math.inf, 1024.0, 256.0, 64.0, 16.0, 0.9)
STEP_SIZE = 0.5
#: At how many points of a run the policy is evaluated, and on how many episodes of which seed.
POINTS, EPISODES, EVALUATION_SEED = 10, 200, 20191208
#: "Limited" and "similar" are read as: within this share of the return; the paper names none.
LIMITED = 0.15

_NAMES = {
    "corrected": "corrected",
    "rewards": "noise on rewards",
    "gradients": "noise on gradients",
    "evaluation": "Balle et al.",
}


@dataclass(frozen=True)
class Curve:
    """One line of a panel."""

    panel: str  # its heading
    algorithm: str  # published, corrected, rewards, gradients or evaluation
    sigma: float = 0.0  # of the published noise; 0 for none; without meaning for the other algorithms
    resets: int = 0  # J; 0 for T/B
    epsilon: float = math.inf  # that is claimed; infinite for no noise

    def __str__(self) -> str:
        if self.algorithm == "published":
            return "no noise" if self.sigma == 0.0 else f"published, sigma={self.sigma:g}"
        name = _NAMES[self.algorithm]
        return f"{name}, " + ("no noise" if math.isinf(self.epsilon) else f"epsilon={self.epsilon:g}")


@dataclass(frozen=True)
class Point:
    """One run up to one sample; NaN before the run."""

    curve: Curve
    seed: int  # of the network, the walk and the noise
    total: int  # T, of the whole run
    samples: int  # up to which the run went
    learnt: float = math.nan  # the mean return of the greedy policy
    trained: float = math.nan  # that of the whole episodes since the point before, explored and noised


def noise_curves() -> list[Curve]:
    """Figure 1: the published one by sigma, paths reset or kept; the corrected one by epsilon."""
    panels = (("published, J = T/B", 0), ("published, J = 1", 1))
    published = [Curve(name, "published", sigma, resets) for name, resets in panels for sigma in SIGMAS]
    return published + [Curve("corrected", "corrected", epsilon=epsilon) for epsilon in EPSILONS]


def compared_curves() -> list[Curve]:
    """Figure 2: a panel for each claim; the published algorithm with the noise that the paper has for it."""
    curves = []
    for epsilon, sigma in CLAIMED.items():
        panel = f"claimed: epsilon = {epsilon:g}"
        curves += [Curve(panel, "published"), Curve(panel, "published", sigma, epsilon=epsilon)]
        curves += [Curve(panel, name, epsilon=epsilon) for name in _NAMES]
    return curves


def curve_points(curve: Curve, seeds: Sequence[int], total: int = SAMPLES) -> list[Point]:
    """A line's runs, not computed yet, at `POINTS` points each."""
    places = [round(total * i / POINTS) for i in range(1, POINTS + 1)]
    return [Point(curve, seed, total, samples) for seed in seeds for samples in places]


def algorithm_of(curve: Curve, total: int = SAMPLES) -> QLearning | EvaluatedPolicy:
    """The algorithm of a line; where there is no noise, with some that is left out when it runs."""
    claim = ApproxDP(epsilon=curve.epsilon if math.isfinite(curve.epsilon) else 0.9, delta=DELTA)
    batch = min(BATCH, total // POINTS)
    if curve.algorithm == "published":
        noise = FunctionalCalibration(claim, curve.sigma or 1.0, STEP_SIZE, total, batch)
        return FunctionalQLearning(noise, curve.resets or None, exploration=1.0)
    if curve.algorithm == "corrected":
        updates = 2 * POINTS
        return DPQLearning(claim, updates=updates, batch=total // updates)
    if curve.algorithm == "evaluation":
        return EvaluatedPolicy(claim, max(1, total // HORIZON))
    perturbed: Perturbed = "rewards" if curve.algorithm == "rewards" else "gradients"
    return PerturbedQLearning(perturbed, claim, total, batch, STEP_SIZE)


def noiseless(curve: Curve) -> bool:
    """Whether a line has no noise."""
    return curve.sigma == 0.0 if curve.algorithm == "published" else math.isinf(curve.epsilon)


def _run(points: Sequence[Point]) -> list[Point]:
    asked = points[0]
    curve, rewards = asked.curve, middle_rewards()
    algorithm = algorithm_of(curve, asked.total)
    words = bits(curve.sigma, curve.resets, curve.epsilon)
    seed = noise_seed(asked.seed, len(curve.algorithm), *words)
    noise: NoiseSource = NoNoise() if noiseless(curve) else LiveNoise(seed)
    if isinstance(algorithm, EvaluatedPolicy):
        return [_evaluated(point, seed + point.samples) for point in points]

    def learning(data: Any, curator: Any) -> list[Any]:
        return list(algorithm.learning(data, curator))

    # Runs of one seed share network and walk, whatever their noise.
    updates = run(learning, rewards, noise=noise, public_seed=asked.seed).output
    finished, first = [], 0
    for point in points:
        last = max(1, round(len(updates) * point.samples / point.total))
        learnt = greedy_return(updates[last - 1].learnt, rewards, EPISODES, EVALUATION_SEED)
        reached = np.concatenate([update.reached for update in updates[:last]])
        returns = episode_returns(reached, rewards)
        trained = float(returns[first:].mean()) if len(returns) > first else math.nan
        finished.append(replace(point, learnt=learnt, trained=trained))
        first = len(returns)
    return finished


def _evaluated(point: Point, seed: int) -> Point:
    """A run of its own, with the whole budget, for as many episodes as the point has."""
    algorithm, rewards = algorithm_of(point.curve, point.samples), middle_rewards()
    output = run(algorithm, rewards, seed=seed, public_seed=point.seed).output
    learnt = greedy_return(NodeValues(output.released), rewards, EPISODES, EVALUATION_SEED)
    return replace(point, learnt=learnt, trained=float(episode_returns(output.reached, rewards).mean()))


RUNS = RunCache(frozenset({"learnt", "trained"}), _run, frozenset({"samples"}))


class Returns(NamedTuple):
    """The finished runs of a figure: of what was learnt, and of the training itself."""

    learnt: Table[Curve]
    trained: Table[Curve]

    def panels(self) -> list[list[Curve]]:
        """The curves, panel by panel."""
        headings = dict.fromkeys(curve.panel for curve in self.learnt.curves)
        return [[curve for curve in self.learnt.curves if curve.panel == heading] for heading in headings]


def returns_of(points: Sequence[Point]) -> Returns:
    """Finished points of every curve, seed and place, by what they are."""
    return Returns(*(table(points, name, "samples") for name in Returns._fields))


def noise_sentences(returns: Returns) -> list[Sentence]:
    """The sentences that judge figure 1."""
    learnt, panels = returns.learnt, returns.panels()
    reset, kept, _ = panels
    words = "limited sub-optimality for sigma < 0.4"
    found = [_limited(learnt, reset[0], curve, words) for curve in reset[1:] if curve.sigma < 0.4]
    for plain, *noisy in panels:
        for curve in noisy:
            about = f"{curve.panel}: {curve} against no noise"
            found.append(larger("a lower return under noise", about, learnt.gap(plain, curve), "lower"))
    for one, other in zip(reset[1:], kept[1:], strict=True):
        about = f"sigma={one.sigma:g}, J = T/B against J = 1"
        found.append(larger("better with J = T/B", about, learnt.gap(one, other), "better"))
    return found


def compared_sentences(returns: Returns) -> list[Sentence]:
    """The sentences that judge figure 2."""
    limited, similar, better, flat = [], [], [], []
    learnt = returns.learnt
    for plain, published, *others in returns.panels():
        limited.append(_limited(learnt, plain, published, "limited sub-optimality"))
        allowed = LIMITED * float(learnt.at(plain).mean())
        within = f"within {allowed:.2f}"
        for curve in others:
            ahead, about = learnt.gap(published, curve), f"{curve.panel}: against {curve}"
            if curve.algorithm == "evaluation":
                words, inside = f"{about}, {within}", below(allowed, replace(ahead, mean=abs(ahead.mean)))
                similar.append(Sentence("similar performance", words, inside, f"{ahead} apart"))
            if curve.algorithm in {"rewards", "gradients"}:
                better.append(larger("it outperforms both", about, ahead, "better"))
                gained = estimate(learnt.at(curve) - learnt.at(curve, learnt.places[0]))
                flatly, words = "both do not improve over the training", f"{curve.panel}: {curve}, {within}"
                flat.append(Sentence(flatly, words, below(allowed, gained), f"{gained} gained"))
    return limited + similar + better + flat


def _limited(learnt: Table[Curve], plain: Curve, curve: Curve, words: str) -> Sentence:
    allowed, lost = LIMITED * float(learnt.at(plain).mean()), learnt.gap(plain, curve)
    about = f"{curve.panel}: {curve}, within {allowed:.2f} of no noise"
    return Sentence(words, about, below(allowed, lost), f"{lost} lost")


def _picture(rows: Sequence[Row], title: str) -> Spec:
    x = axis("samples", "samples", {"nice": False})
    y = axis("mean", "return of what was learnt", {"domain": [0, 25], "clamp": True})
    panels = []
    for heading in named(rows, "panel"):
        one = panel([row for row in rows if row["panel"] == heading], x, y, opacity=0.07)
        panels.append({**one, "title": heading, "width": 330, "height": 320})
    return specification({"hconcat": panels, **resolved(color="independent"), "title": title})


def _figure(
    session: Session, samples: int, curves: Sequence[Curve], title: str, judge: Callable[..., list[Sentence]]
) -> Figure:
    wanted = [point for curve in curves for point in curve_points(curve, session.seeds, samples)]
    returns = returns_of(session.finished(RUNS, wanted)[0])
    learnt = returns.learnt
    no_sigma = {curve: {} if curve.algorithm == "published" else {"sigma": None} for curve in curves}
    rows = rows_of(learnt, "samples", spread, lambda curve: no_sigma[curve])
    rewards = middle_rewards()
    policies = (lambda s: np.tile([1.0, 0.0], (len(s), 1)), lambda s: np.stack([s, 1.0 - s], axis=1))
    one_way, inwards = (greedy_return(policy, rewards, EPISODES, EVALUATION_SEED) for policy in policies)
    ends = {curve: (learnt.estimate(curve), returns.trained.estimate(curve)) for curve in curves}
    last = [(curve.panel, str(curve), *map(str, end)) for curve, end in ends.items()]
    return Figure(
        title=title,
        about=f"Figure {session.name[-1]} of Wang and Hegde, Privacy-preserving Q-Learning with Functional "
        f"Noise in Continuous Spaces (NeurIPS 2019), drawn again by `{session.command}`: {samples} samples, "
        f"{session.setting()}. Always going one way returns {one_way:.1f}, going inwards {inwards:.1f}.",
        caption=session.caption("Return of the greedy policy of what was learnt"),
        charts={session.name: (_picture(rows, title), rows)},
        sentences=judge(returns),
        blocks=[
            Heading("What the text leaves open"),
            Paragraph(
                "gamma = 1/2. With the paper's alpha = 3e-4, plain gradient descent learns nothing in "
                f"{samples // BATCH} batches of {BATCH}, and a greedy agent stays at one end of [0, 1]. "
                f"Chosen: alpha = {STEP_SIZE:g}, and random actions with a chance that falls from 1 to 0. "
                "The kernel's beta follows alpha by the paper's formula. Drawn is the greedy policy of the "
                f"network itself, which line 24 returns, on {EPISODES} episodes apart from the training; the "
                "agent itself acts on noisy values, and earns what the last table has. 'Limited' is read as "
                f"within {LIMITED:.0%} of the return without noise. The corrected algorithm takes steps in "
                "the kernel's function space instead of a network's."
            ),
            Heading("Privacy of these runs"),
            *_privacy(curves, samples),
            Heading("Return at the end, mean and 95% interval"),
            Grid(("panel", "curve", "learnt", "last episodes of the training"), last),
        ],
        summary={
            "samples": samples,
            "returns": [{"panel": c.panel, "curve": str(c), "mean": e.mean} for c, (e, _) in ends.items()],
        },
    )


_samples = option("--samples", click.IntRange(10 * POINTS), "T, the samples of one run.", default=SAMPLES)


@figure_command("wang-hegde-2019-figure-1", _samples, runs=10)
def figure_1(session: Session, *, samples: int) -> Figure:
    """Draw the figure again: learning by noise, the corrected algorithm beside the published one."""
    return _figure(session, samples, noise_curves(), "learning under functional noise", noise_sentences)


@figure_command("wang-hegde-2019-figure-2", _samples, runs=10)
def figure_2(session: Session, *, samples: int) -> Figure:
    """Draw the figure again: the published and the corrected algorithm and baselines at one claim."""
    title = "private Q-learning at one claim"
    return _figure(session, samples, compared_curves(), title, compared_sentences)


def _privacy(curves: Sequence[Curve], samples: int) -> Iterator[Block]:
    yield Paragraph(
        f"What accounting proves of a run's ledger at delta = {DELTA:g}. For the published algorithm it "
        "uses the sensitivity of the paper's proof at this alpha, and covers noisy values only: what "
        "line 24 returns is a leak whatever sigma is, and so is a path that is kept (docs/papers/papers.md)."
    )
    rows = []
    uncovered = {"published": "no: line 24 leaks", "evaluation": "no: it is about one trajectory"}
    for curve in curves:
        if noiseless(curve):
            continue
        found, proved = accounted(algorithm_of(curve, samples), middle_rewards())
        claims = math.isfinite(curve.epsilon)
        verdict = (f"{curve.epsilon:g}", str(found.verdict)) if claims else ("none", "none")
        rows.append((curve.panel, str(curve), *verdict, proved, uncovered.get(curve.algorithm, "yes")))
    ledger = ("epsilon of the ledger", "covers the reward function")
    yield Grid(("panel", "curve", "epsilon claimed", "claim", *ledger), rows)
