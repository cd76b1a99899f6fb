import math
from typing import Any

import numpy as np
import pytest
from diffprivlib import BudgetAccountant
from diffprivlib.tools import mean

from dpaudit import ApproxDP, Claim, Ledger, PureDP
from dpaudit.accountants.accounting import account
from dpaudit.accountants.bridges.from_diffprivlib import from_diffprivlib
from dpaudit.errors import CannotBound, InputError, InvalidParameter, NotCertifiable, UsageError


def imported(spent: Any) -> Ledger:
    return from_diffprivlib(spent, neighbouring="replace-one", unit="row")


def test_what_a_real_accountant_spent() -> None:
    accountant = BudgetAccountant()
    data = np.linspace(0.0, 1.0, 50)
    for spent in (0.25, 0.25, 0.5):
        mean(data, epsilon=spent, bounds=(0, 1), accountant=accountant)
    ledger = imported(accountant)
    assert [(one.count, one.mechanism.kind) for one in ledger] == [(2, "pure-dp"), (1, "pure-dp")]
    assert ledger.releases == imported(accountant.spent_budget).releases
    found = account(ledger, Claim(PureDP(epsilon=1.0)))
    assert found.verdict == "PROVED"
    assert found.bounds[0].guarantee == PureDP(epsilon=accountant.total()[0])
    assert any("declared by diffprivlib's BudgetAccountant" in (c.text or "") for c in found.not_checked)
    with pytest.raises(NotCertifiable):
        ledger.require_certifiable()


def test_deltas_are_spent_too() -> None:
    accountant = BudgetAccountant(spent_budget=[(0.5, 0), (1.0, 1e-6), (0, 1e-7)])
    ledger = imported(accountant)
    assert [one.mechanism.kind for one in ledger] == ["pure-dp", "approx-dp", "approx-dp"]
    best = min(
        bound.guarantee.epsilon
        for bound in account(ledger, Claim(ApproxDP(epsilon=2.0, delta=1e-5))).bounds
        if isinstance(bound.guarantee, ApproxDP)
    )
    # With more delta than was declared the optimum lies at or below the plain sum, and not far below.
    assert 1.4 < best <= 1.5


@pytest.mark.parametrize(
    "spend", [(math.nan, 0), (-1.0, 0), (0.5, -1e-6), (0.5, 1.5), (0.5, math.nan), (True, 0), ("1", 0)]
)
def test_numbers_that_mean_nothing_are_refused_where_they_stand(spend: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidParameter, match=r"spent_budget\[1\]"):
        imported([(1.0, 0), spend])


@pytest.mark.parametrize("spend", [(math.inf, 0), (1.0, 1), (1.0, 1.0)])
def test_a_spend_that_promises_nothing_is_refused(spend: tuple[float, float]) -> None:
    with pytest.raises(CannotBound, match="guarantees nothing"):
        imported([spend])


@pytest.mark.parametrize("spent", [None, 3, "1.0", {"epsilon": 1.0}, [1.0], [(1.0,)], [(1.0, 0, 0)]])
def test_what_is_no_list_of_spends_is_refused(spent: Any) -> None:
    with pytest.raises(UsageError):
        imported(spent)


def test_nothing_spent_proves_nothing() -> None:
    with pytest.raises(InvalidParameter, match="no releases"):
        imported(BudgetAccountant())


def test_the_relation_is_one_that_exists() -> None:
    with pytest.raises(InputError):
        from_diffprivlib([(1.0, 0)], neighbouring="similar", unit="row")
