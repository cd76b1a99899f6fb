"""Audit an OpenDP measurement by sampling, and compare it with the epsilon that OpenDP states.

Usage: python examples/audit_opendp.py [trials]
"""

from __future__ import annotations

import sys

import numpy as np
import opendp.prelude as dp

from dpaudit import Claim, PureDP
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.trials import Trials, run_trials
from dpaudit.claims.pairs import Pair

dp.enable_features("contrib")

COUNT = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=1.0)
EPSILON = COUNT.map(d_in=1)  # what OpenDP proves for a count that one record moves by 1


def noisy_count(data: np.ndarray, generator: np.random.Generator) -> int:
    """The number of ones; OpenDP draws its noise from the operating system, so no trial can be repeated."""
    del generator
    return int(COUNT(int(data.sum())))


MECHANISM = Plain(
    noisy_count,
    claim=Claim(PureDP(epsilon=EPSILON), unit="row", neighbouring="replace-one"),
    fingerprint="opendp make_laplace, scale 1",
)
PAIR = Pair(np.array([1, 0, 0]), np.array([1, 0, 1]), "a zero replaced by a one")


def trials(count: int) -> Trials:
    """The noisy counts on either side."""
    return run_trials(MECHANISM, PAIR, count)


def main() -> None:
    """Print how often each side's count is at most 1: the ratio is exp(epsilon) at most."""
    given = sys.argv[1:]
    if len(given) > 1 or not all(number.isdecimal() and int(number) > 0 for number in given):
        sys.exit("usage: python examples/audit_opendp.py [TRIALS]")
    scores = trials(int(given[0]) if given else 20_000)
    data, neighbour = ((side <= 1).mean() for side in (scores.data, scores.neighbour))
    ratio = np.log(data / neighbour)
    print(f"claimed {EPSILON:.3f}; at most 1: {data:.4f} and {neighbour:.4f}, ln ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
