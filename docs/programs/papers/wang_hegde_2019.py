"""The section of docs/papers/papers.md on Wang and Hegde (2019); `make_papers.py` writes the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from papers.common import attacked, premises, table

from dpaudit.accountants.accounting import account
from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon
from dpaudit.algorithms.environments.line_world import HORIZON, N_ACTIONS
from dpaudit.algorithms.papers.wang_hegde_2019.coded_path import CodedPath, squared_cost
from dpaudit.algorithms.papers.wang_hegde_2019.dp_q_learning import DPQLearning
from dpaudit.algorithms.papers.wang_hegde_2019.figure import declared
from dpaudit.algorithms.papers.wang_hegde_2019.functional_q import (
    CodedCalibration,
    CodedQLearning,
    FunctionalCalibration,
    FunctionalQLearning,
    ReleasedView,
    path_tail,
)
from dpaudit.algorithms.papers.wang_hegde_2019.perturbed_q import Perturbed, PerturbedQLearning
from dpaudit.algorithms.papers.wang_hegde_2019.q_learning import LearnedQ, ReLUNetwork
from dpaudit.auditors.replay.recording import movements
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.noise import ReplayedNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.noise.paths import FloatPath

#: Of the audits: a few updates are enough for what they find.
UPDATES, BATCH, TRIALS = 4, 6, 120
CLAIMS = {0.32: ApproxDP(epsilon=0.9, delta=1e-4), 0.74: ApproxDP(epsilon=0.45, delta=1e-4)}

HEAD = f"""\
## Wang and Hegde, Privacy-preserving Q-Learning with Functional Noise in Continuous Spaces (NeurIPS 2019)

Algorithm 1, sigma = 0.32 for (0.9, 1e-4) and 0.74 for (0.45, 1e-4). Unit the reward function, neighbours
within 1 at every state, central trust. `as-printed` has all parameters of appendix E.3; `as-coded` has those
of the authors' code: another kernel, an update after every step, a second network, a new path for each
network every episode.

- **sigma**: the noise of one release; **asked for**: what Theorem 5's formula asks for, at half of the delta.
- **proof**: the verdict, and the total epsilon proved from the ledger at the claim's delta. For the published
  forms that uses the sensitivity of the paper's own proof.
- **replay**: on r and r + 1, with {UPDATES} updates of {BATCH} steps; the kinds of what it finds. A leak
  under equal noise is an infinite loss.
- **attack**: one number of what comes out, over {TRIALS} runs on r and on r + 1, as short: a bias of the
  network, the mean of the values, of iterates how much it grew; as coded the mean of the last values after
  two episodes. It refutes a true claim with probability 1e-6 at most. In so few updates a path still hides
  what it no longer does after the paper's 78 (below).

