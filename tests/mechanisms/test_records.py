"""Each kind of the ledger format: its record, what it refuses, and its trip through a file."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from dpaudit import Ledger, Release, Sensitivity
from dpaudit.errors import InputError, InvalidParameter, NormMismatch, UnknownKind
from dpaudit.mechanisms import KINDS, AnyMechanism
from dpaudit.mechanisms.described import DESCRIBED, described, parameters
from tests import make
from tests.mechanisms.examples import EXAMPLES

WHY = "Theorem 3 of the manual"


def sensitivity(norm: str) -> dict[str, Any]:
    return {"value": 1.5, "norm": norm, "basis": "clipped"}


def record(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, **fields}


GAUSSIAN = record("gaussian", sigma=2.0, sensitivity=sensitivity("l2"))
LAPLACE = record("laplace", scale=2.0, sensitivity=sensitivity("l1"))
DISCRETE_LAPLACE = record("discrete-laplace", scale=2.0, sensitivity=sensitivity("l1"))
TRIALS = [{"mechanism": record("exponential", epsilon=1.0), "count": 2}, {"mechanism": LAPLACE, "count": 1}]
BANDED = {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.375]}
DENSE = {"kind": "lower-triangular", "rows": [[1.0], *[[0.5, 1.0]] * 99]}
ROWS = {"sigma": 2.0, "steps": 100, "separation": 25, "sensitivity": sensitivity("l2")}

RECORDS: list[dict[str, Any]] = [
    GAUSSIAN,
    LAPLACE,
    record("discrete-gaussian", sigma=2.0, sensitivity=sensitivity("l2")),
    DISCRETE_LAPLACE,
    record("randomized-response", epsilon=1.0, categories=3),
    record("exponential", epsilon=1.0),
    *(record("report-noisy-max", epsilon=1.0, noise_law=law) for law in ("exponential", "laplace")),
    record("sparse-vector", epsilon=1.0, answers=3, monotone=True, sensitivity=sensitivity("l1")),
    *(
        record("private-selection", releases=TRIALS, repetitions=law)
        for law in (record("negative-binomial", eta=0.0, gamma=0.1), record("poisson", mean=10.0))
    ),
    *(
        record("key-selection", method=method, epsilon=1.0, delta=1e-6, changes=2)
        for method in ("optimal", "laplace", "gaussian")
    ),
    *(
        record("shuffled", local=local, users=1000)
        for local in (
            record("randomized-response", epsilon=1.0, categories=3),
            record("pure-dp", epsilon=1.0, justification=WHY),
        )
    ),
    record(
        "gaussian-sparse-vector",
        sigma=2.0,
        answers=3,
        steps=100,
        monotone=False,
        sensitivity=sensitivity("l2"),
    ),
    record("symmetric-gaussian", sigma=2.0, dimension=4, sensitivity=sensitivity("frobenius")),
    *(
        record("tree-aggregation", sigma=2.0, steps=100, sensitivity=sensitivity(norm))
        for norm in ("l2", "frobenius")
    ),
    record("matrix", strategy=BANDED, participations=4, **ROWS),
    record(
        "gaussian-process",
        sigma=2.0,
        kernel={"kind": "exponential", "beta": 3.0},
        sensitivity=sensitivity("rkhs"),
    ),
    record("smooth-gaussian", alpha=12.0, beta=0.05, dimension=2, epsilon=1.0, delta=0.1),
    record("poisson-sampled", rate=0.01, mechanism=GAUSSIAN),
    record("sampled-matrix", rate=0.01, mechanism=record("matrix", strategy=DENSE, participations=1, **ROWS)),
    record("mixture-of-gaussians", sigma=2.0, sensitivities=[0.0, 1.0], probabilities=[0.75, 0.25]),
    record("sampled-records", rate=0.01, records=3, mechanism=GAUSSIAN),
    record("random-allocation", steps=10, mechanism=GAUSSIAN),
    record("fixed-size-sampled", size=10, units=1000, mechanism=DISCRETE_LAPLACE),
    record("truncated-poisson-sampled", rate=0.01, most=30, units=1000, mechanism=GAUSSIAN),
    record("pure-dp", epsilon=1.0, justification=WHY),
    record("approx-dp", epsilon=1.0, delta=1e-6, justification=WHY),
    record("zcdp", rho=0.5, justification=WHY),
    record("tabulated", losses=[-1.0, 1.0], probabilities=[0.25, 0.7], infinity=0.05, justification=WHY),
]
RECORDS += [
    {"kind": kind, **fields}
    for kind, fields in EXAMPLES.items()
    if kind not in {record["kind"] for record in RECORDS}
]
IDS = [f"{record['kind']}-{i}" for i, record in enumerate(RECORDS)]


def release(record: dict[str, Any]) -> Release:
    return make.release(record)


def changed(kind: str, **fields: Any) -> dict[str, Any]:
    record = next(record for record in RECORDS if record["kind"] == kind)
    return {**record, **fields}


@pytest.mark.parametrize("kind", ["pure-dp", "approx-dp", "zcdp"])
def test_a_guarantee_may_state_its_sensitivity(kind: str) -> None:
    figures = {"pure-dp": {"epsilon": 1.0}, "approx-dp": {"epsilon": 1.0, "delta": 0.1}, "zcdp": {"rho": 1.0}}
    record = {"kind": kind, **figures[kind], "justification": WHY, "sensitivity": sensitivity("l1")}
    mechanism = KINDS[kind](**record)
    assert mechanism.to_json() == record
    grouped = mechanism.for_group(2, lambda figure, factor: figure * factor)
    assert grouped is not None
    assert grouped[0].declared_sensitivity == Sensitivity(value=3.0, norm="l1", basis="clipped")
    with pytest.raises(NormMismatch, match="function space"):
        KINDS[kind](**{**record, "sensitivity": sensitivity("rkhs")})


def test_every_kind_of_the_union_has_a_record() -> None:
    schema = TypeAdapter(Release).json_schema()
    known = set(schema["properties"]["mechanism"]["discriminator"]["mapping"])
    assert known == set(KINDS) == {record["kind"] for record in RECORDS}


def flat(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A record as a description: a kernel's parameters and a sampled mechanism's own are the mechanism's."""
    fields = dict(record)
    inner = fields.pop("mechanism", {})
    kernel = fields.pop("kernel", {})
    kind = fields.pop("kind")
    if kind not in DESCRIBED:  # its parameters say which sample it is
        kind = inner["kind"]
    return kind, {n: v for part in (fields, inner, kernel) for n, v in part.items() if n != "kind"}


