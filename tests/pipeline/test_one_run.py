"""`dpaudit.one_run` of an algorithm and of scores is one audit, and refuses what belongs to the other."""

from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import GDP, ZCDP, Claim
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.one_run import Canaries
from dpaudit.errors import InvalidParameter, UsageError

CLAIM = Claim(GDP(mu=0.5))


def noisy(data: Any, generator: np.random.Generator) -> Any:
    return data + generator.normal(size=data.shape)


def test_the_scores_of_a_run_give_the_audit_of_the_run() -> None:
    kept: list[Any] = []

    def insert(coins: Any) -> Any:
        kept.append(coins)
        return 3.0 * coins

    def score(output: Any) -> Any:
        kept.append(output)
        return output

    whole = dpaudit.one_run(Plain(noisy), Canaries(500, insert, score), claim=CLAIM, seed=4, in_process=True)
    coins, scores = kept
    assert dpaudit.one_run(scores, coins, claim=CLAIM, seed=4) == whole
    assert (whole.verdict, whole.claim and whole.claim.neighbouring) == ("REFUTED", "add-or-remove-one")
    assert dpaudit.one_run([scores], [coins], claim=CLAIM, seed=4) == whole


def test_a_claim_on_any_scale_is_tested_by_its_curve() -> None:
    random = np.random.default_rng(3)
    coins = random.random(600) < 0.5
    scores = random.normal(size=600) + coins
    assert [dpaudit.one_run(scores, coins, claim=Claim(ZCDP(rho=rho))).verdict for rho in (0.02, 0.5)] == [
        "REFUTED",
        "NOT_REFUTED",
    ]


def test_what_belongs_to_a_run_is_refused_beside_scores() -> None:
    coins = np.arange(10) % 2 == 0
    for option in ({"budget": None}, {"in_process": True}, {"users": 3}):
        with pytest.raises(UsageError, match="beside scores"):
            dpaudit.one_run(np.zeros(10), coins, claim=CLAIM, **option)
    wrong: list[Any] = [5, True]
    for scores in wrong:
        with pytest.raises(InvalidParameter, match="a function, or scores"):
            dpaudit.one_run(scores, coins)
