"""`certify` asks dp-accounting for a second opinion where it is wanted, and shows where the two disagree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dp_accounting.pld import privacy_loss_distribution

from dpaudit import Certificate, Neighbouring, Release
from dpaudit.accountants import accounting
from dpaudit.accountants.composition.composition import compose
from tests import make
from tests.sweeps import sweep

pytestmark = pytest.mark.usefixtures("undrawn")
Mine = Callable[[str], str]
CLAIMS = [("--rho", 0.125), ("--mu", 0.5), ("--epsilon", 2.3, "--delta", 1e-6)]


def certified(mine: Mine, *claim: object) -> tuple[object, ...]:
    return ("certify", mine("sums"), "--pair", mine("pair"), "--unit", "row", "--second-opinion", *claim)


def test_it_is_asked_only_where_it_is_wanted(dpaudit: Any, answer: Any, mine: Mine) -> None:
    asked = certified(mine, "--rho", 0.125)
    unasked = [option for option in asked if option != "--second-opinion"]
    assert "second opinion" in dpaudit(*asked).stdout
    assert "second opinion" not in dpaudit(*unasked).stdout
    assert "second_opinion" not in answer(*unasked)[1]


@sweep("claim", CLAIMS, everyday=(1,))
def test_it_agrees_in_text_json_and_certificate(
    dpaudit: Any, answer: Any, mine: Mine, claim: tuple[object, ...], tmp_path: Path
) -> None:
    """mu = 1/2 is 2.254085 at 1e-6 (Balle and Wang 2018)."""
    result = dpaudit(*certified(mine, *claim), "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert "second opinion AGREES: dp-accounting PLD has epsilon 2.25" in result.stdout
    opinion = Certificate.read(tmp_path / "certificate.json").second_opinion
    assert opinion is not None
    assert opinion.agrees is True
    assert opinion.epsilon == pytest.approx(2.254084650219742, rel=1e-4)
    status, found = answer(*certified(mine, *claim))
    assert status == 0
    assert found["second_opinion"]["agrees"] is True
    assert {"accountants-disagree"}.isdisjoint(one["code"] for one in found["not_checked"])


@pytest.fixture
def slip_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our accountants' epsilons come out a tenth too small."""
    right = accounting._approximate

    def wrong(*arguments: Any) -> list[Any]:
        found = []
        for bound in right(*arguments):
            guarantee = bound.guarantee.model_copy(update={"epsilon": 0.9 * bound.guarantee.epsilon})
            lower = None if bound.at_least is None else 0.9 * bound.at_least
            found.append(bound.model_copy(update={"guarantee": guarantee, "at_least": lower}))
        return found

    monkeypatch.setattr(accounting, "_approximate", wrong)


@pytest.fixture
def slip_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their Gaussian noise comes out half as large."""
    right = privacy_loss_distribution.from_gaussian_mechanism
    monkeypatch.setattr(
        privacy_loss_distribution,
        "from_gaussian_mechanism",
        lambda standard_deviation, **rest: right(standard_deviation=0.5 * standard_deviation, **rest),
    )


@sweep("slip", ["slip_of_ours", "slip_of_theirs"], everyday=(1,))
@sweep("claim", CLAIMS, everyday=(0,))
def test_a_planted_disagreement_is_shown_everywhere_and_changes_no_verdict(
    dpaudit: Any,
    answer: Any,
    mine: Mine,
    slip: str,
    claim: tuple[object, ...],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    request.getfixturevalue(slip)
    result = dpaudit(*certified(mine, *claim), "-o", tmp_path)
    assert result.exit_code == 0
    assert "second opinion DISAGREES: dp-accounting PLD has epsilon" in result.stdout
    assert "which of two accountants is right" in result.stdout.partition("Not checked")[2]
    certificate = Certificate.read(tmp_path / "certificate.json")
    assert certificate.proof == "PROVED"
    assert certificate.second_opinion is not None
    assert certificate.second_opinion.agrees is False
    assert "accountants-disagree" in {one.code for one in certificate.not_checked}
    assert answer(*certified(mine, *claim))[1]["second_opinion"]["agrees"] is False


def test_outside_its_range_the_reason_is_said(dpaudit: Any, answer: Any, mine: Mine) -> None:
    claim = ("--epsilon", 6.0, "--delta", 1e-30)
    assert (
        "second opinion NONE: it is limited to deltas from 1e-09" in dpaudit(*certified(mine, *claim)).stdout
    )
    found = answer(*certified(mine, *claim))[1]["second_opinion"]
    assert "deltas" in found["none_because"]
    assert "agrees" not in found
    assert "epsilon" not in found


def test_a_run_held_to_a_budget_has_no_second_opinion(dpaudit: Any, mine: Mine) -> None:
    result = dpaudit(*certified(mine, "--rho", 0.5), "--budget-rho", 0.5)
    assert result.exit_code == 0
    assert "second opinion NONE: the run is bounded by its budget" in result.stdout


def test_the_slip_is_one() -> None:
    """The innocent twin of `slip_of_ours`: unpatched, the accountant is right."""
    release = Release(label="x", mechanism=make.gaussian(2.0))
    found: Any = min(
        bound.guarantee.epsilon
        for bound in accounting._approximate(compose([release], Neighbouring.REPLACE_ONE), 1e-6, 0.0)
    )
    assert found == pytest.approx(2.254084650219742, rel=1e-12)
