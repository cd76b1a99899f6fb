"""What figures of regret over users share: a scale that is tuned first, a sentence, and panels."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np

from dpaudit.algorithms.environments.tabular import TabularMDP
from dpaudit.algorithms.figures.picture import Row, named, panel, spread
from dpaudit.algorithms.figures.published_claims import (
    Appears,
    Sentence,
    Table,
    Vector,
    above_zero,
    difference,
)
from dpaudit.algorithms.figures.run_cache import RunCache
from dpaudit.algorithms.figures.study import TUNING_SEEDS, Session, best_settings
from dpaudit.page.chart import Spec, axis

#: Mean and standard deviation of what grows from 0.
upward = partial(spread, least=0.0)

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class RegretPoint(Generic[K]):
    """One run up to one of its users."""

    curve: K
    bonus: float  # the scale of the confidence widths
    users: int  # K, of the whole run
    seed: int  # of the users and of the noise
    episode: int  # k, up to which regret is summed
    regret: float = math.nan  # the sum of v* - v^policy over users 1 to k, exact; NaN before the run


P = TypeVar("P", bound=RegretPoint[Any])


def line_points(
    point: Callable[..., P], curve: K, bonus: float, users: int, seeds: Sequence[int], most: int = 50
) -> list[P]:
    """A line's runs, not computed yet; regret is kept at `most` users, evenly apart, and at the last."""
    places = np.unique(np.linspace(0, users, min(most, users) + 1).round().astype(int))[1:].tolist()
    return [point(curve, bonus, users, seed, k) for seed in seeds for k in places]


def grid_points(point: Callable[..., P], curve: K, scales: Iterable[float], users: int) -> list[P]:
    """The runs from which a curve's scale is chosen: only their regret at the end."""
    return [p for bonus in scales for p in line_points(point, curve, bonus, users, TUNING_SEEDS, most=1)]


def tuned(
    session: Session, cache: RunCache[P], point: type[P], grids: Mapping[K, Sequence[float]], users: int
) -> tuple[list[P], dict[K, float]]:
    """Choose each curve's scale on its grid by its final regret; returns the lines' points and the scales."""
    grid = [p for curve, scales in grids.items() for p in grid_points(point, curve, scales, users)]

    def chosen(tried: Sequence[P]) -> dict[K, float]:
        return best_settings((p.curve, p.bonus, p.regret) for p in tried)

    def lines(tried: Sequence[P]) -> list[P]:
        runs = (line_points(point, curve, c, users, session.seeds) for curve, c in chosen(tried).items())
        return list(chain.from_iterable(runs))

    tried, points = session.finished(cache, grid, lines)
    return points, chosen(tried)


def sublinear(regret: Table[K], curve: K, about: str) -> Sentence:
    """Whether a user of the second half costs less than one of the first, and from how many users on."""

    def halves(end: int) -> tuple[float, Vector, Vector]:
        """The users of a half, and what one of the first and of the second costs in each run."""
        half = regret.places[end // 2 - 1]
        early = regret.at(curve, half)
        late = regret.at(curve, regret.places[end - 1]) - early
        return half, early / half, late / (regret.places[end - 1] - half)

    def told(end: int) -> Appears:
        _, early, late = halves(end)
        return above_zero(difference(early, late))

    last = len(regret.places)
    half, early, late = halves(last)
    numbers = f"regret per user {early.mean():.3g} up to {half}, then {late.mean():.3g}"
    first = last + 2
    while first > 3 and told(first - 2) == "yes":
        first -= 2
    if first <= last:
        numbers += f"; told apart from K = {regret.places[first - 1]} on"
    return Sentence("sublinear in K", about, told(last), numbers)


def worth(mdp: TabularMDP) -> tuple[str, str]:
    """The optimal value of a process, and what always taking action 0 loses of it."""
    left = mdp.suboptimality(np.zeros(mdp.rewards.shape[:2], dtype=np.int64))
    return f"{mdp.optimum:.3f}", f"{left:.3f}"


def panels(rows: Sequence[Row], column: str, quantities: dict[str, str], title: str) -> Spec:
    """Panels side by side over the users k, one for each value of a column of the rows, its heading.

    Rows have ``curve``, ``episodes`` and what `spread` says; `quantities` is what is drawn, by that value.
    """
    x = axis("episodes", "users", {"nice": False})
    drawn = []
    for heading, quantity in quantities.items():
        own = [row for row in rows if row[column] == heading]
        # What is drawn is never below 0; a deviation may reach there.
        one = panel(own, x, axis("mean", quantity, {"domainMin": 0}), names=named(rows))
        drawn.append({**one, "title": heading, "width": 380, "height": 340})
    return {"hconcat": drawn, "title": title}
