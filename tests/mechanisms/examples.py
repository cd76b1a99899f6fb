"""One mechanism of each kind: what `docs/programs/make_mechanisms.py` shows, and tests of all kinds try."""

from typing import Any

from pydantic import TypeAdapter

from dpaudit.mechanisms import AnyMechanism


def _of(norm: str) -> dict[str, Any]:
    return {"value": 1.0, "norm": norm, "basis": "clipped"}


_WHY = "the manual, Theorem 3"

#: One of each kind, for its page and for the tests that take them all; a kind without one is an error.
EXAMPLES: dict[str, dict[str, Any]] = {
    "gaussian": {"sigma": 2.0, "sensitivity": _of("l2")},
    "laplace": {"scale": 2.0, "sensitivity": _of("l1")},
    "discrete-gaussian": {"sigma": 2.0, "sensitivity": _of("l2")},
    "discrete-laplace": {"scale": 2.0, "sensitivity": _of("l1")},
    "symmetric-gaussian": {"sigma": 2.0, "dimension": 3, "sensitivity": _of("frobenius")},
    "tree-aggregation": {"sigma": 2.0, "steps": 100, "sensitivity": _of("l2")},
    "matrix": {
        "sigma": 2.0,
        "steps": 100,
        "strategy": {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.375, 0.3125]},
        "participations": 4,
        "separation": 25,
        "sensitivity": _of("l2"),
    },
    "gaussian-process": {
        "sigma": 2.0,
        "kernel": {"kind": "exponential", "beta": 3.0},
        "sensitivity": _of("rkhs"),
    },
    "randomized-response": {"epsilon": 0.5, "categories": 2},
    "exponential": {"epsilon": 0.5},
    "report-noisy-max": {"epsilon": 0.5, "noise_law": "exponential"},
    "sparse-vector": {"epsilon": 0.5, "sensitivity": _of("l1"), "answers": 2, "monotone": False},
    "private-selection": {
        "releases": [{"mechanism": {"kind": "laplace", "scale": 2.0, "sensitivity": _of("l1")}, "count": 1}],
        "repetitions": {"kind": "negative-binomial", "eta": 1.0, "gamma": 0.1},
    },
    "key-selection": {"method": "optimal", "epsilon": 1.0, "delta": 1e-6, "changes": 1},
    "shuffled": {"local": {"kind": "randomized-response", "epsilon": 1.0, "categories": 2}, "users": 10000},
    "gaussian-sparse-vector": {
        "sigma": 10.0,
        "sensitivity": _of("l2"),
        "answers": 2,
        "steps": 100,
        "monotone": False,
    },
    "smooth-gaussian": {"alpha": 12.0, "beta": 0.05, "dimension": 2, "epsilon": 1.0, "delta": 0.1},
    "poisson-sampled": {
        "rate": 0.01,
        "mechanism": {"kind": "laplace", "scale": 2.0, "sensitivity": _of("l1")},
    },
    "sampled-matrix": {
        "rate": 0.01,
        "mechanism": {
            "kind": "matrix",
            "sigma": 2.0,
            "steps": 100,
            "strategy": {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.375, 0.3125]},
            "separation": 25,
            "sensitivity": _of("l2"),
        },
    },
    "mixture-of-gaussians": {
        "sigma": 2.0,
        "sensitivities": [0.0, 1.0, 2.0],
        "probabilities": [0.9, 0.07, 0.03],
    },
    "sampled-records": {
        "rate": 0.01,
        "records": 3,
        "mechanism": {"kind": "gaussian", "sigma": 2.0, "sensitivity": _of("l2")},
    },
    "random-allocation": {
        "steps": 100,
        "mechanism": {"kind": "gaussian", "sigma": 2.0, "sensitivity": _of("l2")},
    },
    "fixed-size-sampled": {
        "size": 10,
        "units": 1000,
        "mechanism": {"kind": "gaussian", "sigma": 2.0, "sensitivity": _of("l2")},
    },
    "truncated-poisson-sampled": {
        "rate": 0.01,
        "most": 30,
        "units": 1000,
        "mechanism": {"kind": "gaussian", "sigma": 2.0, "sensitivity": _of("l2")},
    },
    "pure-dp": {"epsilon": 0.5, "justification": _WHY},
    "approx-dp": {"epsilon": 0.5, "delta": 1e-7, "justification": _WHY},
    "zcdp": {"rho": 0.125, "justification": _WHY},
    "tabulated": {
        "losses": [-0.5, 0.5],
        "probabilities": [0.375, 0.625],
        "infinity": 0.0,
        "justification": _WHY,
    },
}


def example(kind: str) -> AnyMechanism:
    """The example of a kind, as a mechanism."""
    mechanism: AnyMechanism = TypeAdapter(AnyMechanism).validate_python({"kind": kind, **EXAMPLES[kind]})
    return mechanism
