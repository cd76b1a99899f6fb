from pathlib import Path

import numpy as np
import pytest

from dpaudit import ZCDP, ApproxDP, PureDP
from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.data.loaders import write_csv
from dpaudit.algorithms.data.tables import read_rewards
from dpaudit.algorithms.environments.tabular import random_mdp, uniform_policy
from dpaudit.errors import DataError, InvalidParameter, UsageError

APVI = CATALOGUE["dp-apvi"]
ROWS = [f"{h},{s},{a},{(h + s + a) / 10}" for h in range(3) for s in range(2) for a in range(2)]
HEAD = "step,state,action,reward"


def rewards_file(tmp_path: Path, rows: list[str], head: str = HEAD) -> Path:
    path = tmp_path / "rewards.csv"
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_reward_table_is_read_in_any_order(tmp_path: Path) -> None:
    rewards = read_rewards(rewards_file(tmp_path, ROWS[::-1]))
    assert rewards.shape == (3, 2, 2)
    assert rewards[2, 1, 0] == 0.3


@pytest.mark.parametrize(
    "rows",
    [
        [],
        ROWS[:-1],
        [*ROWS, ROWS[0]],
        [*ROWS[:-1], "2,1,1,1.5"],
        [*ROWS[:-1], "2,1,1,-0.1"],
        [*ROWS[:-1], "2,1,1,nan"],
        [*ROWS[:-1], "2,1,1,inf"],
        [*ROWS[:-1], "2,1,1,x"],
        [*ROWS[:-1], "2,1,1,"],
        [*ROWS[:-1], "2,1,1"],
        [*ROWS[:-1], "2,1,1,0.5,0.5"],
        [*ROWS[:-1], "2,1,-1,0.5"],
        [*ROWS[:-1], "2,1,0.5,0.5"],
        ["999999999,999999999,999999999,0.5"],
        ["9" * 30 + ",0,0,0.5"],
        ["9" * 5000 + ",0,0,0.5"],
    ],
)
def test_a_reward_table_with_a_fault_is_refused(tmp_path: Path, rows: list[str]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read_rewards(rewards_file(tmp_path, rows))
    assert "rewards.csv" in caught.value.where


def test_a_byte_order_mark_is_no_part_of_a_column(tmp_path: Path) -> None:
    path = rewards_file(tmp_path, ROWS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_rewards(path).shape == (3, 2, 2)


def test_a_reward_table_with_other_columns_or_none_at_all_is_refused(tmp_path: Path) -> None:
    twice = [row + ",0.5" for row in ROWS]
    with pytest.raises(InvalidParameter):
        read_rewards(rewards_file(tmp_path, twice, HEAD + ",reward"))
    for head in ("step,state,action", "step,state,action,reward,reward", "a,b,c,d", ""):
        with pytest.raises(InvalidParameter):
            read_rewards(rewards_file(tmp_path, ROWS, head))
    with pytest.raises(UsageError):
        read_rewards(tmp_path / "none.csv")
    binary = tmp_path / "binary.csv"
    for content in (b"\xff\xfe\x00", HEAD.encode() + b"\n\0,0,0,0\n"):
        binary.write_bytes(content)
        with pytest.raises((UsageError, InvalidParameter)):
            read_rewards(binary)


@pytest.mark.parametrize("name", ["roh", "Rho", "sigma", ""])
def test_an_unknown_parameter_is_refused_with_the_known_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown parameter") as caught:
        APVI.example(**{name: 1.0})
    assert "rho" in caught.value.remedy
    with pytest.raises(UsageError):
        APVI.fit(tmp_path / "x.csv", **{name: 1.0})


def test_parameters_reach_the_algorithm() -> None:
    algorithm, data = APVI.example(
        dataset="frozen-lake", rho=0.5, C1=1.0, C2=2.0, C=3.0, failure_probability=0.2
    )
    assert algorithm.guarantee == ZCDP(rho=0.5)
    constants = algorithm.constants
    assert (constants.variance, constants.privacy, constants.unvisited) == (1.0, 2.0, 3.0)
    assert algorithm.failure_probability == 0.2
    assert algorithm.rewards.shape == (data.horizon, data.n_states, data.n_actions)
    assert APVI.example(epsilon=0.3)[0].guarantee == PureDP(epsilon=0.3)
    assert APVI.example()[0].guarantee == ZCDP(rho=1.0)


def test_contradictions_bad_numbers_and_unknown_data_are_refused() -> None:
    with pytest.raises(UsageError, match="at once"):
        APVI.example(rho=1.0, epsilon=1.0)
    with pytest.raises(UsageError, match="iris"):
        APVI.example(dataset="iris")
    for bad in (0.0, -1.0, float("nan"), "1"):
        for name in ("rho", "epsilon"):
            with pytest.raises(InvalidParameter):
                APVI.example(**{name: bad})


def test_ones_own_data_need_the_public_rewards(tmp_path: Path) -> None:
    mdp = random_mdp(2, 2, 3, seed=0)
    path = tmp_path / "own.csv"
    write_csv(mdp.sample_trajectories(20, uniform_policy(mdp), np.random.default_rng(0)), path)
    with pytest.raises(UsageError, match="rewards"):
        APVI.fit(path)
    algorithm, data = APVI.fit(path, rewards=rewards_file(tmp_path, ROWS))
    assert algorithm.rewards.shape == (3, 2, 2)
    assert len(data) == 20
    fewer = [row for row in ROWS if row.split(",")[1] == "0"]
    with pytest.raises(DataError):
        APVI.fit(path, rewards=rewards_file(tmp_path, fewer))


def test_the_online_algorithm_under_its_name() -> None:
    algorithm, users = CATALOGUE["ldp-ucrl-vtr"].example(
        river="inhomogeneous", states=4, K=7, calibration="as-published", values="unclipped", c=0.5
    )
    assert (len(users), users.mdp.rewards.shape) == (7, (8, 4, 2))
    assert algorithm.parameters["c"] == 0.5
    assert not algorithm.model.clip_below
    assert algorithm.claim.guarantee == ApproxDP(epsilon=1.0, delta=1e-5)
    mixture, users = CATALOGUE["ldp-ucrl-vtr"].example(features="mixture", epsilon=2.0, delta=0.1)
    assert (mixture.model.dimension, len(users)) == (4, 200)
    assert mixture.claim.guarantee == ApproxDP(epsilon=2.0, delta=0.1)


@pytest.mark.parametrize(
    "parameters",
    [{"river": "wide"}, {"features": "none"}, {"values": "true"}, {"calibration": "best"}, {"gamma": 1}],
)
def test_words_that_the_online_algorithm_does_not_know(parameters: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        CATALOGUE["ldp-ucrl-vtr"].example(**parameters)


@pytest.mark.parametrize("parameters", [{"epsilon": -1.0}, {"delta": 1.0}, {"K": 0}, {"states": 1}])
def test_numbers_that_the_online_algorithm_refuses(parameters: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        CATALOGUE["ldp-ucrl-vtr"].example(**parameters)


def test_users_are_not_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.touch()
    with pytest.raises(UsageError, match="on a file"):
        CATALOGUE["ldp-ucrl-vtr"].fit(path)


def test_the_jointly_private_algorithm_says_what_its_counter_counts() -> None:
    made = {}
    for counted in ("episodes", "steps"):
        algorithm, users = CATALOGUE["private-lsvi-ucb"].example(counted=counted, calibration="as-published")
        assert len(users) == algorithm.users == 2000
        made[counted] = algorithm.noise.updates
    assert made["episodes"] > 2 * made["steps"]
    algorithm, users = CATALOGUE["private-lsvi-ucb"].example(K=50, fixed_updates=3, rho=0.5, bonus=0.0)
    assert (algorithm.noise.updates, algorithm.guarantee.rho, algorithm.bonus) == (3, 0.5, 0.0)


@pytest.mark.parametrize(
    "parameters",
    [
        {"rho": 0.0},
        {"rho": -1.0},
        {"K": 1},
        {"K": 3},
        {"horizon": 0},
        {"dimension": 0},
        {"fixed_updates": 2000},
        {"bonus": -1.0},
        {"growth": 1.0},
        {"failure_probability": 1.0},
    ],
)
def test_numbers_that_the_jointly_private_algorithm_refuses(parameters: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        CATALOGUE["private-lsvi-ucb"].example(**parameters)


@pytest.mark.parametrize("parameters", [{"calibration": "best"}, {"counted": "users"}, {"values": "clipped"}])
def test_words_that_the_jointly_private_algorithm_does_not_know(parameters: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(parameters))} "):
        CATALOGUE["private-lsvi-ucb"].example(**parameters)


def test_jointly_private_users_are_not_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.touch()
    with pytest.raises(UsageError, match="on a file"):
        CATALOGUE["private-lsvi-ucb"].fit(path)
