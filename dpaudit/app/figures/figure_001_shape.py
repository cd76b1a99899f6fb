"""Whether figure 1 of Balle, Gomrokchi and Precup (2016) has the shape its section 6 describes, from cells.

Each answer carries the numbers it follows from. A sentence about which of two is better gets its answer only
where a 95% confidence interval over the runs, on the same batches, excludes 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.app.figures.figure_001 import RIDGES, SCHEDULES, Cell, scheduled
from dpaudit.app.figures.published_claims import Appears, Estimate, Sentence, estimate

#: "The same solution" is read as: errors so close; the values lie between 0.45 and 1.
CLOSE = 0.02


@dataclass(frozen=True, order=True)
class Line:
    """One curve: an algorithm, its noise, its features and, over batch sizes, which lambda it follows.

    Attributes:
        algorithm: as in `Cell`.
        calibration: as in `Cell`.
        aggregate: as in `Cell`.
        schedule: the calibration whose lambda it takes; empty where lambda is the abscissa, or none.
    """

    algorithm: str
    calibration: str
    aggregate: int
    schedule: str = ""

    def __str__(self) -> str:
        """As tables have it."""
        words = self.algorithm.upper()
        if self.calibration != "none":
            words += f", {self.calibration}"
        if self.schedule and self.calibration == "none":
            words += f", lambda={SCHEDULES[self.schedule]:g} sqrt(m)"
        return f"{words}, {'tabular' if self.aggregate == 1 else 'pairs'}"


class Results:
    """Finished cells, by what they are.

    Args:
        cells: finished, every one on the same seeds, as `figure_cells` asks for them.
        batches: m of the panels over the batch size.
        swept: m of the panel over lambda.
    """

    def __init__(self, cells: Sequence[Cell], batches: Sequence[int], swept: Sequence[int]) -> None:
        self.seeds = sorted({cell.seed for cell in cells})
        self.batches, self.swept = sorted(batches), sorted(swept)
        self._cells = {
            (c.algorithm, c.calibration, c.aggregate, c.ridge, c.episodes, c.seed): c for c in cells
        }

    def values(self, line: Line, m: int, ridge: float | None = None, *, excess: bool = False) -> _Vector:
        """Errors, or excess risks, of a curve at one batch size, by seed; [runs]."""
        if line.algorithm.endswith("lsw"):
            ridge = 0.0
        elif ridge is None:
            ridge = scheduled(line.schedule, m)
        keys = [(line.algorithm, line.calibration, line.aggregate, ridge, m, seed) for seed in self.seeds]
        return np.array([self._cells[key].excess if excess else self._cells[key].error for key in keys])


_Vector = NDArray[np.float64]


def line_of(algorithm: str, calibration: str = "none", aggregate: int = 1, schedule: str = "exact") -> Line:
    """A curve over batch sizes; with noise it follows its own lambda."""
    own = schedule if calibration == "none" else calibration
    return Line(algorithm, calibration, aggregate, own if algorithm.endswith("lsl") else "")


def sentences(results: Results) -> list[Sentence]:
    """Every sentence of section 6 on everything it speaks of."""
    found = [
        *_without_noise(results),
        *_converge(results),
        *_small_and_large(results),
        *(_schedule(results) if len(results.swept) > 1 else ()),
        *_aggregation(results),
    ]
    order = list(dict.fromkeys(sentence.published for sentence in found))
    return sorted(found, key=lambda sentence: order.index(sentence.published))


def _without_noise(results: Results) -> Iterator[Sentence]:
    for aggregate in (1, 2):
        lsw, lsl = (line_of(name, aggregate=aggregate) for name in ("lsw", "lsl"))
        last = results.batches[-1]
        gap = estimate(results.values(lsl, last) - results.values(lsw, last))
        kind = "tabular" if aggregate == 1 else "pairs"
        yield Sentence(
            "LSL and LSW converge to the same solution",
            kind,
            "yes" if abs(gap.mean) <= CLOSE else "no",
            f"at m={last} the errors differ by {_small(gap)}; the same is read as within {CLOSE:g}",
        )
        differences = [results.values(lsl, m) - results.values(lsw, m) for m in results.batches]
        ahead = sum(bool(difference.mean() > 0.0) for difference in differences)
        yield Sentence(
            "LSW converges faster",
            kind,
            _answer(estimate(np.mean(differences, axis=0))),
            f"LSW is ahead at {ahead} of {len(differences)} batch sizes",
        )


def _converge(results: Results) -> Iterator[Sentence]:
    first, last = results.batches[0], results.batches[-1]
    for algorithm in ("lsw", "lsl"):
        for noise in SCHEDULES:
            private, plain = line_of(f"dp-{algorithm}", noise, 2), line_of(algorithm, "none", 2, noise)
            gaps = [estimate(results.values(private, m) - results.values(plain, m)) for m in (first, last)]
            yield Sentence(
                "for large enough batch sizes the private algorithms converge to the same solutions as the "
                "non-private ones",
                str(private),
                "yes" if gaps[1].mean <= CLOSE else "no",
                f"error above the non-private one's by {_small(gaps[0])} at m={first} and by "
                f"{_small(gaps[1])} at m={last}; the same is read as within {CLOSE:g}",
            )


def _small_and_large(results: Results) -> Iterator[Sentence]:
    for noise in SCHEDULES:
        lsw, lsl = line_of("dp-lsw", noise, 2), line_of("dp-lsl", noise, 2)
        for better, worse, size, m in (
            (lsl, lsw, "small", results.batches[0]),
            (lsw, lsl, "large", results.batches[-1]),
        ):
            difference = estimate(results.values(worse, m) - results.values(better, m))
            yield Sentence(
                f"{better.algorithm[3:].upper()} works better with {size} batches",
                f"{noise}, pairs",
                _answer(difference),
                f"{better.algorithm.upper()} is ahead by {_small(difference)} at m={m}",
            )


def _schedule(results: Results) -> Iterator[Sentence]:
    low, high = results.swept[0], results.swept[-1]
    growth = math.sqrt(high / low)
    for noise in SCHEDULES:
        line = Line("dp-lsl", noise, 1)
        best = [best_ridge(results, line, m) for m in (low, high)]
        ratio = best[1] / best[0]
        yield Sentence(
            "lambda should grow like sqrt(m)",
            f"DP-LSL, {noise}, tabular",
            "yes" if 1.0 / math.sqrt(10.0) <= ratio / growth <= math.sqrt(10.0) else "no",
            f"best lambda {best[0]:g} at m={low} and {best[1]:g} at m={high}: {ratio:.3g} times as large, "
            f"where sqrt(m) is {growth:.3g} times; the lambdas tried lie a factor of about 3 apart",
        )


def best_ridge(results: Results, line: Line, m: int) -> float:
    """The lambda with the least mean error."""
    return min(RIDGES, key=lambda ridge: float(results.values(line, m, ridge).mean()))


def _aggregation(results: Results) -> Iterator[Sentence]:
    for algorithm in ("dp-lsw", "dp-lsl"):
        for noise in SCHEDULES:
            fine, coarse = (line_of(algorithm, noise, aggregate) for aggregate in (1, 2))
            # Excess risks span many powers of ten: compared by their logarithms.
            logs = [
                np.log(results.values(fine, m, excess=True) / results.values(coarse, m, excess=True))
                for m in results.batches
            ]
            lower = sum(bool(log.mean() > 0.0) for log in logs)
            ratio = math.exp(float(np.mean(logs)))
            yield Sentence(
                "function approximation helps both private algorithms converge faster",
                f"{algorithm.upper()}, {noise}",
                _answer(estimate(np.mean(logs, axis=0))),
                f"excess risk lower with pairs at {lower} of {len(logs)} batch sizes; tabular it is "
                f"{ratio:.3g} times that of pairs, in the geometric mean",
            )


def _answer(difference: Estimate) -> Appears:
    if difference.runs < 2 or abs(difference.mean) <= difference.half_width:
        return "not told apart"
    return "yes" if difference.mean > 0.0 else "no"


def _small(found: Estimate) -> str:
    """With three digits: errors here span many powers of ten."""
    return f"{found.mean:.3g}" + ("" if math.isnan(found.half_width) else f" ± {found.half_width:.2g}")
