"""The tests that matter for one file, nearest first, in under a minute: `nox -s near -- FILE`.

First the tests of the same path (tests/claims/test_relations.py for dpaudit/claims/relations.py), then their
folder, then every test file that names the module or, for a file that is no module, the file's name. After 45
seconds no further test begins, and the last line says how many were left.
"""

import re
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
PACKAGES = ("dpaudit", "accountants", "auditors", "algorithms", "tests")
SECONDS = 45.0


def near(file: Path) -> list[Path]:
    """Return the test files of one file of the project, nearest first."""
    path = file.resolve().relative_to(ROOT)
    if path.parts[0] == "tests" and path.name.startswith("test_"):
        return [file.resolve()]
    place = Path(*path.parts[1:]) if path.parts[0] in {"dpaudit", "tests"} else path
    folder = TESTS / place.parent
    own = sorted(folder.glob(f"test_{place.stem}*.py"))
    beside = sorted(folder.glob("test_*.py")) if folder != TESTS else []
    named = re.compile(rf"{re.escape(_name(path))}\b")
    every = sorted(TESTS.rglob("test_*.py"), key=lambda test: (-_shared(test, folder), test))
    importing = [test for test in every if named.search(test.read_text(encoding="utf-8"))]
    return list(dict.fromkeys([*own, *beside, *importing]))


def _name(path: Path) -> str:
    """Return the name by which tests import a module, or mention another file."""
    if path.suffix != ".py" or path.parts[0] not in PACKAGES:
        return path.name
    parts = path.with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(parts if parts[0] in {"dpaudit", "tests"} else ("dpaudit", *parts))


def _shared(test: Path, folder: Path) -> int:
    """Return how many folders two paths have in common."""
    pairs = zip(test.parent.parts, folder.parts, strict=False)
    return sum(one == other for one, other in pairs)


class _UntilLate:
    """Begins no further test once the time is over."""

    def __init__(self) -> None:
        self.began, self.left = time.monotonic(), 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        if time.monotonic() - self.began < SECONDS:
            return None
        self.left += 1
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left:
            terminalreporter.write_line(f"{self.left} tests were left after {SECONDS:.0f} s: nox -s test")


def main(arguments: list[str]) -> int:
    """Run the nearest tests of the files that are named; options of pytest may follow."""
    files = [Path(one) for one in arguments if not one.startswith("-")]
    missing = [str(file) for file in files if not file.exists()]
    if missing or not files:
        what = f"{', '.join(missing)} is not there" if missing else "no file was named"
        print(f"{what}; name files from the project's root, as in: nox -s near -- dpaudit/models.py")
        return 2
    tests = list(dict.fromkeys(test for file in files for test in near(file)))
    options = [one for one in arguments if one.startswith("-")]
    return pytest.main(["-q", "-x", "-n", "0", *options, *map(str, tests)], plugins=[_UntilLate()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
