"""The section of docs/papers/papers.md on Wang and Hegde (2019); `make_papers.py` writes the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from papers.common import attacked, premises, table

from dpaudit.accountants.accounting import account
from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon
from dpaudit.algorithms.q_learning.dp_q_learning import DPQLearning
from dpaudit.algorithms.q_learning.functional_q import (
    FunctionalCalibration,
    FunctionalQLearning,
    ReleasedView,
    path_tail,
)
from dpaudit.algorithms.q_learning.perturbed_q import Perturbed, PerturbedQLearning
from dpaudit.algorithms.q_learning.q_learning import LearnedQ, ReLUNetwork
from dpaudit.auditors.replay.recording import movements
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.noise import ReplayedNoise, Transcript
from dpaudit.curator.running import run

#: Of the audits: a few updates are enough for what they find.
UPDATES, BATCH, TRIALS = 4, 6, 120
CLAIMS = {0.32: ApproxDP(epsilon=0.9, delta=1e-4), 0.74: ApproxDP(epsilon=0.45, delta=1e-4)}

HEAD = f"""\
## Wang and Hegde, Privacy-preserving Q-Learning with Functional Noise in Continuous Spaces (NeurIPS 2019)

Algorithm 1, sigma = 0.32 for (0.9, 1e-4) and 0.74 for (0.45, 1e-4), all parameters those of appendix E.3.
Unit the reward function, neighbours within 1 at every state, central trust.

- **sigma**: the noise of one release; **asked for**: what Theorem 5's formula asks for, at half of the delta.
- **proof**: the verdict, and the total epsilon proved from the ledger at the claim's delta. For the published
  algorithm that uses the sensitivity of the paper's own proof.
- **replay**: on r and r + 1, with {UPDATES} updates of {BATCH} steps; the kinds of what it finds. A leak
  under equal noise is an infinite loss.
- **attack**: one number of what comes out, over {TRIALS} runs on r and on r + 1, as short: a bias of the
  network, the mean of the values, of iterates how much it grew. It refutes a true claim with probability
  1e-6 at most. In so few updates a path still hides what it no longer does after the paper's 78 (below).

`raw` is line 24: the network without noise; `fresh` its values with a path of their own; `iterates` the noisy
values after each update. J is the number of paths. `corrected` keeps the noise in its state, the others are
the baselines; their noise is the least that meets the claim. With J=1 the ledger has one path, and what is
added to it later is in none: accounting cannot see it, replay does.
"""


@dataclass(frozen=True)
class Case:
    """One line of the table: the algorithm at its full length, and a short one for the audits."""

    name: str
    whole: Any
    short: Any


def published(sigma: float, view: ReleasedView, resets: int | None = None) -> Case:
    """A view of the published algorithm."""
    claim = CLAIMS[sigma]

    def algorithm(samples: int, batch: int) -> FunctionalQLearning:
        noise = FunctionalCalibration(claim, sigma, samples=samples, batch=batch)
        return FunctionalQLearning(noise, resets, view)

    paths = "T/B" if resets is None else resets
    return Case(
        f"published, {view}, J={paths}, {claim}", algorithm(5000, 64), algorithm(UPDATES * BATCH, BATCH)
    )


def cases() -> Iterator[Case]:
    """Every view, both claims, and what is sound."""
    for view in ("raw", "fresh", "iterates"):
        yield published(0.32, view)  # type: ignore[arg-type]
    yield published(0.32, "iterates", 1)
    yield published(0.74, "raw")
    for claim in CLAIMS.values():
        yield Case(
            f"corrected, {claim}", DPQLearning(claim), DPQLearning(claim, updates=UPDATES, batch=BATCH)
        )
        kinds: tuple[Perturbed, ...] = ("rewards", "gradients")
        for kind in kinds:
            short = PerturbedQLearning(kind, claim, samples=UPDATES * BATCH, batch=BATCH)
            yield Case(f"noise on {kind}, {claim}", PerturbedQLearning(kind, claim), short)


def section() -> str:
    """The section, as Markdown."""
    columns = ("form", "premises", "sigma", "asked for", "proof", "replay", "attack")
    return f"{HEAD}\n{table(columns, map(row, cases()))}\n\n{_growth()}\n\n{_tail()}"


def row(case: Case) -> list[str]:
    """The tool's results on one case."""
    whole, short = case.whole, case.short
    found = account(run(whole, short.worst_pairs()[0].data, seed=0).ledger)
    audit = replay(short, short.worst_pairs()[:1], claim=short.claim, seed=0, replays=2)
    kinds = sorted({finding.kind for finding in audit.findings})
    noise = getattr(whole, "calibration", None)
    return [
        case.name,
        premises(whole.claim),
        f"{found.releases[0].mechanism.sigma:.4g}",  # type: ignore[union-attr]
        "" if noise is None else f"{noise.stated_sigma:.4g}",
        f"{found.verdict}, epsilon={leading_figure(found.bounds[0].guarantee):.4g}",
        f"{audit.verdict}: {', '.join(kinds)}" if kinds else str(audit.verdict),
        attacked(short, short.worst_pairs()[0], _score, trials=TRIALS),
    ]


def _score(output: LearnedQ) -> float:
    """One number of the output."""
    out = output.released
    if out.ndim == 1:  # a network's parameters, of which the last two are the biases of its values
        return float(out[-2:].sum())
    return float(out.mean() if out.ndim == 2 else (out[-1] - out[0]).mean())


def _growth() -> str:
    """One run at the paper's own parameters, replayed on the neighbour."""
    algorithm = published(0.32, "iterates").whole
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
    return (
        f"Theorem 5 wants a path to stay below 2k = {premise.left:g} where the bound on its expected maximum "
        f"alone is {premise.right:.0f}: the chance that it does not, its second delta, is bounded by "
        f"{chance:g}. Lemma 8's exponent also lacks the sigma^2 of the Borell-Tsirelson inequality, without "
        f"which it is false for sigma above 1. L^2 = {noise.lipschitz_squared:g} is no trouble: the network "
        f"begins with a slope of {network.lipschitz:.2f} at most."
    )
