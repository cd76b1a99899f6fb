"""Quantiles of a group's values, one or several, as one choice among public candidates.

Quantiles q_1 < ... < q_m divide n values into m + 1 parts of p_j n values each, p_j the difference of two
quantiles in a row. A choice is a candidate for each quantile, none below the one before, and its score is
minus the sum of |n_j - p_j n|, where n_j values lie between two candidates in a row (Gillenwater, Joseph and
Kulesza 2021, Section 3). Values that equal a candidate count on either side of it, and on both, as is best
for the score, so that many equal values do no harm.

One more value changes the score by at most 2 (1 - min p_j), and a replaced one by at most 2, as there: the
best division of the smaller table becomes one of the larger table when the value is put into some part k,
which changes n_k by 1 and each p_j n by p_j; and a division of the larger one becomes one of the smaller
table when it is taken out again.
"""

import itertools
import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.claims.arguments import require_kind
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import InvalidParameter
from dpaudit.ledger.releases import Partition
from dpaudit.mechanisms import Array, Exponential
from dpaudit.tables.bounded import (
    Answer,
    Bounded,
    by_group,
    cell_sums,
    exact_sums,
    query_words,
    unit_groups,
    unit_reach,
)
from dpaudit.tables.noise import choice_epsilon, share
from dpaudit.tables.plan import Bins, Measure

#: How many choices are compared at most; scores of more would take more than a second.
MOST_CHOICES: Final = 2**20
#: The largest common denominator of quantiles: 2^32 rows in such parts are doubles without rounding.
_MOST_PARTS: Final = 2**16


@dataclass(frozen=True)
class Quantiles:
    """Increasing quantiles `places`/`parts` in whole numbers, and the number of candidates."""

    places: tuple[int, ...]
    parts: int
    candidates: int

    @classmethod
    def of(cls, given: Sequence[float], candidates: int) -> Self:
        """Return the quantiles that a caller gave.

        Raises:
            InvalidParameter: none, not between 0 and 1, not increasing, or too many choices.
        """
        for q in given:
            require_kind(q, numbers.Real, "quantile(q=)")
            if not 0.0 < q < 1.0:
                remedy = "give a number between 0 and 1, or a list of such numbers"
                raise InvalidParameter(f"q = {q!r}", where="quantile(q=)", remedy=remedy)
        found: list[Fraction] = [Fraction(str(float(q))).limit_denominator(10_000) for q in given]
        if not found or any(a >= b for a, b in itertools.pairwise([Fraction(0), *found, Fraction(1)])):
            what, remedy = f"q = {given!r}", "give increasing numbers of four decimals"
            why = "quantiles divide the values into parts"
            raise InvalidParameter(what, where="quantile(q=)", why=why, remedy=remedy)
        parts = math.lcm(*(q.denominator for q in found))
        if parts > _MOST_PARTS:
            what, remedy = f"q = {given!r}", "give numbers of four decimals"
            why = f"their common denominator is {parts}"
            raise InvalidParameter(what, where="quantile(q=)", why=why, remedy=remedy)
        require_kind(candidates, numbers.Integral, "quantile(candidates=)")
        if not 2 <= candidates <= 1000:
            what, remedy = f"{candidates!r} candidates", "give 2 to 1000"
            raise InvalidParameter(what, where="quantile(candidates=)", remedy=remedy)
        made = cls(tuple(int(q * parts) for q in found), parts, int(candidates))
        made._require_few_choices()
        return made

    def _require_few_choices(self) -> None:
        m = len(self.places)

        def choices(candidates: int) -> int:
            return math.comb(candidates + m - 1, m)

        if choices(self.candidates) > MOST_CHOICES:
            most = max((c for c in range(2, self.candidates) if choices(c) <= MOST_CHOICES), default=0)
            what = f"{m} quantiles among {self.candidates} candidates: {choices(self.candidates):,} choices"
            why, fewer = f"at most {MOST_CHOICES:,} are compared", "ask for fewer quantiles at once"
            remedy = f"give {most} candidates at most, or {fewer}" if most else fewer
            raise InvalidParameter(what, where="quantile(candidates=)", why=why, remedy=remedy)

    def score_sensitivity(self, rows: int, relation: Neighbouring) -> float:
        """Return the largest change of a score by `rows` rows of a unit, in 1/`parts`."""
        if relation is Neighbouring.REPLACE_ONE:
            return float(2 * self.parts * rows)
        gaps = [b - a for a, b in itertools.pairwise((0, *self.places, self.parts))]
        return float(2 * (self.parts - min(gaps)) * rows)

    def choices(self) -> NDArray[np.int64]:
        """The candidates of each choice: [choices, quantiles]."""
        every = itertools.combinations_with_replacement(range(self.candidates), len(self.places))
        flat = np.fromiter(itertools.chain.from_iterable(every), np.int64)
        return flat.reshape(-1, len(self.places))

    def scores(self, choices: NDArray[Any], below: Array, up_to: Array, total: int) -> Array:
        """Return every choice's score, times `parts`.

        Args:
            choices: as `choices` returns them.
            below: [candidates], number of values below each candidate.
            up_to: [candidates], number of values not above it.
            total: number of values.

        Returns:
            [choices], whole numbers.
        """
        # At a candidate, the number of values before the division may be anything from `below` to `up_to`.
        # How far it is from its target is moved as little as possible from one quantile to the next.
        away = np.zeros(len(choices), dtype=np.int64)
        moved = np.zeros(len(choices), dtype=np.int64)
        low, high = (np.asarray(each, dtype=np.int64) * self.parts for each in (below, up_to))
        for place, chosen in zip(self.places, choices.T, strict=True):
            nearest = np.clip(away, low[chosen] - place * total, high[chosen] - place * total)
            moved += np.abs(nearest - away)
            away = nearest
        return -(moved + np.abs(away)).astype(np.float64)


