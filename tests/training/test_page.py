"""The targets of the page on training that need torch: they run as they stand and prove what it says."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit

pytestmark = [
    pytest.mark.training,
    pytest.mark.filterwarnings("default"),  # torch's own warnings are not ours
]

PAGE = (Path(__file__).parents[2] / "docs" / "walkthroughs" / "training.md").read_text()


@pytest.mark.parametrize(("name", "place"), [("with_opacus.py", 0), ("with_torch.py", 1)])
def test_a_target_of_the_page_trains_and_proves_its_claim(name: str, place: int) -> None:
    [code] = re.findall(rf"```python\n# {name}\n(.*?)```", PAGE, flags=re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(code, name, "exec"), found)  # noqa: S102  (the page's own code)
    rows = np.random.default_rng(0).normal(size=(400, 4))
    rows[:, -1] = rows[:, 0] > 0
    made = dpaudit.run(found["train"], rows)
    assert len(made.ledger.releases) == 30
    proved = dpaudit.account(made.ledger).bounds[0].guarantee
    stated = re.findall(r"`dpaudit.account` proves (\S+, \S+)-DP", PAGE)
    assert f"({proved.epsilon:.3g}, {proved.delta:g})" == stated[place]
    weights, bias = made.output
    right = ((rows[:, :-1] @ weights[0] + bias > 0) == rows[:, -1]).mean()
    assert right > 0.6  # of a coin's flips 1 in 30,000 gets there
