"""Where dpaudit came from, by what pip records of it, and what is made of that."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from dpaudit.app import origin as module
from dpaudit.app.origin import Origin, origin

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GIT = {"vcs": "git", "commit_id": COMMIT}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Any:
    def record(content: dict[str, Any] | None) -> Origin:
        text = None if content is None else json.dumps(content)
        installed = SimpleNamespace(version="1.2.3", read_text={"direct_url.json": text}.get)
        monkeypatch.setattr(module, "distribution", {"dpaudit": installed}.__getitem__)
        return origin()

    return record


def test_a_repository_and_its_commit(recorded: Any) -> None:
    found = recorded({"url": "https://github.com/owner/dpaudit.git", "vcs_info": GIT})
    assert found.requirement == f"dpaudit @ git+https://github.com/owner/dpaudit.git@{COMMIT}"
    address = f"https://github.com/owner/dpaudit/blob/{COMMIT}/docs/publishing/gate.md"
    assert (found.page("docs/publishing/gate.md"), found.page("docs/publishing/gate.md", "x")) == (
        address,
        f"{address}#x",
    )


def test_a_host_whose_pages_are_not_known_has_none(recorded: Any) -> None:
    found = recorded({"url": "ssh://git@git.example.org/dpaudit", "vcs_info": GIT})
    assert found.requirement == f"dpaudit @ git+ssh://git@git.example.org/dpaudit@{COMMIT}"
    assert found.page("docs/publishing/gate.md") is None


def test_an_index_and_an_archive(recorded: Any) -> None:
    assert recorded(None) == Origin("dpaudit==1.2.3")
    archive = "https://files.example.org/dpaudit-1.2.3-py3-none-any.whl"
    assert recorded({"url": archive, "archive_info": {}}) == Origin(f"dpaudit @ {archive}")


@pytest.mark.parametrize(
    "record",
    [
        {"url": "file:///home/me/dpaudit", "dir_info": {"editable": True}},
        {"url": "https://token@github.com/owner/dpaudit", "vcs_info": GIT},
        {"url": "https://me:secret@github.com/owner/dpaudit", "vcs_info": GIT},
        {"url": "ssh://git:secret@github.com/owner/dpaudit", "vcs_info": GIT},
    ],
)
def test_a_folder_or_a_secret_is_no_address_for_others(recorded: Any, record: dict[str, Any]) -> None:
    assert recorded(record) == Origin(None)
