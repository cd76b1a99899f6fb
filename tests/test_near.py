"""`nox -s near -- FILE` names the nearest tests first, and fails where one of them does."""

import pytest

from tests import near

ROOT, TESTS = near.ROOT, near.TESTS


@pytest.mark.parametrize(
    ("file", "first", "also"),
    [
        ("dpaudit/claims/relations.py", "claims/test_relations.py", "claims/test_models.py"),
        (
            "accountants/closed_forms/rounding.py",
            "accountants/closed_forms/test_rounding.py",
            "accountants/closed_forms/test_columns.py",
        ),
        ("dpaudit/claims/bounds.py", "claims/", "app/report/test_registry.py"),
        ("docs/design.md", "docs/", "docs/test_structure_page.py"),
        ("tests/claims/test_models.py", "claims/test_models.py", "claims/test_models.py"),
    ],
)
def test_the_nearest_tests_come_first(file: str, first: str, also: str) -> None:
    names = [test.relative_to(TESTS).as_posix() for test in near.near(ROOT / file)]
    assert names[0].startswith(first)
    assert also in names
    assert len(names) == len(set(names))


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert near.main(["dpaudit/no_such.py"]) == 2
    assert "dpaudit/no_such.py is not there" in capsys.readouterr().out


def test_no_test_begins_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    late = near._UntilLate()
    assert late.pytest_runtest_protocol() is None
    monkeypatch.setattr(near, "SECONDS", 0.0)
    assert late.pytest_runtest_protocol() is True
    assert late.left == 1