def quantiles(
    of: Bounded,
    column: str,
    q: float | Sequence[float],
    bounds: tuple[float, float],
    cost: AnyGuarantee,
    candidates: int,
    label: str | None,
) -> Answer:
    """Choose quantiles of each group among candidates between two bounds; see `Table.quantile`."""
    lower, upper = bounds
    several = isinstance(q, Iterable) and getattr(q, "ndim", 1) > 0
    given: list[Any] = list(q) if several else [q]  # type: ignore[arg-type]  # `several`: it is an Iterable
    asked = Quantiles.of(given, candidates)
    words = f"{', '.join(f'{float(each):g}' for each in given)} quantile{'s' if len(given) > 1 else ''}"
    label = label or query_words(of, f"{words} of {column}")
    if of.rows_per_unit is None:
        unit_reach(of, Measure("rows")).sensitivity(of.relation, "l1", f"release {label!r}")
    moved = asked.score_sensitivity(of.rows_per_unit or 0, of.relation)
    apart = len(of.groups) > 1 and unit_groups(of) == 1
    met = of.relation.parts_touched(split_by_values=True) if apart else len(of.groups)
    cost = cost if met == 1 else share(cost, met, f"release {label!r}")
    mechanism = Exponential(epsilon=choice_epsilon(cost, f"release {label!r}"))
    points = [float(each) for each in np.linspace(lower, upper, candidates)]
    # Bins end right above each candidate and right below the next one, so that none is counted in both.
    above = [math.nextafter(point, math.inf) for point in points]
    edges = tuple(sorted({*points, *above}))
    place = {edge: i for i, edge in enumerate(edges)}
    sums = exact_sums(of, (Measure("rows"),), Bins(column, edges))
    choices = asked.choices()
    scores = []
    for group in of.groups:
        reached = np.cumsum([cell_sums(sums, (*group, i))[0] for i in range(len(edges) + 1)])
        below, up_to = (reached[[place[edge] for edge in each]] for each in (points, above))
        below[0], up_to[-1] = 0, reached[-1]  # values beyond the bounds are moved to them
        scores.append(asked.scores(choices, below, up_to, int(reached[-1])))
    found = []
    with of.curator.lock:
        # A split of its own: of other rows, or among other groups, a unit may be in another part.
        split = f"{label}, from release {of.curator.ledger.number + 1}"
        for group, its_scores in zip(of.groups, scores, strict=True):
            name = ", ".join(map(str, group))
            part = Partition(part=name, split=split, by="values") if apart else None
            chosen = of.curator.select(
                its_scores,
                mechanism,
                label=f"{label}: {name}" if of.keys else label,
                score_sensitivity=moved,
                partition=part,
            )
            values = [points[i] for i in choices[chosen]]
            found.append(values if several else values[0])
    return by_group(of, found)
