"""Figure 1 of Qiao and Wang (2023): suboptimality of DP-VAPVI, VAPVI and PEVI against K, the episodes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise, product

import numpy as np

from dpaudit.algorithms.environments.linear_mdp import LinearMDP, appendix_f_behaviour, appendix_f_mdp
from dpaudit.algorithms.figures.picture import Row, interval, panel, rows_of
from dpaudit.algorithms.figures.published_claims import (
    Estimate,
    Sentence,
    Table,
    above_zero,
    all_of,
    close_to_zero,
    converges,
    difference,
    estimate,
    most_of,
    table,
)
from dpaudit.algorithms.figures.run_cache import RunCache, bits, noise_seed
from dpaudit.algorithms.figures.study import (
    TUNING_SEEDS,
    Figure,
    Option,
    Session,
    Study,
    best_settings,
    premises,
)
from dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi import DPVAPVI, costliest
from dpaudit.algorithms.papers.qiao_wang_2023.linear_calibration import CalibrationName
from dpaudit.algorithms.papers.qiao_wang_2023.vapvi import LinearConstants, pevi, theoretical_bonus, vapvi
from dpaudit.claims.guarantees import ZCDP
from dpaudit.curator.running import run
from dpaudit.errors import UsageError
from dpaudit.page.blocks import Block, Grid, Heading, Paragraph, Picture
from dpaudit.page.chart import HEIGHT, WIDTH, Spec, axis, specification

#: C of every algorithm. PEVI's curve depends on it, so PEVI also runs with another; the others hardly do.
BONUS = 0.04
#: Published: 5 to 1000.
EPISODES = (5, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
#: noise_shift and lambda that `--tuned` tries, 1 and 1 among them.
CONSTANTS = tuple(product((0.5, 1.0, 2.0, 4.0), (1.0, 10.0, 30.0)))
#: "Slightly worse" and "converges" mean: within this share of the optimal value. The paper states no share.
CLOSE = 0.05


@dataclass(frozen=True)
class Panel:
    """One panel of the paper's figure 1."""

    title: str  # what it compares
    rhos: tuple[float, ...]  # the budgets of DP-VAPVI's curves
    pevi: tuple[float, ...]  # the constants C with which PEVI runs, the drawn one first; may be none
    instance: int  # which of the random processes of appendix F; the paper has two


PANELS = {
    "qiao-wang-2023-figure-1a": Panel("PEVI, VAPVI and DP-VAPVI", (1.0, 25.0), (BONUS, 0.025), 0),
    "qiao-wang-2023-figure-1b": Panel("DP-VAPVI at four budgets", (0.1, 1.0, 5.0, 25.0), (), 1),
}


@dataclass(frozen=True)
class Curve:
    """One curve: ``pevi``, ``vapvi`` or ``dp-vapvi``, its budget, infinite without noise, and its constant.

    PEVI's beta is C d H, the order of its analysis, as C sqrt(d) is that of VAPVI's.
    """

    algorithm: str
    rho: float
    bonus: float
    shift: float = 1.0  # noise_shift
    ridge: float = 1.0  # lambda
    tuned: str = ""  # "tuned" where shift and ridge were chosen

    def __str__(self) -> str:
        if self.algorithm == "dp-vapvi":
            return f"DP-VAPVI, rho={self.rho:g}" + (", tuned" if self.tuned else "")
        return f"PEVI, C={self.bonus:g}" if self.algorithm == "pevi" else "VAPVI"


@dataclass(frozen=True)
class Point:
    """One run: a curve at one K."""

    curve: Curve
    calibration: str  # of the noise; none where there is none
    features: str  # normalised or raw
    instance: int  # see `Panel`
    episodes: int  # K
    seed: int  # of the episodes and of the noise
    suboptimality: float = math.nan  # v* - v^policy, exact; NaN before the run


def panel_points(
    of: Panel,
    seeds: Sequence[int],
    ks: Sequence[int],
    *,
    calibration: CalibrationName = "sound",
    normalised: bool = True,
    chosen: Mapping[float, tuple[float, float]] | None = None,
) -> list[Point]:
    """The runs of a panel, not computed yet: every algorithm, data not split, on the same episodes.

    They are in the order of algorithms, ks, seeds. The paper's own experiment has raw features. `chosen` are
    noise_shift and lambda of further curves, by rho.
    """
    curves = [Curve("pevi", math.inf, bonus) for bonus in of.pevi]
    curves += [Curve("vapvi", math.inf, BONUS), *(Curve("dp-vapvi", rho, BONUS) for rho in of.rhos)]
    curves += [Curve("dp-vapvi", rho, BONUS, *pair, "tuned") for rho, pair in (chosen or {}).items()]
    return _points(curves, of, seeds, ks, calibration, normalised=normalised)


