"""How long one run takes over its releases, and how much memory, to a file and without one.

The bars: 30 microseconds a scalar release beside its noise, ledger line included; 100,000 releases to a file
in under 5 s, with no more memory than 10 need.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dpaudit import L2, Curator, Gaussian, run

#: Of the processor: the bars hold on a busy machine too.
pytestmark = pytest.mark.benchmark(timer=time.process_time)

NOISE = Gaussian(sigma=1.0, sensitivity=L2(1.0))


def _releasing(number: int) -> Any:
    def algorithm(data: Any, curator: Curator) -> None:
        for i in range(number):
            curator.release(data, NOISE, label=f"step {i}")

    return algorithm


@pytest.mark.parametrize("number", [10, 100, 1_000, 10_000, 100_000])
@pytest.mark.parametrize("to_file", [True, False])
def test_releases(benchmark: BenchmarkFixture, tmp_path: Path, number: int, to_file: bool) -> None:  # noqa: FBT001
    path = tmp_path / "ledger.jsonl" if to_file else None
    options = {"seed": 0, "path": path}
    benchmark.pedantic(run, args=(_releasing(number), 1.0), kwargs=options, rounds=3)
    benchmark.extra_info["microseconds a release"] = 1e6 * benchmark.stats.stats.min / number
    tracemalloc.start()
    run(_releasing(number), 1.0, seed=0, path=path)
    benchmark.extra_info["KiB at the peak"] = tracemalloc.get_traced_memory()[1] / 1024
    tracemalloc.stop()
    assert benchmark.stats.stats.min < 5.0
    assert number < 10_000 or benchmark.stats.stats.min / number < 30e-6
    assert not to_file or benchmark.extra_info["KiB at the peak"] < 100
