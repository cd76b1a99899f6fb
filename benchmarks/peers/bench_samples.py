"""Samples of fixed and of bounded size, replaced units, correlated noise: dpaudit beside dp-accounting.

    python benchmarks/peers/bench_samples.py [--write]        # a minute

From parameters in memory to epsilon at delta = 1e-6, the least CPU time of three repetitions after one that
imports everything; contenders take turns. dp-accounting knows samples of a fixed size by Renyi divergences of
integer orders alone, and no strategy matrices: there it is given the sensitivity, by numpy from the matrix's
columns. Exits 1 if its figure is smaller, or if dpaudit takes `SLOWEST` times longer. --write puts the
table into docs/benchmarks.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import dp_accounting
import numpy as np
import scipy.linalg
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from dpaudit import L2, Gaussian, Neighbouring, Release
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves.curves import pld_profile
from dpaudit.accountants.pairs.batches import batch_losses
from dpaudit.accountants.pairs.profiles import inner_losses
from dpaudit.mechanisms import AnyMechanism, FixedSizeSampled, PoissonSampled, TruncatedPoissonSampled
from dpaudit.mechanisms.correlated.amplified import SampledMatrix
from dpaudit.mechanisms.correlated.least_error import least_error_banded, square_root_strategy
from dpaudit.mechanisms.correlated.matrix import MatrixMechanism

DELTA, SLOWEST = 1e-6, 20.0
REPLACE, ADD = NeighboringRelation.REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE


def noise(sigma: float, moved: float) -> Gaussian:
    return Gaussian(sigma=sigma, sensitivity=L2(moved))


def ours(mechanism: AnyMechanism, count: int, relation: Neighbouring) -> float:
    inner_losses.cache_clear()
    batch_losses.cache_clear()
    release = Release(label="r", mechanism=mechanism, count=count)
    return pld_profile(compose([release], relation)).epsilon(DELTA)


def theirs(
    make: Callable[..., dp_accounting.PrivacyAccountant], event: dp_event.DpEvent, count: int
) -> Callable[[], float]:
    return lambda: float(make().compose(event, count).get_epsilon(DELTA))


def fixed(size: int, units: int, sigma: float, count: int) -> tuple[Callable[[], float], Callable[[], float]]:
    mechanism = FixedSizeSampled(size=size, units=units, mechanism=noise(sigma, 1.0))
    event = dp_event.SampledWithoutReplacementDpEvent(units, size, dp_event.GaussianDpEvent(sigma))
    return (
        lambda: ours(mechanism, count, Neighbouring.REPLACE_ONE),
        theirs(lambda: RdpAccountant(neighboring_relation=REPLACE), event, count),
    )


def replaced(rate: float, sigma: float, count: int) -> tuple[Callable[[], float], Callable[[], float]]:
    mechanism = PoissonSampled(rate=rate, mechanism=noise(sigma, 2.0), contribution=1.0)
    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma))
    return (
        lambda: ours(mechanism, count, Neighbouring.REPLACE_ONE),
        theirs(lambda: PLDAccountant(REPLACE), event, count),
    )


def truncated(
    units: int, rate: float, most: int, count: int, relation: NeighboringRelation
) -> tuple[Callable[[], float], Callable[[], float]]:
    mechanism = TruncatedPoissonSampled(
        rate=rate, most=most, units=units, mechanism=noise(1.0, 2.0), contribution=1.0
    )
    own = Neighbouring.REPLACE_ONE if relation is REPLACE else Neighbouring.ADD_OR_REMOVE_ONE
    event = dp_event.TruncatedSubsampledGaussianDpEvent(units, rate, most, 1.0)
    return lambda: ours(mechanism, count, own), theirs(lambda: PLDAccountant(relation), event, count)


def banded(steps: int, bands: int, sigma: float, rate: float) -> tuple[Callable[[], float], ...]:
    """A strategy of rows, as many bands as steps between two turns of a unit, each turn sampled."""
    strategy = least_error_banded(steps, bands)
    columns = np.zeros((steps, steps))
    for place, row in enumerate(strategy.rows):
        columns[place, place + 1 - len(row) : place + 1] = row
    inner = MatrixMechanism(
        strategy=strategy, steps=steps, sigma=sigma, sensitivity=L2(1.0), separation=bands
    )
    mechanism = SampledMatrix(rate=rate, mechanism=inner)

    def other() -> float:
        event = dp_event.GaussianDpEvent(sigma / float(np.linalg.norm(columns, axis=0).max()))
        return theirs(PLDAccountant, dp_event.PoissonSampledDpEvent(rate, event), -(-steps // bands))()

    return lambda: ours(mechanism, 1, Neighbouring.ADD_OR_REMOVE_ONE), other


def toeplitz(steps: int, times: int, sigma: float) -> tuple[Callable[[], float], ...]:
    """The square root of all prefix sums, each unit in `times` steps as far apart as there are bands."""
    separation = steps // times
    strategy = square_root_strategy(steps)
    mechanism = MatrixMechanism(
        strategy=strategy,
        steps=steps,
        sigma=sigma,
        sensitivity=L2(1.0),
        participations=times,
        separation=separation,
    )

    def other() -> float:
        first = np.array(strategy.coefficients)
        columns = scipy.linalg.toeplitz(first, np.zeros(steps))[:, ::separation][:, :times]
        return theirs(
            PLDAccountant, dp_event.GaussianDpEvent(sigma / float(np.linalg.norm(columns.sum(1)))), 1
        )()

    return lambda: ours(mechanism, 1, Neighbouring.ADD_OR_REMOVE_ONE), other


WORKLOADS = {
    "10 of 1000, sigma 1, 1000 runs": fixed(10, 1000, 1.0, 1000),
    "100 of 1000, sigma 3, 10000 runs": fixed(100, 1000, 3.0, 10_000),
    "replaced, rate 0.01, sigma 1, 1000 runs": replaced(0.01, 1.0, 1000),
    "replaced, rate 0.01, sigma 1, 10000 runs": replaced(0.01, 1.0, 10_000),
    "rate 0.05 of 1000, at most 60, replaced, 1000 runs": truncated(1000, 0.05, 60, 1000, REPLACE),
    "rate 0.05 of 1000, at most 80, removed, 1000 runs": truncated(1000, 0.05, 80, 1000, ADD),
    "2000 steps, 8 bands, sigma 1, rate 0.01 in turns": banded(2000, 8, 1.0, 0.01),
    "1000 steps, dense Toeplitz, sigma 20, 10 times": toeplitz(1000, 10, 20.0),
}
HEADING = "## Samples, replaced units and correlated noise"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
ABOUT = """\
Epsilon at delta = 1e-6 and seconds of CPU, dpaudit and dp-accounting taking turns; made by
`python benchmarks/peers/bench_samples.py --write`, which fails where dp-accounting's figure is the smaller
one. dp-accounting has Renyi divergences of integer orders for samples of a fixed size, and is given the
sensitivity of a strategy matrix, which it does not compute.

| workload | dpaudit | seconds | dp-accounting | seconds |
|---|---|---|---|---|
"""


def measured(answer: Callable[[], float]) -> tuple[float, float]:
    start = time.process_time()
    found = answer()
    return time.process_time() - start, found


def main() -> int:
    failed, rows = False, []
    for name, contenders in WORKLOADS.items():
        for answer in contenders:
            answer()
        rounds = [[measured(answer) for answer in contenders] for _ in range(3)]
        (own, found), (other, known) = (min(each) for each in zip(*rounds, strict=True))
        rows.append(f"| {name} | {found:.6f} | {own:.2f} | {known:.6f} | {other:.2f} |\n")
        sys.stdout.write(rows[-1])
        failed |= found > known * (1.0 + 1e-4) or own > SLOWEST * other
    if "--write" in sys.argv[1:]:
        page = PAGE.read_text(encoding="utf-8")
        next_one = page.index("\n## Everyday speed\n")
        before = page[:next_one].partition(f"\n{HEADING}\n")[0]
        PAGE.write_text(f"{before}\n{HEADING}\n\n{ABOUT}{''.join(rows)}{page[next_one:]}", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
