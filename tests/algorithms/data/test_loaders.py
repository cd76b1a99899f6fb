import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit.algorithms.data.loaders import COLUMNS, read_csv, read_parquet, read_trajectories, write_csv
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.tabular import random_mdp, uniform_policy
from dpaudit.errors import DataError, InvalidParameter, MissingExtra

HEADER = ",".join(COLUMNS)
# Two episodes of three steps, S = 3, A = 2.
LINES = [
    "7,0,0,1,0.0,1",
    "7,1,1,0,0.5,2",
    "7,2,2,1,1.0,0",
    "9,0,1,0,0.25,1",
    "9,1,1,1,0.0,2",
    "9,2,2,0,0.0,2",
]


def write(folder: Path, lines: list[str], header: str = HEADER) -> Path:
    path = folder / "records.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def some_data(n: int = 50, seed: int = 0) -> TrajectoryData:
    mdp = random_mdp(4, 3, 5, seed)
    return mdp.sample_trajectories(n, uniform_policy(mdp), np.random.default_rng(seed))


def test_csv_round_trip_is_exact(tmp_path: Path) -> None:
    data = some_data()
    path = tmp_path / "records.csv"
    write_csv(data, path)
    assert read_csv(path, n_states=4, n_actions=3, horizon=5) == data
    assert read_trajectories(path, n_states=4, n_actions=3) == data
    assert list(tmp_path.iterdir()) == [path]


def test_order_of_lines_and_columns_quotes_blank_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    expected = read_csv(write(tmp_path, LINES), n_states=3, n_actions=2)
    shuffled = [LINES[index] for index in (3, 5, 0, 2, 4, 1)]
    assert read_csv(write(tmp_path, shuffled), n_states=3, n_actions=2) == expected
    swapped = [",".join(reversed(line.split(","))) for line in LINES]
    reversed_header = ",".join(reversed(COLUMNS))
    assert read_csv(write(tmp_path, swapped, reversed_header), n_states=3, n_actions=2) == expected
    path = tmp_path / "spreadsheet.csv"
    quoted = "\r\n".join([HEADER, *(f'"{line.replace(",", chr(34) + "," + chr(34))}"' for line in LINES), ""])
    path.write_bytes(b"\xef\xbb\xbf" + quoted.encode())
    assert read_csv(path, n_states=3, n_actions=2) == expected


def edited(position: int, line: str) -> list[str]:
    return [*LINES[:position], line, *LINES[position + 1 :]]


