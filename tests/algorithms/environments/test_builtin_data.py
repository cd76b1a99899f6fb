import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.environments.builtin_data import BUILTIN_DATA
from dpaudit.algorithms.environments.frozen_lake import frozen_lake_data
from dpaudit.algorithms.environments.treatment import treatment_data
from dpaudit.errors import UsageError

REPOSITORY = Path(__file__).resolve().parents[3]
RECORDING = REPOSITORY / "algorithms" / "data" / "frozen-lake.csv"


@pytest.mark.parametrize("name", BUILTIN_DATA)
def test_data_and_process_fit(name: str) -> None:
    data, mdp = BUILTIN_DATA[name]()
    assert (data.horizon, data.n_states, data.n_actions) == (mdp.horizon, mdp.n_states, mdp.n_actions)
    assert data == BUILTIN_DATA[name]().data
    _, counts = data.visit_counts()
    assert counts[mdp.transitions == 0.0].sum() == 0
    assert counts[0].sum(axis=(1, 2))[mdp.initial == 0.0].sum() == 0


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match="treatment or frozen-lake"):
        CATALOGUE["dp-apvi"].example(dataset="atari")


def test_treatment_data_of_another_size_and_seed() -> None:
    assert len(treatment_data(100).data) == 100
    assert treatment_data(100).data == treatment_data(100).data
    assert treatment_data(100).data != treatment_data(100, seed=1).data


def test_the_recording_is_small_and_earns_only_at_the_goal() -> None:
    assert RECORDING.stat().st_size < 250_000
    data = frozen_lake_data().data
    enters = (data.states[:, 1:] == 15) & (data.states[:, :-1] != 15)
    assert np.array_equal(data.rewards, enters.astype(float))
    assert 0 < enters.sum() < len(data)


def test_the_recording_can_be_made_again_bit_for_bit(tmp_path: Path) -> None:
    place = REPOSITORY / "examples" / "record_frozen_lake.py"
    spec = importlib.util.spec_from_file_location("record_frozen_lake", place)
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.write_csv(script.record(), tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == RECORDING.read_bytes()
    assert script.record(seed=1) != script.record(seed=2)
