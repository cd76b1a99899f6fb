import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.statement import NOT_STATED, Statement
from dpaudit.errors import UsageError


def test_what_is_left_out_is_visibly_not_stated(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('delta_rationale = "below 1/n"\nwaivers = []\nassumptions = ["one account a person"]\n')
    found = Statement.read(path)
    written = found.to_json()
    assert set(written) == set(Statement.model_fields)
    assert (written["delta_rationale"], written["waivers"]) == ("below 1/n", [])
    assert found.not_checked() == [Condition(code=Code.ASSUMED, text="one account a person")]
    left_out = set(Statement.model_fields) - {"delta_rationale", "waivers", "assumptions"}
    assert {written[name] for name in left_out} == {NOT_STATED}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('delta_rational = "x"', "did you mean 'delta_rationale'"),
        ('nonsense = "x"', "known fields: data_curator"),
        ("access = 3", "access"),
        ('access = ""', "access"),
        ('access = "   "', "access"),
        ('waivers = "none"', "waivers"),
        ('waivers = [""]', "waivers"),
        ("waivers = [1]", "waivers"),
        ('access = "a"\naccess = "b"', "cannot be read"),
        ("access = ", "cannot be read"),
        ('[statement]\naccess = "a"', "statement"),
    ],
)
def test_what_cannot_be_followed_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        Statement.read(path)
    assert said in str(caught.value)
    assert str(path) in caught.value.where


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "nowhere.toml", tmp_path, tmp_path / "bytes"):
        with pytest.raises(UsageError, match="cannot be read"):
            Statement.read(path)


@given(text=st.binary(max_size=200))
def test_any_bytes_give_a_statement_or_a_named_error(
    text: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text)
    with contextlib.suppress(UsageError):  # anything else fails the test
        Statement.read(path)
