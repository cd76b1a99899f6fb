"""Every condition has one sentence, filled from its parameters; no sentence is part of a stored file."""

from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from dpaudit.app.text.conditions import SHOWN, not_checked, sentence
from dpaudit.app.text.output import print_text
from dpaudit.certificate.conditions import Code, Condition, Releases
from dpaudit.errors import InvalidParameter

PARAMETERS: dict[str, Any] = {
    "releases": Releases(number=7, labels=("a", "b"), more_labels=True),
    "text": "a {brace}",
    "replayed": True,
    "ended_by": "time-limit",
    "draws": 80_000,
    "accountant": "another library",
    "path": "base/certificate.json",
    "share": 0.5,
    "scale": "rho",
}


def fields(code: Code) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(code.sentence) if name is not None]


def condition(code: Code) -> Condition:
    return Condition(code=code, **{name: PARAMETERS[name] for name in fields(code)})


def test_every_code_has_exactly_one_sentence_of_its_own() -> None:
    assert len({code.sentence for code in Code}) == len(Code)
    assert all(code.when and code.sentence for code in Code)
    assert [code.general for code in Code] == sorted(code.general for code in Code)


@pytest.mark.parametrize("code", Code)
def test_a_sentence_names_exactly_the_parameters_of_its_condition(code: Code) -> None:
    made = condition(code)
    said = sentence(made)
    for name in fields(code):
        with pytest.raises(InvalidParameter, match=name):
            made.__class__(**{**dict(made), name: None})
    for name in PARAMETERS.keys() - set(fields(code)):
        with pytest.raises(InvalidParameter, match=name):
            made.__class__(**{**dict(made), name: PARAMETERS[name]})
    assert "{" not in said.replace("a {brace}", "")
    assert "None" not in said


@pytest.mark.parametrize("code", Code)
def test_a_condition_is_read_back(code: Code) -> None:
    made = condition(code)
    assert Condition(**made.to_json()) == made
    assert {made, Condition(**made.to_json())} == {made}


@pytest.mark.parametrize("code", Code)
def test_words_are_no_part_of_what_is_stored(code: Code) -> None:
    stored = condition(code).to_json()
    assert stored["code"] == code
    assert set(stored) == {"code", *fields(code)}


def shown(capsys: pytest.CaptureFixture[str], *codes: Code, file: Path | None = None) -> list[str]:
    print_text(*not_checked(map(condition, codes), file))
    return capsys.readouterr().out.replace("\n    ", " ").splitlines()


def test_a_terminal_shows_what_is_special_to_a_run_first(capsys: pytest.CaptureFixture[str]) -> None:
    general = [Code.ALL_RELEASES, Code.ONLY_THROUGH_LEDGER, Code.GIVEN_PAIRS]
    few = shown(capsys, *general)
    assert len(few) == 1 + SHOWN  # all of them, and nothing is counted
    special = [Code.DECLARED_SENSITIVITY, Code.NO_AUDIT]
    head, first, second, third, rest = shown(capsys, *general, *special)
    assert (head, rest) == ("Not checked", "  - and 2 general limits: `dpaudit limits`")
    assert first == "  - the claim by experiment: no audit was run"
    assert "declared sensitivity" in second
    assert sentence(condition(Code.ONLY_THROUGH_LEDGER)) in third


def test_a_terminal_counts_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    codes = [*special_codes()[: SHOWN + 2], Code.ALL_RELEASES]
    assert shown(capsys, *codes)[-1] == (
        "  - and 2 more of this run: `--output-format json`; 1 general limit: `dpaudit limits`"
    )
    named = shown(capsys, *codes, file=Path("out"))
    assert named[-1] == "  - and 2 more of this run and 1 general limit: `dpaudit limits out`"


def special_codes() -> list[Code]:
    return [code for code in Code if not code.general and code is not Code.UNMOVED_MOST]


def test_parameters_fill_the_sentence() -> None:
    assert sentence(condition(Code.DECLARED_SENSITIVITY)) == (
        "the declared sensitivity of 7 releases: 'a', 'b', ..."
    )
    one = Releases(number=1, labels=("x",))
    assert sentence(
        Condition(code=Code.JUSTIFIED_GUARANTEE, releases=one, text="a {proof}\nof two\x1b lines")
    ) == ("the guarantee of 1 release: 'x'; its author's justification: a {proof} of two\\x1b lines")
    for replayed, words in ((False, "(an audit by replay tests it)"), (True, "tested it on its pairs)")):
        assert sentence(Condition(code=Code.FIXED_SEQUENCE, replayed=replayed)).endswith(words)
