"""Here targets run in processes of their own, as they do wherever nothing is said."""

from __future__ import annotations

import pytest

from dpaudit.processes.host import AVAILABLE

if not AVAILABLE:
    pytest.skip("targets have processes of their own on Linux", allow_module_level=True)


@pytest.fixture(autouse=True)
def _own_processes(own_processes: None) -> None:
    pass
