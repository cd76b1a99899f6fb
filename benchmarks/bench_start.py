"""How long a fresh interpreter takes to be ready: every command line pays this before it does anything."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

HELP = "from dpaudit.app.main import main; main(['--help'])"


@pytest.mark.parametrize("statement", ["pass", "import dpaudit", HELP])
def test_fresh_interpreter(benchmark: BenchmarkFixture, statement: str) -> None:
    benchmark.pedantic(
        subprocess.run,
        args=([sys.executable, "-c", statement],),
        kwargs={"check": True, "stdout": subprocess.DEVNULL},
        rounds=5,
    )
