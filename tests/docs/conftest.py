"""Pages are printed as readers see them: with targets in processes of their own."""

from __future__ import annotations

import pytest

from dpaudit.processes import host
from tests.runs_in_threads import VARIABLE, serve_in_threads


@pytest.fixture(autouse=True)
def _own_processes(own_processes: None, nightly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every day the runs of a target are threads of its process; every night each is a fork."""
    if not nightly:
        monkeypatch.setenv(VARIABLE, "1")
        monkeypatch.setattr(host, "serve_fork", serve_in_threads)
