"""Pages are printed as readers see them: with targets in processes of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_processes(own_processes: None, runs_in_threads: None) -> None:
    """Every day the runs of a target are threads of its process; every night each is a fork."""
