import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit.app.verbs.planning.calibrate import FREE
from dpaudit.mechanisms.described import parameters


def test_gaussian_noise_with_both_accountants_and_the_slack(answer: Any) -> None:
    status, found = answer("calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-6)
    assert status == 0
    assert found["value"] == pytest.approx(4.22467888933, rel=1e-11)
    assert found["mechanism"]["sigma"] == found["value"]
    assert (found["found_by"]["accountant"], found["verified_by"]["accountant"]) == ("gaussian", "contour")
    assert found["verified_by"]["delta"] <= 1e-6
    assert 0.0 <= found["slack"] < 1e-10


def test_count_and_sensitivity_count(answer: Any) -> None:
    _, found = answer("calibrate", "gaussian", "--rho", 0.5, "--count", 9, "--sensitivity", 2)
    assert found["value"] == pytest.approx(6.0, rel=1e-14)
    assert found["count"] == 9
    _, found = answer("calibrate", "gaussian", "--rho", 0.5, "--steps", 9, "--sensitivity", 2)
    assert (found["value"], found["count"]) == (pytest.approx(6.0, rel=1e-14), 9)
    _, found = answer("calibrate", "tree-aggregation", "--mu", 1, "--steps", 15)
    assert found["value"] == pytest.approx(2.0, rel=1e-14)
    _, found = answer("calibrate", "laplace", "--epsilon", 0.5, "--count", 2)
    assert (found["parameter"], found["value"]) == ("scale", 4.0)


@pytest.mark.nightly
def test_a_sampled_sum(answer: Any) -> None:
    # q = .01, sigma = 1, 1e3 steps: epsilon 2.12451517112 at 1e-6.
    _, found = answer(
        "calibrate", "gaussian", "--epsilon", 2.12451517112, "--delta", 1e-6, "--rate", 0.01, "--count", 1000
    )
    assert found["value"] == pytest.approx(1.0, rel=1e-7)
    # The second accountant's bound is as tight, and may be above the target by its rounding.
    assert found["verified_by"]["accountant"] == "interval"
    assert found["verified_by"]["resolution"] < 1e-9
    assert found["verified_by"]["proves"] is (found["verified_by"]["resolution"] == 0.0)


@pytest.mark.nightly
def test_a_sample_in_which_units_are_replaced(answer: Any) -> None:
    """dp-accounting has 3.2142 at sigma 1; without the bound on a unit's own part nothing is hidden."""
    arguments = (
        "gaussian --rate 0.01 --sensitivity 2 --epsilon 3.2143 --delta 1e-6 --neighbouring replace-one"
    )
    _, hidden = answer("calibrate", *arguments.split(), "--count", 1000, "--contribution", 1)
    assert 0.9999 < hidden["value"] < 1.0
    _, known = answer("calibrate", *arguments.split(), "--count", 10)
    assert known["value"] > 5.0


#: Their search under an (epsilon, delta) costs a second or more each.
SLOW = {"discrete-gaussian", "exponential"}


def test_every_mechanism_with_free_noise_is_named_and_answered(
    answer: Any, dpaudit: Any, nightly: bool
) -> None:
    words = " ".join(dpaudit("calibrate", "--help").stdout.replace("-\n", "-").split())
    for kind in FREE:
        assert re.search(rf"{kind}[,;]", words.replace("- ", "-")), kind
        steps = ["--steps", 4] if "steps" in parameters(kind) else []
        claim = ("--epsilon", 1, "--delta", 1e-6) if nightly or kind not in SLOW else ("--rho", 1)
        status, found = answer("calibrate", kind, *claim, *steps)
        assert status == 0
        assert found["mechanism"]["kind"] == kind
    _, one = answer("calibrate", "gaussian-sparse-vector", "--rho", 1, "--steps", 4)
    assert one["value"] == pytest.approx(math.sqrt(2.0), rel=1e-12)  # as if all four values were released
    status, both = answer("calibrate", "sparse-vector", "--epsilon", 1, "--answers", 2, "--monotone")
    assert status == 0
    assert (both["mechanism"]["answers"], both["mechanism"]["monotone"]) == (2, True)


def test_text_says_the_noise_to_its_last_digit(dpaudit: Any) -> None:
    result = dpaudit("calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-6)
    assert result.exit_code == 0
    assert "least sigma: 4.22467888932" in result.stdout
    assert "verified by contour" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    largest = dpaudit("calibrate", "randomized-response", "--rho", 0.5)
    (shown,) = [text for text in largest.stdout.splitlines() if text.startswith("largest epsilon: ")]
    epsilon = float(shown.removeprefix("largest epsilon: "))
    assert epsilon * math.tanh(epsilon / 2) == pytest.approx(0.5, rel=1e-12)


def test_a_ledger_is_told_its_factor(answer: Any, dpaudit: Any, ledger_file: Callable[..., Path]) -> None:
    path = ledger_file(0.5, 0.5)
    status, found = answer("calibrate", path, "--rho", 0.25)
    assert status == 0
    assert found["factor"] == pytest.approx(2.0, rel=1e-14)
    assert [release["mechanism"]["sigma"] for release in found["releases"]] == [pytest.approx(2.0)] * 2
    assert "all noise times 2.0" in dpaudit("calibrate", path, "--rho", 0.25).stdout
    # The claim is proved of a ledger with the noise that was found, and not with a little less.
    text = path.read_text().splitlines()
    for factor, expected in ((found["factor"], 0), (found["factor"] * (1 - 1e-8), 1)):
        lines = [json.loads(row) for row in text]
        for row in lines:
            row.pop("hash")
            if row["record"] == "release":
                row["mechanism"]["sigma"] *= factor
        path.write_text("\n".join(json.dumps(row) for row in lines) + "\n")
        assert dpaudit("verify", path, "--rho", 0.25, "--allow-unhashed").exit_code == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["gaussian"],
        ["gaussian", "--epsilon", 1],
        ["gaussian", "--rho", 1, "--mu", 1],
        ["gaussian", "--rho", 0],
        ["gaussian", "--rho", "nan"],
        ["gaussian", "--rho", 1, "--sensitivity", 0],
        ["gaussian", "--rho", 1, "--sensitivity", "inf"],
        ["gaussian", "--rho", 1, "--count", 0],
        ["gaussian", "--rho", 1, "--steps", 3, "--count", 2],
        ["tree-aggregation", "--rho", 1],
        ["discrete-gaussian", "--rho", 1, "--rate", 0.1],
        ["gaussian", "--epsilon", 1, "--delta", 1e-6, "--rate", 2],
        ["randomized-response", "--rho", 1, "--sensitivity", 2],
        ["laplace", "--rho", 1, "--monotone"],
        ["laplace", "--rho", 1, "--answers", 2],
        ["no-such-thing", "--rho", 1],
    ],
)
def test_what_cannot_be_calibrated(refusal: Any, arguments: list[object]) -> None:
    refusal("calibrate", *arguments)


def test_a_ledger_says_itself_what_its_releases_are(refusal: Any, ledger_file: Callable[..., Path]) -> None:
    assert "--count with a ledger" in refusal("calibrate", ledger_file(0.5), "--rho", 0.25, "--count", 3)
