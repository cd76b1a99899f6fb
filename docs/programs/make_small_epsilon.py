"""How near the bounds come to the best possible ones: two tables of docs/auditing/auditing.md.

`python docs/programs/make_small_epsilon.py [--audits N] [--known N] [--only NAME ...] [--write]` prints them;
about half an hour, of which `--only Gaussian`, the second table, takes some eight minutes. `--write` puts them
into the page.

The first table compares `threshold` with the best single event. The mechanisms are eight of DP-Sniper
(Bichsel, Steffen, Bogunovic, Vechev 2021), at its parameters and on the neighbouring pairs that it found; its
NoisyHist1 keeps its claim of 0.1. The score is the default one, or the exact likelihood ratio: what the audit
then falls short of the best event is lost by its choice of an event alone. The best bound is the largest that
one event gives if all the runs test it and its counts are the expected ones. The probabilities of the
outcomes are exact, or integrals on a grid. Outcomes in the order of their likelihood ratio are the events
among which the best one is (Neyman and Pearson 1933).

The second table compares `threshold` and `sequential` with what any audit can reach, on the Gaussian
mechanism. An audit that errs in 5% of cases on every pair of distributions that is (epsilon, delta)-DP is,
where its bound exceeds epsilon, a test at 5% of each such pair. No test refutes a pair (P0, Q0) more often
than that of the likelihood ratio (Neyman and Pearson 1933). Where this one refutes it in half of all cases,
no median exceeds epsilon. (P0, Q0) is the pair that is nearest to the mechanism's (P, Q), with the least KL(P
|| P0) + KL(Q || Q0), and its test is computed from the characteristic function of the log-likelihood ratio
(Gil-Pelaez 1951). Both pairs are taken in cells of 0.01; with cells a tenth as wide the results agree to 4
decimals.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq
from scipy.stats import binom, expon, laplace, norm, rv_continuous
from wrapping import wrapped

from dpaudit.auditors.statistics.gaussian_pair import epsilon_below
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import sequential
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.auditors.statistics.two_proportions import by_epsilon, region
from dpaudit.certificate.verdicts import Audit
from dpaudit.mechanisms import Array

PAGE = Path(__file__).resolve().parents[2] / "docs" / "auditing" / "auditing.md"
BEGIN, END = "<!-- written by make_small_epsilon.py -->\n", "<!-- end of the table -->\n"
BEGIN_GAUSSIAN = "<!-- written by make_small_epsilon.py --only Gaussian -->\n"
RUNS, AUDITS, KNOWN, ERROR = 400_000, 11, 51, 0.05
_GRID = np.linspace(-600.0, 600.0, 24_001)  # edges of cells of noisy values
_MIDDLES = (_GRID[1:] + _GRID[:-1]) / 2

#: The second table: its runs a side, and how many audits each method's medians are of.
SIZES, METHODS = (1_000, 10_000, 100_000, 1_000_000), {threshold: 200, sequential: 50}
MU, DELTA = 1.0, 1e-5
#: Probabilities of cells of one output on the data; in the opposite order they are those on the neighbour.
_P = np.diff(norm.cdf(np.linspace(-8.0, 9.0, 1_701), loc=MU))


@dataclass(frozen=True)
class Mechanism:
    """One algorithm and the pair of query answers it is audited on.

    `rows(answers, generator, runs)` draws outputs [runs, ...]; `cells(answers)` are the probabilities of the
    outcomes, alike in order for both, and `place(outputs)` which of them each output is, [runs].
    """

    rows: Callable[[Array, Generator, int], Array]
    cells: Callable[[Array], Array]
    place: Callable[[Array], Array]
    pair: tuple[Array, Array]

    def samples(self, runs: int, seed: int) -> Samples:
        """So many runs a side."""
        sides = [
            self.rows(answers, np.random.default_rng([53, seed, side]), runs)
            for side, answers in enumerate(self.pair)
        ]
        return Samples(*sides, seed)

    def ratios(self) -> Array:
        """The log-likelihood ratio of each outcome; in the far tails more digits than these are rounding."""
        p, q = (self.cells(answers) for answers in self.pair)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(p) - np.log(q)
        return np.where(np.isnan(ratio), 0.0, np.round(ratio, 4))

    def best(self, runs: int) -> float:
        """The largest bound of any one event, at its expected counts in so many runs a side."""
        sides = [self.cells(answers) for answers in self.pair]
        return max(_best(p, q, runs) for p, q in (sides, sides[::-1]))


def _best(p: Array, q: Array, runs: int) -> float:
    """The largest bound of the events that are likelier under p, of outcomes with probabilities p and q."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.nan_to_num(np.log(p) - np.log(q), nan=-np.inf), kind="stable")
    x, y = np.round(runs * np.cumsum(p[order])), np.round(runs * np.cumsum(q[order]))
    promised = np.where(x > 0, by_epsilon(runs, 0.0, ERROR)(x, y), -np.inf)
    best = 0.0
    # The promise is close to the exact bound; of those near the best one the exact bounds decide.
    for at in np.unique(np.argsort(-promised, kind="stable")[:: max(1, len(x) // 400)][:5]):
        exact = region(int(x[at]), int(y[at]), runs, by_epsilon(runs, 0.0, ERROR), ERROR)
        best = max(best, exact.largest_refuted(lambda epsilon: lambda z: np.exp(epsilon) * z, 12.0, ERROR))
    return best


def _cell(values: Array, edges: Array = _GRID) -> Array:
    """The cell of each value between edges."""
    return np.clip(np.searchsorted(edges, values) - 1, 0, len(edges) - 2)


def histogram(scale: float) -> Mechanism:
    """Laplace noise on every bin, of which the first differs."""

    def rows(answers: Array, generator: Generator, runs: int) -> Array:
        return answers + generator.laplace(scale=scale, size=(runs, len(answers)))

    def cells(answers: Array) -> Array:
        # The other bins are the same on both sides, and say nothing.
        return np.diff(laplace.cdf(_GRID * scale / 10, loc=answers[0], scale=scale))

    def place(outputs: Array) -> Array:
        return _cell(outputs[:, 0], _GRID * scale / 10)

    return Mechanism(rows, cells, place, (np.array([0.0, 1, 1, 1, 1]), np.ones(5)))


def noisy_maximum(noise: rv_continuous, pair: tuple[Array, Array]) -> Mechanism:
    """The largest of the noisy answers, where only its position would be private."""

    def rows(answers: Array, generator: Generator, runs: int) -> Array:
        draw = generator.exponential if noise is expon else generator.laplace
        return (answers + draw(scale=20.0, size=(runs, len(answers)))).max(axis=1)

    def cells(answers: Array) -> Array:
        return np.diff(np.prod([noise.cdf(_GRID, loc=one, scale=20.0) for one in answers], axis=0))

    return Mechanism(rows, cells, _cell, pair)


def _levels(scale: float) -> tuple[Array, Array]:
    """The noisy threshold, 1 + noise: its values on a grid and their probabilities."""
    return _MIDDLES, np.diff(laplace.cdf(_GRID, loc=1.0, scale=scale))


def sparse_vector(first: float, queries: float, pair: tuple[Array, Array], form: str) -> Mechanism:
    """Sparse vector with Laplace noise of these scales on its threshold, the first noise, and on the queries.

    It ends at its first yes ("stops"), gives the noisy answer there too ("values"), or answers all ("all").
    """

    def rows(answers: Array, generator: Generator, runs: int) -> Array:
        level = 1.0 + generator.laplace(scale=first, size=(runs, 1))
        noise = (
            generator.laplace(scale=queries, size=(runs, len(answers))) if queries else np.zeros((runs, 1))
        )
        noisy = answers + noise
        yes = noisy >= level
        if form == "all":
            return yes.astype(np.float64)
        later = np.cumsum(yes, axis=1) - yes > 0
        shown = np.where(yes, noisy, -1000.0) if form == "values" else yes
        return np.where(later, -2000.0 if form == "values" else -1.0, shown)

    def cells(answers: Array) -> Array:
        level, likely = _levels(first)
        if not queries:
            # The answers are yes below the threshold: one outcome between each two values of any answer.
            edges = np.array([-np.inf, *np.unique(np.concatenate(pair)), np.inf])
            patterns = [tuple(answers >= edge) for edge in edges[1:]]
            known = sorted({tuple(one >= edge) for one in pair for edge in edges[1:]})
            chance = np.diff(laplace.cdf(edges, loc=1.0, scale=first))
            return np.array([chance[[one == outcome for one in patterns]].sum() for outcome in known])
        no = [laplace.cdf(level, loc=answer, scale=queries) for answer in answers]
        if form == "all":
            # Of each half of the answers, which are equal, the number of yes is all that tells.
            half = len(answers) // 2
            counts = [binom.pmf(np.arange(half + 1)[:, None], half, 1 - no[at]) for at in (0, half)]
            return np.einsum("il,jl,l->ij", *counts, likely).ravel()
        found, before = [], likely
        for answer, below in zip(answers, no, strict=True):
            if form == "values":
                reached = np.cumsum(before) - before / 2
                found.append(np.diff(laplace.cdf(_GRID, loc=answer, scale=queries)) * reached)
            else:
                found.append(np.array([before @ (1 - below)]))
            before = before * below
        return np.concatenate([*found, [before.sum()]])

    def place(outputs: Array) -> Array:
        if not queries:
            return np.where(outputs.all(axis=1), 2, outputs.any(axis=1))
        if form == "all":
            first, second = (half.sum(axis=1) for half in np.split(outputs, 2, axis=1))
            return ((outputs.shape[1] // 2 + 1) * first + second).astype(int)
        yes = outputs > (-1000.0 if form == "values" else 0.0)
        at = np.where(yes.any(axis=1), yes.argmax(axis=1), outputs.shape[1])
        if form == "stops":
            return at
        value = _cell(outputs[np.arange(len(outputs)), yes.argmax(axis=1)])
        return len(_MIDDLES) * at + np.where(yes.any(axis=1), value, 0)

    return Mechanism(rows, cells, place, pair)


_ONES = np.ones(10)
_HALF = np.repeat([2.0, 0.0], 5)
_CROSSED = np.repeat([1.0, 0.0], 5), np.repeat([0.0, 1.0], 5)

MECHANISMS = {
    "NoisyHist1": histogram(10.0),
    "NoisyHist2": histogram(0.1),
    "ReportNoisyMax3": noisy_maximum(laplace, (np.zeros(5), np.ones(5))),
    "ReportNoisyMax4": noisy_maximum(expon, (np.ones(5), 2 * np.ones(5))),
    "SVT3": sparse_vector(20.0, 20.0, (_ONES, _HALF), "values"),
    "SVT4": sparse_vector(40.0, 1 / 0.075, (_ONES, _HALF), "stops"),
    "SVT5": sparse_vector(20.0, 0.0, (_HALF, _ONES), "all"),
    "SVT6": sparse_vector(20.0, 20.0, _CROSSED, "all"),
}

INTRODUCTION = """\
| mechanism | best event | median of {audits} audits | least to largest | share | ratio given: median of {known} \
| share |
|---|---:|---:|---:|---:|---:|---:|
"""
AFTER = "\n(`python docs/programs/make_small_epsilon.py --write`.)\n"


def bounds(mechanism: Mechanism, audits: int, *, known: bool = False) -> Iterator[float]:
    """The bound of each audit; of the default score, or of the likelihood ratio where it is `known`."""
    ratios = mechanism.ratios()
    for seed in range(audits):
        samples = mechanism.samples(RUNS, seed)
        if known:
            samples = Samples(
                *(ratios[mechanism.place(side)] for side in (samples.data, samples.neighbour)), seed
            )
        yield threshold(samples, delta=0.0, confidence=1 - ERROR).epsilon_lower


def row(name: str, audits: int, known: int) -> str:
    """One line of the table."""
    mechanism = MECHANISMS[name]
    best, found = mechanism.best(RUNS), np.array(list(bounds(mechanism, audits)))
    middles = float(np.median(found)), float(np.median(list(bounds(mechanism, known, known=True))))
    (median, share), given = ((f"{middle:.3g}", f"{middle / best:.0%}") for middle in middles)
    cells = f"{best:.3g}", median, f"{found.min():.3g} to {found.max():.3g}", share, *given
    return f"| `{name}` | {' | '.join(cells)} |\n"


def nearest(epsilon: float) -> Array:
    """log P/P0 of each cell, of the pair nearest to the Gaussian one that is (epsilon, DELTA)-DP either way.

    log Q/Q0 is the same in the opposite order. The factors P/P0 are those of `betting`, the gains of both
    directions added; the hedge is 0 by symmetry.
    """
    odds, opposite = np.exp(epsilon), _P[::-1]

    def factors(stake: float) -> Array:
        least = 1 - stake * DELTA
        gain = np.clip(least * (_P / odds - opposite) / (_P + opposite), 0.0, stake)
        return np.asarray(least + gain - odds * gain[::-1])

    def excess(stake: float) -> float:
        near = _P / factors(stake)
        return float(np.maximum(near - odds * near[::-1], 0.0).sum()) - DELTA

    return np.asarray(np.log(factors(brentq(excess, 0.0, (1 - 1e-9) / (odds + DELTA), xtol=1e-18))))


def least_error(epsilon: float, runs: int) -> float:
    """How often the best test of the nearest pair errs if it refutes that pair in half of all cases."""
    ratio = nearest(epsilon)
    mean = 2 * runs * (_P @ ratio)
    spread = np.sqrt(2 * runs * (_P @ ratio**2))
    if mean > 10 * spread:
        return 0.0  # so far apart that only rounding would be seen
    times = (np.arange(400) + 0.5) * 0.05 / spread
    waves = np.exp(1j * np.outer(times, ratio))

    def beyond(at: float, chances: Array) -> float:
        # Both sides' runs are alike: the sum is of 2 runs independent terms.
        sums = (waves @ chances) ** (2 * runs) * np.exp(-1j * times * at)
        return float(0.5 + np.sum(sums.imag / times) * (times[1] - times[0]) / np.pi)

    middle = brentq(lambda at: beyond(at, _P) - 0.5, mean - spread, mean + spread)
    near = _P / np.exp(ratio)
    return beyond(middle, near / near.sum())


def best_possible(runs: int) -> float:
    """The largest median bound that an audit of so many runs a side can have."""
    return float(brentq(lambda epsilon: least_error(epsilon, runs) - ERROR, 0.5, 4.3, xtol=1e-5))


def gaussian_samples(runs: int, seed: int) -> Samples:
    """So many runs a side of the Gaussian mechanism."""
    generator = np.random.default_rng([71, seed, runs])
    return Samples(MU + generator.normal(size=runs), generator.normal(size=runs), seed)


def gaussian_table() -> Iterator[str]:
    """The second table, with the seconds that the audits of its last row take."""
    of_audits = " and ".join(f"{audits} audits by `{method.__name__}`" for method, audits in METHODS.items())
    delta, sure = f"{DELTA:g}".replace("e-0", "e-"), f"{1 - ERROR:.0%}"
    yield wrapped(
        f"Gaussian mechanism, mu = {MU:g}, delta = {delta}, confidence {sure}: median lower bounds of {of_audits}, "
        f"with the seeds 0, 1, 2, ... The true epsilon is {epsilon_below(DELTA, MU):.3f}. No audit of so many runs "
        f"whose bound holds with {sure} confidence for every mechanism has a median above the second column: for "
        "each larger epsilon there is a mechanism that keeps it and that even the best test, which knows both "
        "mechanisms, tells from this one in fewer than half of all cases."
    )
    yield f"\n| runs a side | best possible | {' | '.join(method.__name__ for method in METHODS)} |\n"
    yield "|---:|---:|---:|---:|\n"
    for runs in SIZES:
        medians, seconds = [], []
        for method, audits in METHODS.items():
            found, took = zip(*(_timed(method, runs, seed) for seed in range(audits)), strict=True)
            medians.append(f"{np.median(found):.2f}")
            seconds.append(f"{np.median(took):.1f} s by `{method.__name__}`")
        yield f"| {runs:,} | {best_possible(runs):.3f} | {' | '.join(medians)} |\n"
    yield "\n" + wrapped(
        f"On one core an audit of {SIZES[-1]:,} runs a side takes {' and '.join(seconds)}. "
        "(`python docs/programs/make_small_epsilon.py --only Gaussian --write`.)"
    )


def _timed(method: Callable[..., Audit], runs: int, seed: int) -> tuple[float, float]:
    """The bound of one audit, and the seconds that it took."""
    samples, begun = gaussian_samples(runs, seed), time.process_time()
    return method(samples, delta=DELTA, confidence=1 - ERROR).epsilon_lower, time.process_time() - begun


def event_table(names: list[str], audits: int, known: int) -> Iterator[str]:
    """The first table, or some of its rows."""
    yield INTRODUCTION.format(audits=audits, known=known)
    for name in names:
        yield row(name, audits, known)
    yield AFTER


def main() -> int:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=AUDITS)
    parser.add_argument(
        "--known", type=int, default=KNOWN, help="audits to which the likelihood ratio is given"
    )
    parser.add_argument("--only", nargs="*", choices=[*MECHANISMS, "Gaussian"], help="part of the tables")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    only = given.only or [*MECHANISMS, "Gaussian"]
    names = [name for name in only if name in MECHANISMS]
    tables = {BEGIN: event_table(names, given.audits, given.known)} if names else {}
    if "Gaussian" in only:
        tables[BEGIN_GAUSSIAN] = gaussian_table()
    for begin, table in tables.items():
        lines = []
        for line in table:
            lines.append(line)
            sys.stdout.write(line)
            sys.stdout.flush()
        if given.write:
            before, rest = PAGE.read_text(encoding="utf-8").split(begin)
            after = rest[rest.index(END) :]
            PAGE.write_text(before + begin + "\n" + "".join(lines) + "\n" + after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
