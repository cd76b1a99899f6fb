"""Poisson samples are claimed, and batches are shuffled: the sums show it; those of Poisson samples do not.

Chua et al. (2024), How Private are DP-SGD Implementations?: where the other records' gradients all point the
other way, the batch that the record is in stands out, and no sum hides whether it is in any.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import L2, ApproxDP, Claim, Gaussian, Pair, PoissonSampled
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.certificate.verdicts import Experiment
from dpaudit.claims.relations import Neighbouring

RECORDS, SIGMA, DELTA = 1000, 0.6, 1e-5
STEP = PoissonSampled(rate=1 / RECORDS, mechanism=Gaussian(sigma=SIGMA, sensitivity=L2(1.0)))

Loop = Callable[[Any, np.random.Generator], Any]


def shuffled(gradients: Any, random: np.random.Generator) -> Any:
    """The mistake: one epoch over batches of a shuffled order, each of one record."""
    return gradients[random.permutation(RECORDS)] + random.normal(0.0, SIGMA, RECORDS)


def sampled(gradients: Any, random: np.random.Generator) -> Any:
    """As claimed: every record is in every one of as many batches with the same small probability."""
    number = random.binomial(RECORDS * RECORDS, 1 / RECORDS)
    step, record = np.divmod(random.choice(RECORDS * RECORDS, number, replace=False), RECORDS)
    sums = np.bincount(step, weights=gradients[record], minlength=RECORDS)
    return sums + random.normal(0.0, SIGMA, RECORDS)


@pytest.mark.parametrize(("loop", "refuted"), [(shuffled, True), (sampled, False)])
def test_shuffled_batches_are_refuted_where_poisson_samples_are_claimed(
    loop: Loop, refuted: bool, nightly: bool
) -> None:
    """Fixed seeds; the innocent twin is refuted with a probability of at most 1e-6."""
    cost = dpaudit.epsilon(STEP, DELTA, count=RECORDS, neighbouring=Neighbouring.ZERO_OUT).guarantee
    claim = Claim(ApproxDP(epsilon=cost.epsilon, delta=DELTA), unit="record", neighbouring="zero-out")
    data = np.full(RECORDS, -1.0)
    data[0] = 1.0
    blank = data.copy()
    blank[0] = 0.0
    found = dpaudit.audit(
        Plain(loop, claim=claim),
        Pair(data, blank, "one record blanked"),
        method="threshold",
        score=np.max,
        trials=6000 if nightly else 2200,
        confidence=1 - 1e-6,
        seed=1,
        in_process=True,
    )
    assert (found.verdict is Experiment.REFUTED) == refuted
    assert found.epsilon_lower is not None
    assert (found.epsilon_lower > cost.epsilon) == refuted