@pytest.mark.parametrize("record", RECORDS, ids=IDS)
def test_every_kind_can_be_described_by_its_parameters(record: dict[str, Any]) -> None:
    kind, given = flat(record)
    assert set(given) <= set(parameters(kind))
    assert described(kind, given) == release(record).mechanism


@pytest.mark.parametrize("record", RECORDS, ids=IDS)
def test_round_trip(record: dict[str, Any], tmp_path: Path) -> None:
    made = release(record)
    assert made.to_json()["mechanism"] == record
    assert Ledger.read(make.ledger(made).write(tmp_path / "ledger.jsonl")).releases == (made,)
    assert hash(made.mechanism) == hash(release(record).mechanism)


@pytest.mark.parametrize("record", RECORDS, ids=IDS)
def test_one_notion_of_sensitivity(record: dict[str, Any]) -> None:
    found = release(record).mechanism.declared_sensitivity
    stated = record.get("sensitivity") or record.get("mechanism", {}).get("sensitivity")
    assert (None if found is None else found.to_json()) == stated


@pytest.mark.parametrize("record", RECORDS, ids=IDS)
def test_every_number_is_refused_where_it_means_nothing(record: dict[str, Any]) -> None:
    numbers = [name for name, value in record.items() if isinstance(value, float | int)]
    for name in numbers:
        for bad in (math.nan, math.inf, -math.inf, -1.0, "1", None, True):
            if name in {"sigma", "scale", "alpha", "beta"} or bad is not True:
                with pytest.raises(InputError):
                    release({**record, name: bad})
    with pytest.raises(InputError):
        release({**record, "unknown": 1})


