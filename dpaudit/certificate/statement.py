"""What only the people behind a deployment can state: none of it is checked, all of it is shown."""

import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints

from dpaudit.certificate.conditions import Code, Condition
from dpaudit.errors import InputError, UsageError
from dpaudit.models import Model, did_you_mean

NOT_STATED: Final = "not stated"

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

#: Sentences; an empty list says that there are none, which is not the same as saying nothing.
Listed = tuple[Words, ...] | Literal["not stated"]


class Statement(Model):
    """What the author of a deployment states about it, in sentences; the rest says "not stated".

    The fields are those that a register of deployments asks for and a ledger cannot know.

    Attributes:
        data_curator: who holds the data and answers for the release.
        intended_use: what the output is for.
        data_domain: what the records are, and how they came about.
        unit: what one unit of privacy stands for, and which person may be behind several of them.
        contribution_bound: how much one unit can contribute, and what enforces it.
        trust: who must be trusted with what.
        access: interactive or not, and who sees the output.
        delta_rationale: why the claim's delta is small enough for these data.
        composition_scope: what else is released of the same persons, and over which time the claim holds.
        preprocessing: what was done to the records before they were released.
        postprocessing: what is done to the output before it is published.
        unprotected_quantities: what was read off the private data without noise.
        hyperparameter_tuning: how parameters were chosen, and what private data were looked at for it.
        assumptions: what the claim rests on and no computation checks.
        waivers: checks that failed or were left out, and who accepted that.
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
        """The stated assumptions, as conditions."""
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


#: Of a deployment about which nothing was stated.
NOTHING_STATED: Final = Statement()
