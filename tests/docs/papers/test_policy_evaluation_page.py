"""The table of calibrations in docs/papers/policy-evaluation.md."""

import re
from pathlib import Path

import pytest

from dpaudit.accountants.pairs.smooth import smooth_delta
from dpaudit.mechanisms.smooth import lemma_parameters
from tests.sweeps import sweep

PAGE = (Path(__file__).parents[3] / "docs" / "papers" / "policy-evaluation.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.*), (.*), (\d+) \| ([\d.]+)(.*) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)


def test_the_table_has_four_rows() -> None:
    assert len(ROWS) == 4


@sweep("epsilon, delta, dimension, lemma, words, exact, ratio", ROWS, everyday=(0, 2))
def test_a_row_has_the_lemmas_noise_and_the_least(
    epsilon: str, delta: str, dimension: str, lemma: str, words: str, exact: str, ratio: str
) -> None:
    target, d, least = float(delta), int(dimension), float(exact)
    alpha, beta = lemma_parameters(float(epsilon), target, d)
    assert alpha == pytest.approx(float(lemma), rel=5e-4)
    assert alpha / least == pytest.approx(float(ratio), rel=1e-2)
    assert ("NOT_PROVED" in words) == (smooth_delta(float(epsilon), alpha, beta, d) > target)
    # Four digits of the least alpha: a little more meets the target, and a little less does not.
    assert smooth_delta(float(epsilon), least * (1 + 5e-4), beta, d) <= target
    assert smooth_delta(float(epsilon), least * (1 - 5e-4), beta, d) > target
