"""The program of the tables of how near bounds come to the best: its probabilities, its limits, its page."""

import functools
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def program() -> Iterator[Any]:
    """The program, which finds the best possible bound of each number of runs once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "programs")
        made: Any = import_module("make_small_epsilon")
        patch.setattr(made, "best_possible", functools.cache(made.best_possible))
        yield made


def test_the_page_has_the_marks_between_which_the_tables_are_written(program: Any) -> None:
    page = program.PAGE.read_text(encoding="utf-8")
    assert page.count(program.END) == 2
    for begin in (program.BEGIN, program.BEGIN_GAUSSIAN):
        (written,) = page.split(begin)[1:]
        table = written.partition(program.END)[0]
        assert ("| mechanism |" in table) == (begin == program.BEGIN)
        assert ("| runs a side |" in table) == (begin == program.BEGIN_GAUSSIAN)


@pytest.mark.parametrize("name", ["SVT5", pytest.param("all", marks=pytest.mark.nightly)])
def test_the_page_has_the_best_event_and_the_shares_of_the_medians(program: Any, name: str) -> None:
    for one in program.MECHANISMS if name == "all" else [name]:
        check_row(program, one)


def check_row(program: Any, name: str) -> None:
    (row,) = [line for line in program.PAGE.read_text("utf-8").splitlines() if line.startswith(f"| `{name}`")]
    best, median, _, share, given, second_share = row.strip("| ").split(" | ")[1:]
    assert best == f"{program.MECHANISMS[name].best(program.RUNS):.3g}"
    for middle, stated in ((median, share), (given, second_share)):
        assert float(stated.rstrip("%")) == pytest.approx(100 * float(middle) / float(best), abs=1.5)


def test_given_the_likelihood_ratio_every_median_is_at_least_85_percent(program: Any) -> None:
    lines = program.PAGE.read_text("utf-8").splitlines()
    for name in program.MECHANISMS:
        (row,) = [line for line in lines if line.startswith(f"| `{name}`")]
        assert int(row.strip("| ").split(" | ")[-1].rstrip("%")) >= 85, row


def test_a_given_likelihood_ratio_is_that_of_the_outcomes(program: Any) -> None:
    """Half of them: where the ratio is r, e^r as many runs are on the data, within 6 standard errors."""
    for name in ("NoisyHist1", "SVT3", "SVT5", "SVT6"):
        mechanism = program.MECHANISMS[name]
        samples, ratios = mechanism.samples(40_000, 1), mechanism.ratios()
        data, neighbour = (ratios[mechanism.place(side)] for side in (samples.data, samples.neighbour))
        edges = np.unique(
            np.quantile(np.concatenate([data, neighbour]), np.linspace(0, 1, 9), method="lower")
        )
        at, beside = (np.searchsorted(edges, side) for side in (data, neighbour))
        for cell in np.unique(at):
            here, there = data[at == cell], neighbour[beside == cell]
            # Weighted by e^-r, the runs on the data stand for those on the neighbour.
            weights = np.exp(-here)
            spread = np.sqrt(np.sum(weights**2) + len(there))
            assert abs(weights.sum() - len(there)) <= 6 * spread + 2, (name, cell)


@pytest.mark.nightly
def test_the_page_has_the_bounds_of_its_audits(program: Any) -> None:
    bounds = sorted(program.bounds(program.MECHANISMS["ReportNoisyMax3"], program.AUDITS))
    least, middle, largest = (f"{bounds[at]:.3g}" for at in (0, len(bounds) // 2, -1))
    assert f"| {middle} | {least} to {largest} |" in program.PAGE.read_text("utf-8")


def test_the_best_event_of_svt5_is_the_one_that_the_other_side_never_has(program: Any) -> None:
    # Its threshold, 1 + Laplace noise of scale 20, lies within 1 of 1: then 5 of 10 answers are yes.
    runs, likely = program.RUNS, 1 - np.exp(-1 / 20)
    bound = program.MECHANISMS["SVT5"].best(runs)
    # A count of 0 means at most 3 at 95%; the exact test, which allows for other counts too, about 5.
    most = np.log(likely * runs / -np.log(0.05))
    assert most - 0.5 < bound < most


@pytest.mark.parametrize("name", ["SVT4", "SVT5", "SVT6"])
def test_the_probabilities_are_those_of_the_draws(program: Any, name: str) -> None:
    """Each frequency in 40,000 runs is within 6 standard errors: some 50 of them err once in 10^7."""
    mechanism, runs = program.MECHANISMS[name], 40_000
    samples = mechanism.samples(runs, 1)
    for outputs, answers in zip((samples.data, samples.neighbour), mechanism.pair, strict=True):
        probabilities = mechanism.cells(answers)
        counts = np.bincount(mechanism.place(outputs), minlength=len(probabilities))
        if name == "SVT5" and probabilities[1] == 0.0:
            assert counts[1] == 0
        spread = np.sqrt(runs * probabilities * (1 - probabilities)) + 1
        assert np.all(np.abs(counts - runs * probabilities) <= 6 * spread)


def test_the_probabilities_of_values_are_those_of_the_draws(program: Any) -> None:
    """As the others, of values in groups of 200 cells: some 3,400 of them err once in 10^5."""
    runs = 40_000
    for name in ("NoisyHist1", "NoisyHist2", "SVT3", "ReportNoisyMax3", "ReportNoisyMax4"):
        mechanism = program.MECHANISMS[name]
        samples = mechanism.samples(runs, 1)
        for outputs, answers in zip((samples.data, samples.neighbour), mechanism.pair, strict=True):
            cells = mechanism.cells(answers)
            assert cells.sum() == pytest.approx(1.0, abs=1e-6)
            groups = np.arange(len(cells)) // 200
            share = np.bincount(groups, cells)
            counts = np.bincount(groups[mechanism.place(outputs)], minlength=len(share))
            assert np.all(np.abs(counts - runs * share) <= 6 * np.sqrt(runs * share * (1 - share)) + 2)


def test_an_innocent_mechanism_has_no_event_beyond_its_claim(program: Any) -> None:
    p, q = (
        program.MECHANISMS["NoisyHist1"].cells(answers) for answers in program.MECHANISMS["NoisyHist1"].pair
    )
    likely = np.minimum(p, q) > 1e-9  # in smaller cells rounding is seen
    assert np.abs(np.log(p[likely] / q[likely])).max() <= 0.1 + 1e-6


def test_a_table_is_written_between_its_marks(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{program.BEGIN}old\n{program.END}after\n", encoding="utf-8")
    monkeypatch.setattr(program, "PAGE", page)
    monkeypatch.setattr(program, "RUNS", 2_000)
    monkeypatch.setattr("sys.argv", ["x", "--audits", "3", "--known", "1", "--only", "NoisyHist2", "--write"])
    assert program.main() == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert re.search(r"\| `NoisyHist2` \| \d\.\d+ \| \d\.\d+ \|", text)


def gaussian_rows(text: str) -> dict[int, list[float]]:
    """The numbers of each row of the second table."""
    rows = [
        line.replace(",", "").split("|")[1:-1]
        for line in text.splitlines()
        if re.match(r"\| [\d,]+ \|", line)
    ]
    return {int(runs): [float(cell) for cell in cells] for runs, *cells in rows}


def test_no_median_of_the_page_exceeds_the_best_possible(program: Any) -> None:
    written = program.PAGE.read_text("utf-8").split(program.BEGIN_GAUSSIAN)[1]
    assert written.startswith("\n" + next(program.gaussian_table()))
    rows = gaussian_rows(written)
    assert tuple(rows) == program.SIZES
    for runs, (best, *medians) in rows.items():
        assert best == round(program.best_possible(runs), 3)
        assert len(medians) == len(program.METHODS)
        assert max(medians) < best
    assert rows[10_000][1] >= 2.31


@pytest.mark.parametrize("epsilon", [1.0, 2.03, 3.676])
def test_the_nearest_pair_keeps_the_claim(program: Any, epsilon: float) -> None:
    near = program._P / np.exp(program.nearest(epsilon))
    assert near.sum() == pytest.approx(1.0, abs=1e-12)
    beyond = np.maximum(near - np.exp(epsilon) * near[::-1], 0.0).sum()
    assert beyond == pytest.approx(program.DELTA, rel=1e-9)


def test_the_best_possible_bound_is_that_of_large_samples(program: Any) -> None:
    """Were the log-likelihood ratio normal, its mean would be half of its variance: z^2 / 2 at the bound."""
    z = norm.isf(program.ERROR)
    for runs in program.SIZES:
        best = program.best_possible(runs)
        mean = 2 * runs * (program._P @ program.nearest(best))
        assert mean == pytest.approx(z**2 / 2, rel=0.02)


def test_the_best_test_errs_as_often_as_in_draws(program: Any, nightly: bool) -> None:
    """Within 6 standard errors of all draws, half as large for the median as for the errors."""
    runs, epsilon, generator = 1_000, 2.0, np.random.default_rng(1)
    draws = 40_000 if nightly else 10_000
    ratio = program.nearest(epsilon)
    near = program._P / np.exp(ratio)
    values, cells = np.unique(np.round(ratio, 5), return_inverse=True)
    true, refuted = (
        generator.multinomial(2 * runs, np.bincount(cells, chances) / chances.sum(), size=draws) @ values
        for chances in (program._P, near)
    )
    error = program.least_error(epsilon, runs)
    assert np.mean(refuted > np.median(true)) == pytest.approx(error, abs=9 * np.sqrt(error / draws))


def test_a_gaussian_table_is_written_between_its_marks(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nightly: bool
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{program.BEGIN_GAUSSIAN}stale\n{program.END}after\n", encoding="utf-8")
    monkeypatch.setattr(program, "PAGE", page)
    monkeypatch.setattr(program, "SIZES", (1_000,))
    audits = dict(zip(program.METHODS, (3, 3 if nightly else 1), strict=True))  # the second takes longest
    monkeypatch.setattr(program, "METHODS", audits)
    monkeypatch.setattr("sys.argv", ["x", "--only", "Gaussian", "--write"])
    assert program.main() == 0
    text = page.read_text(encoding="utf-8")
    assert re.fullmatch(r"before\n<!-- .*\nafter\n", text, re.DOTALL)
    assert "stale" not in text
    ((runs, (_, *medians)),) = gaussian_rows(text).items()
    for (method, number), median in zip(audits.items(), medians, strict=True):
        samples = [program.gaussian_samples(runs, seed) for seed in range(number)]
        bounds = [method(each, delta=1e-5).epsilon_lower for each in samples]
        assert median == round(float(np.median(bounds)), 2)
