"""The mean and the variance of each group's values, from noisy sums alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.noise.grid import OnGrid
from dpaudit.tables.arguments import value_range
from dpaudit.tables.bounded import Answer, Bounded, by_group, cell_sums, exact_sums, release_noise
from dpaudit.tables.noise import share
from dpaudit.tables.plan import Measure, square, value


def moments(
    of: Bounded, column: str, lower: float, upper: float, cost: AnyGuarantee, label: str, degree: int
) -> Answer:
    """The mean or the variance, from noisy sums alone."""
    lower, upper = value_range(of.frame, column, lower, upper, "mean" if degree == 1 else "variance")
    part = share(cost, degree + 1, f"release {label!r}")
    measures = [Measure("known", column), value(column, lower, upper)]
    middle = sum(measures[1].steps) // 2
    center = float(middle * Fraction(2) ** measures[1].exponent)
    if degree == 2:
        measures.append(square(column, lower, upper, center))
    names = ("number of values", "sum", "sum of squares")
    # Counted from the middle of what one row adds, a row adds at most half the range.
    shifts = [0, *(sum(measure.steps) // 2 for measure in measures[1:])]
    parts = list(zip(measures, names, shifts, strict=False))
    noises = [release_noise(of, measure, label, part, shift) for measure, _, shift in parts]
    sums = exact_sums(of, tuple(measures))
    noisy = []
    for i, ((measure, name, shift), noise) in enumerate(zip(parts, noises, strict=True)):
        rows = [cell_sums(sums, group) for group in of.groups]
        whole = np.array([each[i] - shift * each[0] if i else each[0] for each in rows], np.int64)
        exact = OnGrid(whole, measure.exponent)
        noisy.append(of.curator.release(exact, noise, label=f"{label}: {name}", claimed=part))
    number = np.maximum(noisy[0], 1.0)
    means = [
        sums_of / number + float(shift * Fraction(2) ** measure.exponent)
        for (measure, _, shift), sums_of in zip(parts[1:], noisy[1:], strict=True)
    ]
    mean = np.clip(means[0], lower, upper)
    if degree == 1:
        return by_group(of, [float(each) for each in mean])
    spread = np.clip(means[1] - (mean - center) ** 2, 0.0, ((upper - lower) / 2) ** 2)
    return by_group(of, [float(each) for each in spread])
