import ast
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import GDP, L1, L2, RDP, ZCDP, ApproxDP, Claim, Gaussian, Laplace, Neighbouring, Premise, PureDP
from dpaudit import errors as every_error
from dpaudit.claims.relations import TrustModel
from dpaudit.curator.noise import LiveNoise, ReplayDiverged
from dpaudit.errors import (
    ClaimMismatch,
    DpauditError,
    IntegrityError,
    InvalidParameter,
    NormMismatch,
    UnknownKind,
)
from dpaudit.ledger.ledger import Header
from dpaudit.ledger.releases import Release
from dpaudit.mechanisms import distance
from tests import make

ROOT = Path(dpaudit.__file__).parent.parent
NOT_NUMBERS = [math.nan, math.inf, -math.inf, -1.0, 10**400, 1j]
NOT_NUMBERS += ["1", b"1", True, np.True_, None, [1.0], np.ones(1)]
MODELS = {
    "sigma": make.gaussian,
    "scale": make.laplace,
    "L1": L1,
    "L2": L2,
    "pure": lambda x: PureDP(epsilon=x),
    "rho": lambda x: ZCDP(rho=x),
    "mu": lambda x: GDP(mu=x),
    "epsilon": lambda x: ApproxDP(epsilon=x, delta=0.1),
    "delta": lambda x: ApproxDP(epsilon=1.0, delta=x),
    "alpha": lambda x: RDP(alpha=x, epsilon=1.0),
    "renyi epsilon": lambda x: RDP(alpha=2.0, epsilon=x),
}


def kinds() -> list[type[DpauditError]]:
    return [
        kind
        for kind in vars(every_error).values()
        if isinstance(kind, type) and issubclass(kind, DpauditError)
    ]


def coded() -> list[type[DpauditError]]:
    return [kind for kind in kinds() if "code" in vars(kind) and kind is not DpauditError]


@pytest.mark.parametrize("bad", NOT_NUMBERS, ids=lambda bad: repr(bad)[:12])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_no_number_in_range_is_refused(name: str, bad: object) -> None:
    with pytest.raises(InvalidParameter) as caught:
        MODELS[name](bad)
    assert caught.value.where
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("name", "edge"),
    [("sigma", 0.0), ("scale", 0.0), ("scale", -0.0), ("delta", 0.0), ("delta", 1.0), ("alpha", 1.0)],
)
def test_the_open_ends_of_a_range_are_refused(name: str, edge: float) -> None:
    with pytest.raises(InvalidParameter):
        MODELS[name](edge)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.int64, np.uint8, int])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "delta"])
def test_numpy_numbers_are_numbers_and_are_kept_as_pythons_own(name: str, kind: Any) -> None:
    assert MODELS[name](kind(2)) == MODELS[name](2.0)
    assert type(L2(kind(2)).value) is float


@pytest.mark.parametrize("count", [0, -1, 1.0, 1.5, "2", True, np.True_, None, math.nan])
def test_a_count_is_a_positive_whole_number(count: object) -> None:
    noise = make.gaussian(1.0)
    with pytest.raises(InvalidParameter):
        Release(label="x", mechanism=noise, count=count)
    fields = {"algorithm": "a", "unit": "u", "neighbouring": "replace-one", "trust_model": "local"}
    users = "3" if count is None else count
    with pytest.raises(InvalidParameter):
        Header(**fields, users=users)
    assert Release(label="x", mechanism=noise, count=np.int32(3)).count == 3


@pytest.mark.parametrize("seed", [-1, 1.5, "x", math.nan])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InvalidParameter):
        LiveNoise(seed)


def test_a_sensitivity_in_another_norm_is_refused_with_the_conversion_that_is_sound() -> None:
    with pytest.raises(NormMismatch, match="L2 with the same value is sound") as caught:
        Gaussian(sigma=1.0, sensitivity=L1(1.0))
    assert caught.value.code == "DPA102"
    with pytest.raises(NormMismatch, match=r"sqrt\(d\)"):
        Laplace(scale=1.0, sensitivity=L2(1.0))
    with pytest.raises(NormMismatch, match="no sound conversion"):
        Gaussian(sigma=1.0, sensitivity={"value": 1.0, "norm": "rkhs"})
    with pytest.raises(NormMismatch):
        Gaussian(sigma=1.0, sensitivity={"value": 1.0, "norm": "l3"})


@pytest.mark.parametrize("kind", ["cauchy", "", "Gaussian", 7, ["gaussian"]])
def test_unknown_kinds_are_refused_by_name(kind: object) -> None:
    with pytest.raises(UnknownKind, match="gaussian"):
        Release(label="x", mechanism={"kind": kind, "sigma": 1.0})
    with pytest.raises(UnknownKind, match="zcdp"):
        Claim({"kind": kind, "rho": 1.0})  # type: ignore[arg-type]


def test_unknown_and_missing_fields_are_refused() -> None:
    for fields in ({"rho": 1.0, "count": 2}, {"rho": 1.0, "self": 1}, {}):
        with pytest.raises(InvalidParameter):
            ZCDP(**fields)
    with pytest.raises(InvalidParameter):
        Release(label="", mechanism=make.gaussian(1.0))


def test_values_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        ZCDP(rho=1.0).rho = 0.5  # type: ignore[misc]