def tuning_points(
    of: Panel, ks: Sequence[int], *, calibration: CalibrationName = "sound", normalised: bool = True
) -> list[Point]:
    """The runs from which noise_shift and lambda are chosen for each budget."""
    curves = [Curve("dp-vapvi", rho, BONUS, *pair, "tuned") for rho in of.rhos for pair in CONSTANTS]
    return _points(curves, of, TUNING_SEEDS, ks, calibration, normalised=normalised)


def best_constants(tried: Sequence[Point]) -> dict[float, tuple[float, float]]:
    """By rho, the noise_shift and lambda with the least mean suboptimality; the first of several."""
    return best_settings((p.curve.rho, (p.curve.shift, p.curve.ridge), p.suboptimality) for p in tried)


def _points(
    curves: Sequence[Curve],
    of: Panel,
    seeds: Sequence[int],
    ks: Sequence[int],
    calibration: CalibrationName,
    *,
    normalised: bool,
) -> list[Point]:
    features = "normalised" if normalised else "raw"
    return [
        Point(curve, "none" if math.isinf(curve.rho) else calibration, features, of.instance, k, seed)
        for curve, k, seed in product(curves, ks, seeds)
    ]


def run_point(point: Point) -> Point:
    """The point with its suboptimality; the same for the same point."""
    mdp, curve = process(point.instance, normalised=point.features == "normalised"), point.curve
    rng = np.random.default_rng([point.instance, point.episodes, point.seed])
    data = process(point.instance).sample_trajectories(point.episodes, appendix_f_behaviour(), rng)
    phi = mdp.features
    constants = LinearConstants(bonus=curve.bonus, ridge=curve.ridge, noise_shift=curve.shift)
    if curve.algorithm == "pevi":
        bonus = theoretical_bonus(mdp.dimension, mdp.horizon, curve.bonus)
        policy = pevi(data, phi, bonus=bonus, ridge=constants.ridge)
    elif curve.algorithm == "vapvi":
        policy = vapvi(data, phi, constants=constants)
    else:
        name: CalibrationName = "sound" if point.calibration == "sound" else "as-published"
        algorithm = DPVAPVI(phi, mdp.horizon, ZCDP(rho=curve.rho), name, constants=constants, mdp=mdp)
        policy = run(algorithm, data, seed=noise_seed(point.seed, point.episodes, *bits(curve.rho))).output
    return replace(point, suboptimality=mdp.suboptimality(policy.actions))


@cache
def process(instance: int, *, normalised: bool = True) -> LinearMDP:
    """The process that a panel's episodes come from."""
    return appendix_f_mdp(instance, normalised=normalised)


def _run(points: Sequence[Point]) -> list[Point]:
    return list(map(run_point, points))


_MEASURED = "suboptimality", "episodes"
RUNS = RunCache(frozenset({"suboptimality"}), _run)


def of(found: Table[Curve], algorithm: str) -> list[Curve]:
    """The curves of one algorithm."""
    return [curve for curve in found.curves if curve.algorithm == algorithm]


def gaps(found: Table[Curve], curve: Curve) -> list[Estimate]:
    """How far a curve lies above VAPVI's at each K, run by run on the same episodes."""
    (plain,) = of(found, "vapvi")
    return [found.gap(curve, plain, k) for k in found.places]


def reached(found: Table[Curve], curve: Curve, optimum: float) -> int | None:
    """The first K from which on the gap to VAPVI is told to be within `CLOSE`; None if it never is."""
    by_k = dict(zip(found.places, gaps(found, curve), strict=True))
    far = [k for k, gap in by_k.items() if close_to_zero(CLOSE * optimum, gap) != "yes"]
    return next((int(k) for k in by_k if not far or k > far[-1]), None)


