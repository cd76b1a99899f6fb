"""Pairs of the given records: what every replay searches, what it leaves alone, and what it shows."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit import L2, ApproxDP, Claim, Curator, Gaussian, Pair
from dpaudit.app.main import main
from dpaudit.auditors.replay import worse_pairs
from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.replay.smallest_pair import literal
from dpaudit.certificate.conditions import Code
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.processes.host import AVAILABLE

Algorithm = Callable[[Any, Curator], Any]

NOISE = Gaussian(sigma=4.0, sensitivity=L2(1.0))
ROWS = np.array([0.4, 0.1, 0.9, 0.3, 0.6])
REMOVED = Pair(ROWS, np.delete(ROWS, 3))


def audited(
    algorithm: Algorithm, pair: Pair = REMOVED, relation: Any = "add-or-remove-one", **options: Any
) -> Audit:
    claim = Claim(
        ApproxDP(epsilon=9.0, delta=1e-5), unit=options.pop("unit", "record"), neighbouring=relation
    )
    return replay(algorithm, [pair], claim=claim, replays=1, extreme_outputs=False, **options)


def scaled(data: Any, curator: Curator) -> float:
    low, high = np.min(data), np.max(data)
    total = ((np.asarray(data) - low) / max(high - low, 1e-9)).sum()
    return float(curator.release(total, NOISE, label="sum"))


def summed(data: Any, curator: Curator) -> float:
    return float(curator.release(float(np.clip(data, 0.0, 1.0).sum()), NOISE, label="sum"))


def two_parts(data: Any, curator: Curator) -> tuple[float, float]:
    """The given pair moves the first sum, and others the second."""
    low, high = (float(data[side].sum()) for side in (data < 0.5, data >= 0.5))
    made = [curator.release(value, NOISE, label=label) for value, label in ((low, "low"), (high, "high"))]
    return float(made[0]), float(made[1])


@pytest.mark.parametrize("in_process", [True, False])
def test_a_search_is_the_default_and_can_be_left_out(in_process: bool) -> None:
    kept: list[str] = []
    assert audited(scaled, in_process=in_process, search_pairs=False).verdict is Experiment.NOT_REFUTED
    found = audited(scaled, in_process=in_process, keep_pair=kept.append)
    assert (found.verdict, found.pairs) == (Experiment.REFUTED, 2)
    assert found.smallest_pair
    made: dict[str, Any] = {}
    exec(kept[0], made)  # noqa: S102  (the file that an audit wrote)
    again = audited(scaled, made["pair"](), search_pairs=False, in_process=True)
    assert {one.kind for one in again.findings} == {"sensitivity"}
    assert len(made["pair"]().data) <= 3


def test_a_search_is_the_same_every_time_and_ends() -> None:
    runs = [0]

    def counted(data: Any, curator: Curator) -> float:
        runs[0] += 1
        return summed(data, curator)

    first = audited(counted, in_process=True)
    made = runs[0]
    assert audited(counted, in_process=True) == first
    alone = made
    runs[0] = 0
    audited(counted, in_process=True, search_pairs=False)
    assert 0 < alone - runs[0] <= worse_pairs.RUNS
    runs[0] = 0
    audited(counted, in_process=True, search_seconds=1e-9)
    assert runs[0] < alone


def test_what_a_searched_pair_moved_has_moved() -> None:
    codes = [
        {one.code for one in audited(two_parts, search_pairs=search).not_checked} for search in (False, None)
    ]
    assert [Code.UNMOVED in each for each in codes] == [True, False]


def test_only_records_of_the_pair_and_as_many_are_tried() -> None:
    """Under replace-one their number is public, whether or not it is written into the algorithm."""
    seen: list[Any] = []

    def noted(data: Any, curator: Curator) -> float:
        seen.append(data)
        return summed(data, curator)

    other = np.where(ROWS == 0.3, 0.8, ROWS)
    audited(noted, Pair(ROWS, other), "replace-one", in_process=True)
    assert {len(each) for each in seen} == {4, 5}  # once without a record: whether it takes records at all
    assert set(np.concatenate(seen)) == {*ROWS, 0.8}
    assert len({tuple(each) for each in seen}) > 10


def test_numbers_that_are_no_records_stay_as_they_are() -> None:
    counts = np.array([10.0, 20.0, 30.0])
    pair = Pair(counts, counts + np.array([1.0, 0.0, 0.0]))

    def vector(data: Any, curator: Curator) -> Any:
        return curator.release(data, NOISE, label="counts")

    def single(data: Any, curator: Curator) -> Any:
        first, second, third = data
        return curator.release([first + second, third], NOISE, label="two")

    for algorithm in (vector, single):
        found = audited(algorithm, pair, "replace-one")
        assert found.verdict is Experiment.NOT_REFUTED
        assert Code.PAIRS_NOT_SEARCHED in {one.code for one in found.not_checked}

    def total(data: Any, curator: Curator) -> Any:
        return curator.release(data.sum(), NOISE, label="total")

    assert audited(total, pair, "replace-one").verdict is Experiment.NOT_REFUTED
    # A pair that replaces an entry says nothing about taking one away.
    assert audited(total, pair).verdict is Experiment.NOT_REFUTED


def test_data_on_which_it_raises_are_passed_over() -> None:
    def strict(data: Any, curator: Curator) -> float:
        if len(data) < 3:
            raise ValueError("three records at least")
        return scaled(data, curator)

    def stricter(data: Any, curator: Curator) -> float:
        if len(set(data)) < 4:
            raise ValueError("four records differ")
        return summed(data, curator)

    assert audited(strict).verdict is Experiment.REFUTED
    assert audited(stricter).verdict is Experiment.NOT_REFUTED


def test_zero_out_pairs_are_searched() -> None:
    zeroed = np.where(ROWS == 0.3, 0.0, ROWS)

    def over_the_largest(data: Any, curator: Curator) -> float:
        return summed(data / max(data.max(), 1e-9), curator)

    assert audited(over_the_largest, Pair(ROWS, zeroed), "zero-out").verdict is Experiment.REFUTED
    assert audited(summed, Pair(ROWS, zeroed), "zero-out").verdict is Experiment.NOT_REFUTED


def test_a_given_pair_s_finding_is_made_small_too() -> None:
    def leaky(data: Any, curator: Curator) -> Any:
        return summed(data, curator), float(np.max(data))

    given = Pair(np.linspace(0.0, 1.0, 40), np.linspace(0.0, 1.0, 40)[:-1])
    found = audited(leaky, given)
    assert found.pairs == 1
    assert "2 records against 1 record, [0.0, 1.0] and [0.0]" in str(found.smallest_pair)
    private = audited(leaky, Pair(given.data, given.neighbour, stand_ins=(np.zeros(2),)))
    assert private.smallest_pair == "2 records against 1 record"


@pytest.mark.parametrize("in_process", [True, False])
def test_rows_of_a_frame_are_searched_and_shrunk_to_a_file(in_process: bool) -> None:
    frame = pd.DataFrame(
        {
            "x": ROWS,
            "town": pd.Categorical(["Bern", "Genf", None, "Genf", "Bern"]),
            "day": pd.to_datetime(["2024-01-0" + str(day) for day in (1, 2, 3, 4, 5)]),
        }
    )

    def over_the_largest(data: Any, curator: Curator) -> float:
        return summed(data["x"] / max(data["x"].max(), 1e-9), curator)

    kept: list[str] = []
    given = Pair(frame, frame.drop(3))
    found = audited(over_the_largest, given, in_process=in_process, keep_pair=kept.append)
    assert found.verdict is Experiment.REFUTED
    made: dict[str, Any] = {}
    exec(kept[0], made)  # noqa: S102  (the file that an audit wrote)
    small = made["pair"]()
    assert [*small.data.dtypes] == [*frame.dtypes]
    assert len(small.data) <= 4
    assert audited(over_the_largest, small, search_pairs=False).verdict is Experiment.REFUTED


def test_rows_of_other_units_are_taken_out_of_both_tables() -> None:
    """All rows of a unit may differ, and each of two tables keeps one of them."""
    frame = pd.DataFrame({"user": [*"aabbccdd"], "x": [*[0.4] * 6, 0.9, 0.7]})
    other = frame.assign(x=frame["x"].where(frame["user"] != "d", 0.0))

    def over_the_largest(data: Any, curator: Curator) -> float:
        return summed(data["x"] / max(data["x"].max(), 1e-9), curator)

    found = audited(over_the_largest, Pair(frame, other), "replace-one", unit="user")
    assert found.verdict is Experiment.REFUTED
    sizes = [int(word) for word in str(found.smallest_pair).split() if word.isdigit()][:2]
    assert max(sizes) <= 4


def test_a_loss_beyond_the_claim_is_shown_on_the_smallest_pair() -> None:
    """The ledger is true, and no finding is made: the pair's exact loss refutes alone."""
    other = np.where(ROWS == 0.3, 0.9, ROWS)
    half = Claim(ApproxDP(epsilon=0.1, delta=1e-5))
    kept: list[str] = []
    found = replay(summed, [Pair(ROWS, other)], claim=half, replays=2, keep_pair=kept.append)
    assert (found.findings, found.verdict) == ((), Experiment.REFUTED)
    assert str(found.smallest_pair).startswith("1 record against 1 record, [")
    made: dict[str, Any] = {}
    exec(kept[0], made)  # noqa: S102  (the file that an audit wrote)
    again = replay(summed, [made["pair"]()], claim=half, replays=2, search_pairs=False)
    assert again.verdict is Experiment.REFUTED


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (float("inf"), 'float("inf")'),
        ((1,), "(1, )"),
        ({"a": [0.5, "x"]}, "{'a': [0.5, 'x']}"),
        (np.float32(0.5), "np.dtype('<f4').type(0.5)"),
        (np.zeros((0, 2)), "np.array([], dtype='<f8').reshape((0, 2))"),
    ],
)
def test_values_as_source(value: Any, text: str) -> None:
    assert literal(value, set()) == text


