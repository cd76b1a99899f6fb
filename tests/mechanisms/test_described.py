"""Mechanisms described by plain numbers: what is filled in, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit import L1, L2, DiscreteGaussian, Gaussian, Laplace, PoissonSampled, SymmetricGaussian
from dpaudit.errors import InputError, InvalidParameter, UnknownKind
from dpaudit.mechanisms import (
    AnyMechanism,
    FixedSizeSampled,
    RandomAllocation,
    RandomizedResponse,
    TruncatedPoissonSampled,
)
from dpaudit.mechanisms.described import DESCRIBED, described, parameters


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("gaussian", {"sigma": 2}, Gaussian(sigma=2.0, sensitivity=L2(1.0))),
        ("laplace", {"scale": 2.0, "sensitivity": 3.0}, Laplace(scale=2.0, sensitivity=L1(3.0))),
        (
            "laplace",
            {"scale": 2.0, "sensitivity": {"value": 3.0, "norm": "l1", "basis": "clipped"}},
            Laplace(scale=2.0, sensitivity=L1(3.0, "clipped")),
        ),
        ("discrete-gaussian", {"sigma": 2.0}, DiscreteGaussian(sigma=2.0, sensitivity=L2(1.0))),
        (
            "gaussian",
            {"sigma": 2.0, "rate": 0.1, "contribution": 0.5},
            PoissonSampled(rate=0.1, contribution=0.5, mechanism=Gaussian(sigma=2.0, sensitivity=L2(1.0))),
        ),
        (
            "randomized-response",
            {"epsilon": 1.0, "size": 3, "units": 10},
            FixedSizeSampled(size=3, units=10, mechanism=RandomizedResponse(epsilon=1.0)),
        ),
        (
            "gaussian",
            {"sigma": 2.0, "rate": 0.1, "most": 30, "units": 100},
            TruncatedPoissonSampled(
                rate=0.1, most=30, units=100, mechanism=Gaussian(sigma=2.0, sensitivity=L2(1.0))
            ),
        ),
        (
            "random-allocation",
            {"sigma": 2.0, "steps": 10},
            RandomAllocation(steps=10, mechanism=Gaussian(sigma=2.0, sensitivity=L2(1.0))),
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