def sentences(found: Table[Curve], optimum: float) -> list[Sentence]:
    """Every sentence of section 6 on every curve that it is about; `optimum` is v*."""
    private, close, ks = of(found, "dp-vapvi"), CLOSE * optimum, found.places
    (plain,) = of(found, "vapvi")
    first, last, judged = ks[0], ks[-1], []
    for curve in private:
        by_k = dict(zip(ks, gaps(found, curve), strict=True))
        worst, best = (choice(by_k, key=lambda k: by_k[k].mean) for choice in (max, min))
        near = [close_to_zero(close, gap) for gap in by_k.values()]
        words = (
            f"above VAPVI by {by_k[worst]} at K={worst}, where it is most, and by {by_k[best]} at K={best}, "
            f"where it is least; within {close:.2f}, {CLOSE:.0%} of the optimum, at {near.count('yes')} of "
            f"{len(ks)} values of K"
        )
        slightly = all_of([*near, above_zero(found.average_gap(curve, plain))])
        judged.append(Sentence("DP-VAPVI performs slightly worse than VAPVI", str(curve), slightly, words))
    for curve in private:
        begin, end = (found.at(curve, k) - found.at(plain, k) for k in (first, last))
        change = ("the gap closes by", "the gap widens by", "no change told apart:")
        words = (
            f"above VAPVI by {estimate(begin)} at K={first} and by {estimate(end)} at K={last}: "
            f"{_direction(difference(begin, end), *change)}"
        )
        published = "as the data set grows larger, DP-VAPVI converges to VAPVI"
        comes_close = converges(close, gaps(found, curve), begin, end)
        judged.append(Sentence(published, str(curve), comes_close, words))
    for small, large in pairwise(private):
        better = found.average_gap(small, large)
        ahead = [above_zero(found.gap(small, large, k)) for k in ks].count("yes")
        words = f"{_direction(better)} on average over K; better at {ahead} of {len(ks)} values of K"
        published = "with a larger budget DP-VAPVI is closer to VAPVI"
        about = f"rho={large.rho:g} against rho={small.rho:g}"
        judged.append(Sentence(published, about, above_zero(better), words))
    for other, curve in product(of(found, "pevi"), private):
        answers = [above_zero(found.gap(other, curve, k)) for k in ks]
        behind = [str(k) for k, answer in zip(ks, answers, strict=True) if answer != "yes"]
        average = _direction(found.average_gap(other, curve))
        where = f", not told so at K = {', '.join(behind)}" if behind else ""
        words = (
            f"better at {answers.count('yes')} of {len(ks)} values of K{where}; {average} on average over K"
        )
        most = most_of(answers)
        published, about = "in most cases DP-VAPVI outperforms PEVI", f"{curve} against {other}"
        judged.append(Sentence(published, about, most, words))
    return judged


def _direction(
    difference: Estimate, up: str = "better by", down: str = "worse by", neither: str = "not told apart:"
) -> str:
    words = {"yes": up, "no": down, "not told apart": neither}[above_zero(difference)]
    return f"{words} {difference if words == neither else replace(difference, mean=abs(difference.mean))}"


def _picture(rows: Sequence[Row], title: str, *, logarithmic: bool) -> Spec:
    scale = {"type": "log" if logarithmic else "linear", "nice": False}
    x = axis("episodes", "number of episodes K", scale, tickCount=6)
    drawn = panel(rows, x, axis("mean", "suboptimality v* - v"), shapes=True)
    return specification({**drawn, "title": title, "width": WIDTH, "height": HEIGHT + 40})


