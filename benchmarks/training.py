"""What samples and noise of a curator cost in DP-SGD: `python benchmarks/training.py [--steps 1000]`.

The same loop twice, step by step in turns so that both meet the same load: n = 60,000 records, batches of 600
on average, 1e5 parameters, gradients of 64 records at a time. One clips by norms in floating point and draws
numpy's samples and noise; the other goes through `curator.batches`, clips and adds up exactly, draws its bits
from the operating system and writes a line of the ledger for each step. Then the ledger of 10,000 such steps
is accounted for. Times are of the processor, in seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from dpaudit import L2, ApproxDP, Claim, Curator, Gaussian, Header, Ledger, PoissonSampled, Release, account
from dpaudit.algorithms.training.models import Network
from dpaudit.mechanisms import Array

RECORDS, BATCH, TOGETHER, BOUND, SIGMA = 60_000, 600, 64, 1.0, 1.1
MODEL = Network(features=784, classes=10, hidden=125)
STEP = PoissonSampled(rate=BATCH / RECORDS, mechanism=Gaussian(sigma=SIGMA * BOUND, sensitivity=L2(BOUND)))
CLAIM = Claim(ApproxDP(epsilon=8.0, delta=1e-5), unit="record", neighbouring="add-or-remove-one")


def by_numpy(records: Array) -> Callable[[Array], Array]:
    """One step, with numpy's samples and noise."""
    rng = np.random.default_rng()

    def step(theta: Array) -> Array:
        drawn = np.flatnonzero(rng.random(len(records)) < BATCH / RECORDS)
        total = np.zeros(MODEL.size)
        for first in range(0, len(drawn), TOGETHER):
            rows = MODEL.gradients(theta, records[drawn[first : first + TOGETHER]])
            total += np.minimum(1.0, BOUND / np.linalg.norm(rows, axis=1)) @ rows
        return theta - (total + rng.normal(0.0, SIGMA * BOUND, MODEL.size)) / BATCH

    return step


def by_curator(records: Array, curator: Curator) -> Callable[[Array], Array]:
    """One step, with the curator's."""
    batches = curator.batches(STEP, "gradient", (MODEL.size,), bound=BOUND)

    def step(theta: Array) -> Array:
        drawn = batches.draw(len(records))
        for first in range(0, len(drawn), TOGETHER):
            batches.add(MODEL.gradients(theta, records[drawn[first : first + TOGETHER]]))
        return theta - batches.noisy() / BATCH

    return step


def ledger() -> Ledger:
    """One without releases."""
    return Ledger(Header(algorithm="dp-sgd", unit="record", neighbouring=CLAIM.neighbouring, claim=CLAIM))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    records = np.random.default_rng(0).random((RECORDS, MODEL.features + 1))
    records[:, -1] = np.arange(RECORDS) % MODEL.classes
    loops = {"numpy": by_numpy(records), "curator": by_curator(records, Curator(ledger()))}
    theta, taken = MODEL.initial(), dict.fromkeys(loops, 0.0)
    for number in range(steps + 1):
        for name, step in loops.items():
            begun = time.process_time()
            step(theta)
            taken[name] += (time.process_time() - begun) * (number > 0)  # the first one loads what it needs
    lines = []
    for name, seconds in taken.items():
        lines.append(f"{name:8} {seconds / steps:.3f} s a step")
    lines.append(f"ratio    {taken['curator'] / taken['numpy']:.2f}, {MODEL.size:,} parameters")
    many = ledger()
    for _ in range(10_000):
        many.append(Release(label="gradient", mechanism=STEP))
    many.finish()
    begun = time.process_time()
    found = account(many).bounds[0].guarantee
    lines.append(f"10,000 equal steps: {found} in {time.process_time() - begun:.2f} s")
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
