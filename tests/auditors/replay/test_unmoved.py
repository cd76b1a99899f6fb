"""Releases that no pair moved: named, with the share of the budget that they carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit import L1, L2, Claim, Curator, Gaussian, Laplace, OpaqueApproxDP, Pair, audit
from dpaudit.app.text.audits import audit_page
from dpaudit.app.text.conditions import sentence
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.conditions import Code, Condition, Releases
from dpaudit.certificate.verdicts import Experiment
from dpaudit.claims.guarantees import ZCDP
from dpaudit.claims.relations import Neighbouring
from dpaudit.ledger.releases import Release
from dpaudit.pipeline.shares import budget_share

NOISE = {name: Gaussian(sigma=sigma, sensitivity=L2(1.0)) for name, sigma in (("a", 1.0), ("b", 2.0))}
FIRST, SECOND = (Pair(np.zeros(2), np.eye(2)[place]) for place in (0, 1))


def both(data: Any, curator: Curator) -> list[float]:
    """Two releases, of which the first takes four fifths of the budget: it has less noise."""
    return [float(curator.release(data[i], NOISE[label], label=label)) for i, label in enumerate("ab")]


def unmoved(*pairs: Pair) -> list[Condition]:
    found = audit(both, list(pairs), claim=Claim(ZCDP(rho=0.7)), trials=2, in_process=True)
    assert found.verdict is Experiment.NOT_REFUTED
    return [one for one in found.not_checked if one.code.startswith("unmoved")]


def test_a_label_that_no_pair_moved_is_named_with_its_share_of_rho() -> None:
    (small,) = unmoved(FIRST)
    assert (small.code, small.scale) == (Code.UNMOVED_SHARE, "rho")
    assert small.releases == Releases.of(["b"])
    assert small.share == pytest.approx(0.125 / 0.625)
    (most,) = unmoved(SECOND)
    assert (most.code, most.releases) == (Code.UNMOVED_MOST, Releases.of(["a"]))
    assert most.share == pytest.approx(0.5 / 0.625)
    assert sentence(most).endswith(
        "(1 release: 'a'); they cost 80% of the total rho, half of the budget or more: give a pair of "
        "public data that changes them (`--pair`)"
    )


def test_what_some_pair_moved_is_not_named() -> None:
    assert unmoved(FIRST, SECOND) == []


def test_most_of_the_budget_stands_beside_the_verdict_and_once() -> None:
    found = audit(both, [SECOND], claim=Claim(ZCDP(rho=0.7)), trials=2, in_process=True)
    shown = [str(getattr(part, "renderable", part)) for part in audit_page(found)]
    assert sum("Warning" in part for part in shown) == 1


def test_without_accountants_it_is_named_without_a_share() -> None:
    found = replay(both, [FIRST], replays=2)
    assert Condition(code=Code.UNMOVED, releases=Releases.of(["b"])) in found.not_checked


def test_extreme_outputs_alone_do_not_count_as_moved() -> None:
    """A branch that drawn noise never takes: its release is checked there, and says nothing of the loss."""

    def branching(data: Any, curator: Curator) -> None:
        far = float(curator.release(data[0], NOISE["a"], label="a")) > 500.0
        curator.release(data[1] if far else 0.0, NOISE["b"], label="b")

    pair = Pair(np.zeros(2), np.ones(2))
    found = replay(branching, [pair], replays=2)
    assert Condition(code=Code.UNMOVED, releases=Releases.of(["b"])) in found.not_checked


def test_shares_are_in_epsilon_where_there_is_no_rho() -> None:
    laplace = Release(label="x", mechanism=Laplace(scale=1.0, sensitivity=L1(1.0)))
    opaque = Release(label="y", mechanism=OpaqueApproxDP(epsilon=1.0, delta=1e-9, justification="a theorem"))
    share = budget_share([laplace], [opaque], Neighbouring.REPLACE_ONE)
    assert share is not None
    assert share[1].startswith("epsilon at delta")
    assert 0.3 < share[0] < 0.7
    certain = Release(label="z", mechanism=OpaqueApproxDP(epsilon=1.0, delta=0.5, justification="none"))
    assert budget_share([laplace], [certain], Neighbouring.REPLACE_ONE) is None


def test_a_share_has_its_parameters() -> None:
    with pytest.raises(ValueError, match="unmoved-most"):
        Condition(code=Code.UNMOVED_MOST, releases=Releases.of(["b"]))
