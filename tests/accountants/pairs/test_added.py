"""A pair of another package is used by exactly the accountants for which it states a bound."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import pytest

from dpaudit import L2, Gaussian, OpaquePureDP
from dpaudit.accountants.composition.costs import mu_squared, pure_epsilon, rho
from dpaudit.accountants.pairs.dominating_pairs import losses, lower_terms
from dpaudit.accountants.pairs.moments import failure, log_moment
from dpaudit.claims.relations import Neighbouring
from dpaudit.errors import CannotBound
from dpaudit.mechanisms import BaseMechanism, dominating

ADD = Neighbouring.ADD_OR_REMOVE_ONE
TABLE = dominating.Table((-1.0, 0.0, 1.0), (0.2, 0.25, 0.55), 0.0)
LEAKY = dominating.Table((-1.0, 0.0, 1.0), (0.2, 0.25, 0.54), 0.01)

#: What a pair may state, and the scales on which it is then bounded.
STATED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "nothing": ({}, set()),
    "epsilon": ({"epsilon": 1.0}, {"pure", "rho", "mu", "moment", "losses"}),
    "rho": ({"rho": Fraction(1, 8)}, {"rho", "moment"}),
    "moments": ({"log_moment": lambda t: t * (t + 1) / 8}, {"moment"}),
    "table": ({"table": TABLE}, {"pure", "rho", "mu", "moment", "losses"}),
    "a table that may reveal everything": ({"table": LEAKY}, {"losses"}),
}
SCALES: dict[str, Callable[[Any], object]] = {
    "pure": pure_epsilon,
    "rho": rho,
    "mu": mu_squared,
    "moment": lambda one: log_moment(one, ADD, mixture_first=True),
    "losses": lambda one: losses(one, ADD),
}


def added(stated: dict[str, Any]) -> Any:
    """A mechanism whose pair states so much."""

    class Pair(dominating.Added):
        pass

    for name, value in stated.items():
        setattr(Pair, name, lambda _, *t, value=value: value(*t) if callable(value) else value)

    class Mechanism(BaseMechanism):
        kind: Literal["added"] = "added"

        def dominating_pair(self) -> dominating.Pair:
            return Pair()

    return Mechanism()


@pytest.mark.parametrize("name", STATED)
def test_it_is_bounded_where_it_states_a_bound(name: str) -> None:
    stated, scales = STATED[name]
    mechanism = added(stated)
    for scale, cost in SCALES.items():
        if scale in scales:
            assert cost(mechanism) is not None
        else:
            with pytest.raises(CannotBound):
                cost(mechanism)
    assert failure(mechanism) == 0.0


@pytest.mark.parametrize("t", [0.1, 1.0, 7.5])
def test_its_figures_are_those_of_ours_with_the_same_bounds(t: float) -> None:
    gaussian = log_moment(Gaussian(sigma=2.0, sensitivity=L2(1.0)), ADD, mixture_first=True)
    pure = log_moment(OpaquePureDP(epsilon=1.0, justification="so"), ADD, mixture_first=True)
    for stated, ours in ((STATED["moments"][0], gaussian), (STATED["epsilon"][0], pure)):
        assert log_moment(added(stated), ADD, mixture_first=True)(t) == pytest.approx(ours(t), rel=1e-12)


def test_of_several_bounds_the_least_counts() -> None:
    both = added({"epsilon": 1.0, "log_moment": lambda t: t * (t + 1) / 8})
    alone = added({"epsilon": 1.0})
    for t in (0.1, 50.0):
        least = log_moment(both, ADD, mixture_first=True)(t)
        assert least <= log_moment(alone, ADD, mixture_first=True)(t)


def test_a_table_gives_no_lower_end() -> None:
    """It dominates the mechanism, which may cost less."""
    assert lower_terms([(added({"table": TABLE}), 1)], ADD) == []
