"""What is said to be supported of a mechanism is what accountants, curator and audits do with it."""

from typing import Any

import pytest

from dpaudit import L2, Curator, Gaussian, TreeAggregation, supports
from dpaudit.errors import InvalidParameter, UnknownKind
from dpaudit.mechanisms import OWN_KINDS

#: Kinds with the accountants that have no bound on them, by their theory: no pure epsilon, no zCDP, no pair.
REFUSED = {
    "gaussian": {"pure"},
    "laplace": set[str](),
    "discrete-gaussian": {"gdp", "pure"},
    "smooth-gaussian": {"gdp", "zcdp", "pure"},
    "zcdp": {"gdp", "pure", "pld"},
    "approx-dp": {"gdp", "zcdp", "pure"},
}
UNTESTED = {
    *("pure-dp", "approx-dp", "zcdp", "tabulated", "key-selection", "private-selection", "poisson-sampled"),
    *("fixed-size-sampled", "truncated-poisson-sampled", "sampled-records", "mixture-of-gaussians"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_accountants(kind: str) -> None:
    found = supports(kind)
    assert set(found.refused) == REFUSED[kind]
    assert set(found.accountants) == {"gdp", "zcdp", "pure", "rdp", "pld"} - REFUSED[kind]


def test_runtime_and_audits_of_every_kind() -> None:
    for kind in OWN_KINDS:
        found = supports(kind)
        assert found.package is None
        assert found.drawn_by is None or callable(getattr(Curator, found.drawn_by))
        assert (found.drawn_by is None) == (found.audits == ()) == (kind == "mixture-of-gaussians")
        assert ("sampler" in found.audits) == (kind not in UNTESTED), kind
        assert found.accountants, kind


def test_the_mechanism_itself_is_asked() -> None:
    assert "pure" in supports(Gaussian(sigma=1.0, sensitivity=L2(0.0))).accountants
    assert supports(TreeAggregation(sigma=1.0, steps=4, sensitivity=L2(1.0))).drawn_by == "stream"


@pytest.mark.parametrize("given", [3.0, Gaussian, None])
def test_other_types_are_refused(given: Any) -> None:
    with pytest.raises(InvalidParameter, match="is not BaseMechanism or str"):
        supports(given)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownKind, match="did you mean 'gaussian'"):
        supports("gausian")
