"""Marginals of a table through the curator, and rows made of them."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpaudit
from dpaudit import GDP, ZCDP, Claim, Curator, account, judge, run
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Gaussian
from dpaudit.tables.synthetic import distance, open_pairs, synthetic_rows

COLUMNS: dict[str, list[Any]] = {"ward": ["ICU", "ER"], "urgent": [False, True], "day": [1, 2, 3]}


def people(rows: int = 300, seed: int = 1) -> pd.DataFrame:
    """`urgent` follows from the ward but for a tenth of the rows; days are independent."""
    draw = np.random.default_rng(seed)
    ward = draw.choice(COLUMNS["ward"], rows)
    urgent = (ward == "ICU") ^ (draw.random(rows) < 0.1)
    person = [f"p{i // 2}" for i in range(rows)]
    return pd.DataFrame({"person": person, "ward": ward, "urgent": urgent, "day": draw.integers(1, 4, rows)})


def measuring(rho: float, relation: str = "add-or-remove-one") -> Any:
    def algorithm(given: Any, curator: Curator) -> Any:
        table = curator.table(given, unit="person").bound(rows_per_unit=2)
        return table.marginals(COLUMNS, cost=ZCDP(rho=rho))

    made: Any = algorithm
    made.claim = Claim(ZCDP(rho=rho), unit="person", neighbouring=relation)
    return made


def measured(frame: pd.DataFrame, rho: float = 0.6, **options: Any) -> Any:
    return run(measuring(rho), frame, **options)


def test_a_tree_of_pairs_is_measured_and_costs_what_was_stated() -> None:
    found = measured(people(), seed=3)
    assert judge(found.ledger, account(found.ledger), (), command="run").all_proved
    columns = [tuple(each["columns"]) for each in found.output]
    assert columns[:3] == [("ward",), ("urgent",), ("day",)]
    assert ("ward", "urgent") in columns[3:]
    assert len(columns) == 5
    for each, release in zip(found.output[:3], found.ledger.releases, strict=False):
        assert isinstance(release.mechanism, Gaussian)
        assert each["deviation"] == release.mechanism.sigma
        assert len(each["counts"]) == len(each["values"][0])


def test_a_row_moves_a_distance_by_one_at_most() -> None:
    alone = [
        {"columns": ["ward"], "counts": [3.4, 2.2]},
        {"columns": ["urgent"], "counts": [4.9, -1.0]},
    ]
    tables = [np.zeros(4, dtype=int), *np.eye(4, dtype=int), np.array([2, 0, 0, 1])]
    for one, other in itertools.permutations(tables, 2):
        moved = abs(distance(one.tolist(), *alone) - distance(other.tolist(), *alone))
        assert moved <= np.abs(one - other).sum()


@pytest.mark.nightly
@pytest.mark.parametrize("relation", ["add-or-remove-one", "replace-one"])
def test_an_audit_finds_nothing_against_it_and_finds_scores_that_move_further(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replays hold every count and every choice against its sensitivity, on the table's own pairs."""
    algorithm = measuring(0.6, relation)
    auditor = functools.partial(dpaudit.audit, trials=2)
    found = dpaudit.certify(algorithm, people(60), auditor=auditor, in_process=True)
    assert (found.proof, found.experiment) == (Proof.PROVED, Experiment.NOT_REFUTED)
    # A distance in which each row counts three times moves by more than is stated.
    monkeypatch.setattr("dpaudit.tables.synthetic.distance", lambda *given: 3 * distance(*given))
    found = dpaudit.certify(algorithm, people(60), auditor=auditor, in_process=True)
    assert found.experiment is Experiment.REFUTED


def test_pairs_are_open_until_all_columns_hang_together() -> None:
    names = ["a", "b", "c", "d"]
    assert open_pairs([], names) == list(itertools.combinations(names, 2))
    assert open_pairs([("a", "b")], names) == [p for p in open_pairs([], names) if p != ("a", "b")]
    assert open_pairs([("a", "b"), ("b", "c")], names) == [("a", "d"), ("b", "d"), ("c", "d")]
    assert open_pairs([("a", "b"), ("c", "d"), ("b", "c")], names) == []


def test_the_distance_from_independence_is_that_of_the_definition() -> None:
    one, other = {"counts": [30.0, 10.0]}, {"counts": [20.0, 20.0]}
    assert distance([15, 15, 5, 5], one, other) == 0
    assert distance([20, 10, 0, 10], one, other) == 5 + 5 + 5 + 5
    assert distance([1, 0, 0, 0], {"counts": [-1.0, -2.0]}, other) == 1


