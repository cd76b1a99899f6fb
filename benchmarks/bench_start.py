"""How long a fresh interpreter takes to be ready: every command line pays this before it does anything."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

sys.path.insert(0, str(Path(__file__).parent))
everyday: Any = importlib.import_module("everyday")


@pytest.mark.parametrize("name", ["import scipy.stats", *everyday.COMMANDS])
def test_fresh_interpreter(benchmark: BenchmarkFixture, name: str, tmp_path: Path) -> None:
    benchmark.pedantic(everyday.commands(tmp_path)[name], rounds=5, warmup_rounds=1)