def _compute(
    session: Session,
    *,
    calibration: CalibrationName,
    features: str,
    episodes: tuple[int, ...],
    scaling: bool,
    largest: int,
    tuned: bool,
) -> Figure:
    """Draw the figure again: DP-VAPVI against VAPVI and PEVI."""
    drawn, normalised = PANELS[session.name], features == "normalised"
    ks = sorted(set(episodes or EPISODES))
    wanted = partial(panel_points, seeds=session.seeds, calibration=calibration, normalised=normalised)
    further_ks = _further(ks[-1], largest) if scaling else []
    grid = tuning_points(drawn, ks, calibration=calibration, normalised=normalised) if tuned else []

    def lines(tried: Sequence[Point]) -> list[Point]:
        chosen = best_constants(tried)
        # PEVI is not part of the question at which K DP-VAPVI comes close to VAPVI.
        beyond = wanted(replace(drawn, pevi=()), ks=further_ks, chosen=chosen)
        return wanted(drawn, ks=ks, chosen=chosen) + beyond

    tried, points = session.finished(RUNS, grid, lines)
    all_found: Table[Curve] = table([p for p in points if p.episodes in ks], *_MEASURED)
    # The sentences are judged on the tuned curves where there are some.
    judged_on = [p for p in points if bool(p.curve.tuned) == tuned or p.curve.algorithm != "dp-vapvi"]
    found: Table[Curve] = table([p for p in judged_on if p.episodes in ks], *_MEASURED)
    rest = [p for p in judged_on if p.curve.algorithm != "pevi"]
    scaled: Table[Curve] | None = table(rest, *_MEASURED) if scaling else None

    mdp = process(drawn.instance)
    optimum = mdp.optimum
    places = {c.rho: reached(scaled, c, optimum) for c in of(scaled, "dp-vapvi")} if scaled else {}
    caption = session.caption("Suboptimality", "bands: 95% intervals of the mean")
    variant = ("" if calibration == "sound" else f"-{calibration}") + ("" if normalised else "-raw")
    variant += "-tuned" if tuned else ""
    stem = f"{session.name}{variant}"
    tables = {stem: all_found} | ({f"{stem}-scaling": scaled} if scaled else {})
    undrawn = of(found, "pevi")[1:]
    title = f"{drawn.title}; noise {calibration}"
    # Of PEVI's curves only the first is drawn.
    shown = {name: [c for c in one.curves if c not in undrawn] for name, one in tables.items()}
    rows = {name: rows_of(one, "episodes", interval, curves=shown[name]) for name, one in tables.items()}
    how = "normalised to norm 1" if normalised else "raw, as in the paper's own experiment"
    behaviour = appendix_f_behaviour(mdp.horizon)
    uniform = np.full((mdp.horizon, *mdp.features.shape[:2]), 1.0 / mdp.features.shape[1])
    call = f"`dpaudit reproduce {session.name} --scaling -o DIR`"
    further: list[Block] = [Paragraph(f"Not run: {call} lets K grow beyond the figure.")]
    if scaled:
        close = f"within {CLOSE * optimum:.2f} of VAPVI from K on, up to {scaled.places[-1]}"
        further = [
            Picture(f"{stem}-scaling.svg", f"{caption}; K on a logarithmic axis"),
            Grid(("rho", close), [(f"{rho:g}", _place(rho, places, scaled.places[-1])) for rho in places]),
            Paragraph("How far DP-VAPVI lies above VAPVI:"),
            _grid(scaled, {curve: gaps(scaled, curve) for curve in of(scaled, "dp-vapvi")}),
        ]
    return Figure(
        title=drawn.title,
        about="Figure 1 of Qiao and Wang, Offline Reinforcement Learning with Differential Privacy (NeurIPS "
        f"2023), drawn again by `{session.command}`. Noise {calibration}, features {how}; the example of "
        f"appendix F, process {drawn.instance}, H={mdp.horizon}, data not split; {session.setting()}, at "
        f"each of {len(ks)} values of K from {ks[0]} to {ks[-1]}. The optimal value is {optimum:.2f}; the "
        f"behaviour policy loses {mdp.suboptimality(behaviour):.2f} of it, uniformly random actions "
        f"{mdp.suboptimality(uniform):.2f}.",
        caption=caption,
        charts={n: (_picture(r, title, logarithmic=n != stem), r) for n, r in rows.items()},
        sentences=sentences(found, optimum),
        blocks=[
            *(_choice(best_constants(tried)) if tuned else ()),
            Heading("Privacy of these runs"),
            *_privacy(session, drawn, calibration, normalised=normalised),
            Heading("Suboptimality, mean and 95% interval"),
            _grid(
                all_found, {c: [all_found.estimate(c, k) for k in all_found.places] for c in all_found.curves}
            ),
            Heading("At which K it would appear"),
            *further,
        ],
        summary={"optimum": optimum, "reached": [{"rho": r, "episodes": k} for r, k in places.items()]},
        reading=f'"Slightly" and "converges" are read as within {CLOSE:.0%} of the optimal value. ',
        remarks=[
            f"rho={rho:g}: close to VAPVI {f'from K={k} on' if k else f'not up to K={largest}'}"
            for rho, k in places.items()
        ],
    )


