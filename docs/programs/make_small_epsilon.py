"""How near `threshold` comes to the best single event: the table of docs/auditing/auditing.md.

`python docs/programs/make_small_epsilon.py [--audits N] [--known N] [--only NAME ...] [--write]` prints it; about
half an hour. `--write` puts it into the page.

The mechanisms are eight of DP-Sniper (Bichsel, Steffen, Bogunovic, Vechev 2021), at its parameters and on the
neighbouring pairs that it found; its NoisyHist1 keeps its claim of 0.1. The score is the default one, or the exact
likelihood ratio: what the audit then falls short of the best event is lost by its choice of an event alone.
The best bound is the largest that one event gives if all the runs test it and its counts are the expected ones.
The probabilities of the outcomes are exact, or integrals on a grid. Outcomes in the order of their likelihood
ratio are the events among which the best one is (Neyman and Pearson 1933).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.stats import binom, expon, laplace, rv_continuous

from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.auditors.statistics.two_proportions import by_epsilon, region
from dpaudit.mechanisms import Array

PAGE = Path(__file__).resolve().parents[2] / "docs" / "auditing" / "auditing.md"
BEGIN, END = "<!-- written by make_small_epsilon.py -->\n", "<!-- end of the table -->\n"
RUNS, AUDITS, KNOWN, ERROR = 400_000, 11, 51, 0.05
_GRID = np.linspace(-600.0, 600.0, 24_001)  # edges of cells of noisy values
_MIDDLES = (_GRID[1:] + _GRID[:-1]) / 2


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


def main() -> int:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=AUDITS)
    parser.add_argument(
        "--known", type=int, default=KNOWN, help="audits to which the likelihood ratio is given"
    )
    parser.add_argument("--only", nargs="*", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = [INTRODUCTION.format(audits=given.audits, known=given.known)]
    sys.stdout.write(lines[0])
    for name in given.only:
        lines.append(row(name, given.audits, given.known))
        sys.stdout.write(lines[-1])
        sys.stdout.flush()
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        after = rest[rest.index(END) :]
        PAGE.write_text(before + BEGIN + "\n" + "".join(lines) + AFTER + "\n" + after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
