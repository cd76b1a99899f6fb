from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dpaudit import L2, Gaussian, Ledger, Neighbouring, Release, run
from dpaudit.errors import RecordAfterFooter
from dpaudit.ledger.ledger import Header

RELEASE = Release(label="x", mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))


class FullDisk:
    """A sink that takes `room` lines and then fails."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.closed = False

    def write(self, line: bytes) -> None:
        if self.room == 0:
            raise OSError(28, "No space left on device")
        self.room -= 1

    def finish(self) -> None:
        self.closed = True

    def abandon(self) -> None:
        self.closed = True


def header() -> Header:
    return Header(algorithm="a", unit="u", neighbouring=Neighbouring.REPLACE_ONE)


def failing(*arguments: Any, **options: Any) -> Any:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "l.jsonl"
    ledger = Ledger(header())
    ledger.finish()
    ledger.write(path)
    old = path.read_bytes()
    longer = Ledger(header())
    longer.append(RELEASE)
    longer.finish()
    with monkeypatch.context() as patch:
        patch.setattr(*((Path, "replace") if step == "replace" else (os, "fsync")), failing)
        with pytest.raises(OSError, match="No space"):
            longer.write(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
    longer.write(path)
    assert len(Ledger.read(path).releases) == 1


def test_a_release_that_cannot_be_written_is_not_sampled() -> None:
    ledger = Ledger(header(), sink=FullDisk(room=2))
    ledger.append(RELEASE)
    before = ledger.hash
    with pytest.raises(OSError, match="No space"):
        ledger.append(RELEASE)
    assert len(ledger.releases) == 1
    assert ledger.hash == before
    with pytest.raises(OSError, match="No space"):
        ledger.finish()
    assert not ledger.complete


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
