"""Audits of true claims, one entry for each method; docs/programs/make_validity.py counts how often they err.

Each claim is as tight as can be: it is what the mechanism has on the pair that is audited, so that an audit
errs if it refutes the claim or its bound lies above the claimed figure. Of discrete outputs and exact tests
the level is used up nearly; a method that errs more often than it states is seen there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit import Curator
from dpaudit.accountants.closed_forms.gaussian import gaussian_delta
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.sampling.one_run import one_run
from dpaudit.auditors.statistics.gdp import gaussian_trade_off
from dpaudit.auditors.statistics.learning.classifier import Learner
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import SequentialFeed, begin, sequential
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import GDP, ApproxDP, PureDP
from dpaudit.claims.pairs import Pair
from dpaudit.mechanisms import Array
from tests import make


@dataclass(frozen=True)
class Null:
    """A method on a mechanism and a claim that is true of it.

    `audit` makes the audit from a seed and the part of the mechanism's noise that is left, 1 for all of it.
    """

    method: str
    mechanism: str
    audit: Callable[[int, float], Audit]

    def errs(self, seed: int, noise: float = 1.0) -> bool:
        """Whether the audit says of the claim, or of its figure, what is false if there is all noise."""
        found = self.audit(seed, noise)
        figures = (found.epsilon_lower, found.epsilon_claimed), (found.mu_lower, _mu(found))
        known = [(low, claimed) for low, claimed in figures if low is not None and claimed is not None]
        above = any(low > claimed * (1 + 1e-9) for low, claimed in known)
        return above or found.verdict is Experiment.REFUTED


def _mu(found: Audit) -> float | None:
    return found.claim.guarantee.mu if found.claim and isinstance(found.claim.guarantee, GDP) else None


ONE = Claim(PureDP(epsilon=1.0))
MU_ONE = Claim(GDP(mu=1.0))
#: What the Gaussian mechanism of mu = 1 has at delta = 1e-5, rounded up.
AT_MU_ONE = Claim(ApproxDP(epsilon=4.3772, delta=1e-5))
RUNS, PAIRS, LEARNED_RUNS, CANARIES = 60, 80, 100, 200


def _random(seed: int) -> np.random.Generator:
    return np.random.default_rng([71, seed])


def _answers(seed: int, noise: float, runs: int = RUNS) -> Samples:
    """Randomized response of one bit at epsilon = 1 / noise."""
    true = _random(seed).random((2, runs)) < 1 / (1 + math.exp(-1 / noise))
    return Samples(true[0].astype(float), (~true[1]).astype(float), seed)


def _sums(seed: int, noise: float, runs: int = RUNS) -> Samples:
    """The Gaussian mechanism at mu = 1 / noise."""
    drawn = _random(seed).normal(scale=noise, size=(2, runs))
    return Samples(drawn[0] + 1, drawn[1], seed)


def _vectors(seed: int, noise: float, runs: int = LEARNED_RUNS, *, normal: bool = False) -> Samples:
    """Three numbers, of which the second moves by one: noise Laplace(1) or normal."""
    random = _random(seed)
    drawn: Array = (random.normal if normal else random.laplace)(scale=noise, size=(2, runs, 3))
    drawn[0, :, 1] += 1
    return Samples(drawn[0], drawn[1], seed)


def _learned(learner: Learner) -> Callable[[int, float], Audit]:
    return lambda seed, noise: threshold(_vectors(seed, noise), claim=ONE, learner=learner)


def _sequential_learned(seed: int, noise: float) -> Audit:
    return SequentialFeed(begin(claim=ONE, seed=seed), "logistic").of_all(_vectors(seed, noise, 2 * PAIRS))


def _looked_at(seed: int, noise: float) -> Audit:
    """Looked at after every 25 pairs of runs, and ended where the claim is refuted."""
    state, drawn = begin(claim=ONE, seed=seed), _answers(seed, noise, PAIRS)
    for at in range(0, PAIRS, 25):
        state = state.update(drawn.data[at : at + 25], drawn.neighbour[at : at + 25])
        if state.audit().verdict is Experiment.REFUTED:
            break
    return state.audit()


def _guessed(seed: int, noise: float) -> Audit:
    """Canaries whose coins are told by randomized response."""
    random = _random(seed)
    coins = random.random(CANARIES) < 0.5
    told = coins ^ (random.random(CANARIES) >= 1 / (1 + math.exp(-1 / noise)))
    scores = told + 0.1 * random.random(CANARIES)
    return one_run(scores, coins, guesses=120, claim=ONE, seed=seed)


def _guessed_mu(seed: int, noise: float) -> Audit:
    """Canaries that show in Gaussian scores, with as many guesses as are chosen for the claim."""
    random = _random(seed)
    coins = random.random(CANARIES) < 0.5
    scores = coins + noise * random.normal(size=CANARIES)
    return one_run(scores, coins, claim=MU_ONE, curve=lambda e: gaussian_delta(e, 1.0), seed=seed)


def _replayed(release: Callable[[Any, Curator, float], Any], claim: Claim) -> Callable[[int, float], Audit]:
    pair = Pair(np.ones(1), np.zeros(1))

    def audited(seed: int, noise: float) -> Audit:
        def algorithm(data: Any, curator: Curator) -> Any:
            return release(data, curator, noise)

        # Extreme outputs are left out: they are the same in every audit.
        how: dict[str, Any] = {"replays": 5, "extreme_outputs": False, "in_process": True}
        return replay(algorithm, [pair], claim=claim, seed=seed, **how)

    return audited


def _gaussian(data: Any, curator: Curator, noise: float) -> Any:
    return curator.release(data[0], make.gaussian(noise), label="x")


def _laplace(data: Any, curator: Curator, noise: float) -> Any:
    return [curator.release(data[0], make.laplace(2 * noise), label=x) for x in "ab"]


#: Every method that audits; a new one is entered here.
NULLS = (
    Null("threshold", "randomized response", lambda s, c: threshold(_answers(s, c), claim=ONE)),
    Null("threshold, score learned (logistic)", "Laplace, one of three numbers", _learned("logistic")),
    Null("threshold, score learned (boosting)", "Laplace, one of three numbers", _learned("boosting")),
    Null("sequential", "randomized response", lambda s, c: sequential(_answers(s, c, PAIRS), claim=ONE)),
    Null("sequential, ended at a refutation", "randomized response", _looked_at),
    Null("sequential, score learned", "Laplace, one of three numbers", _sequential_learned),
    Null("gdp", "Gaussian", lambda s, c: gaussian_trade_off(_sums(s, c), claim=MU_ONE)),
    Null(
        "gdp, score learned",
        "Gaussian, one of three numbers",
        lambda s, c: gaussian_trade_off(_vectors(s, c, normal=True), claim=MU_ONE),
    ),
    Null("one-run", "randomized response of 200 canaries", _guessed),
    Null("one-run, a bound on mu", "Gaussian, 200 canaries", _guessed_mu),
    Null("replay", "Gaussian", _replayed(_gaussian, AT_MU_ONE)),
    Null("replay", "Laplace, two releases", _replayed(_laplace, ONE)),
)
