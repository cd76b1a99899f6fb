"""`dpaudit/checker.py`: certificates that hold, and each kind of edit that does not."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit import (
    GDP,
    L1,
    L2,
    RDP,
    ZCDP,
    ApproxDP,
    DiscreteGaussian,
    Exponential,
    FixedSizeSampled,
    Frobenius,
    Gaussian,
    GaussianSparseVector,
    Laplace,
    MatrixMechanism,
    OpaqueApproxDP,
    OpaquePureDP,
    OpaqueZCDP,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Release,
    ReportNoisyMax,
    SparseVector,
    SymmetricGaussian,
    Tabulated,
    Toeplitz,
    TreeAggregation,
    TruncatedPoissonSampled,
    checker,
)
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.mechanisms import DiscreteLaplace
from tests.checker.certified import certified, edited, hashed, last_hash, leaves, other

FILE = Path(checker.__file__)
GAUSSIAN = Gaussian(sigma=2.0, sensitivity=L2(1.0))
LAPLACE = Laplace(scale=4.0, sensitivity=L1(1.0))
SAMPLED = PoissonSampled(mechanism=GAUSSIAN, rate=0.05)


def answer(certificate: bytes, ledger: bytes) -> tuple[str, list[checker.Answer]]:
    found = checker.answers(certificate, ledger)
    return found[0][0], [one for one in found if one[0] != checker.HOLDS]


def release(mechanism: Any, count: int = 1, label: str = "sum", **options: Any) -> Release:
    return Release(label=label, mechanism=mechanism, count=count, **options)


def test_it_is_one_file_of_the_standard_library() -> None:
    tree = ast.parse(FILE.read_text())
    names = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)
    assert checker.checks([])["lines"] == sum(1 for line in FILE.read_text().splitlines() if line.strip())
    assert checker.checks([])["lines"] <= 1000  # docstrings and comments included


def test_it_runs_alone(tmp_path: Path) -> None:
    copied = tmp_path / "alone.py"
    copied.write_bytes(FILE.read_bytes())
    certificate, ledger = certified(ZCDP(rho=1.0), [release(GAUSSIAN, 4)])
    (tmp_path / "c.json").write_bytes(certificate)
    (tmp_path / "l.jsonl").write_bytes(ledger)
    command = [sys.executable, "-I", "-S", str(copied)]
    found = subprocess.run([*command, "c.json", "l.jsonl"], cwd=tmp_path, capture_output=True, text=True)  # noqa: PLW1510
    assert (found.returncode, found.stdout.splitlines()[-1]) == (0, "holds")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 2  # noqa: PLW1510


ZCDP_OF = [
    (GAUSSIAN, 4, 0.5),
    (LAPLACE, 3, 0.1),
    (DiscreteGaussian(sigma=3.0, sensitivity=L2(2.0)), 5, 1.2),
    (DiscreteLaplace(scale=3.0, sensitivity=L1(2.0)), 5, 1.2),
    (SymmetricGaussian(sigma=2.0, sensitivity=Frobenius(1.0), dimension=3), 1, 0.2),
    (TreeAggregation(sigma=4.0, sensitivity=L2(1.0), steps=20), 1, 0.2),
    (
        MatrixMechanism(
            sigma=4.0,
            sensitivity=L2(1.0),
            steps=9,
            strategy=Toeplitz(coefficients=(1.0, 0.5, 0.25)),
            participations=2,
            separation=2,
        ),
        1,
        0.2,
    ),
    (RandomizedResponse(epsilon=0.5, categories=4), 2, 0.3),
    (Exponential(epsilon=0.5), 2, 0.3),
    (ReportNoisyMax(epsilon=0.5), 2, 0.3),
    (SparseVector(epsilon=0.5, sensitivity=L1(1.0)), 2, 0.3),
    (GaussianSparseVector(sigma=9.0, sensitivity=L2(1.0), steps=20), 1, 0.3),
    (OpaquePureDP(epsilon=0.3, justification="a proof"), 1, 0.1),
    (OpaqueZCDP(rho=0.3, justification="a proof"), 1, 0.3),
    (PoissonSampled(mechanism=LAPLACE, rate=0.1), 10, 0.1),
]


@pytest.mark.parametrize(("mechanism", "count", "rho"), ZCDP_OF, ids=lambda one: getattr(one, "kind", None))
def test_zcdp_of_every_kind_that_has_it(mechanism: Any, count: int, rho: float) -> None:
    certificate, ledger = certified(ZCDP(rho=rho), [release(mechanism, count)])
    assert answer(certificate, ledger) == (checker.HOLDS, [])


@pytest.mark.parametrize(
    ("guarantee", "mechanism"),
    [
        (PureDP(epsilon=1.0), LAPLACE),
        (PureDP(epsilon=1.0), PoissonSampled(mechanism=LAPLACE, rate=0.1)),
        (GDP(mu=1.0), GAUSSIAN),
        (GDP(mu=1.0), LAPLACE),
        (RDP(alpha=4.0, epsilon=1.0), GAUSSIAN),
        (RDP(alpha=3.5, epsilon=1.0), LAPLACE),
        (RDP(alpha=8.0, epsilon=1.0), SAMPLED),
        (ApproxDP(epsilon=3.0, delta=1e-6), GAUSSIAN),
        (ApproxDP(epsilon=2.0, delta=1e-6), SAMPLED),
        (ApproxDP(epsilon=2.0, delta=1e-6), FixedSizeSampled(mechanism=GAUSSIAN, size=5, units=100)),
        (
            ApproxDP(epsilon=2.0, delta=1e-6),
            TruncatedPoissonSampled(mechanism=GAUSSIAN, rate=0.05, most=12, units=100),
        ),
        (ApproxDP(epsilon=2.0, delta=1e-3), OpaqueApproxDP(epsilon=0.5, delta=1e-6, justification="a proof")),
        (
            ApproxDP(epsilon=2.0, delta=1e-3),
            Tabulated(losses=(-0.5, 0.5), probabilities=(0.35, 0.65), justification="a table"),
        ),
    ],
)
@pytest.mark.parametrize("neighbouring", ["add-or-remove-one", "replace-one", "zero-out"])
def test_every_scale_under_every_relation(guarantee: Any, mechanism: Any, neighbouring: str) -> None:
    certificate, ledger = certified(guarantee, [release(mechanism)], neighbouring=neighbouring)
    found, rest = answer(certificate, ledger)
    # A mechanism on a sample has no mu or Renyi divergence that is amplified when a unit is replaced.
    assert found == checker.HOLDS, rest


def test_groups_parts_and_counts() -> None:
    releases = [release(GAUSSIAN, 3), release(GAUSSIAN, partition="a"), release(LAPLACE, 9, partition="b")]
    for neighbouring in ("add-or-remove-one", "replace-one"):
        for size in (1, 2):
            files = certified(ZCDP(rho=9.0), releases, neighbouring=neighbouring, group_size=size)
            assert answer(*files) == (checker.HOLDS, [])


def test_releases_on_one_sample() -> None:
    layers = [release(SAMPLED, 20, label=f"layer {i}", sample="batch") for i in range(3)]
    assert answer(*certified(ApproxDP(epsilon=3.0, delta=1e-6), layers)) == (checker.HOLDS, [])
    single = [release(SAMPLED, 20, label=f"layer {i}") for i in range(3)]
    together, alone = (certified(ApproxDP(epsilon=3.0, delta=1e-6), each) for each in (layers, single))
    figures = [json.loads(one[0])["bounds"][0]["guarantee"]["epsilon"] for one in (together, alone)]
    assert figures[0] > 1.2 * figures[1]


def test_a_budget_is_what_a_filtered_run_proves() -> None:
    options: Any = {"schedule": "filtered", "budget": ZCDP(rho=0.5)}
    assert answer(*certified(ZCDP(rho=0.5000001), [release(GAUSSIAN, 2)], **options)) == (checker.HOLDS, [])


CLAIMS: dict[str, tuple[AnyGuarantee, list[Release]]] = {
    "zcdp": (ZCDP(rho=0.6), [release(GAUSSIAN, 4, claimed=ZCDP(rho=0.6)), release(LAPLACE, label="other")]),
    "pure-dp": (PureDP(epsilon=1.0), [release(LAPLACE, 4, claimed=PureDP(epsilon=1.0))]),
    "gdp": (GDP(mu=1.0), [release(GAUSSIAN, 4)]),
    "rdp": (RDP(alpha=5.0, epsilon=2.5), [release(GAUSSIAN, 4)]),
    "approx-dp": (ApproxDP(epsilon=5.0, delta=1e-6), [release(GAUSSIAN, 4)]),
    "sampled": (ApproxDP(epsilon=1.2, delta=1e-6), [release(SAMPLED, 10)]),
    "laplace": (ApproxDP(epsilon=5.0, delta=1e-6), [release(LAPLACE, 20)]),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_bound_that_is_lowered_by_one_part_in_a_thousand(name: str) -> None:
    certificate, ledger = certified(*CLAIMS[name])
    assert answer(certificate, ledger)[0] == checker.HOLDS
    record = json.loads(certificate)
    bounds = record["bounds"]
    for place in range(1 if name in ("approx-dp", "sampled", "laplace") else len(bounds)):
        figure = next(key for key in ("epsilon", "rho", "mu") if key in bounds[place]["guarantee"])
        lower = edited(record, ("bounds", place, "guarantee", figure), lambda old: old * 0.999)
        lower["bounds"][place].pop("at_least", None)
        found, why = answer(json.dumps(lower).encode(), ledger)
        assert found == checker.FAILS, why
        assert any("bound by" in about for _, about, _ in why)


#: What a certificate states, and no ledger and no other section shows.
AS_STATED = ("versions", "command", "statement", "second_opinion")
FREE = {("bounds", "method"), ("bounds", "rigour"), ("bounds", "at_least"), ("profile", "method")}
FREE |= {("profile", "rigour"), ("process", "stand_in")}


def shown(path: tuple[Any, ...]) -> bool:
    names = tuple(name for name in path if isinstance(name, str))
    return path[0] not in AS_STATED and names not in FREE


@pytest.mark.parametrize("name", ["zcdp", "gdp"])
def test_every_field_of_a_certificate_that_is_edited(name: str) -> None:
    certificate, ledger = certified(*CLAIMS[name], curves=True)
    record = json.loads(certificate)
    unseen = []
    for path, _ in leaves(record):
        if shown(path):
            found, _ = answer(json.dumps(edited(record, path, other)).encode(), ledger)
            if found != checker.FAILS:
                unseen.append(path)
    # A claim may be weaker than what is proved. Of curves only the lowest is what is true.
    assert [path for path in unseen if path[0] not in ("profile", "claim")] == []
    exactly = [path for path in unseen if path[:2] == ("profile", 0) and path[-1] == 1 and path[-2] < 32]
    assert name != "gdp" or exactly == []


@pytest.mark.parametrize("name", ["zcdp", "pure-dp", "sampled"])
def test_every_field_of_a_ledger_that_is_edited_with_all_hashes(name: str) -> None:
    certificate, ledger = certified(*CLAIMS[name])
    records = [json.loads(line) for line in ledger.splitlines()]
    for path, value in leaves(records):
        if path[-1] == "hash" or path[:3] == (0, "claim", "guarantee"):  # a certificate may claim otherwise
            continue
        changed = hashed(edited(records, path, other))
        again = {**json.loads(certificate), "ledger_hash": last_hash(changed)}
        found, why = answer(json.dumps(again).encode(), changed)
        # A mechanism of another name may be one that another package adds.
        assert found == (checker.UNKNOWN if path[-2:] == ("mechanism", "kind") else checker.FAILS), (
            path,
            value,
        )
        assert why


def less_noise(records: Any, certificate: Any) -> None:
    for place in (records[1], certificate["releases"][0]):
        place["mechanism"]["sigma"] /= 1.001


def more_runs(records: Any, certificate: Any) -> None:
    for place in (records[1], certificate["releases"][0]):
        place["count"] *= 2


def other_relation(records: Any, certificate: Any) -> None:
    records[0]["neighbouring"] = "replace-one"


def other_unit(records: Any, certificate: Any) -> None:
    certificate["unit"] = certificate["claim"]["unit"] = "row"


def other_mechanism(records: Any, certificate: Any) -> None:
    for place in (records[1], certificate["releases"][0]):
        place["mechanism"]["kind"] = "gaussian-process"
        place["mechanism"]["kernel"] = {"beta": 1.0, "kind": "exponential"}
        place["mechanism"]["sensitivity"]["norm"] = "rkhs"


def dropped_condition(records: Any, certificate: Any) -> None:
    certificate["not_checked"] = [
        one for one in certificate["not_checked"] if one["code"] != "declared-sensitivity"
    ]


def weaker_claim_without_assumption(records: Any, certificate: Any) -> None:
    certificate["claim"]["assumptions"] = []


def unknown_field(records: Any, certificate: Any) -> None:
    certificate["seal"] = "genuine"


def refuting_audit(records: Any, certificate: Any) -> None:
    certificate["experiment"] = "NOT_REFUTED"


EDITS: dict[Callable[[Any, Any], None], str] = {
    less_noise: "the bound by",
    more_runs: "the bound by",
    other_relation: "neighbouring",
    other_unit: "unit",
    other_mechanism: "",
    dropped_condition: "not_checked: it lacks declared-sensitivity",
    weaker_claim_without_assumption: "claim",
    unknown_field: "certificate",
    refuting_audit: "experiment",
}


@pytest.mark.parametrize("edit", EDITS, ids=lambda one: one.__name__)
def test_planted_edits_with_all_hashes(edit: Callable[[Any, Any], None]) -> None:
    certificate, ledger = certified(ZCDP(rho=0.5), [release(GAUSSIAN, 4)])
    records, stated = [json.loads(line) for line in ledger.splitlines()], json.loads(certificate)
    edit(records, stated)
    changed = hashed(records)
    stated["ledger_hash"] = last_hash(changed)
    found, why = answer(json.dumps(stated).encode(), changed)
    if edit is other_mechanism:  # at the same cost: every figure holds, and no field contradicts another
        assert found == checker.HOLDS
        return
    assert found == checker.FAILS
    assert any(about.startswith(EDITS[edit]) for _, about, _ in why), why


def test_a_ledger_of_another_run() -> None:
    certificate, _ = certified(ZCDP(rho=0.5), [release(GAUSSIAN, 4)])
    _, ledger = certified(ZCDP(rho=0.5), [release(GAUSSIAN, 4), release(GAUSSIAN, label="more")])
    found, why = answer(certificate, ledger)
    assert (found, why[0][1]) == (checker.FAILS, "ledger_hash")


@pytest.mark.parametrize("kind", ["poisson-sampled", "key-selection"])
def test_local_trust_refuses_whoever_must_be_trusted(kind: str) -> None:
    certificate, ledger = certified(ZCDP(rho=0.5), [release(GAUSSIAN, 4)])
    records = [json.loads(line) for line in ledger.splitlines()]
    records[0]["trust_model"] = "local"
    inner = records[1]["mechanism"]
    more = {"mechanism": inner, "rate": 0.5} if kind == "poisson-sampled" else {}
    more = more or {"method": "optimal", "epsilon": 1.0, "delta": 1e-6, "changes": 1}
    records[1]["mechanism"] = {"kind": kind, **more}
    found, why = answer(certificate, hashed(records))
    assert found == checker.FAILS
    assert any("nobody is trusted" in words for _, _, words in why)


def test_what_is_not_known_is_named() -> None:
    from dpaudit import SmoothGaussian

    smooth = SmoothGaussian(alpha=0.5, beta=0.01, dimension=1, epsilon=1.0, delta=1e-6)
    found, why = answer(*certified(ApproxDP(epsilon=3.0, delta=1e-5), [release(smooth)]))
    assert found == checker.UNKNOWN
    assert any("smooth-gaussian" in words for _, _, words in why)
