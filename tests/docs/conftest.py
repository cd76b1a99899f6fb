"""Pages are printed as readers see them: with targets in processes of their own."""

import pytest


@pytest.fixture(autouse=True)
def _own_processes(own_processes: None, runs_in_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every day the runs of a target are threads of its process; every night each is a fork.

    What the commands print says how many draws of a sampler were compared: all of them.
    """
    monkeypatch.delenv("DPAUDIT_TESTS_WITH_FEW_DRAWS", raising=False)
