"""The examples on real data: what they hand on, and that mending keeps neighbours neighbours."""

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dpaudit.algorithms.data.loaders import read_csv
from dpaudit.algorithms.data.tables import read_rewards, write_rewards
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.errors import DataError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PATIENTS = load("patients")


def mended(lines: list[dict[str, str]], path: Path) -> TrajectoryData:
    for rule in (PATIENTS.words, PATIENTS.twice, PATIENTS.gaps):
        lines = list(rule(lines))
    PATIENTS._write(lines, path)
    return read_csv(path, n_states=4, n_actions=2, horizon=PATIENTS.VISITS)


def visit(patient: int, step: int, state: str, reward: str = "0.5", end: str = "1") -> dict[str, str]:
    cells = (str(patient), str(step), state, "1", reward, end)
    return dict(zip(PATIENTS._COLUMNS, cells, strict=True))


def test_the_export_has_defects_and_mending_leaves_none(tmp_path: Path) -> None:
    PATIENTS.export(tmp_path / "raw.csv", tmp_path / "rewards.csv")
    with pytest.raises(DataError, match="is not a number"):
        read_csv(tmp_path / "raw.csv", n_states=4, n_actions=2)
    data = mended(PATIENTS._read(tmp_path / "raw.csv"), tmp_path / "mended.csv")
    assert (len(data), data.horizon) == (PATIENTS.PATIENTS, PATIENTS.VISITS)


def test_each_defect_is_mended_as_its_rule_says(tmp_path: Path) -> None:
    # The first visit, one in the middle and the last are missing; a word, a slip, and a line twice.
    lines = [
        visit(0, 1, " Healthy", end="1"),
        visit(0, 2, "1", "n/a", end="2"),
        visit(1, 0, "1", end="1"),
        visit(1, 0, "3", end="3"),
        visit(1, 3, "2", end="2"),
    ]
    data = mended(lines, tmp_path / "m.csv")
    assert data.states.tolist() == [[3, 3, 1, 2, 2], [1, 1, 1, 2, 2]]
    assert data.actions.tolist() == [[0, 1, 1, 0], [1, 0, 0, 1]]
    assert data.rewards.tolist() == [[0.0, 0.5, 0.0, 0.0], [0.5, 0.0, 0.0, 0.5]]


def test_exports_that_differ_in_one_patient_become_files_that_differ_in_one(tmp_path: Path) -> None:
    PATIENTS.export(tmp_path / "raw.csv", tmp_path / "rewards.csv")
    lines = PATIENTS._read(tmp_path / "raw.csv")[:800]
    whole = [line for line in lines if line["episode"] != lines[-1]["episode"]]
    before = mended(whole, tmp_path / "a.csv")
    rng = np.random.default_rng(0)
    for patient in rng.choice(len(before), 30, replace=False):
        others = [line for line in whole if line["episode"] != str(patient)]
        steps = sorted(rng.choice(4, rng.integers(1, 4), replace=False))
        end = str(rng.integers(4))
        odd = [visit(patient, step, "ill", "?", end="1") for step in steps[:-1]]
        odd += [visit(patient, steps[-1], "ill", end=end)] * 2
        after = mended([*odd, *others], tmp_path / "b.csv")
        assert len(after) == len(before)
        changed = (after.states != before.states).any(axis=1) | (after.actions != before.actions).any(axis=1)
        changed |= (after.rewards != before.rewards).any(axis=1)
        assert set(np.flatnonzero(changed)) <= {patient}


def test_whose_line_it_is_is_never_guessed(tmp_path: Path) -> None:
    slip = {**visit(0, 0, "1"), "episode": "seven"}
    with pytest.raises(ValueError, match="seven"):
        mended([slip], tmp_path / "m.csv")


# obp's own: names of pandas that are deprecated, and since Python 3.12 backslashes in its docstrings.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*invalid escape sequence:SyntaxWarning")
def test_rounds_are_those_of_the_log_that_the_package_ships() -> None:
    import obp

    data = load("open_bandit").rounds()
    folder = Path(obp.__file__).parent / "dataset" / "obd" / "random" / "men"
    with (folder / "men.csv").open(encoding="utf-8", newline="") as lines:
        log = sorted(
            (int(row["position"]) - 1, int(row["item_id"]), float(row["click"]))
            for row in csv.DictReader(lines)
        )
    assert len(log) == len(data) == 10_000
    place, garment, click = data.states[:, 0], data.actions[:, 0], data.rewards[:, 0]
    assert sorted(zip(place.tolist(), garment.tolist(), click.tolist(), strict=True)) == log
    assert (data.states[:, 1] == place).all()


def test_without_the_package_the_example_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obp", None)
    with pytest.raises(SystemExit, match=r'pip install "dpaudit\[examples\]"'):
        load("open_bandit").rounds()


def test_a_reward_function_comes_back_as_it_was_written(tmp_path: Path) -> None:
    rewards = np.random.default_rng(1).random((3, 4, 2))
    write_rewards(rewards, tmp_path / "r.csv")
    np.testing.assert_array_equal(read_rewards(tmp_path / "r.csv"), rewards)
