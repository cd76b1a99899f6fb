"""Mechanisms described by plain numbers: what is filled in, and what is refused."""

from typing import Any

import pytest

from dpaudit import L1, Laplace, PoissonSampled, SymmetricGaussian
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import InputError, InvalidParameter, UnknownKind
from dpaudit.mechanisms import (
    AnyMechanism,
    FixedSizeSampled,
    RandomAllocation,
    RandomizedResponse,
    TruncatedPoissonSampled,
)
from dpaudit.mechanisms.described import DESCRIBED, described, parameters
from tests import make


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("gaussian", {"sigma": 2}, make.gaussian(2.0)),
        ("laplace", {"scale": 2.0, "sensitivity": 3.0}, make.laplace(2.0, 3.0)),
        (
            "laplace",
            {"scale": 2.0, "sensitivity": {"value": 3.0, "norm": "l1", "basis": "clipped"}},
            Laplace(scale=2.0, sensitivity=L1(3.0, "clipped")),
        ),
        ("discrete-gaussian", {"sigma": 2.0}, make.discrete_gaussian(2.0)),
        (
            "gaussian",
            {"sigma": 2.0, "rate": 0.1, "contribution": 0.5},
            PoissonSampled(rate=0.1, contribution=0.5, mechanism=make.gaussian(2.0)),
        ),
        (
            "randomized-response",
            {"epsilon": 1.0, "size": 3, "units": 10},
            FixedSizeSampled(size=3, units=10, mechanism=RandomizedResponse(epsilon=1.0)),
        ),
        (
            "gaussian",
            {"sigma": 2.0, "rate": 0.1, "most": 30, "units": 100, "sensitivity": 1.0},
            TruncatedPoissonSampled(rate=0.1, most=30, units=100, mechanism=make.gaussian(2.0)),
        ),
        (
            "random-allocation",
            {"sigma": 2.0, "steps": 10},
            RandomAllocation(steps=10, mechanism=make.gaussian(2.0)),
        ),
    ],
)
def test_what_is_left_out_is_filled_in(kind: str, given: dict[str, Any], expected: AnyMechanism) -> None:
    assert described(kind, given) == expected


