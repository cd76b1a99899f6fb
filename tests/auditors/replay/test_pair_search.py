"""Worse pairs, searched for: they show faults that the given pair hides; innocents stay silent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit import L2, ApproxDP, Claim, Curator, Gaussian, Pair, audit
from dpaudit.app.gate.audit_plan import AuditPlan
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.conditions import Code
from dpaudit.certificate.verdicts import Experiment
from dpaudit.errors import UsageError
from dpaudit.processes.host import AVAILABLE

Algorithm = Callable[[Any, Curator], Any]

NOISE = Gaussian(sigma=1.0, sensitivity=L2(1.0))
CLAIM = Claim(ApproxDP(epsilon=6.6, delta=1e-5))
#: Columns x and y, in [0, 1]; the given pair moves one y a little.
ROWS = np.array([[0.1, 0.2], [0.9, 0.8], [0.4, 0.5], [0.5, 0.5]])
NUDGED = ROWS.copy()
NUDGED[3, 1] = 0.6
GIVEN = Pair(ROWS, NUDGED, "y of a record nudged")


def of_squares(factor: float) -> Algorithm:
    """Regression by its sums: the sum of x^2 is noised as if it moved by the factor less than it does."""

    def algorithm(data: Any, curator: Curator) -> tuple[float, float]:
        x, y = data[:, 0], data[:, 1]
        square = curator.release(factor * (x * x).sum(), NOISE, label="sum of x^2")
        return float(square), float(curator.release((x * y).sum(), NOISE, label="sum of xy"))

    return algorithm


def with_intercept(*, noisy: bool) -> Algorithm:
    """The mean of x, which the given pair does not move, leaves with its noise or without."""

    def algorithm(data: Any, curator: Curator) -> tuple[float, float]:
        slope = curator.release(data[:, 1].sum(), NOISE, label="sum of y")
        mean = data[:, 0].mean()
        return float(slope), float(curator.release(mean, NOISE, label="mean of x") if noisy else mean)

    return algorithm


def searched(algorithm: Any, pair: Pair = GIVEN, **options: Any) -> Any:
    return replay(algorithm, [pair], claim=CLAIM, replays=2, extreme_outputs=False, **options)


@pytest.mark.parametrize(
    ("faulty", "kind", "innocent"),
    [
        (of_squares(3.0), "sensitivity", of_squares(1.0)),
        (with_intercept(noisy=False), "leak", with_intercept(noisy=True)),
    ],
)
def test_what_the_given_pair_misses_a_search_finds(faulty: Any, kind: str, innocent: Any) -> None:
    assert searched(faulty).verdict is Experiment.NOT_REFUTED
    found = searched(faulty, search_pairs=True)
    assert found.verdict is Experiment.REFUTED
    assert {finding.kind for finding in found.findings} == {kind}
    assert found.pairs == 2
    assert "found from 'y of a record nudged'" in str(found.searched)
    assert searched(innocent, search_pairs=True).verdict is Experiment.NOT_REFUTED


def test_the_search_moves_what_no_given_pair_moved_and_bounds_more() -> None:
    found = [searched(of_squares(1.0), search_pairs=search) for search in (False, True)]
    assert [any(one.code is Code.UNMOVED for one in each.not_checked) for each in found] == [True, False]
    few, many = (each.epsilon_lower or 0.0 for each in found)
    assert few < 1.0 < many < 6.6


@pytest.mark.parametrize(("relation", "other"), [("add-or-remove-one", ROWS[:3]), ("zero-out", None)])
def test_other_relations_are_kept(relation: Any, other: Any) -> None:
    blank = ROWS.copy()
    blank[3] = 0.0
    pair = Pair(ROWS, blank if other is None else other)
    claim = Claim(CLAIM.guarantee, neighbouring=relation)
    sizes: list[int] = []

    def algorithm(data: Any, curator: Curator) -> float:
        sizes.append(len(data))
        return float(curator.release(data[:, 0].sum(), NOISE, label="sum of x"))

    found = replay(algorithm, [pair], claim=claim, replays=1, extreme_outputs=False, search_pairs=True)
    assert found.verdict is Experiment.NOT_REFUTED
    assert "pairs with other values" in str(found.searched)
    # Once there is a record less, to see whether the algorithm takes records at all.
    assert set(sizes) <= (set(range(1, 10)) if relation == "add-or-remove-one" else {3, 4})


def test_records_that_an_algorithm_refuses_are_no_pair() -> None:
    """A public check of the domain, which no extreme of single columns passes."""

    def shares(data: Any, curator: Curator) -> float:
        if not np.allclose(np.sum(data, axis=1), 1.0):
            raise ValueError("rows add up to 1")
        return float(curator.release(data[:, 0].sum(), NOISE, label="sum"))

    rows = np.array([[0.2, 0.8], [0.5, 0.5]])
    assert searched(shares, Pair(rows, rows[[0, 0]]), search_pairs=True).verdict is Experiment.NOT_REFUTED


def test_data_of_other_kinds_are_not_searched_and_that_is_said() -> None:
    def counting(data: Any, curator: Curator) -> float:
        return float(curator.release(float(len(data["a"])), NOISE, label="count"))

    one: Any = {"a": {1.0}}
    other: Any = {"a": set()}
    (said,) = [c for c in searched(counting, Pair(one, other), search_pairs=True).not_checked
               if c.code is Code.PAIRS_NOT_SEARCHED]  # fmt: skip
    assert said
    # Nor are pairs that differ in several records: who knows what a unit is there.
    assert Code.PAIRS_NOT_SEARCHED in {
        c.code for c in searched(of_squares(1.0), Pair(ROWS, ROWS[::-1]), search_pairs=True).not_checked
    }


def test_a_search_is_the_same_every_time_and_ends() -> None:
    runs = [0]

    def counted(data: Any, curator: Curator) -> float:
        runs[0] += 1
        return float(curator.release(data[:, 0].sum(), NOISE, label="sum"))

    first, second = (searched(counted, search_pairs=True) for _ in range(2))
    assert first == second
    assert runs[0] / 2 <= 120 + 1 + 2 * 2 * (3 + 2 * 2)


def test_a_unit_that_may_have_several_records_is_not_searched() -> None:
    """A change of one record is no change of a user; asked for, a search is refused, by night it is named."""
    per_user = Claim(CLAIM.guarantee, unit="user")
    with pytest.raises(UsageError, match="a user may have several") as refused:
        audit(of_squares(1.0), GIVEN, claim=per_user, search_pairs=True)
    assert "claim it per record" in refused.value.remedy
    assert searched(of_squares(1.0), search_pairs=True, run_options={"unit": "row"}).pairs == 2
    nightly = AuditPlan("replay", 1, None, 0, 0.95, search_pairs=True)
    for unit, searches in (("user", False), ("record", True)):
        claim = Claim(CLAIM.guarantee, unit=unit)
        found = nightly.audit(of_squares(1.0), [GIVEN], claim=claim, seed=0)
        assert (Code.PAIRS_NOT_SEARCHED in {one.code for one in found.not_checked}) is not searches
        assert found.pairs == 1 + searches


def test_sampling_methods_do_not_search() -> None:
    with pytest.raises(UsageError, match="search_pairs"):
        audit(of_squares(1.0), GIVEN, claim=CLAIM, method="sequential", search_pairs=True)


TARGET = """
import numpy as np
from dpaudit import L2, Gaussian, Pair

def leaky(data, curator):
    noise = Gaussian(sigma=1.0, sensitivity=L2(1.0))
    return curator.release(data[:, 1].sum(), noise, label="sum"), float(data[:, 0].max())

def pair():
    rows = np.array([[0.1, 0.2], [0.9, 0.8], [0.4, 0.5]])
    other = rows.copy()
    other[2, 1] = 0.6
    return Pair(rows, other)
"""


@pytest.mark.skipif(not AVAILABLE, reason="needs processes that fork")
def test_a_target_in_a_process_of_its_own_is_searched_by_names(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from dpaudit.app.main import main

    (tmp_path / "mine.py").write_text(TARGET)
    target = f"{tmp_path}/mine.py"
    command = ["audit", f"{target}:leaky", "--pair", f"{target}:pair", "--epsilon", "9", "--delta", "1e-5"]
    statuses = []
    for more in ([], ["--search-pairs"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--trials", "1", *more])
        statuses.append(ended.value.code)
    assert statuses == [0, 1]
    assert "leak: every release was the same" in " ".join(capfd.readouterr().out.split())
