"""Places in the author's code: which line is kept, and what of its path is shown."""

import os
from pathlib import Path

import numpy as np
import pytest

import dpaudit
from dpaudit.ledger import places
from dpaudit.ledger.places import ReleasePlaces, shown_place
from tests import make

NOISE = make.gaussian(2.0)


def algorithm(data: float, curator: dpaudit.Curator) -> None:
    for step in range(3):
        curator.release(data, NOISE, label=f"step {step}")  # steps
    curator.release_sum(np.ones((2, 1)), bound=1.0, mechanism=make.gaussian(9.0, 2.0), label="sum")
    curator.release(data, NOISE, label="step 7")  # alone


def test_each_release_is_found_at_its_own_line_and_not_in_the_file(tmp_path: Path) -> None:
    made = dpaudit.run(algorithm, 0.5, seed=1, path=tmp_path / "ledger.jsonl")
    lines = Path(__file__).read_text().split("\n")
    expected = {"step 0": "# steps", "step 2": "# steps", "sum": "curator.release_sum(", "step 7": "# alone"}
    for label, text in expected.items():
        file, _, line = made.ledger.places.of(label).rpartition(":")
        assert file == __file__
        assert text in lines[int(line) - 1]
    assert not made.ledger.places.of("never released")
    assert Path(__file__).name not in (tmp_path / "ledger.jsonl").read_text()


def test_the_number_of_places_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MOST_LABELS", 3)
    kept = ReleasePlaces()
    for index, letter in enumerate("abcdef"):
        kept.note(letter, f"one.py:{index}")
        kept.note(f"{letter}{index}", f"two.py:{index}")
    assert [kept.of(letter) for letter in "abcdef"] == [*(f"one.py:{i}" for i in range(3)), "", "", ""]
    assert [kept.of("a0"), kept.of("b1"), kept.of("f5")] == ["two.py:0", "two.py:1", ""]


def test_only_what_lies_in_the_repository_is_shown_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, secret = tmp_path / "project", tmp_path / "home of patient 4711"
    for folder in (project / ".git", project / "below", project / "beside", secret / "package"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(project / "below")
    monkeypatch.syspath_prepend(str(secret))
    assert shown_place(f"{project}/below/mine.py:3") == "mine.py:3"
    assert shown_place(f"{project}/beside/other.py:3") == "../beside/other.py:3"
    assert shown_place(f"{secret}/package/code.py:5") == "package/code.py:5"
    assert shown_place(f"{tmp_path}/elsewhere/code.py:5") == "code.py:5"
    assert shown_place("mine.py:3") == "mine.py:3"
    assert not shown_place("")
    (project / ".git").rmdir()
    places._shown.cache_clear()
    assert shown_place(f"{project}/beside/other.py:3") == "other.py:3"
    assert Path.cwd() == Path(os.path.realpath(project / "below"))
