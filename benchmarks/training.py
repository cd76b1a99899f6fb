"""What samples and noise of a curator cost in DP-SGD: `python benchmarks/training.py [--steps N] [--write]`.

The same loop twice, step by step in turns so that both meet the same load: n = 60,000 records, batches of 600
on average, 1e5 parameters, gradients of 64 records at a time. One clips by norms in floating point and draws
numpy's samples and noise; the other goes through `curator.batches`, clips and adds up exactly, draws its bits
from the operating system and writes a line of the ledger for each step. Then the ledger of 10,000 such steps
is accounted for. Times are of the processor, in seconds. It exits with 1 where the curator's loop takes more
than `MOST` times as long, or the account more than `LONGEST` seconds; --write puts the figures into
docs/walkthroughs/training.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dpaudit import L2, ApproxDP, Claim, Curator, Gaussian, Header, Ledger, PoissonSampled, Release, account
from dpaudit.algorithms.training.models import Network
from dpaudit.mechanisms import Array

MOST, LONGEST = 1.3, 2.0
PAGE = Path(__file__).parents[1] / "docs" / "walkthroughs" / "training.md"
BEGIN, END = "<!-- written by benchmarks/training.py --write -->\n", "<!-- end -->"
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
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    steps = options.steps
    records = np.random.default_rng(0).random((RECORDS, MODEL.features + 1))
    records[:, -1] = np.arange(RECORDS) % MODEL.classes
    loops = {"numpy": by_numpy(records), "curator": by_curator(records, Curator(ledger()))}
    theta, taken = MODEL.initial(), dict.fromkeys(loops, 0.0)
    for number in range(steps + 1):
        for name, step in loops.items():
            begun = time.process_time()
            step(theta)
            taken[name] += (time.process_time() - begun) * (number > 0)  # the first one loads what it needs
    ratio = taken["curator"] / taken["numpy"]
    lines = [f"{steps:,} steps, {MODEL.size:,} parameters"]
    lines += [f"  {name:8} {seconds / steps:.3f} s a step" for name, seconds in taken.items()]
    lines.append(f"  ratio    {ratio:.2f}")
    many = ledger()
    for _ in range(10_000):
        many.append(Release(label="gradient", mechanism=STEP))
    many.finish()
    begun = time.process_time()
    found = account(many).bounds[0].guarantee
    accounted = time.process_time() - begun
    lines.append(f"10,000 equal steps: {found} in {accounted:.2f} s")
    printed = "\n".join([*lines, ""])
    sys.stdout.write(printed)
    if options.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        _, after = rest.split(END, 1)
        block = f"\n```text\n{printed}```\n\n"
        PAGE.write_text(f"{before}{BEGIN}{block}{END}{after}", encoding="utf-8")
    sys.exit(ratio > MOST or accounted > LONGEST)


if __name__ == "__main__":
    main()
