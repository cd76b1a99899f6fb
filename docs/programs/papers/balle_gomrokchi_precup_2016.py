"""The section of docs/papers/papers.md on Balle, Gomrokchi and Precup (2016); `make_papers.py` writes the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from papers.common import attacked, premises, ratios, table

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.data.episodes import Episodes, FirstVisits
from dpaudit.algorithms.environments.chain import Chain
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.least_squares import DPLSL, DPLSW
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Audit, leading_figure
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.curator.noise import NoNoise, Transcript
from dpaudit.curator.running import run

TRIALS = 160

HEAD = f"""\
## Balle, Gomrokchi and Precup, Differentially Private Policy Evaluation (ICML 2016)

Unit a trajectory, replace-one, central trust. The chain of section 6, N=40; one release, whose noise follows
the data and is in no ledger.

- **alpha**: noise over the smooth bound on the sensitivity, by the paper's lemma or the least that is enough.
- **least epsilon**: what accounting proves at the claim's delta, over all pairs that alpha and beta allow.
- **replay**: how far the parameters move, in noise scales over alpha, and the logarithm of the noise's
  variance, on the algorithm's own worst pairs; how many times more than the ledger declares.
- **sampling**: a threshold audit of {TRIALS} outputs on either side of each pair, by likelihood ratio; it
  refutes a true claim with probability 1e-6 at most. INCONCLUSIVE where so few could refute no such claim.

The last two rows are planted faults: noise that follows the local sensitivity itself, and the max that
Lemma 9 prints where equation (12) has min (on few episodes). Their ledgers are those of a correct algorithm,
and are proved; replay finds that the noise differs from them. At epsilon = 52 in one dimension the lemma
is false.
"""


class NotSmoothed(DPLSW):
    """DP-LSW with noise that follows the local sensitivity itself."""

    def psi(self, visits: FirstVisits) -> float:
        """The bound of Corollary 3 on these data, not smoothed."""
        return float((self.state_weights / np.maximum(visits.counts, 1.0) ** 2).sum())


class PrintedMax(DPLSL):
    """DP-LSL with the max of Lemma 9."""

    def psi(self, visits: FirstVisits) -> float:
        """The formula as printed in the paper."""
        rho, m, beta = self.state_weights, visits.episodes, self.noise.beta
        rest = float(np.linalg.norm(rho))
        return max(
            math.exp(-k * beta)
            * (self.factor * math.sqrt(float(rho @ np.maximum(visits.counts + k, m))) + rest) ** 2
            for k in range(m + 1)
        )


@dataclass(frozen=True)
class Case:
    """One line of the table, and the pairs it is audited on."""

    name: str
    algorithm: Any
    pairs: tuple[Pair, ...]


def cases() -> Iterator[Case]:
    """Both algorithms with both noises, the lemma out of its range, and the planted faults."""
    chain, wide = Chain(), ApproxDP(epsilon=52.0, delta=0.1)
    options: dict[str, Any] = {"discount": chain.discount, "largest_return": 1.0}
    tabular, constant = chain.features(), np.ones((chain.n_states, 1))

    def case(name: str, algorithm: Any, pairs: tuple[Pair, ...] | None = None) -> Case:
        return Case(name, algorithm, tuple(algorithm.worst_pairs()) if pairs is None else pairs)

    for noise in ("lemma", "exact"):
        yield case(f"DP-LSW, {noise}", DPLSW(tabular, **options, calibration=noise))
        yield case(f"DP-LSL, {noise}, lambda=100", DPLSL(tabular, **options, calibration=noise, ridge=100.0))
    for noise in ("lemma", "exact"):
        algorithm = DPLSW(constant, **options, calibration=noise, guarantee=wide)
        yield case(f"DP-LSW, {noise}, epsilon=52, d=1", algorithm)
    yield case("DP-LSW, lemma, local sensitivity", NotSmoothed(tabular, **options))
    yield case(
        "DP-LSL, lemma, lambda=100, printed max",
        PrintedMax(tabular, **options, ridge=100.0),
        (_few(chain.n_states),),
    )


def section() -> str:
    """Head and table, as Markdown."""
    columns = ("form", "premises", "alpha", "least epsilon", "proof", "replay", "sampling")
    return f"{HEAD}\n{table(columns, map(_row, cases()))}"


def _row(case: Case) -> list[str]:
    algorithm = case.algorithm
    found = account(run(algorithm, case.pairs[0].data, seed=0).ledger)
    audit = replay(algorithm, case.pairs, claim=algorithm.claim, seed=0, replays=3, extreme_outputs=False)
    sampled = sorted({_sampled(algorithm, pair) for pair in case.pairs}, reverse=True)
    return [
        case.name,
        premises(algorithm.claim),
        f"{algorithm.noise.alpha:.4g}",
        f"{leading_figure(found.bounds[0].guarantee):.4g}",
        str(found.verdict),
        _words(audit),
        "; ".join(sampled),
    ]


def _words(audit: Audit) -> str:
    past = ratios(audit)
    return str(audit.verdict) + (f": up to {max(past):.4g} times what is declared" if past else "")


def _sampled(algorithm: Any, pair: Pair) -> str:
    """A threshold audit on the log likelihood ratio, from the two true parameters and scales."""
    (theta, scale), (theta_2, scale_2) = (_moment(algorithm, data) for data in (pair.data, pair.neighbour))

    def score(output: Any) -> float:
        near, far = (output.theta - theta) / scale, (output.theta - theta_2) / scale_2
        return float(0.5 * (far @ far - near @ near) + len(theta) * math.log(scale_2 / scale))

    return attacked(algorithm, pair, score, trials=TRIALS)


def _moment(algorithm: Any, data: Episodes) -> tuple[Any, float]:
    transcript = Transcript()
    run(algorithm, data, noise=NoNoise(), transcript=transcript)
    (entry,) = transcript.entries
    return entry.query, float(entry.scale or math.nan)


def _few(n_states: int) -> Pair:
    """Few episodes, one of which visits every state, or one state alone."""
    everywhere, single = (np.arange(n_states), np.zeros(n_states)), (np.array([0]), np.zeros(1))
    data = Episodes.of([everywhere] * 2 + [single] * 5, n_states)
    return Pair(data, data.replace(0, single), "one of few episodes replaced", unit=0)