def test_what_does_not_enter_the_cost_may_be_left_out() -> None:
    large = described("symmetric-gaussian", {"sigma": 2.0, "dimension": 9})
    left_out = described("symmetric-gaussian", {"sigma": 2.0})
    assert isinstance(left_out, SymmetricGaussian)
    assert left_out.dominating_pair() == large.dominating_pair()
    for kind, given in (("gaussian-process", {"sigma": 2.0}), ("pure-dp", {"epsilon": 1.0})):
        assert described(kind, given).kind == kind


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("gaussian", {}, "add --sigma"),
        ("gaussian", {"sigma": 1.0, "scale": 1.0}, "--scale with gaussian"),
        ("gaussian", {"scale": 1.0}, "did you mean '--sigma'?"),
        ("laplace", {"sigma": 1.0}, "did you mean '--scale'?"),
        ("gaussian", {"sigma": 1.0, "sigm": 1.0}, "did you mean '--sigma'?"),
        ("gaussian", {"sigma": 1.0, "contribution": 1.0}, "give --rate; or --size and --units"),
        ("gaussian", {"sigma": 1.0, "rate": 0.1, "size": 2}, "give --rate; or --size and --units"),
        ("gaussian", {"sigma": 1.0, "size": 2, "units": 9, "contribution": 1.0}, "give --rate; or --size"),
        ("gaussian", {"sigma": 1.0, "rate": 1.5}, "1.5 is above 1"),
        ("gaussian", {"sigma": -1.0}, "-1.0 is not above 0"),
        ("gaussian", {"sigma": float("nan")}, "finite"),
        ("gaussian", {"sigma": "1"}, "number"),
        ("gaussian", {"sigma": 1.0, "sensitivity": -1.0}, "-1.0 is below 0"),
        ("gaussian", {"sigma": 1.0, "sensitivity": {"value": 1.0, "norm": "l1"}}, "needs its sensitivity"),
        ("gaussian", {"sigma": 1.0, "sensitivity": {"norm": "l2"}}, "required field"),
        ("smooth-gaussian", {"rate": 0.1}, "what a sample amplifies is known for gaussian, laplace"),
        ("report-noisy-max", {"epsilon": 1.0, "noise_law": "normal"}, "Input should be 'exponential'"),
        ("matrix", {"sigma": 1.0, "steps": 3}, "add --strategy"),
        ("tree-aggregation", {"sigma": 1.0}, "add --steps"),
        ("tree-aggregation", {"sigma": 1.0, "steps": 0}, "0 is below 1"),
        ("smooth-gaussian", {"alpha": 1.0}, "add --beta"),
    ],
)
def test_what_is_refused(kind: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        described(kind, given, lambda name: f"--{name}")


SIZE = {"sigma": 1.1, "size": 256, "units": 60000}
MOST = {"sigma": 1.1, "rate": 0.1, "most": 30, "units": 100}


@pytest.mark.parametrize(
    ("kind", "given", "relation", "remedy"),
    [
        ("gaussian", SIZE, "add-or-remove-one", "add --sensitivity 2 for rows clipped to the norm 1"),
        ("laplace", {"scale": 1.0, "size": 2, "units": 9}, "zero-out", "add --sensitivity 2 for rows"),
        ("gaussian", MOST, "add-or-remove-one", "add --sensitivity 2 and --contribution 1 for rows"),
        ("gaussian", {"sigma": 1.0, "rate": 0.1}, "replace-one", "add --sensitivity 2 and --contribution 1"),
        ("gaussian", {"sigma": 1.0}, "replace-one", "add --sensitivity 2 for rows"),
        ("tree-aggregation", {"sigma": 1.0, "steps": 3}, "replace-one", "add --sensitivity 2 for rows"),
    ],
)
def test_a_sensitivity_is_asked_for_where_a_unit_is_replaced(
    kind: str, given: dict[str, Any], relation: str, remedy: str
) -> None:
    with pytest.raises(InvalidParameter, match="needs --sensitivity") as refused:
        described(kind, given, lambda name: f"--{name}", Neighbouring(relation))
    assert refused.value.remedy.startswith(remedy)
    with pytest.raises(InvalidParameter, match="needs sensitivity") as planned:
        described(kind, given, neighbouring=Neighbouring(relation))
    assert "sensitivity = 2" in planned.value.remedy
    stated = described(kind, {**given, "sensitivity": 2.0}, neighbouring=Neighbouring(relation))
    assert stated.declared_sensitivity is not None
    assert stated.declared_sensitivity.value == 2.0


@pytest.mark.parametrize("relation", ["add-or-remove-one", "zero-out"])
def test_a_sensitivity_of_1_is_that_of_rows_of_norm_1_elsewhere(relation: str) -> None:
    for given in ({"sigma": 1.0}, {"sigma": 1.0, "rate": 0.1}):
        found = described("gaussian", given, neighbouring=Neighbouring(relation)).declared_sensitivity
        assert found is not None
        assert found.value == 1.0


@pytest.mark.parametrize(
    ("kind", "said"),
    [("gausian", "did you mean 'gaussian'"), ("poisson-sampled", "such as its rate"), ("", "known")],
)
def test_unknown_kinds(kind: str, said: str) -> None:
    with pytest.raises(UnknownKind, match=said):
        described(kind, {})


def test_every_kind_refuses_a_parameter_that_no_mechanism_has() -> None:
    for kind in DESCRIBED:
        with pytest.raises(InvalidParameter, match=f"nonsense with {kind}"):
            described(kind, {"nonsense": 1.0})
        assert "kind" not in parameters(kind)
