"""`dpaudit reproduce 000-figure-1a` and `1b`: figure 1 of Qiao and Wang (2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from dpaudit.algorithms.offline.linear_calibration import CalibrationName
from dpaudit.app.figures.figure_000 import EPISODES, FIGURES, Cell, figure_cells, finished_cells, kept_cells
from dpaudit.app.figures.figure_000_shape import Curves
from dpaudit.app.figures.figure_command import Figure, figure_options, kept, prepared
from dpaudit.app.figures.figure_page import Drawn, drawn_curves, page, summary
from dpaudit.app.figures.figure_picture import picture_of, rows_of
from dpaudit.app.main import COMMAND
from dpaudit.app.text.progress import Progress
from dpaudit.errors import UsageError

CELLS = "cells.csv"


def _command(figure: str) -> click.Command:
    """The command that draws one of the two panels."""

    @click.command(
        figure,
        epilog=f"""\b
Examples:
  dpaudit reproduce {figure} -o out
  dpaudit reproduce {figure} --scaling -o out
""",
    )
    @figure_options(runs=5)
    @click.option(
        "--calibration",
        type=click.Choice(["sound", "as-published"]),
        default="sound",
        show_default=True,
        help="Of the noise.",
    )
    @click.option(
        "--features",
        type=click.Choice(["normalised", "raw"]),
        default="normalised",
        show_default=True,
        help="raw: as in the paper's own experiment.",
    )
    @click.option(
        "--episodes",
        type=click.IntRange(min=1),
        multiple=True,
        metavar="K",
        help=f"Numbers of episodes; repeatable; default {EPISODES[0]} to {EPISODES[-1]}.",
    )
    @click.option("--scaling", is_flag=True, help="Let K grow on, beyond the figure.")
    @click.option(
        "--largest",
        type=click.IntRange(min=1),
        default=100_000,
        show_default=True,
        metavar="K",
        help="Where the scaling run ends.",
    )
    @click.pass_context
    def command(
        ctx: click.Context,
        *,
        folder: Path | None,
        calibration: CalibrationName,
        features: str,
        runs: int,
        episodes: tuple[int, ...],
        scaling: bool,
        largest: int,
        workers: int,
        seed: int,
        output_format: str,
    ) -> None:
        """Draw the figure again: DP-VAPVI against VAPVI and PEVI."""
        path = prepared(folder) / CELLS
        panel, normalised = FIGURES[figure], features == "normalised"
        seeds, ks = range(seed, seed + runs), sorted(set(episodes or EPISODES))

        def cells(of: Sequence[int], pevi: tuple[float, ...]) -> list[Cell]:
            return figure_cells(
                replace(panel, pevi=pevi), seeds, of, calibration=calibration, normalised=normalised
            )

        asked = cells(ks, panel.pevi)
        # PEVI is not part of the question at which K DP-VAPVI comes close to VAPVI.
        further = cells(_further(ks[-1], largest), ()) if scaling else []
        progress = Progress(len(asked) + len(further), "runs")
        with kept(path, progress, lambda: kept_cells(asked + further, path)):
            found = finished_cells(asked + further, path=path, workers=workers, progress=progress)
        drawn = Drawn(
            name=figure,
            figure=panel,
            calibration=calibration,
            normalised=normalised,
            command=ctx.meta.get(COMMAND, f"dpaudit reproduce {figure}"),
            curves=Curves(found[: len(asked)]),
            scaling=Curves([cell for cell in found if cell.algorithm != "pevi"]) if scaling else None,
        )
        reached = [
            f"rho={rho:g}: close to VAPVI " + (f"from K={k} on" if k else f"not up to K={largest}")
            for rho, k in drawn.reached().items()
        ]
        _figure(drawn, path).answer(drawn.sentences(), summary(drawn), output_format, reached)

    return command


def _figure(drawn: Drawn, cells: Path) -> Figure:
    variant = "" if drawn.calibration == "sound" else f"-{drawn.calibration}"
    stem = drawn.name + variant + ("" if drawn.normalised else "-raw")
    curves = {stem: (drawn.curves, False)}
    if drawn.scaling is not None:
        curves[f"{stem}-scaling"] = (drawn.scaling, True)
    charts = {}
    for name, (of, logarithmic) in curves.items():
        rows = rows_of(of, drawn_curves(of, drawn.figure))
        title = f"{drawn.figure.title}; noise {drawn.calibration}"
        charts[name] = (picture_of(rows, title=title, logarithmic=logarithmic), rows)
    return Figure(drawn.name, stem, charts, page(drawn, f"{stem}.svg", f"{stem}-scaling.svg"), cells)


def _further(begin: int, largest: int) -> list[int]:
    """1, 3, 10, 30, ... beyond the figure."""
    ladder = (factor * 10**power for power in range(len(str(largest))) for factor in (1, 3))
    further = [k for k in ladder if begin < k <= largest]
    if not further:
        raise UsageError(
            f"nothing between the figure's {begin} episodes and {largest}",
            where="--largest",
            why="a scaling run goes beyond the figure",
            remedy="give a larger K",
        )
    return further


figure_1a = _command("000-figure-1a")
figure_1b = _command("000-figure-1b")
