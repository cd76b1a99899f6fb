"""Sizes: a few seconds every day, and everything under ``-m torture``."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dpaudit.auditors.replay import forced_outputs, replay, sampler_check
from dpaudit.page import chart
from tests.torture.tools import OWN


@pytest.fixture(autouse=True)
def quick_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits of a few draws and runs: it is not their power that is tried here."""
    for name in ("DRAWS", "SLOW_DRAWS", "CHOICES"):
        monkeypatch.setattr(sampler_check, name, max(100, getattr(sampler_check, name) // 100))
    monkeypatch.setattr(replay, "FIRST", 1)
    monkeypatch.setattr(forced_outputs, "SETTINGS", {"zero": forced_outputs.SETTINGS["zero"]})


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports with empty pictures: what draws them starts threads, which no fork survives."""
    monkeypatch.setattr(chart, "specification", lambda picture: {"config": {}})
    monkeypatch.setattr(chart, "svg", lambda *_: "<svg></svg>")


@pytest.fixture
def work(tmp_path: Path) -> Callable[[str], Path]:
    """A new folder with a user's module in it."""

    def make(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "own.py").write_text(OWN)
        return folder

    return make


def sizes(few: int, whole: int, every: str = "day") -> pytest.MarkDecorator:
    """``number``: a few every day or night, and so many under ``-m torture``."""
    marks = pytest.mark.nightly if every == "night" else ()
    cases = [pytest.param(few, marks=marks), pytest.param(whole, marks=pytest.mark.torture)]
    return pytest.mark.parametrize("number", cases, ids=[f"every{every}", "whole"])