def test_what_has_no_source_is_refused() -> None:
    for value in (object(), {1.0}, np.array([object()]), lambda: None):
        with pytest.raises(TypeError):
            literal(value, set())


TARGET = """
import numpy as np
from dpaudit import L2, Gaussian, Pair

ROWS = np.array([0.4, 0.1, 0.9, 0.3, 0.6])

def scaled(data, curator):
    low, high = data.min(), data.max()
    total = ((data - low) / max(high - low, 1e-9)).sum()
    return float(curator.release(total, Gaussian(sigma=4.0, sensitivity=L2(1.0)), label="sum"))

def pair():
    return Pair(ROWS, np.delete(ROWS, 3), "a record removed")
"""


@pytest.mark.skipif(not AVAILABLE, reason="needs processes that fork")
@pytest.mark.parametrize("verb", ["audit", "certify"])
def test_the_smallest_pair_is_a_file_that_runs_again(
    verb: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(TARGET)
    target, out = f"{tmp_path}/mine.py", tmp_path / "out"
    claim = ["--epsilon", "9", "--delta", "1e-5", "--neighbouring", "add-or-remove-one"]

    def ended(*words: str) -> Any:
        with pytest.raises(SystemExit) as end:
            main([*words])
        return end.value.code

    options = ["--output-format=json", "--seed", "3", "--memory", "4000", f"-o{out}", *claim]
    assert ended(verb, "--pair", f"{target}:pair", f"{target}:scaled", *options) == 1
    file = out / "pair.py"
    assert file.stat().st_mode & 0o777 == 0o600
    again = shlex.split(capfd.readouterr().err.rpartition("run it again: ")[2])
    expected = ["dpaudit", "audit", f"{target}:scaled", "--pair", f"{file}:pair"]
    assert again == [*expected, "--seed", "3", "--memory", "4000", *claim]
    assert ended(*again[1:], "--no-search-pairs", "--trials", "1") == 1
    capfd.readouterr()


def test_a_folder_beside_a_method_that_compares_no_queries_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(TARGET)
    target = f"{tmp_path}/mine.py"
    command = ["audit", f"{target}:scaled", "--pair", f"{target}:pair", "--epsilon", "1"]
    with pytest.raises(SystemExit) as end:
        main([*command, "--method", "sequential", "-o", str(tmp_path / "out")])
    assert end.value.code == 2
    assert "use --method replay" in " ".join(capfd.readouterr().err.split())
