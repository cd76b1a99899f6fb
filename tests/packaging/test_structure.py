"""The rooms that `certify` walks through.

`pytest -n 0 -s tests/packaging/test_structure.py` prints them. import-linter checks that each layer imports
only what lies below it, and that no imports run in circles.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("dpaudit", "accountants", "auditors", "algorithms")
MOST_ROOMS = 15

WALK = """
import sys
import dpaudit.app.main, dpaudit.app.verbs.certify

entered = {}
def note(frame, event, argument):
    if event == "call":
        name = frame.f_globals.get("__name__", "")
        if name.startswith("dpaudit."):
            entered[name] = None
sys.setprofile(note)
try:
    dpaudit.app.main.main(["certify", "dp-apvi", "--in-process"], prog_name="dpaudit")
finally:
    sys.setprofile(None)
    print(*entered, sep="\\n", file=sys.stderr)
"""
#: Rooms in which the command's work is shown, and none of it done.
SHOWN_IN = {"app", "page", "progress"}


def lengths(root: Path, folders: Iterable[str] = PRODUCT) -> dict[str, int]:
    """How many lines each Python file in some folders has."""
    return {
        path.relative_to(root).as_posix(): len(path.read_bytes().splitlines())
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
        if not any(parent.is_symlink() for parent in path.parents)
    }


@pytest.mark.usefixtures("own_processes")
def test_certify_walks_through_few_rooms(tmp_path: Path) -> None:
    """From the target to the verdict, with its runs in the one process that is watched."""
    done = subprocess.run(
        [sys.executable, "-c", WALK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    files = done.stderr.split()
    rooms = [room for room in dict.fromkeys(file.split(".")[1] for file in files) if room not in SHOWN_IN]
    print(f"\nrooms: {len(rooms)}, at most {MOST_ROOMS}, with {len(files)} files: {', '.join(rooms)}")
    assert "PROVED" in done.stdout
    assert {"curator", "accountants", "auditors", "certificate"} <= set(rooms)
    assert len(rooms) <= MOST_ROOMS
