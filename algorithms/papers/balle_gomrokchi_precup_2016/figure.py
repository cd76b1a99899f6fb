"""Figure 1 of Balle, Gomrokchi and Precup (2016): errors of value estimates on a chain.

All algorithms of one batch size and seed run on the same batch, and so are computed together. Beside the
published noise (lemma) stands the least that is enough (exact).
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dpaudit.algorithms.data.episodes import FirstVisits
from dpaudit.algorithms.environments.chain import LARGEST_RETURN, Chain
from dpaudit.algorithms.figures.picture import Row, rows_of, standard_error
from dpaudit.algorithms.figures.published_claims import (
    Appears,
    Estimate,
    Sentence,
    Table,
    above_zero,
    all_of,
    converges,
    difference,
    estimate,
)
from dpaudit.algorithms.figures.run_cache import RunCache
from dpaudit.algorithms.figures.study import Figure, Option, Session, Study, premises
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.least_squares import (
    DPLSL,
    DPLSW,
    lsl,
    lsl_excess,
    lsw,
    lsw_excess,
)
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.smooth import CalibrationName
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.running import run
from dpaudit.page.blocks import Block, Grid, Heading, Paragraph
from dpaudit.page.chart import Spec, axis, channel, colour, marks, resolved, specification

#: Section 6.
CHAIN = Chain(40, 0.5, 0.99)
GUARANTEE = ApproxDP(epsilon=0.1, delta=0.1)
#: Batch sizes, which the text does not give: up to where the published noise falls to nothing.
BATCHES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
#: Batch sizes of the panel over lambda, and its lambdas.
SWEPT = (10_000, 1_000_000)
RIDGES = tuple(factor * 10.0**power for power in range(1, 6) for factor in (1.0, 3.0))
#: Elsewhere lambda is this many times the root of the batch size: the best in the panel over lambda for
#: either noise. This choice is free where the process is public, as here; on private data it would have to be
#: accounted for.
SCHEDULES = {"lemma": 100.0, "exact": 10.0}
#: "The same solution" is read as: errors this close; the values lie between 0.45 and 1.
CLOSE = 0.02
_SAME = f"the same is read as within {CLOSE:g}"

PANELS = {
    "a": "without noise: LSL against LSW",
    "b": "all against lambda, tabular",
    "c": "all against the batch size, pairs",
    "d": "excess empirical risk against the batch size",
}


@dataclass(frozen=True)
class Asked:
    """One algorithm on one batch of m episodes; one seed for the batch and the noise."""

    algorithm: str  # lsw, lsl, dp-lsw or dp-lsl
    calibration: str  # of the noise: none, lemma or exact
    aggregate: int  # how many adjacent states share one value; 1 is tabular
    ridge: float  # lambda; 0 for LSW
    episodes: int
    seed: int


@dataclass(frozen=True)
class Point:
    """What came of it; NaN before the run."""

    asked: Asked
    error: float = math.nan  # root mean square over states, against the exact values
    excess: float = math.nan  # how far the algorithm's own empirical risk is above its minimum


@dataclass(frozen=True)
class Line:
    """One curve: an algorithm, its noise and features as in `Asked`, and the schedule that lambda follows.

    The schedule names the calibration that sets lambda; it is empty if lambda is the abscissa, or 0.
    """

    algorithm: str
    calibration: str
    aggregate: int
    schedule: str = ""

    def __str__(self) -> str:
        words = self.algorithm.upper()
        if self.calibration != "none":
            words += f", {self.calibration}"
        elif self.schedule:
            words += f", lambda={SCHEDULES[self.schedule]:g} sqrt(m)"
        return f"{words}, {kind(self.aggregate)}"

    def asked(self, m: int, seed: int, ridge: float | None = None) -> Asked:
        """Its place at a batch size, with a lambda or with that of its schedule."""
        if self.algorithm.endswith("lsw"):
            ridge = 0.0
        elif ridge is None:
            ridge = SCHEDULES[self.schedule] * math.sqrt(m)
        return Asked(self.algorithm, self.calibration, self.aggregate, ridge, m, seed)


def line_of(algorithm: str, calibration: str = "none", aggregate: int = 1, schedule: str = "exact") -> Line:
    """A curve over batch sizes; with noise it follows its own lambda."""
    own = schedule if calibration == "none" else calibration
    return Line(algorithm, calibration, aggregate, own if algorithm.endswith("lsl") else "")


def kind(aggregate: int) -> str:
    """The name of a choice of features."""
    return "tabular" if aggregate == 1 else "pairs"


def _plain(aggregate: int) -> list[Line]:
    return [line_of("lsw", "none", aggregate), *(line_of("lsl", "none", aggregate, s) for s in SCHEDULES)]


def _private(aggregate: int) -> list[Line]:
    return [line_of(name, noise, aggregate) for name, noise in product(("dp-lsw", "dp-lsl"), SCHEDULES)]


#: Every curve over batch sizes, and over lambda.
_LINES = [line for aggregate in (1, 2) for line in _plain(aggregate) + _private(aggregate)]
_OVER_RIDGES = [replace(line, schedule="") for line in (line_of("lsw"), line_of("lsl"), *_private(1))]


def figure_points(
    seeds: Sequence[int], batches: Sequence[int] = BATCHES, swept: Sequence[int] = SWEPT
) -> list[Point]:
    """The runs of all panels, `swept` in that over lambda, not computed yet; shared points come twice."""
    points = [Point(line.asked(m, seed)) for m, seed, line in product(batches, seeds, _LINES)]
    of_sweep = product(swept, seeds, _OVER_RIDGES, RIDGES)
    return points + [Point(line.asked(m, seed, ridge)) for m, seed, line, ridge in of_sweep]


def run_batch(points: Sequence[Point]) -> list[Point]:
    """Points of one batch size and seed, with their results; each the same whatever the others."""
    m, seed = points[0].asked.episodes, points[0].asked.seed
    visits = CHAIN.sampled_visits(m, np.random.default_rng([m, seed]))
    return [_run(point.asked, visits) for point in points]


def algorithm_of(asked: Asked) -> DPLSW | DPLSL:
    """The private algorithm, with the chain's first visits as its data."""
    name: CalibrationName = "exact" if asked.calibration == "exact" else "lemma"
    make = partial(_LSL, ridge=asked.ridge) if asked.algorithm == "dp-lsl" else _LSW
    public = CHAIN.features(asked.aggregate), CHAIN.discount, LARGEST_RETURN
    return make(*public, guarantee=GUARANTEE, calibration=name, values=CHAIN.values())