`raw` is line 24: the network without noise; `fresh` its values with a path of their own; `iterates` the noisy
values after each update. J is the number of paths. `corrected` keeps the noise in its state, the others are
the baselines, with the learner of the authors' code; their noise is the least that meets the claim. Where a
path is kept while the network changes, J=1 or as coded, what is added to it later is in no ledger: accounting
cannot see it, replay does.
"""


@dataclass(frozen=True)
class Case:
    """One line of the table: the algorithm at its full length, and short ones for replay and attack."""

    name: str
    whole: Any
    short: Any
    attacked: Any = None  # by default the short one


def printed(sigma: float, view: ReleasedView, resets: int | None = None, k: float = 2.3) -> Case:
    """A view of the algorithm as printed."""
    claim = CLAIMS[sigma]

    def algorithm(samples: int, batch: int) -> FunctionalQLearning:
        noise = FunctionalCalibration(claim, sigma, samples=samples, batch=batch, k=k)
        return FunctionalQLearning(noise, resets, view)

    paths = "T/B" if resets is None else resets
    name = f"as-printed, {view}, J={paths}, {claim}" + ("" if k == 2.3 else f", k={k:g}")
    return Case(name, algorithm(5000, 64), algorithm(UPDATES * BATCH, BATCH))


def coded(sigma: float, view: ReleasedView, resets: int | None = None) -> Case:
    """A view of what the authors ran."""
    claim = CLAIMS[sigma]

    def algorithm(samples: int, batch: int, paths: int | None) -> CodedQLearning:
        return CodedQLearning(CodedCalibration(claim, sigma, samples=samples, batch=batch), paths, view)

    paths = "episodes" if resets is None else resets
    return Case(
        f"as-coded, {view}, J={paths}, {claim}",
        algorithm(5000, 128, resets),
        algorithm(UPDATES + BATCH - 1, BATCH, None),
        algorithm(2 * HORIZON, BATCH, resets),
    )


def cases() -> Iterator[Case]:
    """Every view, both claims, and what is sound."""
    for view in get_args(ReleasedView):
        yield printed(0.32, view)
    yield printed(0.32, "iterates", 1)
    yield printed(0.32, "raw", k=23.0)
    yield printed(0.74, "raw")
    yield coded(0.32, "raw")
    yield coded(0.32, "iterates")
    yield coded(0.32, "iterates", 1)
    yield coded(0.74, "raw")
    for claim in CLAIMS.values():
        yield Case(
            f"corrected, {claim}", DPQLearning(claim), DPQLearning(claim, updates=UPDATES, batch=BATCH)
        )
        kinds: tuple[Perturbed, ...] = ("rewards", "gradients")
        for kind in kinds:
            short = PerturbedQLearning(kind, claim, samples=UPDATES + BATCH - 1, batch=BATCH)
            yield Case(f"noise on {kind}, {claim}", PerturbedQLearning(kind, claim), short)


def section() -> str:
    """The section, as Markdown."""
    columns = ("form", "premises", "sigma", "asked for", "proof", "replay", "attack")
    parts = (table(columns, map(row, cases())), _growth(), _tail(), _reading(), _right_end())
    return "\n\n".join((HEAD.rstrip("\n"), *parts))


def row(case: Case) -> list[str]:
    """The tool's results on one case."""
    whole, short = case.whole, case.short
    found = account(run(declared(whole), short.worst_pairs()[0].data, seed=0).ledger)
    audit = replay(short, short.worst_pairs()[:1], claim=short.claim, seed=0, replays=2)
    kinds = sorted({finding.kind for finding in audit.findings})
    noise = getattr(whole, "calibration", None)
    score = _score if case.attacked is None else _level
    return [
        case.name,
        premises(whole.claim),
        f"{found.releases[0].mechanism.sigma:.4g}",  # type: ignore[union-attr]
        "" if noise is None else f"{noise.stated_sigma:.4g}",
        f"{found.verdict}, epsilon={leading_figure(found.bounds[0].guarantee):.4g}",
        f"{audit.verdict}: {', '.join(kinds)}" if kinds else str(audit.verdict),
        attacked(case.attacked or short, short.worst_pairs()[0], score, trials=TRIALS),
    ]


def _score(output: LearnedQ) -> float:
    """One number of the output."""
    out = output.released
    if out.ndim == 1:  # a network's parameters, of which the last two are the biases of its values
        return float(out[-2:].sum())
    return float(out.mean() if out.ndim == 2 else (out[-1] - out[0]).mean())


def _level(output: LearnedQ) -> float:
    """The mean of the last values in the output: of a network, or at nodes."""
    out = output.released
    if out.ndim == 1:
        network = ReLUNetwork.random((16, 16), N_ACTIONS, np.random.default_rng(0)).with_parameters(out)
        return float(network(np.array([0.25, 0.5, 0.75])).mean())
    return float(out[-1].mean())


def _growth() -> str:
    """One run at the paper's own parameters, replayed on the neighbour."""
    algorithm = printed(0.32, "iterates").whole
    (pair,) = algorithm.worst_pairs()
    recorded, twin = Transcript(), Transcript()
    run(algorithm, pair.data, seed=0, transcript=recorded)
    run(algorithm, pair.neighbour, noise=ReplayedNoise(recorded), transcript=twin)
    moved = [move.measured / move.declared for move in movements(recorded.entries, twin.entries)]
    noise = algorithm.calibration
    rho = sum(ratio**2 for ratio in moved) * noise.squared_sensitivity / (2.0 * noise.sigma**2)
    stated = noise.samples / noise.batch * noise.squared_sensitivity / (2.0 * noise.sigma**2)
    return (
        "The un-noised network carries on, so that the functions of r and of r + 1 drift apart. In one run "
        f"at the paper's own parameters the functions after 10, 40 and {len(moved) - 1} updates are "
        f"{moved[10]:.2f}, {moved[40]:.2f} and {moved[-1]:.2f} times as far apart as the proof has it, "
        f"measured only where they were asked; the transcript costs rho = {rho:.1f}, epsilon = "
        f"{gaussian_epsilon(1e-4, math.sqrt(2.0 * rho)):.1f} at 1e-4, where the proof's sensitivity makes it "
        f"{stated:.4f}."
    )