@pytest.mark.parametrize(
    "record", [record for record in RECORDS if "sensitivity" in record], ids=lambda record: record["kind"]
)
def test_a_sensitivity_in_the_wrong_norm(record: dict[str, Any]) -> None:
    allowed = {"tree-aggregation": {"l2", "frobenius"}}.get(record["kind"], {record["sensitivity"]["norm"]})
    for norm in {"l1", "l2", "frobenius", "rkhs"} - allowed:
        with pytest.raises(NormMismatch) as caught:
            release({**record, "sensitivity": sensitivity(norm)})
        assert f"in norm {max(allowed)!r}" in str(caught.value)
        known = "rkhs" not in {norm, *allowed}
        assert ("no sound conversion" not in caught.value.remedy) == known
    with pytest.raises(InputError):
        release({name: value for name, value in record.items() if name != "sensitivity"})


@pytest.mark.parametrize(
    "record",
    [
        changed("randomized-response", categories=1),
        changed("randomized-response", categories=2.5),
        changed("tree-aggregation", steps=0),
        changed("symmetric-gaussian", dimension=0),
        changed("smooth-gaussian", delta=1.0),
        changed("poisson-sampled", rate=0.0),
        changed("poisson-sampled", rate=1.5),
        changed("poisson-sampled", mechanism=changed("tree-aggregation")),
        changed("poisson-sampled", mechanism=changed("poisson-sampled")),
        changed("fixed-size-sampled", size=1001),
        changed("fixed-size-sampled", size=0),
        changed("fixed-size-sampled", units=999.5),
        changed("truncated-poisson-sampled", rate=1.01),
        changed("truncated-poisson-sampled", most=0),
        changed("truncated-poisson-sampled", contribution=0.0),
        changed("gaussian-process", kernel={"kind": "exponential", "beta": 0.0}),
        changed("gaussian-process", kernel={"kind": "cubic", "beta": 1.0}),
        changed("pure-dp", justification=""),
        changed("zcdp", justification="  \n"),
        changed("approx-dp", delta=0.0),
        changed("tabulated", losses=[1.0, -1.0]),
        changed("tabulated", losses=[1.0, 1.0]),
        changed("tabulated", losses=[-1.0, 1.0, 2.0]),
        changed("tabulated", losses=[-1.0, math.inf]),
        changed("tabulated", losses=[], probabilities=[], infinity=1.0),
        changed("tabulated", probabilities=[0.25, 0.71]),
        changed("tabulated", probabilities=[-0.25, 1.2]),
        changed("tabulated", losses=[-3.0, 1.0]),  # Q's mass would be 0.25 e^3 > 1
        changed("tabulated", losses=[-1e4, 1.0]),
    ],
    ids=lambda record: record["kind"],
)
def test_what_no_theorem_covers(record: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        release(record)


def test_numpy_numbers_are_numbers() -> None:
    record = changed("tree-aggregation", steps=np.int64(100), sigma=np.float32(2.0))
    assert release(record) == release(changed("tree-aggregation"))
    table = changed("tabulated", losses=np.array([-1.0, 1.0]).tolist(), infinity=np.float64(0.05))
    assert release(table) == release(changed("tabulated"))


def test_an_opaque_mechanism_needs_a_justification_and_a_kind_is_known() -> None:
    with pytest.raises(InvalidParameter):
        release({"kind": "pure-dp", "epsilon": 1.0})
    with pytest.raises(UnknownKind):
        release({"kind": "cauchy", "scale": 1.0})


def test_the_union_is_what_accountants_match_on() -> None:
    assert {getattr(kind, "__name__", "") for kind in AnyMechanism.__args__} >= {"Gaussian", "Tabulated"}
