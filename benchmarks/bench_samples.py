"""Samples of fixed and of bounded size, and replaced units: dpaudit beside dp-accounting, in one run.

    python benchmarks/bench_samples.py        # a minute

From parameters in memory to epsilon at delta = 1e-6, the least CPU time of three repetitions after one that
imports everything; contenders take turns. dp-accounting knows samples of a fixed size by Renyi divergences of
integer orders alone. Exits 1 if its figure is smaller, or if dpaudit takes `SLOWEST` times longer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import dp_accounting
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from dpaudit import L2, Gaussian, Neighbouring, Release
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves.curves import pld_profile
from dpaudit.accountants.pairs.batches import batch_losses
from dpaudit.accountants.pairs.profiles import inner_losses
from dpaudit.mechanisms import AnyMechanism, FixedSizeSampled, PoissonSampled, TruncatedPoissonSampled

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


WORKLOADS = {
    "10 of 1000, sigma 1, 1000 runs": fixed(10, 1000, 1.0, 1000),
    "100 of 1000, sigma 3, 10000 runs": fixed(100, 1000, 3.0, 10_000),
    "replaced, rate 0.01, sigma 1, 1000 runs": replaced(0.01, 1.0, 1000),
    "replaced, rate 0.01, sigma 1, 10000 runs": replaced(0.01, 1.0, 10_000),
    "rate 0.05 of 1000, at most 60, replaced, 1000 runs": truncated(1000, 0.05, 60, 1000, REPLACE),
    "rate 0.05 of 1000, at most 80, removed, 1000 runs": truncated(1000, 0.05, 80, 1000, ADD),
}


def measured(answer: Callable[[], float]) -> tuple[float, float]:
    start = time.process_time()
    found = answer()
    return time.process_time() - start, found


def main() -> int:
    failed = False
    sys.stdout.write(f"{'':52}{'dpaudit':>20}{'dp-accounting':>20}\n")
    for name, contenders in WORKLOADS.items():
        for answer in contenders:
            answer()
        rounds = [[measured(answer) for answer in contenders] for _ in range(3)]
        (own, found), (other, known) = (min(each) for each in zip(*rounds, strict=True))
        sys.stdout.write(f"{name:52}{found:12.6f}{own:6.2f} s{known:12.6f}{other:6.2f} s\n")
        failed |= found > known * (1.0 + 1e-4) or own > SLOWEST * other
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
