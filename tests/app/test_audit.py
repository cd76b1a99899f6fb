from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Mine = Callable[[str], str]

KEYS = {
    "verdict",
    "epsilon_lower",
    "delta",
    "confidence",
    "method",
    "trials",
    "largest_refutable_epsilon",
    "findings",
}


def test_builtin_is_not_refuted(answer: Any) -> None:
    status, found = answer("audit", "dp-apvi", "--seed", 4)
    assert status == 0
    assert set(found) >= KEYS
    assert (found["verdict"], found["findings"], found["refuted_by"]) == ("NOT_REFUTED", [], [])
    assert 6.0 < found["epsilon_lower"] < 6.573  # all of it is a Gaussian of mu = sqrt(2)
    assert (found["method"], found["seed"]) == ("replay", 4)


def test_too_small_a_sensitivity_is_found(answer: Any, dpaudit: Any, mine: Mine) -> None:
    status, found = answer("audit", mine("unclipped"), "--pair", mine("pair"), "--rho", 1)
    assert (status, found["verdict"]) == (1, "REFUTED")
    (finding,) = found["findings"]
    # The first row moves from (1, 0, 0) to (-10, -10, -10): a distance of sqrt(121 + 100 + 100).
    assert finding["kind"] == "sensitivity"
    assert (finding["label"], finding["declared"]) == ("raw sums", 2.0)
    assert finding["measured"] == pytest.approx(321**0.5)
    text = dpaudit("audit", mine("unclipped"), "--pair", mine("pair")).stdout
    assert "audit REFUTED" in text
    assert "sensitivity in 'raw sums'" in text


def test_its_innocent_twin_is_not(answer: Any, mine: Mine) -> None:
    status, found = answer("audit", mine("sums"), "--pair", mine("pair"))
    assert (status, found["verdict"], found["claim"]) == (0, "NOT_REFUTED", None)


def test_inconclusive_exits_4_under_strict_only(dpaudit: Any, mine: Mine) -> None:
    command = ["audit", mine("opaque"), "--pair", mine("pair")]
    assert dpaudit(*command).exit_code == 0
    result = dpaudit(*command, "--strict")
    assert result.exit_code == 4
    assert "INCONCLUSIVE" in result.stdout


def test_what_cannot_be_audited(dpaudit: Any, mine: Mine) -> None:
    assert "no neighbouring data" in dpaudit("audit", mine("sums")).stderr
    assert dpaudit("audit", mine("sums")).exit_code == 2
    assert dpaudit("audit", mine("failing"), "--pair", mine("pair")).exit_code == 2
    assert dpaudit("audit", "dp-apvi", "--method", "guess").exit_code == 2
    assert dpaudit("audit", "dp-apvi", "--unit", "user").exit_code == 2
    assert dpaudit("audit", "dp-apvi", "--seed", -1).exit_code == 2
