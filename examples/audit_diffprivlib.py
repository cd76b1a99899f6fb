"""Audit a diffprivlib model: private linear regression, fitted many times on both sides of a pair.

Usage: python examples/audit_diffprivlib.py [trials]
"""

from __future__ import annotations

import sys

import numpy as np
from diffprivlib.models import LinearRegression

from dpaudit import Claim, PureDP
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.trials import Trials, run_trials
from dpaudit.claims.pairs import Pair

EPSILON = 1.0


def regression(data: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Slope and intercept of the second column on the first one; both in [0, 1]."""
    model = LinearRegression(
        epsilon=EPSILON,
        bounds_X=(0.0, 1.0),
        bounds_y=(0.0, 1.0),
        random_state=int(generator.integers(2**31)),  # so that each trial can be repeated
    )
    model.fit(data[:, :1], data[:, 1])
    return np.append(model.coef_, model.intercept_)


MECHANISM = Plain(regression, claim=Claim(PureDP(epsilon=EPSILON), unit="row", neighbouring="replace-one"))
ROWS = np.column_stack([np.linspace(0.0, 1.0, 20), np.linspace(0.0, 1.0, 20)])
PAIR = Pair(ROWS, np.vstack([ROWS[:-1], [[1.0, 0.0]]]), "the last row's outcome reversed")


def trials(count: int) -> Trials:
    """Slopes and intercepts [count, 2] on either side."""
    return run_trials(MECHANISM, PAIR, count)


def main() -> None:
    """Print the median slope on either side."""
    given = sys.argv[1:]
    if len(given) > 1 or not all(number.isdecimal() and int(number) > 0 for number in given):
        sys.exit("usage: python examples/audit_diffprivlib.py [TRIALS]")
    scores = trials(int(given[0]) if given else 2_000)
    print(f"median slope {np.median(scores.data[:, 0]):.3f} and {np.median(scores.neighbour[:, 0]):.3f}")


if __name__ == "__main__":
    main()
