"""What docs/proving/correlated-noise.md shows is what happens."""

import contextlib
import io
import math
import re
from pathlib import Path
from typing import Any

import pytest

from dpaudit import L2
from dpaudit.mechanisms import TreeAggregation
from dpaudit.mechanisms.correlated.least_error import least_error_toeplitz, prefix_error, square_root_strategy
from dpaudit.mechanisms.correlated.sensitivity import reach
from dpaudit.mechanisms.correlated.strategies import Strategy

PAGE = (Path(__file__).parents[3] / "docs" / "proving" / "correlated-noise.md").read_text(encoding="utf-8")
STEPS = 512


def printed_by(which: int) -> dict[str, Any]:
    """What one snippet of the page's code defines, where it prints what the page says."""
    snippets = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    shown = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(snippets) == len(shown) == 2
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(snippets[which], names)  # noqa: S102  (the page's own code)
    assert printed.getvalue() == shown[which]
    return names


def test_the_first_snippet_prints_what_the_page_says() -> None:
    assert printed_by(0)["noise"].strategy.bands(STEPS) == 32


@pytest.mark.nightly
def test_the_second_snippet_prints_what_the_page_says() -> None:
    assert printed_by(1)["amplified"].mechanism.steps == 100


@pytest.mark.nightly
def test_the_table_is_of_the_snippets_strategy_and_others() -> None:
    def errors(strategy: Strategy) -> tuple[float, float]:
        error = prefix_error(strategy, STEPS)
        return error * reach(strategy, STEPS, 1, 1).value, error * reach(strategy, STEPS, 8, 64).value

    levels = TreeAggregation(sigma=1.0, steps=STEPS, sensitivity=L2(1.0)).levels
    nodes = sum(step.bit_count() for step in range(1, STEPS + 1))
    tree = math.sqrt(levels * nodes / STEPS)
    expected = {
        "independent noise on every item": errors(square_root_strategy(1)),
        "tree": (tree, 8 * tree),
        "square root, 32 bands": errors(square_root_strategy(32)),
        "least error Toeplitz, 32 bands": errors(least_error_toeplitz(STEPS, 32)),
        "least error banded, 32 bands": errors(printed_by(0)["noise"].strategy),
        "least error Toeplitz, 64 bands": errors(least_error_toeplitz(STEPS, 64)),
        "square root, all bands": errors(square_root_strategy(STEPS)),
    }
    rows = re.findall(r"^\| (.+?) \| ([0-9.]+) \| ([0-9.]+) \|$", PAGE, flags=re.MULTILINE)
    assert {name: (one, eight) for name, one, eight in rows} == {
        name: (f"{one:.4g}", f"{eight:.4g}") for name, (one, eight) in expected.items()
    }
