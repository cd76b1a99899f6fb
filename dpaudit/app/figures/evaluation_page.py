"""The page beside figure 1 of Balle, Gomrokchi and Precup (2016): what of its shape appears, with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from dpaudit.accountants.accounting import account
from dpaudit.app.figures.evaluation_picture import PANELS
from dpaudit.app.figures.figure_001 import CHAIN, GUARANTEE, SCHEDULES, Cell, algorithm_of, scheduled
from dpaudit.app.figures.figure_001_shape import CLOSE, Results
from dpaudit.app.figures.figure_picture import Row
from dpaudit.app.figures.published_claims import Appears, Sentence
from dpaudit.app.report.blocks import Block, Grid, Heading, Paragraph, Picture
from dpaudit.curator.running import run

TITLE = "Private policy evaluation on a chain"


def page(
    results: Results, rows: Sequence[Row], judged: Sequence[Sentence], *, command: str, picture: str
) -> list[Block]:
    """The page's blocks.

    Args:
        results: of all panels.
        rows: their means.
        judged: what the paper says of the figure.
        command: the command line that made it.
        picture: the file name of its picture.
    """
    schedules = ", ".join(f"{factor:g} sqrt(m) with {noise}" for noise, factor in SCHEDULES.items())
    return [
        Heading(f"001-figure-1: {TITLE}"),
        Paragraph(
            "Figure 1 of Balle, Gomrokchi and Precup, Differentially Private Policy Evaluation (ICML 2016), "
            f"drawn again by `{command}`. A chain of N={CHAIN.n_states} states, p={CHAIN.stay:g}, gamma="
            f"{CHAIN.discount:g}; every return is at most 1, which is public; {GUARANTEE}; all weights 1; "
            f"{len(results.seeds)} runs, seeds {results.seeds[0]} to {results.seeds[-1]}, at each of "
            f"{len(results.batches)} batch sizes from {results.batches[0]} to {results.batches[-1]}. "
            "Errors are root mean squares over states against exact dynamic programming. Beside the "
            "published noise (lemma) stands the least that is enough (exact). "
            f"Off panel (b) lambda is {schedules}."
        ),
        Paragraph(_summary(judged)),
        Picture(picture, f"Means of {len(results.seeds)} runs; bars: standard errors"),
        Heading("What the paper says, and what these runs say"),
        Grid(
            ("published", "about", "appears", "numbers"),
            [(s.published, s.about, s.appears, s.numbers) for s in judged],
        ),
        Heading("Privacy of these runs"),
        *_privacy(results.batches[-1]),
        *_means(rows),
    ]


def summary(results: Results, judged: Sequence[Sentence]) -> dict[str, Any]:
    """What the page says, as plain JSON types."""
    return {
        "runs": len(results.seeds),
        "batches": results.batches,
        "sentences": [
            {"published": s.published, "about": s.about, "appears": s.appears, "numbers": s.numbers}
            for s in judged
        ],
    }


def _summary(judged: Sequence[Sentence]) -> str:
    parts = []
    for published, of in groupby(judged, key=lambda sentence: sentence.published):
        answers: list[Appears] = [sentence.appears for sentence in of]
        unclear = answers.count("not told apart")
        words = f'"{published}" appears in {answers.count("yes")} of {len(answers)}'
        parts.append(words + (f", not told apart in {unclear}" if unclear else ""))
    return (
        "Of the published shape: "
        + "; ".join(parts)
        + f'. "The same solution" is read as errors within {CLOSE:g}; which of two is better is told where a '
        "95% interval over the runs excludes 0."
    )


def _privacy(largest: int) -> Iterator[Block]:
    yield Paragraph(
        "What accounting says of the ledger of such a run. The noise's scale, which the data choose, "
        "stands in none."
    )
    rows = []
    visits = CHAIN.sampled_visits(2, np.random.default_rng(0))
    for name in ("dp-lsw", "dp-lsl"):
        for noise in SCHEDULES:
            for aggregate in (1, 2):
                cell = Cell(
                    name, noise, aggregate, scheduled(noise, largest) if name == "dp-lsl" else 0.0, largest, 0
                )
                algorithm = algorithm_of(cell)
                found = account(run(algorithm, visits, seed=0).ledger)
                premises = "; ".join(
                    f"{'holds' if p.holds else 'FAILS'}: {p}" for p in algorithm.claim.premises
                )
                kind = "tabular" if aggregate == 1 else "pairs"
                rows.append((name, noise, kind, f"{algorithm.noise.alpha:.4g}", str(found.verdict), premises))
    yield Grid(("algorithm", "noise", "features", "alpha", "claim", "premises"), rows)


def _means(rows: Sequence[Row]) -> Iterator[Block]:
    for name, title in PANELS.items():
        chosen = [row for row in rows if row["panel"] == name]
        curves = list(dict.fromkeys(row["curve"] for row in chosen))
        yield Heading(f"({name}) {title}, mean and standard error")
        places = dict.fromkeys((row["episodes"], row["ridge"]) for row in chosen)
        table = {(row["episodes"], row["ridge"], row["curve"]): row for row in chosen}
        first = ("m", "lambda") if name == "b" else ("m",)
        yield Grid(
            (*first, *curves),
            [
                (
                    str(m),
                    *([f"{ridge:g}"] if name == "b" else []),
                    *(_figure(table[m, ridge, curve]) for curve in curves),
                )
                for m, ridge in places
            ],
        )


def _figure(row: Row) -> str:
    return f"{row['mean']:.3g}" + ("" if row["error"] is None else f" ± {row['error']:.2g}")
