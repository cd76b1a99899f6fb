"""What Wang and Hegde (2019) say of their figures 1 and 2, judged from runs.

A difference over the runs, each with the same network and walk, counts where its 95% interval excludes 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.app.figures.figure_002 import Cell, Curve
from dpaudit.app.figures.published_claims import Appears, Estimate, Sentence, above_zero, estimate

#: "Limited" and "similar" are read as: within this share of the return; the paper names none.
LIMITED = 0.15


class Returns:
    """The finished runs of a figure.

    Args:
        cells: of every curve, seed and point.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.curves = list(dict.fromkeys(cell.curve for cell in cells))
        self.panels = list(dict.fromkeys(curve.panel for curve in self.curves))
        self.seeds = sorted({cell.seed for cell in cells})
        self.points = sorted({cell.samples for cell in cells})
        self.total = cells[0].total
        self._found = {(cell.curve, cell.seed, cell.samples): cell for cell in cells}

    def learnt(self, curve: Curve, samples: int) -> NDArray[np.float64]:
        """The return of what was learnt, one entry a run."""
        return np.array([self._found[curve, seed, samples].learnt for seed in self.seeds])

    def trained(self, curve: Curve) -> NDArray[np.float64]:
        """The return of the last episodes of the training itself, one entry a run."""
        return np.array([self._found[curve, seed, self.points[-1]].trained for seed in self.seeds])

    def estimate(self, curve: Curve, samples: int) -> Estimate:
        """The mean over the runs, with a 95% interval."""
        return estimate(self.learnt(curve, samples))

    def end(self, curve: Curve) -> NDArray[np.float64]:
        """The return of what was learnt at the end, one entry a run."""
        return self.learnt(curve, self.points[-1])

    def of(self, panel: str) -> list[Curve]:
        """A panel's curves."""
        return [curve for curve in self.curves if curve.panel == panel]


def noise_sentences(returns: Returns) -> list[Sentence]:
    """Of figure 1."""
    reset, kept, corrected = (returns.of(panel) for panel in returns.panels)
    words = "limited sub-optimality for sigma < 0.4"
    small = [curve for curve in reset[1:] if curve.sigma < 0.4]
    found = [_limited(returns, reset[0], curve, words) for curve in small]
    for panel in (reset, kept, corrected):
        for curve in panel[1:]:
            lower = estimate(returns.end(panel[0]) - returns.end(curve))
            about = f"{curve.panel}: {curve} against no noise"
            found.append(Sentence("a lower return under noise", about, above_zero(lower), f"{lower} lower"))
    for one, other in zip(reset[1:], kept[1:], strict=True):
        better = estimate(returns.end(one) - returns.end(other))
        about = f"sigma={one.sigma:g}, J = T/B against J = 1"
        found.append(Sentence("better with J = T/B", about, above_zero(better), f"{better} better"))
    return found


def compared_sentences(returns: Returns) -> list[Sentence]:
    """Of figure 2."""
    limited, better, similar, flat = [], [], [], []
    for panel in returns.panels:
        plain, published, *others = returns.of(panel)
        limited.append(_limited(returns, plain, published, "limited sub-optimality"))
        allowed = LIMITED * float(returns.end(plain).mean())
        within = f"within {allowed:.2f}"
        for curve in others:
            ahead = estimate(returns.end(published) - returns.end(curve))
            about = f"{panel}: against {curve}"
            if curve.algorithm == "evaluation":
                inside = _less(abs(ahead.mean), ahead, allowed)
                similar.append(
                    Sentence("similar performance", f"{about}, {within}", inside, f"{ahead} apart")
                )
            if curve.algorithm in {"rewards", "gradients"}:
                better.append(Sentence("it outperforms both", about, above_zero(ahead), f"{ahead} better"))
                gained = estimate(returns.end(curve) - returns.learnt(curve, returns.points[0]))
                inside = _less(gained.mean, gained, allowed)
                about = f"{panel}: {curve}, {within}"
                flat.append(
                    Sentence("both do not improve over the training", about, inside, f"{gained} gained")
                )
    return limited + similar + better + flat


def _limited(returns: Returns, plain: Curve, curve: Curve, words: str) -> Sentence:
    """Whether a curve ends within `LIMITED` of one without noise."""
    allowed = LIMITED * float(returns.end(plain).mean())
    lost = estimate(returns.end(plain) - returns.end(curve))
    about = f"{curve.panel}: {curve}, within {allowed:.2f} of no noise"
    return Sentence(words, about, _less(lost.mean, lost, allowed), f"{lost} lost")


def _less(mean: float, found: Estimate, allowed: float) -> Appears:
    """Whether a mean, with the interval that was found, is below what is allowed."""
    return above_zero(Estimate(allowed - mean, found.half_width, found.runs))
