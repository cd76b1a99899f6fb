"""The page beside figure 1 of Qiao and Wang (2023): what of the published shape appears, with the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.environments.linear_mdp import appendix_f_behaviour
from dpaudit.algorithms.offline.dp_vapvi import DPVAPVI
from dpaudit.algorithms.offline.linear_calibration import CalibrationName
from dpaudit.app.figures.figure_000 import Figure, process_of
from dpaudit.app.figures.figure_000_shape import CLOSE, Curve, Curves, reached, sentences
from dpaudit.app.figures.published_claims import Sentence
from dpaudit.app.report.blocks import Block, Grid, Heading, Paragraph, Picture
from dpaudit.app.text.output import upper
from dpaudit.certificate.verdicts import leading_figure
from dpaudit.claims.guarantees import ZCDP
from dpaudit.curator.running import run


@dataclass(frozen=True)
class Drawn:
    """A figure with its data.

    Attributes:
        name: as in `dpaudit reproduce NAME`.
        figure: which panel.
        calibration: of the noise.
        normalised: features.
        command: the command line that made it.
        curves: at the figure's numbers of episodes.
        scaling: at these and more, where a scaling run was asked for.
    """

    name: str
    figure: Figure
    calibration: CalibrationName
    normalised: bool
    command: str
    curves: Curves
    scaling: Curves | None = None

    @property
    def optimum(self) -> float:
        """v*, exact."""
        mdp = process_of(self.figure)
        return float(mdp.initial @ mdp.optimal_values()[0])

    def sentences(self) -> list[Sentence]:
        """What the paper says of the figure, judged."""
        return sentences(self.curves, self.optimum)

    def reached(self) -> dict[float, int | None]:
        """Of each budget the first K of the scaling run from which DP-VAPVI stays close to VAPVI."""
        scaling = self.scaling
        if scaling is None:
            return {}
        return {curve.rho: reached(scaling, curve, self.optimum) for curve in scaling.of("dp-vapvi")}


def page(drawn: Drawn, picture: str, scaling_picture: str) -> list[Block]:
    """The page's blocks.

    Args:
        drawn: the figure.
        picture: the file name of its picture.
        scaling_picture: and of its scaling run's.
    """
    judged = drawn.sentences()
    blocks = [
        Heading(f"{drawn.name}: {drawn.figure.title}"),
        Paragraph(
            "Figure 1 of Qiao and Wang, Offline Reinforcement Learning with Differential Privacy (NeurIPS "
            f"2023), drawn again by `{drawn.command}`. {_setting(drawn)}"
        ),
        Paragraph(_summary(judged)),
        Picture(picture, _caption(drawn.curves)),
        Heading("What the paper says, and what these runs say"),
        Grid(
            ("published", "about", "appears", "numbers"),
            [(s.published, s.about, s.appears, s.numbers) for s in judged],
        ),
        Heading("Privacy of these runs"),
        *_privacy(drawn),
        Heading("Suboptimality, mean and 95% interval"),
        _means(drawn.curves),
        Heading("At which K it would appear"),
        *_scaling(drawn, scaling_picture),
    ]
    return list(blocks)


def _setting(drawn: Drawn) -> str:
    ks, seeds = drawn.curves.ks, drawn.curves.seeds
    mdp = process_of(drawn.figure)
    features = "normalised to norm 1" if drawn.normalised else "raw, as in the paper's own experiment"
    uniform = np.full((mdp.horizon, *mdp.features.shape[:2]), 1.0 / mdp.features.shape[1])
    return (
        f"Noise {drawn.calibration}, features {features}; the example of appendix F, "
        f"process {drawn.figure.instance}, H={mdp.horizon}, data not split; {len(seeds)} runs, "
        f"seeds {seeds[0]} to {seeds[-1]}, at each of {len(ks)} values of K from {ks[0]} to {ks[-1]}. "
        f"The optimal value is {drawn.optimum:.2f}; the behaviour policy loses "
        f"{mdp.suboptimality(appendix_f_behaviour(mdp.horizon)):.2f} of it, uniformly random actions "
        f"{mdp.suboptimality(uniform):.2f}."
    )


def _summary(judged: Sequence[Sentence]) -> str:
    parts = []
    for published in dict.fromkeys(sentence.published for sentence in judged):
        answers = [sentence.appears for sentence in judged if sentence.published == published]
        times = answers.count("yes")
        unclear = answers.count("not told apart")
        words = f"appears in {times} of {len(answers)}"
        parts.append(f'"{published}" {words}' + (f", not told apart in {unclear}" if unclear else ""))
    return (
        "Of the published shape: "
        + "; ".join(parts)
        + f'. "Slightly" and "converges" are read as within {CLOSE:.0%} '
        "of the optimal value; which of two is better is told where a 95% interval over the runs excludes 0."
    )


def _caption(curves: Curves) -> str:
    band = "; bands: 95% intervals of the mean" if len(curves.seeds) > 1 else ""
    return f"Suboptimality, mean of {len(curves.seeds)} runs{band}"


def _privacy(drawn: Drawn) -> Iterator[Block]:
    rows = []
    mdp = process_of(drawn.figure, normalised=drawn.normalised)
    episodes = mdp.sample_trajectories(2, appendix_f_behaviour(mdp.horizon), np.random.default_rng(0))
    for rho in drawn.figure.rhos:
        algorithm = DPVAPVI(mdp.features, mdp.horizon, ZCDP(rho=rho), calibration=drawn.calibration)
        found = account(run(algorithm, episodes, seed=0).ledger)
        short = sum(release.verdict == "NOT_PROVED" for release in found.releases)
        premises = "; ".join(f"{'holds' if p.holds else 'FAILS'}: {p}" for p in algorithm.claim.premises)
        total = upper(leading_figure(found.bounds[0].guarantee))
        rows.append((f"{rho:g}", str(found.verdict), total, f"{short} of {len(found.releases)}", premises))
    yield Paragraph(
        "What accounting says of the ledger of such a run; where a premise fails, the total is what it would "
        "be if it held. docs/papers.md has the audits."
    )
    yield Grid(
        ("rho claimed", "claim", "total rho", "releases whose own claim is not proved", "premise"), rows
    )


def _means(curves: Curves) -> Grid:
    columns = [[str(found) for found in curves.estimates(curve)] for curve in curves.table]
    rows = [(str(k), *cells) for k, *cells in zip(curves.ks, *columns, strict=True)]
    return Grid(("K", *map(str, curves.table)), rows)


def _scaling(drawn: Drawn, picture: str) -> Iterator[Block]:
    scaling = drawn.scaling
    if scaling is None:
        yield Paragraph(
            f"Not run: `dpaudit reproduce {drawn.name} --scaling -o DIR` lets K grow beyond the figure."
        )
        return
    found = drawn.reached()
    yield Picture(picture, f"{_caption(scaling)}; K on a logarithmic axis")
    yield Grid(
        ("rho", f"within {CLOSE * drawn.optimum:.2f} of VAPVI from K on, up to {scaling.ks[-1]}"),
        [(f"{rho:g}", _place(rho, found, scaling.ks[-1])) for rho in found],
    )
    curves = scaling.of("dp-vapvi")
    gaps = [[str(gap) for gap in scaling.gaps(curve)] for curve in curves]
    yield Paragraph("How far DP-VAPVI lies above VAPVI:")
    yield Grid(
        ("K", *map(str, curves)),
        [(str(k), *cells) for k, *cells in zip(scaling.ks, *gaps, strict=True)],
    )


def _place(rho: float, found: dict[float, int | None], largest: int) -> str:
    k = found[rho]
    if k is not None:
        return f"{k}"
    words = f"not up to {largest}"
    known = [(budget, place) for budget, place in found.items() if place is not None]
    if known:
        # Noise has a standard deviation of order 1/sqrt(rho), and what it hides grows as K.
        budget, place = min(known)
        guess = _round(place * math.sqrt(budget / rho))
        words += f"; extrapolated from rho={budget:g} by K ~ 1/sqrt(rho): about {guess}"
    return words


def _round(k: float) -> str:
    return f"{float(f'{k:.1g}'):,.0f}".replace(",", " ")


def summary(drawn: Drawn) -> dict[str, Any]:
    """What the page says, as plain JSON types."""
    return {
        "optimum": drawn.optimum,
        "runs": len(drawn.curves.seeds),
        "sentences": [
            {"published": s.published, "about": s.about, "appears": s.appears, "numbers": s.numbers}
            for s in drawn.sentences()
        ],
        "reached": [{"rho": rho, "episodes": k} for rho, k in drawn.reached().items()],
    }


def drawn_curves(curves: Curves, figure: Figure) -> list[Curve]:
    """The curves that the picture shows: PEVI with its first constant alone."""
    shown = figure.pevi[:1]
    return [curve for curve in curves.table if curve.algorithm != "pevi" or curve.bonus in shown]
