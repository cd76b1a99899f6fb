"""The page on verdicts names every verdict, finding and ground there is."""

from pathlib import Path
from typing import get_args

import pytest

from dpaudit.auditors.statistics.clopper_pearson import largest_refutable_epsilon
from dpaudit.certificate.verdicts import Experiment, Finding, Proof

PAGE = (Path(__file__).parents[3] / "docs" / "walkthroughs" / "verdicts.md").read_text(encoding="utf-8")
KINDS = get_args(Finding.model_fields["kind"].annotation)


@pytest.mark.parametrize("word", [*Proof, *Experiment, *KINDS])
def test_each_has_its_row(word: str) -> None:
    assert f"\n| `{word}` |" in PAGE


@pytest.mark.parametrize("ground", ["findings", "epsilon", "mu", "p-value"])
def test_each_ground_of_a_refutation_is_named(ground: str) -> None:
    assert f"`{ground}`" in PAGE


def test_what_a_thousand_runs_can_refute() -> None:
    assert "which no outcome of 1000 runs can refute" in " ".join(PAGE.split())
    assert 2.0 < largest_refutable_epsilon(1000, 0.0, 0.95) < 8.0
