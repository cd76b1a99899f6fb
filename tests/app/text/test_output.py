import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit.app.text.output import assured, counted, lower, print_text, table, upper
from dpaudit.mechanisms import KINDS
from dpaudit.page.printable import printable


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_figures_are_rounded_to_their_safe_side(figure: float) -> None:
    assert float(upper(figure)) >= figure * (1 - 2e-9)
    assert float(upper(figure)) <= figure * (1 + 2e-5)
    assert float(lower(figure)) <= figure * (1 + 2e-9)
    assert float(lower(figure)) >= figure * (1 - 2e-5)


def test_figures_read_as_they_were_meant() -> None:
    assert upper(0.25) == "0.25"
    assert upper(0.25000000000000006) == "0.25"
    assert upper(1.0000011) == "1.00001"
    assert lower(1.9999999) == "1.99999"
    assert upper(0.0) == "0"


def test_printable() -> None:
    assert printable("häuser [b]") == "häuser [b]"
    assert printable("\x1b[2J\udcff\u202e") == "\\x1b[2J\\udcff\\u202e"


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_tables_fit_and_lose_nothing(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    label = "a label as long as anyone would ever write one, and longer"
    print_text(table(("release", "figure"), [[label, "0.123456"]], whole=("figure",)))
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= columns
    shown = "".join(text.split())
    assert all(word.strip(",") in shown for word in label.split())
    assert "0.123456" in shown


LONG = "discrete-gaussian sigma=2.82843 sampled rate=0.001"


@pytest.mark.parametrize(
    "row",
    [
        ["a label of some length", LONG, "1 l2", "mu 0.123456", "mu 0.123456", "NOT_PROVED"],
        ["total days", "gaussian sigma=120", "60 l2 clipped", "", "rho 0.125", ""],
        ["total", "gaussian sigma=120", "60 l2", "(2.5, 1e-06)", "(2.25409, 1e-06)", "NOT_PROVED"],
        ["total", LONG, LONG, "(2, 1e-06)", "(2.25409, 1e-06)", "NOT_PROVED"],
    ],
)
def test_no_word_of_a_heading_is_broken_where_there_is_room(
    row: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ("release", "mechanism", "sensitivity", "claimed", "computed", "verdict")
    print_text(table(names, [row], whole=names[3:]))
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == list(names)
    assert max(map(len, [head, *lines])) <= 80
    shown = "".join("".join(lines).split())
    assert all(cell.replace(" ", "") in shown for cell in row[3:])
    assert all(word in shown for cell in row[:2] for word in cell.split() if len(word) < 10)


def test_a_confidence_below_1_is_never_printed_as_1_and_one_thing_is_not_several() -> None:
    assert [assured(value) for value in (0.95, 0.999999, 1 - 1e-10)] == ["0.95", "0.999999", "0.9999999999"]
    for below in (1 - 1e-12, 1 - 1e-16, 0.9985294117647059):
        assert below == float(assured(below)) < 1.0
    assert counted(1, "canary", "canaries") == "1 canary"
    assert counted(0, "canary", "canaries") == "0 canaries"


def test_steps_that_differ_in_nothing_but_their_number_share_a_row() -> None:
    from dpaudit.app.text.tables import _repeated_once

    def rows(numbers: list[int], odd: int | None = None) -> list[list[object]]:
        return [[f"Lambda_{i}, phi3_{i}", "gaussian", "rho 2" if i == odd else "rho 1"] for i in numbers]

    assert _repeated_once(rows([3, 2, 1])) == [["Lambda_1..3, phi3_1..3 (3)", "gaussian", "rho 1"]]
    for apart in (rows([1, 2]), rows([1, 2, 4]), rows([1, 1, 2]), rows([1, 2, 3], odd=3)):
        assert _repeated_once(apart) == apart
    loop: list[list[object]] = [
        [f"{label} on batch {i}", "x"] for i in (1, 2, 3) for label in ("sum", "count")
    ]
    assert _repeated_once(loop) == [["sum on batch 1..3 (3)", "x"], ["count on batch 1..3 (3)", "x"]]
    others: list[list[object]] = [
        ["a_1, b_2", "x"],
        ["a_2, b_3", "x"],
        ["a_3, b_4", "x"],
        ["v2", "x"],
        ["v3", "x"],
        ["v4", "x"],
    ]
    assert _repeated_once(others) == others


@pytest.mark.parametrize("columns", [60, 78, 80, 100])
def test_a_spare_column_is_left_out_before_a_word_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    from dpaudit.app.text.output import print_text, table

    monkeypatch.setenv("COLUMNS", str(columns))
    row = ["Lambda_1..20, phi3_1..20", "gaussian sigma=5.40361", "1.09731 l2", "rho 0.0206186", "PROVED"]
    print_text(
        table(["release", "mechanism", "sensitivity", "claimed", "verdict"], [row], spare=("sensitivity",))
    )
    shown = capsys.readouterr().out
    assert all(word in shown for text in (row[0], row[1], row[4]) for word in text.split())
    assert ("sensitivity" in shown) == (columns > 60)
    assert max(map(len, shown.splitlines())) <= columns


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_of_a_mechanism_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    words = f"mechanism=({kind}"
    print_text(table(["release", "mechanism", "moved"], [["sums", words, "x" * 20]], spare=("moved",)))
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(("columns", "left"), [(78, "abc"), (44, "ac"), (40, "a")])
def test_spare_columns_are_left_out_in_their_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, left: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    row = ["a" * 20, "b" * 20, "c" * 20]
    print_text(table(["first", "second", "third"], [row], spare=("second", "third")))
    shown = capsys.readouterr().out
    assert [letter for letter in "abc" if letter * 20 in shown] == list(left)
    assert max(map(len, shown.splitlines())) <= columns


def test_an_empty_column_is_left_out_before_a_spare_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = "2026-11-23T02:35:11Z"
    rows = [["reservation", "", "a note", at], ["other", None, "f" * 64, at]]
    heads = {}
    for columns in (80, 65, 48):
        monkeypatch.setenv("COLUMNS", str(columns))
        print_text(table(("release", "partition", "note", "at"), rows, spare=("note",)))
        heads[columns] = capsys.readouterr().out.split("\n")[0].split()
    assert heads[80] == ["release", "partition", "note", "at"]
    assert (heads[65], heads[48]) == (["release", "note", "at"], ["release", "at"])
    monkeypatch.setenv("COLUMNS", "40")
    print_text(table(("one", "a" * 20, "b" * 20), [], spare=("b" * 20,)))  # no rows: no column is empty
    assert capsys.readouterr().out.split("\n")[0].split() == ["one", "a" * 20]
