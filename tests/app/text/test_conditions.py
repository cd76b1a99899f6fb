"""Every condition has one sentence, filled from its parameters; no sentence is part of a stored file."""

from __future__ import annotations

from string import Formatter
from typing import Any

import pytest

from dpaudit.app.text import conditions
from dpaudit.app.text.conditions import SENTENCES, sentence, sentences
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
    return [name for _, name, _, _ in Formatter().parse(SENTENCES[code]) if name is not None]


def condition(code: Code) -> Condition:
    return Condition(code=code, **{name: PARAMETERS[name] for name in fields(code)})


def test_every_code_has_exactly_one_sentence_of_its_own() -> None:
    assert set(SENTENCES) == set(Code)
    assert len(set(SENTENCES.values())) == len(Code)


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


def test_words_are_no_part_of_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {code: condition(code).to_json() for code in Code}
    monkeypatch.setattr(conditions, "SENTENCES", dict.fromkeys(Code, "other words"))
    assert sentences(map(condition, Code)) == ["other words"]
    assert {code: condition(code).to_json() for code in Code} == before


def test_parameters_fill_the_sentence() -> None:
    assert sentence(condition(Code.DECLARED_SENSITIVITY)) == (
        "the declared sensitivity of 7 releases: 'a', 'b', ..."
    )
    one = Releases(number=1, labels=("x",))
    assert sentence(
        Condition(code=Code.JUSTIFIED_GUARANTEE, releases=one, text="a {proof}\nof two\x1b lines")
    ) == (
        "the guarantee of 1 release: 'x', which its author justifies as follows: a {proof} of two\\x1b lines"
    )
    for replayed, words in ((False, "(an audit by replay tests it)"), (True, "tested it on its pairs)")):
        assert sentence(Condition(code=Code.FIXED_SEQUENCE, replayed=replayed)).endswith(words)
