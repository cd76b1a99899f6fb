"""Units that are zeroed in a sample of bounded size, beside the truth of small data sets.

A zeroed unit keeps its place in the sample. Where rows lie between 1 and 2, any two are at most 1 apart, and
a zero is 2 away: the sensitivity that bounds a replaced unit does not bound that, the contribution does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dpaudit
from dpaudit import (
    L1,
    L2,
    DiscreteLaplace,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    TruncatedPoissonSampled,
)
from dpaudit.claims.guarantees import leading_figure
from dpaudit.claims.relations import Neighbouring
from dpaudit.mechanisms import AnyMechanism
from tests.mechanisms import worst_pairs as exactly
from tests.seams.case import Case

_KIND = "a zero in a place of a sample"
_DELTA = 1e-3


def _beside(
    mechanism: AnyMechanism,
    draw: Callable[[Sequence[float]], exactly.Law],
    others: Sequence[float],
    own: float,
    noise: exactly.Noise | None,
) -> Callable[[], str]:
    """The bound beside the truth of a unit of its own row that is zeroed among others."""

    def verdict() -> str:
        first, second = draw([*others, own]), draw([*others, 0.0])
        if noise is None:
            pair = exactly.on_integers(first, second, lambda k: -abs(k), 60)
        else:
            pair = exactly.shifted(first, second, noise, 20.0)
        truth = pair.epsilon(_DELTA)
        bound = dpaudit.epsilon(mechanism, _DELTA, neighbouring=Neighbouring.ZERO_OUT).guarantee
        found = leading_figure(bound)
        place = "below" if found < truth * (1 - 1e-4) else "not below"
        return f"{place} the truth: at most {found:.4f}, truth {truth:.4f}"

    return verdict


def _one_of_three(x: Sequence[float]) -> exactly.Law:
    return exactly.of_one_size(x, 1)


def _cut_to_one(x: Sequence[float]) -> exactly.Law:
    return exactly.cut(x, 0.9, 1)


def _rows(moved: float, own: float) -> list[tuple[str, AnyMechanism, exactly.Noise | None]]:
    normal = Gaussian(sigma=0.5, sensitivity=L2(moved))
    double = Laplace(scale=0.5, sensitivity=L1(moved))
    whole = DiscreteLaplace(scale=1.0, sensitivity=L1(moved))
    fixed = [
        (
            f"{name} on one of three units",
            FixedSizeSampled(mechanism=inner, size=1, units=3, contribution=own),
            noise,
        )
        for name, inner, noise in (
            ("Gaussian noise", normal, exactly.gaussian(0.5)),
            ("Laplace noise", double, exactly.laplace(0.5)),
            ("integer noise", whole, None),
        )
    ]
    cut = [
        (
            f"{name} on a sample that is cut to one",
            TruncatedPoissonSampled(mechanism=inner, rate=0.9, most=1, units=3, contribution=own),
            noise,
        )
        for name, inner, noise in (
            ("Gaussian noise", normal, exactly.gaussian(0.5)),
            ("Laplace noise", double, exactly.laplace(0.5)),
        )
    ]
    return [*fixed, *cut]


CASES = [
    Case(
        _KIND,
        f"{name}, rows {where}",
        planted,
        _beside(mechanism, _cut_to_one if "cut" in name else _one_of_three, others, own, noise),
        r"not below the truth: .*",
    )
    for where, planted, moved, own, others in (
        ("between 1 and 2", True, 1.0, 2.0, (1.0, 1.0)),
        ("of norm 1", False, 2.0, 1.0, (-1.0, -1.0)),
    )
    for name, mechanism, noise in _rows(moved, own)
]
