"""How the models look from outside."""

import copy
import inspect
from typing import Any

import pydantic
import pytest

import dpaudit
from dpaudit import L2, ZCDP, ApproxDP, Claim, Gaussian, Header, PoissonSampled
from dpaudit.errors import InvalidParameter
from dpaudit.models import Model, named_by, without_computed


def test_signatures_name_types_and_no_validators() -> None:
    assert list(inspect.signature(Gaussian).parameters) == ["sensitivity", "sigma"]
    assert inspect.signature(ZCDP).parameters["rho"].annotation is float
    for name in dpaudit.__all__:
        value = getattr(dpaudit, name)
        if isinstance(value, type) and issubclass(value, Model):
            assert "Annotated" not in str(inspect.signature(value)), name
            assert "<function" not in str(inspect.signature(value)), name
    assert inspect.signature(PoissonSampled).parameters["rate"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.signature(Claim).parameters["unit"].default is None


def test_a_wrong_word_or_type_is_answered_with_what_to_give() -> None:
    with pytest.raises(
        InvalidParameter, match=r"did you mean 'replace-one'\? give one of add-or-remove-one, rep"
    ):
        Claim(ZCDP(rho=1.0), unit="row", neighbouring="replace_one")
    with pytest.raises(InvalidParameter, match=r"do:  give a Sensitivity, such as L2\(1.0\)"):
        Gaussian(sigma=1.0, sensitivity=2.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"-1\.0 is below 0(.|\n)*do:  give a number of at least 0"):
        ZCDP(rho=-1.0)


def test_values_without_names_are_answered_with_the_names() -> None:
    cases: list[tuple[Any, tuple[object, ...], str]] = [
        (ApproxDP, (1, 1e-5), r"ApproxDP\(epsilon=\.\.\., delta=\.\.\.\)"),
        (ZCDP, (1.0,), r"ZCDP\(rho=\.\.\.\)"),
        (Gaussian, (4.0, L2(2.0)), r"Gaussian\(sensitivity=\.\.\., sigma=\.\.\.\)"),
    ]
    for model, values, written in cases:
        with pytest.raises(InvalidParameter, match=f"without (a name|names)(.|\n)*do:  write {written}"):
            model(*values)
    assert [*inspect.signature(ApproxDP).parameters] == ["epsilon", "delta"]


def test_a_copy_of_what_cannot_change_is_itself() -> None:
    claim = Claim(ZCDP(rho=1.0), unit="row")
    assert copy.deepcopy(claim) is claim
    assert copy.deepcopy([claim]) == [claim]
    # Pydantic changes these copies.
    for deep in (False, True):
        other = claim.model_copy(update={"unit": "user"}, deep=deep)
        assert (other.unit, claim.unit) == ("user", "row")
        assert other.guarantee == claim.guarantee


def test_a_json_object_in_a_field_is_a_copy_that_cannot_change() -> None:
    given: dict[str, Any] = {"layers": [1, [2, {"width": 3}]], "name": "net"}
    fields: dict[str, Any] = {"algorithm": "a", "unit": "row", "neighbouring": "replace-one"}
    header = Header(**fields, parameters=given)
    given["layers"].append(4)
    assert header.parameters["layers"] == (1, (2, {"width": 3}))
    written = header.to_json()
    assert written["parameters"] == {"layers": [1, [2, {"width": 3}]], "name": "net"}
    assert "budget" not in written
    assert Header(**fields, parameters=header.parameters).to_json() == written
    assert repr(header.parameters) == repr(written["parameters"])


def test_a_record_is_read_without_its_computed_fields() -> None:
    class Square(Model):
        side: float

        @pydantic.computed_field  # type: ignore[prop-decorator]
        @property
        def area(self) -> float:
            return self.side**2

    record = Square(side=3.0).to_json()
    assert record == {"side": 3.0, "area": 9.0}
    assert Square(**without_computed(record, Square)) == Square(side=3.0)
    assert without_computed("no record", Square) == "no record"


def test_an_error_shows_the_value_once_and_names_the_option_it_came_from() -> None:
    with pytest.raises(InvalidParameter) as raised, named_by(lambda field: f"--{field}"):
        ZCDP(rho=10**400)
    assert (raised.value.where, raised.value.what) == ("--rho", "must be a finite number, not inf")
    with pytest.raises(InvalidParameter, match=r"rho: .* \(got '1'\)"):
        ZCDP(rho="1")  # type: ignore[arg-type]
