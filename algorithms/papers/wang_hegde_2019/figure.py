"""Figures 1 and 2 of Wang and Hegde (2019): the return of private Q-learning, in each form.

A point is the mean return of the agent's own episodes since the point before, as in the authors' code, with
its random actions and noisy values. Beside it stands how well the greedy policy of what was learnt does: that
of the network (line 24) in the published forms and the baselines, that of z in the corrected one.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpaudit.algorithms.environments.line_world import (
    HORIZON,
    N_ACTIONS,
    RewardFunction,
    episode_returns,
    greedy_return,
    middle_rewards,
)
from dpaudit.algorithms.figures.picture import Row, named, panel, rows_of, spread
from dpaudit.algorithms.figures.published_claims import Sentence, Table, below, estimate, larger, table
from dpaudit.algorithms.figures.run_cache import RunCache, bits, noise_seed
from dpaudit.algorithms.figures.study import Figure, Option, Session, Study
from dpaudit.algorithms.papers.wang_hegde_2019.coded_path import CodedNoise
from dpaudit.algorithms.papers.wang_hegde_2019.deep_q import NETWORKS
from dpaudit.algorithms.papers.wang_hegde_2019.dp_q_learning import DPQLearning
from dpaudit.algorithms.papers.wang_hegde_2019.evaluated_policy import EvaluatedPolicy
from dpaudit.algorithms.papers.wang_hegde_2019.functional_q import (
    CodedCalibration,
    CodedQLearning,
    FunctionalCalibration,
    FunctionalQLearning,
)
from dpaudit.algorithms.papers.wang_hegde_2019.perturbed_q import Perturbed, PerturbedQLearning
from dpaudit.algorithms.papers.wang_hegde_2019.q_learning import NodeValues, QLearning, ReLUNetwork
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise, NoiseSource, NoNoise
from dpaudit.curator.running import run
from dpaudit.page.blocks import Block, Grid, Heading, Paragraph, Picture
from dpaudit.page.chart import Spec, axis, resolved, specification

#: The paper's noise levels, T of every run, B as printed and as coded, delta, and sigma by claimed epsilon.
SIGMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SAMPLES, BATCH, CODED_BATCH, DELTA = 5000, 64, 128, 1e-4
CLAIMED = {0.9: 0.32, 0.45: 0.74}
#: Budgets of the corrected algorithm in figure 1, from no noise to the paper's.
EPSILONS = (math.inf, 1024.0, 256.0, 64.0, 16.0, 0.9)
#: The number of evaluations in a run, the episodes of each, and their seed.
POINTS, EPISODES, EVALUATION_SEED = 10, 200, 20191208
#: "Limited" and "similar" mean: within this share of the return. The paper states no share.
LIMITED = 0.15

#: The published forms; the third is the second with paths of the kernel that it names.
PRINTED, CODED, KERNEL = "as printed", "as coded", "as coded, paths of its kernel"
_PUBLISHED = (PRINTED, CODED, KERNEL)
_NAMES = {
    "corrected": "corrected",
    "rewards": "noise on rewards",
    "gradients": "noise on gradients",
    "evaluation": "Balle et al.",
}


@dataclass(frozen=True)
class Curve:
    """One curve of a panel."""

    panel: str  # its heading
    algorithm: str  # a published form, corrected, rewards, gradients or evaluation
    sigma: float = 0.0  # of the published noise; 0 for none; without meaning for the other algorithms
    resets: int = 0  # J; 0 for T/B, as coded for one each episode
    epsilon: float = math.inf  # that is claimed; infinite for no noise

    def __str__(self) -> str:
        if self.algorithm in _PUBLISHED:
            return f"{self.algorithm}, " + ("no noise" if self.sigma == 0.0 else f"sigma={self.sigma:g}")
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
    #: That of the whole episodes since the point before; of Balle et al., whose steps are random, `learnt`.
    trained: float = math.nan


def noise_curves() -> list[Curve]:
    """Figure 1: the published forms by sigma, paths reset or kept; the corrected one by epsilon."""
    panels = (
        (f"{CODED}, J = a path each episode", CODED, 0),
        (f"{CODED}, J = 1", CODED, 1),
        (f"{KERNEL}, J = a path each episode", KERNEL, 0),
        (f"{PRINTED}, J = T/B", PRINTED, 0),
        (f"{PRINTED}, J = 1", PRINTED, 1),
    )
    published = [Curve(name, form, sigma, resets) for name, form, resets in panels for sigma in SIGMAS]
    return published + [Curve("corrected", "corrected", epsilon=epsilon) for epsilon in EPSILONS]


def compared_curves() -> list[Curve]:
    """Figure 2: a panel for each claim; the published forms with the noise that the paper has for it."""
    curves = []
    for epsilon, sigma in CLAIMED.items():
        panel = f"claimed: epsilon = {epsilon:g}"
        published = [Curve(panel, form, sigma, epsilon=epsilon) for form in (CODED, KERNEL, PRINTED)]
        curves += [Curve(panel, CODED), *published]
        curves += [Curve(panel, name, epsilon=epsilon) for name in _NAMES]
    return curves


def curve_points(curve: Curve, seeds: Sequence[int], total: int = SAMPLES) -> list[Point]:
    """A line's runs, not computed yet, at `POINTS` points each."""
    places = [round(total * i / POINTS) for i in range(1, POINTS + 1)]
    return [Point(curve, seed, total, samples) for seed in seeds for samples in places]


