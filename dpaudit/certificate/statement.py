"""Statements by the people behind a deployment: none is checked, all are shown."""

import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints

from dpaudit.certificate.conditions import Code, Condition
from dpaudit.errors import InputError, UsageError
from dpaudit.models import Model, did_you_mean

NOT_STATED: Final = "not stated"

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

#: Sentences; an empty list states that there are none, unlike a missing field.
Listed = tuple[Words, ...] | Literal["not stated"]


class Statement(Model):
    """The author's statements about a deployment, in sentences; an empty field says "not stated".

    A register of deployments asks for these fields, and a ledger does not contain them.

    Attributes:
        data_curator: the data holder, who answers for the release.
        intended_use: the purpose of the output.
        data_domain: the content and the origin of the records.
        unit: the meaning of one unit of privacy, and the persons who may have several units.
        contribution_bound: the most that one unit can contribute, and the code or rule that enforces it.
        trust: the parties that must be trusted, each with its task.
        access: interactive or not, and who sees the output.
        delta_rationale: the reason why the claim's delta is small enough for these data.
        composition_scope: other releases about the same persons, and the period of the claim.
        preprocessing: the processing of the records before the release.
        postprocessing: the processing of the output before publication.
        unprotected_quantities: quantities taken from the private data without noise.
        hyperparameter_tuning: the choice of parameters, and the private data used for it.
        assumptions: the claim's premises that no computation checks.
        waivers: checks that failed or were left out, and the person who accepted that.
    """

    data_curator: Words = NOT_STATED
    intended_use: Words = NOT_STATED
    data_domain: Words = NOT_STATED
    unit: Words = NOT_STATED
    contribution_bound: Words = NOT_STATED
    trust: Words = NOT_STATED
    access: Words = NOT_STATED
    delta_rationale: Words = NOT_STATED
    composition_scope: Words = NOT_STATED
    preprocessing: Words = NOT_STATED
    postprocessing: Words = NOT_STATED
    unprotected_quantities: Words = NOT_STATED
    hyperparameter_tuning: Words = NOT_STATED
    assumptions: Listed = Field(default=NOT_STATED)
    waivers: Listed = Field(default=NOT_STATED)

    def not_checked(self) -> list[Condition]:
        """Return the stated assumptions as conditions."""
        stated = () if self.assumptions == NOT_STATED else self.assumptions
        return [Condition(code=Code.ASSUMED, text=text) for text in stated]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a TOML file with these fields and no others; anything else raises `UsageError`."""
        why = "a certificate would say that nothing was stated"
        try:
            record = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            remedy = "give a TOML file with the fields that docs/publishing/certificate.md lists"
            raise UsageError(f"cannot be read: {reason}", where=str(path), why=why, remedy=remedy) from None
        for name in record:
            if name not in cls.model_fields:
                remedy = f"{did_you_mean(name, cls.model_fields)}known fields: {', '.join(cls.model_fields)}"
                raise UsageError(f"unknown field {name!r}", where=str(path), why=why, remedy=remedy)
        try:
            return cls(**record)
        except InputError as error:
            where, remedy = f"{path}: {error.where}", "write sentences, in quotes"
            raise UsageError(error.what, where=where, why=why, remedy=remedy) from None


#: The statement of a deployment without any stated field.
NOTHING_STATED: Final = Statement()
