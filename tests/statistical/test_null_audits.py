"""Each method keeps its level where there is nothing to find, and speaks where there is."""

import runpy
from pathlib import Path

import pytest

from tests.statistical.null_audits import NULLS, Null

ROOT = Path(__file__).resolve().parents[2]
MAKE = runpy.run_path(str(ROOT / "docs" / "programs" / "make_validity.py"), run_name="make_validity")
PAGE = (ROOT / "docs" / "auditing" / "auditing.md").read_text(encoding="utf-8")


def named(null: Null) -> str:
    return f"{null.method}, {null.mechanism}"


def shown() -> dict[Null, int]:
    """The errors that the page shows."""
    section = PAGE.split(MAKE["HEADING"])[1].split(MAKE["NEXT"])[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.count("|") == 5][2:]
    assert [row[:2] for row in rows] == [[null.method, null.mechanism] for null in NULLS]
    return {null: int(row[2]) for null, row in zip(NULLS, rows, strict=True)}


def test_the_page_has_what_was_counted() -> None:
    assert MAKE["page"](PAGE, shown()) == PAGE, "run: docs/programs/make_validity.py"
    assert max(shown().values()) <= MAKE["most_errors"](MAKE["AUDITS"])


@pytest.mark.parametrize("null", NULLS, ids=named)
def test_its_first_audits_keep_their_level(null: Null) -> None:
    assert sum(null.errs(seed) for seed in range(5)) <= MAKE["most_errors"](5)


@pytest.mark.parametrize("null", NULLS, ids=named)
def test_with_a_fifth_of_the_noise_it_refutes(null: Null) -> None:
    """A planted fault: an audit that always keeps silent would keep its level, too."""
    assert null.errs(0, noise=0.2)


def test_a_method_that_errs_too_often_is_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    known = MAKE["main"].__globals__
    monkeypatch.setitem(known, "PAGE", page)
    monkeypatch.setitem(known, "NULLS", NULLS[:1])
    for errors, doubtful in ((2, 0), (6, 1)):
        monkeypatch.setattr(Null, "errs", lambda null, seed, errors=errors: seed % 50 < errors)
        page.write_text(PAGE, encoding="utf-8")
        monkeypatch.setattr("sys.argv", ["make_validity.py", str(tmp_path / f"{errors}.jsonl")])
        assert MAKE["main"]() == doubtful
        assert (page.read_text(encoding="utf-8") == PAGE) == bool(doubtful)
        assert ("120 of 1000 audits err" in capsys.readouterr().err) == bool(doubtful)
    # Stopped and begun again, it counts what is missing.
    kept = (tmp_path / "2.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "2.jsonl").write_text("\n".join(kept[:7]) + "\n", encoding="utf-8")
    assert list(MAKE["counted"](NULLS[0], tmp_path / "2.jsonl")) == [2] * 7 + [6] * 13