def _choice(chosen: Mapping[float, tuple[float, float]]) -> Iterator[Block]:
    yield Heading("The constants that are chosen here")
    shifts, ridges = (
        ", ".join(f"{x:g}" for x in sorted(set(values))) for values in zip(*CONSTANTS, strict=True)
    )
    yield Paragraph(
        "What is added for the noise (noise_shift, for c1 and c2 of E) and lambda of the tuned curves "
        f"have the least mean suboptimality over all K and {len(TUNING_SEEDS)} runs on other data, of the "
        f"shifts {shifts} and lambdas {ridges}. Neither changes the noise or the proof. The other private "
        "curves have c1 = c2 = 1 and lambda = 1."
    )
    rows = [(f"{rho:g}", f"{shift:g}", f"{ridge:g}") for rho, (shift, ridge) in chosen.items()]
    yield Grid(("rho", "noise_shift", "lambda"), rows)


def _further(begin: int, largest: int) -> list[int]:
    """1, 3, 10, 30, ... beyond the figure; raises `UsageError` where none of them is."""
    ladder = (factor * 10**power for power in range(len(str(largest))) for factor in (1, 3))
    further = [k for k in ladder if begin < k <= largest]
    if not further:
        what = f"nothing between the figure's {begin} episodes and {largest}"
        why = "a scaling run goes beyond the figure"
        raise UsageError(what, where="--largest", why=why, remedy="give a larger K")
    return further


def _privacy(
    session: Session, of: Panel, calibration: CalibrationName, *, normalised: bool
) -> Iterator[Block]:
    rows = []
    mdp = process(of.instance, normalised=normalised)
    episodes = mdp.sample_trajectories(2, appendix_f_behaviour(mdp.horizon), np.random.default_rng(0))
    for rho in of.rhos:
        algorithm = DPVAPVI(mdp.features, mdp.horizon, ZCDP(rho=rho), calibration=calibration)
        found, total = session.accounted(algorithm, episodes)
        short = sum(release.verdict == "NOT_PROVED" for release in found.releases)
        where = f"{short} of {len(found.releases)}"
        needed = math.fsum(costliest(algorithm.noise, h).square for h in range(mdp.horizon))
        words = (total, where, premises(algorithm.claim), f"{needed:.4g}")
        rows.append((f"{rho:g}", str(found.verdict), *words))
    yield Paragraph(
        "What accounting proves from the ledger of such a run; where a premise fails, the total is what it "
        "would be if the premise held. The last column is what all releases cost on the costliest pair of "
        "trajectories, values as large as they can be: the rho that the curve really has. docs/papers/"
        "papers.md has the audits."
    )
    short_of = "releases whose own claim is not proved"
    yield Grid(("rho claimed", "claim", "total rho", short_of, "premise", "rho on that pair"), rows)


def _place(rho: float, places: dict[float, int | None], largest: float) -> str:
    if places[rho] is not None:
        return f"{places[rho]}"
    known = [(budget, place) for budget, place in places.items() if place is not None]
    if not known:
        return f"not up to {largest}"
    # Noise has a standard deviation of order 1/sqrt(rho), and what it hides grows as K.
    budget, place = min(known)
    guess = f"{float(f'{place * math.sqrt(budget / rho):.1g}'):,.0f}".replace(",", " ")
    return f"not up to {largest}; extrapolated from rho={budget:g} by K ~ 1/sqrt(rho): about {guess}"


def _grid(found: Table[Curve], columns: dict[Curve, list[Estimate]]) -> Grid:
    lines = zip(found.places, *columns.values(), strict=True)
    return Grid(("K", *map(str, columns)), [tuple(map(str, line)) for line in lines])


_EACH = f"A value of K; repeatable; default {EPISODES[0]} to {EPISODES[-1]}."
_OPTIONS = (
    Option("--calibration", "How the noise is calibrated.", "sound", ("sound", "as-published")),
    Option("--features", "raw: as in the paper's own experiment.", "normalised", ("normalised", "raw")),
    Option("--episodes", _EACH, repeatable=True),
    Option("--scaling", "Also run larger K than the figure has.", default=False),
    Option("--largest", "Largest K of the scaling run.", 100_000),
    Option("--tuned", "Also choose noise_shift and lambda, on seeds that are not drawn.", default=False),
)

STUDIES = {name: Study(_compute, 5, _OPTIONS, ("", "--scaling", "--tuned")) for name in PANELS}
