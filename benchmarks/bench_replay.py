"""What replay costs beside the algorithm: for every run, for every release, and to watch its randomness.

The bars: 1 ms a run and 50 microseconds a release, in the process that judges; what a process of its own
adds to a run, `everyday.py` prints.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dpaudit import Curator, Pair, run
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.replay.rng_tripwire import Watch

#: Of the processor: the bars hold on a busy machine too.
pytestmark = pytest.mark.benchmark(timer=time.process_time)

sys.path.insert(0, str(Path(__file__).parent))
everyday: Any = importlib.import_module("everyday")

PAIR = Pair(np.array(0.0), np.array(1.0))


@pytest.mark.parametrize("releases", [1, 10, 100])
def test_overhead(benchmark: BenchmarkFixture, tmp_path: Path, releases: int) -> None:
    algorithm = everyday.Scalars(releases, tmp_path / "runs")
    benchmark.pedantic(replay, args=(algorithm, [PAIR]), kwargs={"in_process": True}, rounds=3)
    seconds = benchmark.stats.stats.min * 3 / algorithm.runs.stat().st_size
    benchmark.extra_info["microseconds a run"] = 1e6 * seconds
    assert seconds < 1e-3 + 50e-6 * releases


def calling(data: Any, curator: Curator) -> int:
    """An algorithm that makes a million calls."""
    del data, curator
    return sum(map(lambda i: -i, range(1_000_000)))  # noqa: C417  (calls are what it is for)


@pytest.mark.parametrize("algorithm", [calling, Watch(calling)], ids=["plain", "watched"])
def test_watching_costs_the_same_whatever_is_called(benchmark: BenchmarkFixture, algorithm: Any) -> None:
    benchmark.pedantic(run, args=(algorithm, None), rounds=5)
