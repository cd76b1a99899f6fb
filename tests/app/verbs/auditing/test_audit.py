import math
from collections.abc import Callable
from typing import Any

import pytest

from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon

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
    status, found = answer("audit", "dp-apvi", "--seed", 4, "--trials", 10)
    assert status == 0
    assert set(found) >= KEYS
    assert (found["verdict"], found["findings"]) == ("NOT_REFUTED", [])
    # The worst pair loses all of rho = 1, and audits never claim more than that.
    assert 6.0 < found["epsilon_lower"] <= gaussian_epsilon(found["delta"], math.sqrt(2.0))
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


def test_the_claim_is_printed_with_what_it_leaves_open(dpaudit: Any, mine: Any, answer: Any) -> None:
    command = ["audit", mine("sums"), "--pair", mine("pair"), "--rho", 1]
    assert "sums: 1-zCDP per record (replace-one, central)\n" in dpaudit(*command).stdout
    assert answer(*command)[1]["claim"]["trust_model"] == "central"


def test_replay_says_that_nothing_limits_what_it_could_refute(dpaudit: Any, mine: Mine) -> None:
    text = " ".join(dpaudit("audit", mine("sums"), "--pair", mine("pair")).stdout.split())
    assert "6 replays in each direction: any epsilon could have been refuted" in text


def test_replay_cannot_speak_where_nothing_is_released(dpaudit: Any, answer: Any, module: Any) -> None:
    own = module(
        "def silent(data, curator): return 0.0\n"
        "def leaky(data, curator): return float(data)\n"
        "def pair(): return 0.0, 1.0\n"
    )
    command = ("audit", own("silent"), "--pair", own("pair"), "--epsilon", 1)
    status, found = answer(*command, "--strict")
    assert (status, found["verdict"], found["epsilon_lower"]) == (4, "INCONCLUSIVE", None)
    assert "nothing was released through the curator" in found["inconclusive"][0]
    assert answer(*command, "--method", "sequential", "--trials", 300)[1]["verdict"] == "NOT_REFUTED"
    # What the empty transcript does not hide is found all the same.
    leaky = answer("audit", own("leaky"), "--pair", own("pair"), "--epsilon", 1)
    assert (leaky[0], leaky[1]["refuted_by"]) == (1, ["findings"])
