"""Write docs/papers/theory.md, theory beside practice: `python docs/programs/make_theory.py [FILE]`.

FILE keeps every run as it finishes, so that an interrupted call goes on where it stopped; left out, nothing is
kept. Everything has fixed seeds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from papers.common import table
from papers.theory_studies import STUDIES, Point, Study, cache_of
from wrapping import wrapped

from dpaudit.algorithms.figures.published_claims import Table, estimate
from dpaudit.algorithms.figures.published_claims import table as by_place
from dpaudit.algorithms.public_parameters import Array
from dpaudit.page.chart import COLOURS, DASHES, Spec, axis, by_name, channel, marks, specification, svg

DOCS = Path(__file__).resolve().parents[1]
RESAMPLES, BOOTSTRAP_SEED = 2000, 20231210

HEAD = """\
# Theory beside practice

What each algorithm was measured to lose, beside what its theorem allows. An example: {example}

![One panel for each algorithm, both axes logarithmic: what was measured, and the bound](../images/theory.svg)

In the tables:

- **measured**: mean over the runs, with its 95% interval.
- **bound**: the theorem's, with its constants where the paper has them. Else it is an *order*: constants and
  logarithms are left out, and only how **measured over order** changes has a meaning.
- **slope**: the exponent of a power law through the measured means over the sizes, by least squares on
  logarithms, with the 95% interval of a bootstrap over the runs; beside it the slope of the bound at the same
  sizes, and the exponents of the theorem's terms. Sizes at which no run lost anything are left out.
- **exponent in the budget**: the same over the budgets at the largest size.
- **falls** or **grows** as the theorem says: whether the slope's interval reaches the exponents of the
  theorem, or is on their better side (`at least as fast`, `no faster`). A slope on the worse side does not
  refute a theorem: where the bound exceeds all that can be lost, it says nothing. Only a mean above a bound
  with its constants would, and that is said in bold under the tables.

What the tables say together: what policy evaluation loses falls as its theorem says, to the exponent, and
faster for DP-LSW at epsilon = 1; the bound of Theorem 3.4 is far above what DP-APVI loses; some regrets grow
more steeply than their order, which lies far above them, so that this refutes nothing; and **Proposition 10
of Wang and Hegde does not hold** as its proof reads it: what noise of a fixed path costs does not fall with
the number of states.
"""

FOOT = """\
This page is made by `python docs/programs/make_theory.py`, with fixed seeds, on one core.
"""


@dataclass(frozen=True)
class Slope:
    """An exponent, and its bootstrap interval; NaN where fewer than two places have a loss."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "none"
        value, low, high = (f"{round(x, 2) + 0.0:.2f}" for x in (self.value, self.low, self.high))
        return f"{value} ({low} to {high})"


def power(places: Sequence[float], values: Array) -> float:
    """The exponent of a power law through positive values [n], by least squares on logarithms.

    Values that are not positive are left out; NaN where fewer than two are left.
    """
    kept = values > 0.0
    if kept.sum() < 2:
        return math.nan
    x, y = np.log(np.asarray(places)[kept]), np.log(values[kept])
    x = x - x.mean()
    return float(x @ y / (x @ x))


def slope(places: Sequence[float], runs: Array) -> Slope:
    """The exponent of the means of runs [places, runs], and a percentile interval over resampled runs."""
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    chosen = rng.integers(0, runs.shape[1], (RESAMPLES, runs.shape[1]))
    again = np.array([power(places, runs[:, one].mean(axis=1)) for one in chosen])
    again = again[~np.isnan(again)]
    low, high = np.percentile(again, [2.5, 97.5]).tolist() if again.size else (math.nan, math.nan)
    return Slope(power(places, runs.mean(axis=1)), low, high)


def told(found: Slope, exponents: tuple[float, float]) -> str:
    """How a slope stands to the exponents of a theorem; what is lost should grow slowly, or fall fast."""
    least, most = min(exponents), max(exponents)
    if math.isnan(found.value):
        return "nothing is lost"
    if found.low > most:
        return "no: more steeply" if most > 0.0 else "no: more slowly"
    if found.high < least:
        return "no faster" if most > 0.0 else "at least as fast"
    return "yes"


def section(study: Study, points: Sequence[Point]) -> str:
    """One algorithm: table of numbers, and of slopes."""
    found: Table[float] = by_place(points, "measured", "size")
    ratio = "bound over measured" if study.exact else "measured over order"
    columns = [study.of_budget, study.axis, study.quantity, "bound" if study.exact else "order", ratio]
    lower = study.lower
    columns += ["order of the lower bound", "measured over it"] if lower is not None else []
    rows = []
    for b in study.budgets:
        for n in study.sizes:
            mean, bound = found.estimate(b, n), study.bound(b, n)
            times = f"{mean.mean / bound:.3g}"
            if study.exact:
                times = f"{bound / mean.mean:.3g}" if mean.mean else "nothing is lost"
            row = [f"{b:g}", f"{n}", _number(mean.mean, mean.half_width), f"{bound:.3g}", times]
            if lower is not None:
                least = lower(b, n)
                row += [f"{least:.3g}", f"{mean.mean / least:.3g}"]
            rows.append(row)
    lines = []
    for b in study.budgets:
        own, bounds = slope(study.sizes, found.over(b)), np.array([study.bound(b, n) for n in study.sizes])
        of_theorem = " to ".join(f"{e:.3g}" for e in dict.fromkeys(study.exponents))
        line = (f"{b:g}", str(own), f"{power(study.sizes, bounds):.2f}", of_theorem)
        lines.append((*line, _lost_nothing(study, found, b) or told(own, study.exponents)))
    over = slope(study.budgets, np.array([found.at(b, study.sizes[-1]) for b in study.budgets]))
    theirs = power(study.budgets, np.array([study.bound(b, study.sizes[-1]) for b in study.budgets]))
    as_said = "falls as the theorem says" if max(study.exponents) < 0.0 else "grows as the theorem says"
    heads = (study.of_budget, f"slope in {study.axis}", "of the bound", "of the theorem's terms", as_said)
    parts = [f"## {study.title}", study.theorem, f"Measured: {study.setting} {study.runs} runs."]
    if lower is not None:
        parts.append(f"The lower bound: {study.lower_source}.")
    parts += [table(columns, rows), table(heads, lines)]
    last = f"{study.axis} = {study.sizes[-1]}"
    parts.append(
        f"Exponent in {study.of_budget} at {last}: {over} measured, {theirs:.2f} of the bound. {_kept(study, found)}"
    )
    return "\n\n".join(parts)