def test_a_claim_about_another_unit_relation_or_trust_model_is_no_claim_about_the_ledger() -> None:
    meant = ("user", Neighbouring.REPLACE_ONE, TrustModel.CENTRAL)
    for other in ({"unit": "row"}, {"neighbouring": "zero-out"}, {"trust_model": "joint"}):
        with pytest.raises(ClaimMismatch):
            Claim(ZCDP(rho=1.0), **other).about(*meant)
    assert Claim(ZCDP(rho=1.0)).about(*meant).unit == "user"
    assert Claim(ZCDP(rho=1.0), unit="user").about(*meant).trust_model is TrustModel.CENTRAL


@pytest.mark.parametrize(
    ("left", "relation", "right", "holds"),
    [
        (1.0, "<", 2.0, True),
        (2.0, "<", 2.0, False),
        (2.0, "<=", 2.0, True),
        (2.0, ">", 2.0, False),
        (2.0, ">=", 2.0, True),
        (math.inf, ">", 1.0, True),
        *[(math.nan, relation, 1.0, False) for relation in ("<", "<=", ">", ">=")],
        *[(1.0, relation, math.nan, False) for relation in ("<", "<=", ">", ">=")],
    ],
)
def test_premises_are_computed_and_nan_makes_them_false(
    left: float, relation: Any, right: float, holds: bool
) -> None:
    assert Premise(name="p", left=left, relation=relation, right=right).holds is holds


def test_a_premise_cannot_be_told_to_hold() -> None:
    with pytest.raises(InvalidParameter):
        Premise(name="p", left=2.0, relation="<", right=1.0, holds=True)
    with pytest.raises(InvalidParameter):
        Premise(name="p", left="1", relation="<", right=2.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_distances_neither_vanish_nor_overflow(scale: float) -> None:
    difference = scale * np.array([3.0, -4.0])
    assert distance("l2", difference) == pytest.approx(5.0 * scale, rel=1e-15)
    assert distance("l1", difference) == pytest.approx(7.0 * scale, rel=1e-15)


@pytest.mark.parametrize("kind", [*kinds(), ReplayDiverged], ids=lambda kind: kind.__name__)
def test_errors_survive_pickling_with_every_field(kind: type[DpauditError]) -> None:
    error = kind("what", where="where", remedy="remedy")
    error.where = "elsewhere"
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own bytes)
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize("kind", coded(), ids=lambda kind: kind.__name__)
def test_every_error_says_what_where_why_and_what_to_do(kind: type[DpauditError]) -> None:
    lines = str(kind("this is wrong", where="here")).splitlines()
    assert lines[0] == f"{kind.code} here: this is wrong"
    assert lines[1].startswith("  why: ")
    assert len(lines[1]) > 15
    assert lines[2].startswith("  do:  ")
    assert len(lines[2]) > 15


def test_every_error_that_is_raised_says_where() -> None:
    names = {kind.__name__ for kind in coded()}
    folders = [ROOT / "dpaudit", ROOT / "accountants", ROOT / "auditors", ROOT / "algorithms"]
    calls = [
        (path, node)
        for folder in folders
        for path in folder.rglob("*.py")
        if path.name != "conversions.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]
    silent = [
        f"{path.name}:{node.lineno}"
        for path, node in calls
        if not {"where", None} & {keyword.arg for keyword in node.keywords}
    ]
    assert len(calls) > 200
    assert silent == []


def test_codes_are_unique_and_each_has_its_entry_in_the_documentation() -> None:
    codes = [kind.code for kind in coded()]
    assert len(set(codes)) == len(codes)
    assert "DPA100" not in codes
    text = (ROOT / "docs" / "errors.md").read_text()
    for kind in coded():
        assert f"## {kind.code} {kind.__name__}\n" in text
        assert kind.exit_status == (3 if issubclass(kind, IntegrityError) else 2)
    assert text.count("\n## DPA") == len(codes)
    entries = text.split("\n## DPA")[1:]
    assert all(
        "**What to do.**" in entry
        and f"Exit status {3 if entry[:3] in {'205', '206', '207', '208', '209'} else 2}" in entry
        for entry in entries
    )


def test_a_missing_an_unknown_field_and_an_unknown_kind_say_what_to_do() -> None:
    with pytest.raises(InvalidParameter) as missing:
        Gaussian(sensitivity=L2(1.0))
    assert missing.value.where == "Gaussian.sigma"
    assert missing.value.remedy == "add the field"
    with pytest.raises(InvalidParameter) as unknown:
        Gaussian(sigma=1.0, sensitivity=L2(1.0), scale=2.0)
    assert unknown.value.where == "Gaussian"
    assert unknown.value.what == "unknown field 'scale'"
    assert unknown.value.remedy == "known fields: sensitivity, sigma, kind"
    with pytest.raises(InvalidParameter) as misspelled:
        Gaussian(sigma=1.0, sensitivity=L2(1.0), sigmma=2.0)
    assert "did you mean 'sigma'?" in misspelled.value.remedy
    with pytest.raises(UnknownKind) as kind:
        Release(label="a", mechanism={"kind": "gausian"})
    assert "did you mean 'gaussian'?" in kind.value.remedy
    assert "discrete-laplace" in kind.value.remedy
