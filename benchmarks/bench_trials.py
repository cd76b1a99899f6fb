"""How long trials take: overhead a trial, batched and not, and a whole audit of a million runs a side.

The bars: a million runs a side of a mechanism that has a batch form in under 20 s on each of two cores; less
than 50 microseconds a trial batched, less than 2 ms unbatched. In seconds of the processor, those of finished
workers too, so that they hold on a busy machine.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dpaudit import L1, Claim, Curator, Laplace, Pair, PureDP
from dpaudit.auditors.sampling.sampling import SamplingPlan, audit_by_sampling
from dpaudit.auditors.sampling.trial import Side

MILLION = 1_000_000


def spent() -> float:
    """Seconds of CPU so far, in this process and its finished workers."""
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + workers.ru_utime + workers.ru_stime


pytestmark = pytest.mark.benchmark(timer=spent)
PAIR = Pair(np.array([0.0, 0.0]), np.array([0.0, 1.0]))
NOISE = Laplace(scale=1.0, sensitivity=L1(1.0))


class Count:
    def __call__(self, data: Any, curator: Curator) -> Any:
        return curator.release(data.sum(), NOISE, label="count")

    def batch(self, data: Any, curator: Curator, trials: int) -> Any:
        return curator.release(np.full(trials, data.sum()), NOISE, label="count", count=trials)


@pytest.mark.parametrize("batched", [True, False])
def test_overhead(benchmark: BenchmarkFixture, batched: bool) -> None:  # noqa: FBT001
    trials = 10_000 if batched else 500
    side = Side(Count(), PAIR.data, 0, 0, batched=batched)
    benchmark.pedantic(side.chunk, args=(0, trials), rounds=5)
    benchmark.extra_info["microseconds a trial"] = 1e6 * benchmark.stats.stats.median / trials
    assert benchmark.stats.stats.median / trials < (50e-6 if batched else 2e-3)


@pytest.mark.parametrize("method", ["threshold", "sequential"])
def test_audit_of_a_million(benchmark: BenchmarkFixture, method: Any) -> None:
    found = benchmark.pedantic(
        audit_by_sampling,
        args=(Count(), [PAIR], SamplingPlan(MILLION, workers=2)),
        kwargs={"method": method, "claim": Claim(PureDP(epsilon=1.0))},
        rounds=1,
    )
    assert found.trials == MILLION
    assert benchmark.stats.stats.median < 2 * 20.0