def algorithm_of(curve: Curve, total: int = SAMPLES) -> QLearning | EvaluatedPolicy:
    """The algorithm of a line; where there is no noise, one with some that is left out when it runs.

    As coded and without noise it is the learner of the baselines.
    """
    claim = ApproxDP(epsilon=curve.epsilon if math.isfinite(curve.epsilon) else 0.9, delta=DELTA)
    sigma, batch = curve.sigma or 1.0, min(CODED_BATCH, total // POINTS)
    if curve.algorithm == PRINTED:
        printed = FunctionalCalibration(claim, sigma, samples=total, batch=min(BATCH, total // POINTS))
        return FunctionalQLearning(printed, curve.resets or None)
    if curve.algorithm in _PUBLISHED and not noiseless(curve):
        coded = CodedCalibration(claim, sigma, samples=total, batch=batch)
        return CodedQLearning(coded, curve.resets or None)
    if curve.algorithm == "corrected":
        updates = 2 * POINTS
        return DPQLearning(claim, updates=updates, batch=total // updates)
    if curve.algorithm == "evaluation":
        return EvaluatedPolicy(claim, max(1, total // HORIZON))
    perturbed: Perturbed = "gradients" if curve.algorithm == "gradients" else "rewards"
    return PerturbedQLearning(perturbed, claim, total, batch)


def noiseless(curve: Curve) -> bool:
    """Whether a line has no noise."""
    return curve.sigma == 0.0 if curve.algorithm in _PUBLISHED else math.isinf(curve.epsilon)


def _run(points: Sequence[Point]) -> list[Point]:
    asked = points[0]
    curve, rewards = asked.curve, middle_rewards()
    algorithm = algorithm_of(curve, asked.total)
    words = bits(curve.sigma, curve.resets, curve.epsilon)
    seed = noise_seed(asked.seed, len(curve.algorithm), *words)
    live = CodedNoise if curve.algorithm == CODED else LiveNoise
    noise: NoiseSource = NoNoise() if noiseless(curve) else live(seed)
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
    """Run with the whole budget for the point's number of episodes."""
    algorithm, rewards = algorithm_of(point.curve, point.samples), middle_rewards()
    output = run(algorithm, rewards, seed=seed, public_seed=point.seed).output
    learnt = greedy_return(NodeValues(output.released), rewards, EPISODES, EVALUATION_SEED)
    return replace(point, learnt=learnt, trained=learnt)


RUNS = RunCache(frozenset({"learnt", "trained"}), _run, frozenset({"samples"}))


class Returns(NamedTuple):
    """The finished runs of a figure: of the training, which the paper draws, and of what was learnt."""

    trained: Table[Curve]
    learnt: Table[Curve]

    def panels(self) -> list[list[Curve]]:
        """The curves, panel by panel."""
        headings = dict.fromkeys(curve.panel for curve in self.learnt.curves)
        return [[curve for curve in self.learnt.curves if curve.panel == heading] for heading in headings]


def returns_of(points: Sequence[Point]) -> Returns:
    """Return the finished points by curve, seed and place."""
    return Returns(*(table(points, name, "samples") for name in Returns._fields))


def noise_sentences(returns: Returns) -> list[Sentence]:
    """The sentences that judge figure 1."""
    trained, panels = returns.trained, returns.panels()
    coded, coded_kept, kernel, printed, printed_kept, _ = panels
    words, found = "limited sub-optimality for sigma < 0.4", []
    for plain, *noisy in (coded, kernel, printed):
        found += [_limited(trained, plain, curve, words) for curve in noisy if curve.sigma < 0.4]
    for plain, *noisy in panels:
        for curve in noisy:
            about = f"{curve.panel}: {curve} against no noise"
            found.append(larger("a lower return under noise", about, trained.gap(plain, curve), "lower"))
    for one, other in zip(coded[1:] + printed[1:], coded_kept[1:] + printed_kept[1:], strict=True):
        about = f"{one}: new paths against J = 1"
        found.append(larger("better with J = T/B", about, trained.gap(one, other), "better"))
    return found


def compared_sentences(returns: Returns) -> list[Sentence]:
    """The sentences that judge figure 2."""
    limited, similar, better, flat = [], [], [], []
    trained = returns.trained
    for plain, *others in returns.panels():
        allowed = LIMITED * float(trained.at(plain).mean())
        within = f"within {allowed:.2f}"
        published = [curve for curve in others if curve.algorithm in _PUBLISHED]
        limited += [_limited(trained, plain, curve, "limited sub-optimality") for curve in published]
        for curve in others:
            for ours in published:
                ahead, about = trained.gap(ours, curve), f"{curve.panel}: {ours}, against {curve}"
                if curve.algorithm == "evaluation":
                    words, inside = f"{about}, {within}", below(allowed, replace(ahead, mean=abs(ahead.mean)))
                    similar.append(Sentence("similar performance", words, inside, f"{ahead} apart"))
                if curve.algorithm in {"rewards", "gradients"}:
                    better.append(larger("it outperforms both", about, ahead, "better"))
            if curve.algorithm in {"rewards", "gradients"}:
                gained = estimate(trained.at(curve) - trained.at(curve, trained.places[0]))
                flatly, words = "both do not improve over the training", f"{curve.panel}: {curve}, {within}"
                flat.append(Sentence(flatly, words, below(allowed, gained), f"{gained} gained"))
    return limited + similar + better + flat


def _limited(trained: Table[Curve], plain: Curve, curve: Curve, words: str) -> Sentence:
    allowed, lost = LIMITED * float(trained.at(plain).mean()), trained.gap(plain, curve)
    about = f"{curve.panel}: {curve}, within {allowed:.2f} of no noise"
    return Sentence(words, about, below(allowed, lost), f"{lost} lost")


def _picture(rows: Sequence[Row], title: str, quantity: str) -> Spec:
    x = axis("samples", "samples", {"nice": False})
    y = axis("mean", quantity, {"domain": [0, 25], "clamp": True})
    panels = []
    for heading in named(rows, "panel"):
        one = panel([row for row in rows if row["panel"] == heading], x, y, opacity=0.07)
        panels.append({**one, "title": heading, "width": 330, "height": 320})
    return specification(
        {
            "concat": panels,
            "columns": 3,
            **resolved(color="independent", shape="independent"),
            "title": f"{title}: {quantity}",
        }
    )


def _figure(
    session: Session, samples: int, curves: Sequence[Curve], title: str, judge: Callable[..., list[Sentence]]
) -> Figure:
    wanted = [point for curve in curves for point in curve_points(curve, session.seeds, samples)]
    returns = returns_of(session.finished(RUNS, wanted)[0])
    no_sigma = {curve: {} if curve.algorithm in _PUBLISHED else {"sigma": None} for curve in curves}
    quantities = {"trained": "return of an episode of the training", "learnt": "return of what was learnt"}
    stems = {"trained": session.name, "learnt": f"{session.name}-learnt"}
    charts = {}
    for name, quantity in quantities.items():
        rows = rows_of(getattr(returns, name), "samples", spread, lambda curve: no_sigma[curve])
        charts[stems[name]] = _picture(rows, title, quantity), rows
    rewards = middle_rewards()
    policies = (lambda s: np.tile([1.0, 0.0], (len(s), 1)), lambda s: np.stack([s, 1.0 - s], axis=1))
    one_way, inwards = (greedy_return(policy, rewards, EPISODES, EVALUATION_SEED) for policy in policies)
    ends = {curve: (returns.trained.estimate(curve), returns.learnt.estimate(curve)) for curve in curves}
    last = [(curve.panel, str(curve), *map(str, end)) for curve, end in ends.items()]
    greedy = session.caption("Return of the greedy policy of what was learnt")
    return Figure(
        title=title,
        about=f"Figure {session.name[-1]} of Wang and Hegde, Privacy-preserving Q-Learning with Functional "
        f"Noise in Continuous Spaces (NeurIPS 2019), drawn again by `{session.command}`: {samples} samples, "
        f"{session.setting()}. Always going one way returns {one_way:.1f}, going inwards {inwards:.1f}.",
        caption=session.caption("Return of the agent's own episodes"),
        charts=charts,
        sentences=judge(returns),
        blocks=[
            Picture(f"{stems['learnt']}.svg", greedy),
            Heading("The forms"),
            Paragraph(
                "As printed: Algorithm 1 with the numbers of appendix E.3; gamma, which the text does not "
                "state, is that of the authors' code. As coded: the settings of that code, which the text "
                "does not state either (RMSprop, a memory, a second network, random actions, a kernel with "
                "beta = 1), and its paths, whose right end follows the wrong point; 'paths of its kernel' "
                "are the same runs with that put right. The baselines have the same learner. The corrected "
                "algorithm takes steps in the kernel's function space instead of a network's. The first "
                "picture has the return of the agent's own episodes, with its random actions, since the "
                "point before, as the authors' code writes it; of Balle et al., whose steps are all random, "
                f"that of the policy. The second one has the greedy policy on {EPISODES} episodes apart from "
                "the training. The "
                f"sentences are judged on the first. 'Limited' is read as within {LIMITED:.0%} of the return "
                "without noise."
            ),
            Heading("Privacy of these runs"),
            *_privacy(session, curves, samples),
            Heading("Return at the end, mean and 95% interval"),
            Grid(("panel", "curve", "last episodes of the training", "learnt"), last),
        ],
        summary={
            "samples": samples,
            "returns": [
                {"panel": c.panel, "curve": str(c), "mean": e.mean, "learnt": g.mean}
                for c, (e, g) in ends.items()
            ],
        },
    )


def figure_1(session: Session, *, samples: int) -> Figure:
    """Draw the figure again: learning by noise, as coded, as printed and corrected."""
    return _figure(session, samples, noise_curves(), "learning under functional noise", noise_sentences)


def figure_2(session: Session, *, samples: int) -> Figure:
    """Draw the figure again: every form and the baselines at one claim."""
    title = "private Q-learning at one claim"
    return _figure(session, samples, compared_curves(), title, compared_sentences)


@dataclass(frozen=True)
class _Declared:
    """What a run as coded writes into its ledger, without the run: a function for each path."""

    algorithm: CodedQLearning

    @property
    def claim(self) -> Claim:
        """The claim of the algorithm that is wrapped."""
        return self.algorithm.claim

    def __call__(self, data: RewardFunction, curator: Curator) -> None:
        """Release every function; none is asked anything."""
        del data
        network = ReLUNetwork.random(self.algorithm.hidden, N_ACTIONS, curator.public("network"))
        for episode in range(self.algorithm.rounds):
            for label in NETWORKS:
                self.algorithm.acts_on(network, label, episode, curator)


def declared(algorithm: Any) -> Any:
    """An algorithm with the same ledger that takes less time, where there is one."""
    coded = isinstance(algorithm, CodedQLearning) and algorithm.view != "fresh"
    return _Declared(algorithm) if coded else algorithm


def _privacy(session: Session, curves: Sequence[Curve], samples: int) -> Iterator[Block]:
    yield Paragraph(
        f"What accounting proves of a run's ledger at delta = {DELTA:g}. For the published forms it uses the "
        "sensitivity of the paper's proof, and covers noisy values only: what line 24 returns is a leak "
        "whatever sigma is, and so is a path that is kept while the network changes, as coded for an episode "
        "(docs/papers/papers.md)."
    )
    rows = []
    for curve in curves:
        if noiseless(curve):
            continue
        found, proved = session.accounted(declared(algorithm_of(curve, samples)), middle_rewards())
        claims = math.isfinite(curve.epsilon)
        verdict = (f"{curve.epsilon:g}", str(found.verdict)) if claims else ("none", "none")
        covers = "no: line 24 leaks" if curve.algorithm in _PUBLISHED else "yes"
        if curve.algorithm == "evaluation":
            covers = "no: it is about one trajectory"
        rows.append((curve.panel, str(curve), *verdict, proved, covers))
    ledger = ("epsilon of the ledger", "covers the reward function")
    yield Grid(("panel", "curve", "epsilon claimed", "claim", *ledger), rows)


_SAMPLES = Option("--samples", "T, the samples of a run.", SAMPLES, least=HORIZON * POINTS)

STUDIES = {
    "wang-hegde-2019-figure-1": Study(figure_1, 10, (_SAMPLES,)),
    "wang-hegde-2019-figure-2": Study(figure_2, 10, (_SAMPLES,)),
}
