"""How the models look from outside."""

from __future__ import annotations

import inspect

import dpaudit
from dpaudit import ZCDP, Claim, Gaussian, PoissonSampled
from dpaudit.models import Model


def test_signatures_name_types_and_no_validators() -> None:
    assert list(inspect.signature(Gaussian).parameters) == ["sensitivity", "sigma"]
    assert inspect.signature(ZCDP).parameters["rho"].annotation is float
    for name in dpaudit.__all__:
        value = getattr(dpaudit, name)
        if isinstance(value, type) and issubclass(value, Model):
            assert "Annotated" not in str(inspect.signature(value)), name
            assert "<function" not in str(inspect.signature(value)), name
    assert inspect.signature(PoissonSampled).parameters["rate"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.signature(Claim).parameters["unit"].default is None
