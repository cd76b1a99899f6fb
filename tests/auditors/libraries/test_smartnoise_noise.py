"""SmartNoise SQL routed through a curator: a value that is not clamped is found, clamped ones are not."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import ApproxDP, Claim, Neighbouring, Pair
from dpaudit.auditors.libraries.routed import Routed
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.errors import UsageError

pytestmark = [
    pytest.mark.interoperability,
    pytest.mark.filterwarnings("default"),  # other libraries' own
]

ROWS = np.column_stack([np.linspace(1.0, 100.0, 20), np.arange(20) % 2])


def asked(sql: str, **table: Any) -> Callable[[Any], Any]:
    def target(rows: Any) -> Any:
        import pandas as pd
        from snsql import Privacy, from_df

        frame = pd.DataFrame({"age": rows[:, 0], "part": rows[:, 1].astype(int)})
        columns = {"age": {"type": "float", "lower": 0.0, "upper": 100.0}, "part": {"type": "int"}}
        about = {"rows": 20, "row_privacy": True, "censor_dims": False, **table, **columns}
        reader = from_df(frame, metadata={"": {"S": {"T": about}}}, privacy=Privacy(epsilon=1.0, delta=1e-6))
        return [tuple(row) for row in reader.execute(sql)]

    return target


def audited(target: Callable[[Any], Any], other: Any, epsilon: float) -> Audit:
    claim = Claim(ApproxDP(epsilon=epsilon, delta=1e-6), neighbouring=Neighbouring.ADD_OR_REMOVE_ONE)
    about: dict[str, Any] = {"claim": claim, "replays": 3, "extreme_outputs": False}
    return replay(Routed(target, "smartnoise"), [Pair(ROWS, other)], **about)


@pytest.mark.parametrize(
    ("sql", "epsilon"),
    [
        ("SELECT SUM(age) AS total, COUNT(*) AS number FROM S.T", 2.0),
        ("SELECT AVG(age) AS mean FROM S.T", 2.0),
        ("SELECT part, COUNT(*) AS number FROM S.T GROUP BY part", 1.0),
    ],
)
def test_what_is_correct_is_not_refuted(sql: str, epsilon: float) -> None:
    found = audited(asked(sql), ROWS[:-1], epsilon)
    assert found.verdict is Experiment.NOT_REFUTED, found.findings
    assert found.epsilon_lower == pytest.approx(
        epsilon, rel=1e-3
    )  # the pair moves every query as far as it can


def test_a_value_that_is_not_clamped_is_found() -> None:
    far = np.vstack([ROWS, [[1e4, 1.0]]])
    target = asked("SELECT SUM(age) AS total FROM S.T", clamp_columns=False)
    [finding] = audited(target, far, 1.0).findings
    assert (finding.kind, finding.declared, finding.measured) == ("sensitivity", 100.0, 1e4)
    assert finding.label == "a column of values in [0, 100.0]"
    clamped = asked("SELECT SUM(age) AS total FROM S.T")
    assert audited(clamped, far, 1.0).verdict is Experiment.NOT_REFUTED


def test_a_group_of_one_record_is_found() -> None:
    alone = np.vstack([ROWS, [[5.0, 7.0]]])
    target = asked("SELECT part, COUNT(*) AS number FROM S.T GROUP BY part")
    assert {each.kind for each in audited(target, alone, 1.0).findings} == {"control-flow"}


@pytest.mark.usefixtures("own_processes")
def test_bounds_from_a_noisy_histogram() -> None:
    def target(rows: Any) -> Any:
        from snsql.sql._mechanisms.approx_bounds import approx_bounds

        return approx_bounds(rows[:, 0], 1.0)

    found = audited(target, ROWS[:-1], 1.0)
    assert found.verdict is Experiment.NOT_REFUTED, found.findings


@pytest.mark.parametrize(
    ("sql", "table", "words"),
    [
        (
            "SELECT part, COUNT(*) AS n FROM S.T GROUP BY part",
            {"censor_dims": True},
            "leaves out rare groups",
        ),
        ("SELECT COUNT(*) AS n FROM S.T", {"row_privacy": False}, "rows of each person"),
    ],
)
def test_what_replay_would_misjudge_is_refused(sql: str, table: dict[str, Any], words: str) -> None:
    def with_key(rows: Any) -> Any:
        keyed = {} if table.get("row_privacy", True) else {"part": {"type": "int", "private_id": True}}
        return asked(sql, **table, **keyed)(rows)

    with pytest.raises(UsageError, match=words):
        audited(with_key, ROWS[:-1], 1.0)


def test_the_noise_layer_is_the_one_that_is_routed() -> None:
    """Where the library moves, this fails."""
    from snsql.sql import _mechanisms, private_reader
    from snsql.sql._mechanisms import approx_bounds, base

    def below(kind: type) -> set[str]:
        return {each.__name__ for each in kind.__subclasses__()}

    assert below(base.AdditiveNoiseMechanism) == {"Gaussian", "Laplace", "Unbounded"}
    for kind in (_mechanisms.gaussian.Gaussian, _mechanisms.laplace.Laplace):
        assert list(inspect.signature(kind.release).parameters) == ["self", "vals"]
    made = kind(1.0, delta=0.0, lower=-2.0, upper=1.0, max_contrib=3)
    assert made.scale == pytest.approx(9.0, rel=1e-3)  # 3 rows, replaced from -2 to 1
    assert (made.lower, made.upper, made.max_contrib) == (-2.0, 1.0, 3)
    assert callable(approx_bounds.make_laplace)
    executed = inspect.signature(private_reader.PrivateReader._execute_ast)
    assert list(executed.parameters)[:2] == ["self", "query"]