DEFECTS: dict[str, tuple[list[str], str, str]] = {
    # name: lines, what the message says, where
    "missing step": ([*LINES[:1], *LINES[2:]], "step 1 is missing in episode 7", "line 3"),
    "missing first step": (LINES[1:], "step 0 is missing in episode 7", "line 2"),
    "steps from one": ([line.replace(",0,", ",1,", 1) for line in LINES[:1]], "step 0 is missing", "line 2"),
    "duplicate step": ([*LINES, LINES[4]], "step 1 occurs twice in episode 9", "line 8"),
    "negative step": ([*LINES, "7,-1,0,0,0,0"], "step -1", "line 8"),
    "state too large": (edited(1, "7,1,3,0,0.5,2"), "state 3 is not in 0..2", "line 3"),
    "negative state": (edited(1, "7,1,-1,0,0.5,2"), "state -1 is not in 0..2", "line 3"),
    "last state too large": (edited(2, "7,2,2,1,1.0,3"), "next_state 3 is not in 0..2", "line 4"),
    "action too large": (edited(0, "7,0,0,2,0.0,1"), "action 2 is not in 0..1", "line 2"),
    "fractional state": (edited(4, "9,1,1.5,1,0.0,2"), "state 1.5 is not a finite integer", "line 6"),
    "fractional action": (edited(4, "9,1,1,0.5,0.0,2"), "action 0.5 is not a finite integer", "line 6"),
    "fractional episode": (edited(4, "9.5,1,1,1,0.0,2"), "episode 9.5", "line 6"),
    "huge episode": (edited(4, "9007199254740993,1,1,1,0.0,2"), "episode 9007199254740992", "line 6"),
    "state NaN": (edited(4, "9,1,nan,1,0.0,2"), "state nan", "line 6"),
    "infinite step": (edited(4, "9,inf,1,1,0.0,2"), "step inf", "line 6"),
    "reward above one": (edited(5, "9,2,2,0,1.5,2"), "reward 1.5 is not a number in [0, 1]", "line 7"),
    "reward below zero": (edited(5, "9,2,2,0,-0.5,2"), "reward -0.5", "line 7"),
    "reward NaN": (edited(5, "9,2,2,0,nan,2"), "reward nan", "line 7"),
    "ragged horizon": (
        [*LINES, "9,3,2,0,0.0,2", "8,0,0,0,0,0", "8,1,0,0,0,0", "8,2,0,0,0,0"],
        "has 4",
        "line 8",
    ),
    "next state elsewhere": (edited(3, "9,0,1,0,0.25,0"), "next_state 0, but step 1 is in state 1", "line 5"),
    "no episodes": ([], "no episodes", "the table"),
    "word": (edited(2, "7,2,two,1,1.0,0"), "state 'two' is not a number", "line 4"),
    "empty field": (edited(2, "7,2,,1,1.0,0"), "state '' is not a number", "line 4"),
    "short line": (edited(2, "7,2,2,1,1.0"), "5 fields, the header has 6", "line 4"),
    "long line": (edited(2, "7,2,2,1,1,0,0"), "7 fields, the header has 6", "line 4"),
    "decimal commas throughout": (["7,0,0,1,0,5,1"], "7 fields, the header has 6", "line 2"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_named_with_its_line(name: str, tmp_path: Path) -> None:
    lines, what, where = DEFECTS[name]
    with pytest.raises(DataError) as caught:
        read_csv(write(tmp_path, lines), n_states=3, n_actions=2)
    assert what in caught.value.what
    assert where in caught.value.where
    assert caught.value.why
    assert caught.value.remedy


def test_the_line_is_right_behind_blank_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 5"):
        read_csv(write(tmp_path, ["", LINES[0], "", "7,1,5,0,0.5,2"]), n_states=3, n_actions=2)


@pytest.mark.parametrize(
    "header", ["episode,step,state,action,reward", HEADER + ",name", HEADER + ",step", ""]
)
def test_headers_that_are_not_the_six_columns(header: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="columns missing"):
        read_csv(write(tmp_path, LINES, header), n_states=3, n_actions=2)


def test_a_declared_horizon_is_held(tmp_path: Path) -> None:
    assert read_csv(write(tmp_path, LINES), n_states=3, n_actions=2, horizon=3).horizon == 3
    with pytest.raises(DataError, match="has 3 steps; the horizon is 4"):
        read_csv(write(tmp_path, LINES), n_states=3, n_actions=2, horizon=4)
    with pytest.raises(InvalidParameter, match="horizon"):
        read_csv(write(tmp_path, LINES), n_states=3, n_actions=2, horizon=0)


def test_sizes_are_never_inferred_silently(tmp_path: Path) -> None:
    path = write(tmp_path, LINES)
    with pytest.raises(InvalidParameter, match="n_states"):
        read_csv(path, n_actions=2)
    with pytest.raises(InvalidParameter, match="n_actions"):
        read_csv(path, n_states=3)
    inferred = read_csv(path, infer_sizes=True)
    assert (inferred.n_states, inferred.n_actions) == (3, 2)
    declared = read_csv(path, n_states=8, infer_sizes=True)
    assert (declared.n_states, declared.n_actions) == (8, 2)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_csv(tmp_path / "absent.csv", n_states=3, n_actions=2)
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"\n\xff\n")
    with pytest.raises(DataError, match="cannot be read"):
        read_csv(tmp_path / "latin.csv", n_states=3, n_actions=2)
    (tmp_path / "records.txt").write_text(HEADER)
    with pytest.raises(DataError, match=r"type \.txt"):
        read_trajectories(tmp_path / "records.txt", n_states=3, n_actions=2)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(DataError):
        path = Path(folder) / "records.csv"
        path.write_bytes(HEADER.encode() + b"\n" + content)
        read_csv(path, n_states=3, n_actions=2)


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "records.csv"
    write_csv(some_data(seed=1), path)
    before = path.read_bytes()

    def full_disk(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_csv(some_data(seed=2), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def parquet_columns(data: TrajectoryData) -> dict[str, Any]:
    n, horizon = data.actions.shape
    return {
        "episode": np.repeat(np.arange(n), horizon),
        "step": np.tile(np.arange(horizon), n),
        "state": data.states[:, :-1].ravel(),
        "action": data.actions.ravel(),
        "reward": data.rewards.ravel(),
        "next_state": data.states[:, 1:].ravel(),
    }


@pytest.fixture
def write_parquet(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    pyarrow = import_module("pyarrow")
    parquet = import_module("pyarrow.parquet")

    def write_columns(columns: dict[str, Any]) -> Path:
        path = tmp_path / "records.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        return path

    return write_columns


def test_parquet_round_trip_is_exact(write_parquet: Callable[[dict[str, Any]], Path]) -> None:
    data = some_data()
    path = write_parquet(parquet_columns(data))
    assert read_parquet(path, n_states=4, n_actions=3) == data
    assert read_trajectories(path, n_states=4, n_actions=3) == data


def test_parquet_defects(write_parquet: Callable[[dict[str, Any]], Path], tmp_path: Path) -> None:
    columns = parquet_columns(some_data())
    gap = [None, *columns["state"].tolist()[1:]]
    words = [str(value) for value in columns["state"]]
    reward = columns["reward"].copy()
    reward[3] = 2.0
    with pytest.raises(DataError, match="columns missing"):
        read_parquet(
            write_parquet({k: v for k, v in columns.items() if k != "step"}), n_states=4, n_actions=3
        )
    with pytest.raises(DataError, match="1 missing values"):
        read_parquet(write_parquet(columns | {"state": gap}), n_states=4, n_actions=3)
    with pytest.raises(DataError, match="type string"):
        read_parquet(write_parquet(columns | {"state": words}), n_states=4, n_actions=3)
    with pytest.raises(DataError, match=r"row 3 \(episode 0, step 3\)"):
        read_parquet(write_parquet(columns | {"reward": reward}), n_states=4, n_actions=3)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="cannot be read"):
        read_parquet(tmp_path / "broken.parquet", n_states=4, n_actions=3)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dpaudit\[parquet\]'"):
        read_parquet(tmp_path / "records.parquet", n_states=3, n_actions=2)