def _lost_nothing(study: Study, found: Table[float], budget: float) -> str:
    """From which size on no run lost anything; empty where some did at the largest."""
    lost = [n for n in study.sizes if found.estimate(budget, n).mean > 0.0]
    if lost and lost[-1] == study.sizes[-1]:
        return ""
    after = next(n for n in study.sizes if not lost or n > lost[-1])
    return f"nothing is lost from {study.axis} = {after} on"


def _kept(study: Study, found: Table[float]) -> str:
    """Whether the means stay below a bound that has its constants."""
    if not study.exact:
        return ""
    places = [(b, n) for b in study.budgets for n in study.sizes]
    above = [
        f"{study.of_budget} = {b:g}, {study.axis} = {n}"
        for b, n in places
        if found.estimate(b, n).mean - found.estimate(b, n).half_width > study.bound(b, n)
    ]
    words = f"above the bound at {len(above)} of {len(places)} places: {'; '.join(above)}"
    return (
        f"**The mean is {words}.**"
        if above
        else f"The mean is above the bound at none of {len(places)} places."
    )


def _number(mean: float, half_width: float) -> str:
    half_width = 0.0 if half_width < 1e-9 * abs(mean) else half_width
    return f"{mean:.3g}" + ("" if math.isnan(half_width) else f" ± {half_width:.2g}")


def picture(found: Mapping[str, Sequence[Point]]) -> Spec:
    """A panel for each study: measured means, and the bound dashed, one colour a budget."""
    panels = []
    for name, points in found.items():
        study, rows = STUDIES[name], []
        for b in study.budgets:
            for n in study.sizes:
                mean = float(np.mean([p.measured for p in points if (p.budget, p.size) == (b, n)]))
                both = ("measured", mean), ("bound" if study.exact else "order", study.bound(b, n))
                rows += [
                    {"budget": f"{study.of_budget}={b:g}", "size": n, "what": what, "value": value}
                    for what, value in both
                    if value > 0.0
                ]
        budgets = list(dict.fromkeys(str(row["budget"]) for row in rows))
        kinds = list(dict.fromkeys(str(row["what"]) for row in rows))
        encoding = {
            "x": axis("size", study.axis, {"type": "log"}, tickCount=4),
            "y": axis("value", study.quantity, {"type": "log"}, tickCount=5),
            "color": by_name(budgets, COLOURS, "budget"),
            "strokeDash": by_name(kinds, (DASHES[0], DASHES[1]), "what"),
            "detail": channel("budget"),
        }
        line = marks(rows, "line", encoding, point=True)
        panels.append({**line, "title": study.name, "width": 300, "height": 200})
    return specification(
        {
            "concat": panels,
            "columns": 3,
            "resolve": {"scale": {"color": "independent", "strokeDash": "independent"}},
        }
    )


def measure(studies: Sequence[Study], path: Path | None = None) -> dict[str, list[Point]]:
    """Every run of the studies; those that the file holds are not made again."""
    found = {}
    for study in studies:
        found[study.name] = cache_of(study).finished(study.points(), path=path)
        sys.stderr.write(f"{study.name}: {len(found[study.name])} points\n")
    return found


def theory_page(found: Mapping[str, Sequence[Point]]) -> str:
    """The whole page, as Markdown, from finished runs."""
    name, points = next(iter(found.items()))
    study = STUDIES[name]
    budget, size = study.budgets[-1], study.sizes[1]
    mean = estimate(np.array([p.measured for p in points if (p.budget, p.size) == (budget, size)]))
    example = (
        f"at {study.of_budget} = {budget:g}, {study.title.partition(' (')[0]} loses "
        f"{_number(mean.mean, mean.half_width)} after {study.axis} = {size} where the theorem allows at least "
        f"{study.bound(budget, size):.3g}."
    )
    head = HEAD.replace("{example}", example)
    parts = [head, *(section(STUDIES[name], points) for name, points in found.items()), FOOT]
    return wrapped("\n\n".join(part.rstrip("\n") for part in parts))


if __name__ == "__main__":
    kept = Path(sys.argv[1]) if sys.argv[1:] else None
    done = measure(list(STUDIES.values()), kept)
    (DOCS / "papers" / "theory.md").write_text(theory_page(done), encoding="utf-8")
    (DOCS / "images" / "theory.svg").write_text(svg(picture(done), background="white"), encoding="utf-8")
