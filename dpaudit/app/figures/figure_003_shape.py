"""What Liao, He and Gu (2023) say of their figure 2, judged from runs.

Three sentences: regret is sublinear in K; LDP-UCRL-VTR incurs more than UCRL-VTR; the larger epsilon, the
closer. A difference over the runs, on the same users, counts where its 95% interval excludes 0.
"""

from __future__ import annotations

from itertools import pairwise

from dpaudit.app.figures.figure_003 import Curve
from dpaudit.app.figures.published_claims import Sentence, above_zero
from dpaudit.app.figures.regrets import Regrets


def sentences(regrets: Regrets[Curve]) -> list[Sentence]:
    """The paper's sentences, each about one curve, or a curve and the one that it is compared with."""
    found = [regrets.sublinear(curve, f"{curve.river}, {curve}") for curve in regrets.curves]
    panels = [
        [curve for curve in regrets.curves if curve.river == river]
        for river in dict.fromkeys(curve.river for curve in regrets.curves)
    ]
    for plain, *private in panels:
        for curve in private:
            more = regrets.more(curve, plain)
            words = f"{plain.river}, {curve} against {plain}"
            found.append(Sentence("a larger regret than UCRL-VTR", words, above_zero(more), f"{more} more"))
    for _, *private in panels:
        for small, large in pairwise(private):
            less = regrets.more(small, large)
            words = f"{small.river}, epsilon={large.epsilon:g} against {small.epsilon:g}"
            found.append(Sentence("closer as epsilon grows", words, above_zero(less), f"{less} less"))
    return found