class _OnVisits:
    """First visits, sampled directly: a million episodes need no memory for their steps."""

    def visits(self, data: Any) -> FirstVisits:
        """Return the values unchanged: mean returns on the chain are at most 1, up to rounding."""
        visits: FirstVisits = data
        return visits._replace(means=np.clip(visits.means, 0.0, LARGEST_RETURN))


class _LSW(_OnVisits, DPLSW):
    pass


class _LSL(_OnVisits, DPLSL):
    pass


def _run(asked: Asked, visits: FirstVisits) -> Point:
    features, weights = CHAIN.features(asked.aggregate), np.ones(CHAIN.n_states)
    with_ridge = asked.algorithm.endswith("lsl")
    best = lsl(visits, features, weights, asked.ridge) if with_ridge else lsw(visits, features, weights)
    theta = best
    if asked.calibration != "none":
        # The text that earlier versions hashed, so that the same seeds give the same runs.
        words = f"Cell({repr(asked).partition('(')[2][:-1]}, error=0.0, excess=0.0)"
        seed = int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big")
        theta = run(algorithm_of(asked), visits, seed=seed).output.theta
    if with_ridge:
        excess = lsl_excess(theta, best, visits, features, weights, asked.ridge)
    else:
        excess = lsw_excess(theta, best, features, weights)
    return Point(asked, float(np.sqrt(np.square(features @ theta - CHAIN.values()).mean())), excess)


_ALONG = frozenset({"algorithm", "calibration", "aggregate", "ridge"})
RUNS = RunCache(frozenset({"error", "excess"}), run_batch, _ALONG)


class Results(NamedTuple):
    """Finished runs: errors and excess risks over the batch size, and errors over lambda by batch size."""

    error: Table[Line]
    excess: Table[Line]
    swept: dict[int, Table[Line]]