def _tail() -> str:
    """What is left of the delta when the first premise fails."""
    noise = FunctionalCalibration()
    premise = noise.premises[0]
    chance = path_tail(2.0 * noise.k, noise.sigma, noise.beta)
    network = ReLUNetwork.random((16, 16), 2, np.random.default_rng(0))
    smooth, paths = CodedCalibration(), CodedQLearning().path_count
    least = paths * path_tail(2.0 * smooth.k, smooth.sigma, smooth.beta)
    return (
        f"Theorem 5 wants a path to stay below 2k = {premise.left:g} where the bound on its expected maximum "
        f"alone is {premise.right:.0f}: the chance that it does not, its second delta, is bounded by "
        f"{chance:g}. Lemma 8's exponent also lacks the sigma^2 of the Borell-Tsirelson inequality, without "
        f"which it is false for sigma above 1. L^2 = {noise.lipschitz_squared:g} is no trouble: the network "
        f"begins with a slope of {network.lipschitz:.2f} at most. Under the kernel that was coded paths are "
        f"smooth: for a path each of {paths} episodes the chance is {least:.2g} by the corrected exponent; as "
        f"printed, its bound is {paths * smooth.stated_tail:.3g}."
    )


def _reading() -> str:
    """What appendix E.3 makes of k = 23 and of k = 2.3, and which k the theorem's premise needs."""

    def holds(k: float) -> bool:
        noise = FunctionalCalibration(k=k)
        return replace(noise, sigma=noise.stated_sigma).premises[0].holds

    low, high = 1.0, 1e6
    while high - low > 0.5:
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    enough = FunctionalCalibration(k=math.ceil(high))
    words = []
    for k in (2.3, 23.0):
        noise = FunctionalCalibration(k=k)
        premise = noise.premises[0]
        words.append(
            f"k = {k:g} makes it {2.0 * k - 8.6 * math.sqrt(k + 1.0):.2f}, v = {noise.bound:.3g} and the sigma "
            f"asked for {noise.stated_sigma:.3g}; the premise is {premise.left:g} > {premise.right:.0f} at "
            f"sigma = {noise.sigma:g} and {'holds' if premise.holds else 'fails'}"
        )
    return (
        'Appendix E.3 says "k = 23 will be sufficient", because 2k - 8.6 sqrt(k + 1) must be about 3.5, and then '
        f"computes with 2.3. {words[0]}. {words[1]}. Its 8.6 sqrt(k + 1) leaves out most of sqrt(beta) sigma: "
        f"at the sigma that the formula gives, the premise holds from k = {enough.k:g} on, with sigma = "
        f"{enough.stated_sigma:.3g}."
    )


def _right_end() -> str:
    """What the path of the authors' code hides, beside a path of its kernel."""
    moved, words = np.array([[0.0], [1.0], [1.0]]), []
    for gap in (1e-2, 1e-4, 1e-6):
        points = np.array([0.0, 0.5, 0.5 + gap])
        costs = [
            squared_cost(kind(np.random.default_rng(0), 1.0, 1.0, (1,)), points, moved) / 2.0
            for kind in (FloatPath, CodedPath)
        ]
        words.append(f"{costs[0]:.3g} and {costs[1]:.3g} at {gap:g}")
    return (
        "The code takes the mean at a new right end from the first point instead of the last. Two functions that "
        "differ by 0 at 0 and by 1 at 1/2 and a gap further cost, as rho at sigma = 1, under a path of the "
        f"kernel and under the code's: {'; '.join(words)}. The second grows without bound."
    )
