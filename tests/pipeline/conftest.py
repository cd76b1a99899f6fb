"""The billboard: every user sees a noisy sum and their own value; once as claimed, once with a leak."""

from pathlib import Path

import pytest

BILLBOARD = """
import numpy as np
from dpaudit import L1, Claim, Laplace, Pair, PureDP, UserViews

CLAIM = Claim(PureDP(epsilon=1.0), unit="user", neighbouring="replace-one", trust_model="joint")

def honest(data, curator):
    total = curator.release(float(data.sum()), Laplace(scale=1.0, sensitivity=L1(1.0)), label="sum")
    return UserViews(tuple((total, float(own)) for own in data))

def leaking(data, curator):
    views = honest(data, curator).views
    return UserViews(tuple((*view, float(data[i - 1])) for i, view in enumerate(views)))

def pair():
    return Pair(np.array([1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0]), unit=0)
"""


@pytest.fixture
def billboard(tmp_path: Path) -> Path:
    """The module that defines it."""
    path = tmp_path / "billboard.py"
    path.write_text(BILLBOARD)
    return path
