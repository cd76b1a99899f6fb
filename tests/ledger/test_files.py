import os
from pathlib import Path
from typing import Any

import pytest

from dpaudit import Ledger, Release, run
from dpaudit.errors import LedgerTampered, RecordAfterFooter
from dpaudit.ledger.files import LedgerSink
from tests import make

RELEASE = Release(label="x", mechanism=make.gaussian(1.0))
OTHER = Release(label="other", mechanism=make.gaussian(2.0), count=2)


class FullDisk(LedgerSink):
    """A sink that takes `room` lines and then fails."""

    def __init__(self, path: Path, room: int) -> None:
        super().__init__(path)
        self.room = room

    def write(self, line: bytes) -> None:
        if self.room == 0:
            raise OSError(28, "No space left on device")
        self.room -= 1
        super().write(line)


def failing(*arguments: Any, **options: Any) -> Any:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "l.jsonl"
    make.ledger().write(path)
    old = path.read_bytes()
    longer = make.ledger(RELEASE)
    with monkeypatch.context() as patch:
        patch.setattr(*((Path, "replace") if step == "replace" else (os, "fsync")), failing)
        with pytest.raises(OSError, match="No space"):
            longer.write(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
    longer.write(path)
    assert len(Ledger.read(path).releases) == 1


def test_a_release_that_cannot_be_written_is_not_sampled(tmp_path: Path) -> None:
    ledger = Ledger(make.header(), sink=FullDisk(tmp_path / "l.jsonl", room=2))
    ledger.append(RELEASE)
    before = ledger.hash
    with pytest.raises(OSError, match="No space"):
        ledger.append(RELEASE)
    assert len(ledger.releases) == 1
    assert ledger.hash == before
    with pytest.raises(OSError, match="No space"):
        ledger.finish()
    assert not ledger.complete
    ledger.abandon()
    assert ledger.releases == (RELEASE,)


def test_a_ledger_written_to_a_file_is_read_back_from_it_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(make.header(), sink=LedgerSink("l.jsonl"))
    ledger.append(RELEASE)
    (tmp_path / "elsewhere").mkdir()
    assert list(ledger) == [RELEASE]
    ledger.append(OTHER)
    ledger.finish()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert list(ledger) == [RELEASE, OTHER]
    assert b"".join(ledger.lines()) == (tmp_path / "l.jsonl").read_bytes()
    assert ledger.releases == (RELEASE, OTHER)


def test_a_file_that_another_run_wrote_is_not_taken_for_this_runs(tmp_path: Path) -> None:
    def written(*releases: Release) -> Ledger:
        ledger = Ledger(make.header(), sink=LedgerSink(tmp_path / "l.jsonl"))
        for release in releases:
            ledger.append(release)
        ledger.finish()
        return ledger

    first, second, third = written(RELEASE, RELEASE), written(OTHER), written(OTHER)
    with pytest.raises(LedgerTampered, match="not the file that this run wrote"):
        list(first)
    # The same run again leaves the same file.
    assert second.releases == third.releases == (OTHER,)


def test_a_run_whose_file_cannot_be_put_in_place_fails_and_closes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(OSError, match="No space"):
        run(lambda data, curator: None, None, path=tmp_path / "l.jsonl")
    assert not (tmp_path / "l.jsonl").exists()


def test_nothing_is_released_after_the_end() -> None:
    leaked = []
    run(lambda data, curator: leaked.append(curator), None)
    with pytest.raises(RecordAfterFooter):
        leaked[0].release(1.0, RELEASE.mechanism, label="late")