@pytest.mark.parametrize(
    ("columns", "cost", "words"),
    [
        ({"ward": ["ICU"]}, ZCDP(rho=1.0), "fewer than two columns"),
        (["ward", "day"], ZCDP(rho=1.0), "fewer than two columns"),
        (COLUMNS, GDP(mu=1.0), "for choices"),
        ({"ward": ["ICU"], "dya": [1]}, ZCDP(rho=1.0), "did you mean 'day'"),
        ({"ward": ["ICU"], "day": ["1"]}, ZCDP(rho=1.0), "keys of type str"),
        ({"ward": ["ICU"], "day": []}, ZCDP(rho=1.0), "no keys"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_any_release(columns: Any, cost: Any, words: str) -> None:
    def algorithm(given: Any, curator: Curator) -> Any:
        with pytest.raises(InvalidParameter, match=words):
            curator.table(given, unit="person").bound(rows_per_unit=2).marginals(columns, cost=cost)

    claim = Claim(ZCDP(rho=9.0), unit="person", neighbouring="add-or-remove-one")
    assert not list(run(algorithm, people(10), claim=claim).ledger.releases)


@pytest.mark.interoperability
@pytest.mark.filterwarnings("default")  # of jax, which mbi computes with
def test_rows_follow_the_counts_that_were_measured() -> None:
    frame = people(2000)
    made = synthetic_rows(measured(frame, rho=1e6).output, rows=2000, seed=1)
    rows = pd.DataFrame(made)
    assert list(rows) == list(COLUMNS)
    for name, values in COLUMNS.items():
        for value in values:
            assert abs(int((rows[name] == value).sum()) - int((frame[name] == value).sum())) <= 20
    alike = ((rows["ward"] == "ICU") == rows["urgent"]).mean()
    assert abs(alike - ((frame["ward"] == "ICU") == frame["urgent"]).mean()) <= 0.02
    assert synthetic_rows(measured(frame, rho=1e6, seed=1).output, rows=50, seed=2).keys() == COLUMNS.keys()


#: Public limits between the bins of a public table's columns.
EDGES = {
    "mean radius": [10.0, 12.0, 14.0, 16.0, 20.0],
    "mean texture": [15.0, 18.0, 21.0, 25.0],
    "mean area": [400.0, 600.0, 800.0, 1200.0],
    "worst concavity": [0.1, 0.2, 0.3, 0.5],
    "target": [0.5],
}


@pytest.mark.interoperability
@pytest.mark.filterwarnings("default")  # of jax, which mbi computes with
def test_on_a_public_table_rows_show_pairs_better_than_from_columns_alone() -> None:
    """569 patients of the Wisconsin breast cancer study, which scikit-learn ships, at rho 0.5."""
    from sklearn.datasets import load_breast_cancer

    study = load_breast_cancer(as_frame=True).frame
    frame = pd.DataFrame({name: np.digitize(study[name], edges) for name, edges in EDGES.items()})
    columns = {name: list(range(len(edges) + 1)) for name, edges in EDGES.items()}
    names, cost = list(columns), ZCDP(rho=0.5)

    def whole(given: Any, curator: Curator) -> Any:
        return curator.table(given, unit="person").bound(rows_per_unit=1).marginals(columns, cost=cost)

    def columns_alone(given: Any, curator: Curator) -> Any:
        table, each = curator.table(given, unit="person").bound(rows_per_unit=1), ZCDP(rho=0.1)
        counts = {name: table.group_by(name, keys=columns[name]).count(cost=each) for name in names}
        deviation = (0.5 / each.rho) ** 0.5
        return [
            {"columns": [n], "values": [columns[n]], "counts": list(found.values()), "deviation": deviation}
            for n, found in counts.items()
        ]

    def distance_of_pairs(algorithm: Any) -> float:
        """The mean over all pairs of columns of the total variation distance to the true rows."""
        claim = Claim(cost, unit="person", neighbouring="add-or-remove-one")
        found = run(algorithm, frame.assign(person=[f"p{i}" for i in range(len(frame))]), claim=claim, seed=1)
        assert judge(found.ledger, account(found.ledger), (), command="run").all_proved
        rows = pd.DataFrame(synthetic_rows(found.output, rows=5000, seed=1))
        gaps = []
        for pair in itertools.combinations(names, 2):
            made, true = (each.value_counts(list(pair), normalize=True) for each in (rows, frame))
            gaps.append(float(made.sub(true, fill_value=0.0).abs().sum()) / 2.0)
        return sum(gaps) / len(gaps)

    of_tree, of_columns = distance_of_pairs(whole), distance_of_pairs(columns_alone)
    assert of_tree < 0.7 * of_columns
    print(f"mean distance of pairs: {of_tree:.3f} from a tree, {of_columns:.3f} from columns alone")
