"""What private training loses: figures of the page computed again, and the files that its program takes."""

import gzip
import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sweeps import sweep

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "papers" / "private-training.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "programs")
        return importlib.import_module("make_private_training")


@sweep(
    "method, epsilon",
    [
        ("without privacy, softmax", 1.0),
        ("diffprivlib, naive Bayes", 1.0),
        ("dp-ftrl, softmax", 8.0),
        ("dp-sgd, softmax", 1.0),
        ("dp-sgd, network", 8.0),
    ],
    everyday=(0,),
)
def test_a_stored_figure_is_found_again(script: Any, method: str, epsilon: float) -> None:
    plan = script.PLANS["digits"]
    pictures = script.built_in()
    runs = [script.accuracy("digits", method, epsilon, pictures, seed) for seed in range(plan.runs)]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {method} |"))
    [stored] = re.findall(r"[\d.]+", row.split("|")[2 + plan.budgets.index(epsilon)])[:1]
    assert float(stored) == pytest.approx(100.0 * float(np.mean(runs)), abs=0.3), (
        "run: python docs/programs/make_private_training.py"
    )


def test_only_the_files_of_mnist_are_taken(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made files of two pictures, whose digests are put in the place of those of MNIST."""
    digests = {}
    for name in script.FILES:
        images = "images" in name
        shape = [2, 28, 28] if images else [2]
        head = b"".join(each.to_bytes(4, "big") for each in [2051 if images else 2049, *shape])
        raw = head + bytes(range(7, 9) if not images else [255] * 784 + [0] * 784)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(raw))
        digests[name] = script.hashlib.sha256(raw).hexdigest()
    with pytest.raises(ValueError, match="is not the file"):
        script.mnist(tmp_path)
    monkeypatch.setattr(script, "FILES", digests)
    found = script.mnist(tmp_path)
    assert found.trained.shape == (2, 785)
    assert found.tested[:, -1].tolist() == [7.0, 8.0]
    assert found.trained[:, 0] == pytest.approx([(1 - 0.1307) / 0.3081, -0.1307 / 0.3081])


def test_the_part_on_mnist_has_the_distance_to_the_published_figures(script: Any) -> None:
    found = {("dp-sgd, softmax", epsilon): np.array([0.885]) for epsilon in script.PLANS["mnist"].budgets}
    text = script.mnist_part(found)
    assert "| dp-sgd, softmax | 88.5 | 88.5 | 88.5 |" in text
    assert "| Abadi et al. 2016 | 90 | 95 | 97 |" in text
    assert "1.5 at epsilon = 0.5, 6.5 at epsilon = 2, 8.5 at epsilon = 8 points" in text