def results_of(points: Sequence[Point], batches: Sequence[int], swept: Sequence[int]) -> Results:
    """Return the finished points by their keys; arguments as in `figure_points`."""
    found = {point.asked: point for point in points}
    seeds = sorted({point.asked.seed for point in points})
    over_m = {(line, m, s): found[line.asked(m, s)] for line, m, s in product(_LINES, batches, seeds)}
    of_sweep = list(product(_OVER_RIDGES, RIDGES, seeds))
    return Results(
        Table({place: point.error for place, point in over_m.items()}),
        Table({place: point.excess for place, point in over_m.items()}),
        {m: Table({(c, r, s): found[c.asked(m, s, r)].error for c, r, s in of_sweep}) for m in swept},
    )


def sentences(results: Results) -> list[Sentence]:
    """Every sentence of section 6 on everything that it is about."""
    found = list(_judged(results))
    order = list(dict.fromkeys(sentence.published for sentence in found))
    return sorted(found, key=lambda sentence: order.index(sentence.published))


def _judged(results: Results) -> Iterator[Sentence]:
    errors = results.error
    first, last = errors.places[0], errors.places[-1]
    for aggregate in (1, 2):
        plain, ridged = (line_of(name, aggregate=aggregate) for name in ("lsw", "lsl"))
        gap, features = errors.gap(ridged, plain), kind(aggregate)
        gaps = [errors.gap(ridged, plain, m) for m in errors.places]
        runs = (errors.at(ridged, m) - errors.at(plain, m) for m in (first, last))
        same = converges(CLOSE, gaps, *runs)
        words = f"at m={last} the errors differ by {_small(gap)}; {_SAME}"
        yield Sentence("LSL and LSW converge to the same solution", features, same, words)
        faster = above_zero(errors.average_gap(ridged, plain))
        ahead = [above_zero(gap) for gap in gaps].count("yes")
        words = f"LSW is ahead at {ahead} of {len(gaps)} batch sizes"
        yield Sentence("LSW converges faster", features, faster, words)
    for algorithm, noise in product(("lsw", "lsl"), SCHEDULES):
        private, plain = line_of(f"dp-{algorithm}", noise, 2), line_of(algorithm, "none", 2, noise)
        begin, end = (errors.gap(private, plain, m) for m in (first, last))
        yield Sentence(
            "for large enough batch sizes the private algorithms converge to the same solutions as the "
            "non-private ones",
            str(private),
            converges(
                CLOSE,
                [errors.gap(private, plain, m) for m in errors.places],
                *(errors.at(private, m) - errors.at(plain, m) for m in (first, last)),
            ),
            f"error above the non-private one's by {_small(begin)} at m={first} and by {_small(end)} at "
            f"m={last}; {_SAME}",
        )
    for noise in SCHEDULES:
        plain, ridged = line_of("dp-lsw", noise, 2), line_of("dp-lsl", noise, 2)
        small, large = (ridged, plain, "small"), (plain, ridged, "large")
        # Two sizes at either end, if there are enough: a single size could be an exception.
        several = max(1, min(2, len(errors.places) // 2))
        ends = (small, errors.places[:several]), (large, errors.places[-several:])
        for (better, worse, size), places in ends:
            by_m = {m: errors.gap(worse, better, m) for m in places}
            name = better.algorithm.upper()
            published = f"{name.removeprefix('DP-')} works better with {size} batches"
            words = f"{name} is ahead by {' and '.join(f'{_small(gap)} at m={m}' for m, gap in by_m.items())}"
            yield Sentence(published, f"{noise}, pairs", all_of(map(above_zero, by_m.values())), words)
    low, high = min(results.swept), max(results.swept)
    growth = math.sqrt(high / low)
    for noise in SCHEDULES if low < high else ():
        line = Line("dp-lsl", noise, 1)
        best = [best_ridge(results.swept[m], line) for m in (low, high)]
        ratio = best[1] / best[0]
        # Every lambda could be the best if its error is not told apart from the least.
        candidates = [good_ridges(results.swept[m], line) for m in (low, high)]
        fitting = {
            1.0 / math.sqrt(10.0) <= large / small / growth <= math.sqrt(10.0)
            for small, large in product(*candidates)
        }
        grows: Appears = "not told apart" if len(fitting) > 1 else "yes" if True in fitting else "no"
        yield Sentence(
            "lambda should grow like sqrt(m)",
            f"DP-LSL, {noise}, tabular",
            grows,
            f"best lambda {best[0]:g} at m={low} and {best[1]:g} at m={high}: {ratio:.3g} times as large, "
            f"where sqrt(m) is {growth:.3g} times; the lambdas tried lie a factor of about 3 apart",
        )
    for algorithm, noise in product(("dp-lsw", "dp-lsl"), SCHEDULES):
        fine, coarse = (line_of(algorithm, noise, aggregate) for aggregate in (1, 2))
        # Excess risks span many powers of ten: compared by their logarithms.
        logs = np.log(results.excess.over(fine) / results.excess.over(coarse))
        lower = (logs.mean(axis=1) > 0.0).sum()
        yield Sentence(
            "function approximation helps both private algorithms converge faster",
            f"{algorithm.upper()}, {noise}",
            above_zero(estimate(logs.mean(axis=0))),
            f"excess risk lower with pairs at {lower} of {len(logs)} batch sizes; tabular it is "
            f"{math.exp(float(np.mean(logs))):.3g} times that of pairs, in the geometric mean",
        )


def best_ridge(swept: Table[Line], line: Line) -> float:
    """The lambda with the least mean error."""
    return min(RIDGES, key=lambda ridge: float(swept.at(line, ridge).mean()))


def good_ridges(swept: Table[Line], line: Line) -> list[float]:
    """Return the lambdas with errors that are not told apart from the least mean error."""
    least = swept.at(line, best_ridge(swept, line))
    return [ridge for ridge in RIDGES if above_zero(difference(swept.at(line, ridge), least)) != "yes"]


def _small(found: Estimate) -> str:
    """With three digits: errors here span many powers of ten."""
    return f"{found.mean:.3g}" + ("" if math.isnan(found.half_width) else f" ± {found.half_width:.2g}")


def _rows(results: Results) -> list[Row]:
    """Mean and standard error of each curve at each place of the abscissa, panel by panel."""
    shown = {
        "a": [line_of(name, "none", aggregate) for aggregate in (1, 2) for name in ("lsl", "lsw")],
        "c": [*_plain(2), *_private(2)],
        "d": [*_private(1), *_private(2)],
    }
    rows: list[Row] = []
    for name in PANELS:
        if name == "b":
            for m, table in results.swept.items():
                found = rows_of(table, "ridge", standard_error)
                rows += [{"panel": name, "episodes": m, **row} for row in found]
            continue
        table = results.excess if name == "d" else results.error
        found = rows_of(table, "episodes", standard_error, curves=shown[name])
        rows += [{"panel": name, "ridge": None, **row} for row in found]
    return rows


def _picture(rows: Sequence[Row], title: str) -> Spec:
    """Four panels: means as lines, standard errors as bars."""

    def panel(name: str, *, words: str = "", height: int = 260, **only: Any) -> Spec:
        chosen = [row for row in rows if row["panel"] == name and only.items() <= row.items()]
        field, abscissa = ("ridge", "lambda") if name == "b" else ("episodes", "batch size m")
        places = [math.log10(row[field]) for row in chosen]
        decades = [10.0**power for power in range(math.floor(min(places)), math.ceil(max(places)) + 1)]
        logarithmic = {"type": "log"}
        ordinate = "excess empirical risk" if name == "d" else "RMSE over states"
        dash = {**channel("calibration"), "legend": None, "scale": {"domain": ["none", "lemma", "exact"]}}
        x = axis(field, abscissa, logarithmic, format="~s", values=decades)
        y = axis("mean", ordinate, logarithmic, format="~e", tickCount=6)
        curves = {str(row["curve"]): row["aggregate"] for row in chosen}
        base = {"x": x, "color": colour(list(curves), "curve")}
        # Eight curves have six colours: what is shared by a curve on states and one on pairs has two shapes.
        forms = ["circle" if aggregate == 1 else "square" for aggregate in curves.values()]
        shape = {
            **channel("curve"),
            "scale": {"domain": list(curves), "range": forms},
            "legend": {"title": None},
        }
        error = {**base, "y": channel("low", "quantitative"), "y2": {"field": "high"}}
        layers = [
            marks(chosen, "rule", error),
            marks(chosen, "line", {**base, "y": y, "strokeDash": dash}),
            marks(chosen, "point", {**base, "y": y, "shape": shape}, filled=True, size=30, opacity=1),
        ]
        heading = f"({name}) {PANELS[name]}{words}"
        drawn = {"layer": layers, "title": heading, "width": 380, "height": height}
        return {**drawn, **resolved(color="shared", shape="shared")}

    sizes = dict.fromkeys(row["episodes"] for row in rows if row["panel"] == "b")
    column = [panel("b", words=f", m={m}", height=100, episodes=m) for m in sizes]
    sweep = {"vconcat": column, **resolved(color="shared", shape="shared", strokeDash="shared")}
    apart = resolved(color="independent", shape="independent")
    halves = [{"hconcat": row, **apart} for row in ([panel("a"), sweep], [panel("c"), panel("d")])]
    return specification({"vconcat": halves, **apart, "title": title})


def figure_1(session: Session, *, episodes: tuple[int, ...]) -> Figure:
    """Draw the figure again: policy evaluation, with the published noise and with the least enough."""
    batches = sorted(set(episodes)) or list(BATCHES)
    swept = sorted({batches[0], batches[-1]}) if episodes else list(SWEPT)
    points, _ = session.finished(RUNS, figure_points(session.seeds, batches, swept))
    results = results_of(points, batches, swept)
    rows, judged = _rows(results), sentences(results)
    title = "Private policy evaluation on a chain"
    schedules = ", ".join(f"{factor:g} sqrt(m) with {noise}" for noise, factor in SCHEDULES.items())
    picture = _picture(rows, f"{title}; published noise (lemma) and the least enough (exact)")
    return Figure(
        title=title,
        about="Figure 1 of Balle, Gomrokchi and Precup, Differentially Private Policy Evaluation (ICML 2016)"
        f", drawn again by `{session.command}`. A chain of N={CHAIN.n_states} states, p={CHAIN.stay:g}, "
        f"gamma={CHAIN.discount:g}; every return is at most 1, which is public; {GUARANTEE}; all weights 1; "
        f"{session.setting()}, at each of {len(batches)} batch sizes from {batches[0]} to {batches[-1]}. "
        "Errors are root mean squares over states against exact dynamic programming. Beside the published "
        f"noise (lemma) stands the least that is enough (exact). Outside panel (b) lambda is {schedules}.",
        caption=f"Means of {len(session.seeds)} runs; bars: standard errors",
        charts={session.name: (picture, rows)},
        sentences=judged,
        blocks=[Heading("Privacy of these runs"), *_privacy(session, batches[-1]), *_means(rows)],
        summary={"batches": batches},
        reading=f'"The same solution" is read as errors within {CLOSE:g}. ',
    )


def _privacy(session: Session, largest: int) -> Iterator[Block]:
    yield Paragraph(
        "What accounting proves from the ledger of such a run. The scale of the noise, which depends on the "
        "data, is in no ledger."
    )
    rows, visits = [], CHAIN.sampled_visits(2, np.random.default_rng(0))
    for name, noise, aggregate in product(("dp-lsw", "dp-lsl"), SCHEDULES, (1, 2)):
        algorithm = algorithm_of(line_of(name, noise, aggregate).asked(largest, 0))
        verdict, alpha = str(session.accounted(algorithm, visits)[0].verdict), f"{algorithm.noise.alpha:.4g}"
        rows.append((name, noise, kind(aggregate), alpha, verdict, premises(algorithm.claim)))
    yield Grid(("algorithm", "noise", "features", "alpha", "claim", "premises"), rows)


def _means(rows: Sequence[Row]) -> Iterator[Block]:
    for name, title in PANELS.items():
        own = [(r, math.nan if r["error"] is None else r["error"]) for r in rows if r["panel"] == name]
        found = [(r, _small(Estimate(r["mean"], width, r["runs"]))) for r, width in own]
        cells = {(r["episodes"], r["ridge"], r["curve"]): words for r, words in found}
        curves = list(dict.fromkeys(curve for _, _, curve in cells))
        lines = []
        for m, ridge in dict.fromkeys((m, ridge) for m, ridge, _ in cells):
            place = (str(m),) if ridge is None else (str(m), f"{ridge:g}")
            lines.append((*place, *(cells[m, ridge, curve] for curve in curves)))
        yield Heading(f"({name}) {title}, mean and standard error")
        yield Grid((*(("m", "lambda") if name == "b" else ("m",)), *curves), lines)


_EPISODES = Option(
    "--episodes",
    f"A batch size m; repeatable; default {BATCHES[0]} to {BATCHES[-1]}. The least and the largest make the "
    "panel over lambda.",
    repeatable=True,
)

STUDIES = {"balle-gomrokchi-precup-2016-figure-1": Study(figure_1, 20, (_EPISODES,))}
