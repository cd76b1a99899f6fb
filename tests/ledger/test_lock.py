"""One writer a folder: the second is refused, and what a dead one left behind refuses nobody."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dpaudit.errors import UsageError
from dpaudit.ledger.lock import LOCK, only_writer

HOLDER = """
import os, sys, time
from pathlib import Path
from dpaudit.ledger.lock import only_writer

with only_writer(Path(sys.argv[1])):
    child = os.fork() if len(sys.argv) > 2 else 1
    if child:
        print(child, flush=True)
    time.sleep(60)
"""


def holder(folder: Path, *forks: str) -> tuple[subprocess.Popen[str], int]:
    """A process that holds the folder, and the number that it printed: its child's, if it forks."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), *forks], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_the_folder_is_held_and_let_go(tmp_path: Path) -> None:
    with only_writer(tmp_path):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())
        with pytest.raises(UsageError, match=f"process {os.getpid()}"), only_writer(tmp_path / "."):
            pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyError), only_writer(tmp_path):
        raise KeyError
    with only_writer(tmp_path):
        pass


def test_another_process_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    process, _ = holder(tmp_path)
    refused = pytest.raises(UsageError, match=f"process {process.pid} is writing there")
    with refused as caught, only_writer(tmp_path):
        pass
    assert "do:  wait until it has finished, or name another folder" in str(caught.value)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert (tmp_path / LOCK).exists()
    with only_writer(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_outlives_its_parent_holds_nothing(tmp_path: Path) -> None:
    process, child = holder(tmp_path, "forks")
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    try:
        with only_writer(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate(timeout=60)


def test_a_lock_that_its_holder_removed_meanwhile_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening the file and locking it, the first writer ends, and a third one begins."""
    real, opened = fcntl.lockf, []

    def late(handle: int, kind: int) -> None:
        opened.append(handle)
        if len(opened) == 1:
            (tmp_path / LOCK).rename(tmp_path / "removed")
        real(handle, kind)

    monkeypatch.setattr(fcntl, "lockf", late)
    with only_writer(tmp_path):
        assert len(opened) == 2
        assert (tmp_path / LOCK).exists()


def test_where_files_cannot_be_locked_nothing_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "lockf", unknown)
    with only_writer(tmp_path):
        pass
