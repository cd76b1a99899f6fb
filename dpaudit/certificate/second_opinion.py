"""A second opinion on a proved figure: another library's figure for the same releases."""

from typing import Annotated, Self

from pydantic import Field, computed_field, model_validator

from dpaudit.certificate.conditions import Code, Condition
from dpaudit.errors import CertificateFormat
from dpaudit.models import Fraction, Model, NonNegative

#: The allowed difference of two figures, relative to the larger of the figure and 1: rounding in an FFT may
#: change an epsilon at a moderate delta by that much.
OPINION_TOLERANCE = 1e-4

#: The method name for dp-accounting.
DP_ACCOUNTING = "dp-accounting PLD"


class SecondOpinion(Model):
    """Another accountant's figure for the releases at one delta; it never proves and never refutes.

    Two enclosures of one epsilon contradict each other if they do not overlap.

    Attributes:
        delta: the delta at which the figures are compared.
        proved: dpaudit's proved epsilon.
        proved_at_least: dpaudit's proved lower end, if there is one for the same worst pairs.
        epsilon: the other's figure, by its pessimistic rounding.
        at_least: the other's figure by its optimistic rounding, for the releases that it supports.
        none_because: the reason for a missing opinion; the figures are then absent.
    """

    method: str
    version: str
    delta: Fraction | None = None
    proved: NonNegative | None = None
    proved_at_least: NonNegative | None = None
    epsilon: NonNegative | None = None
    at_least: NonNegative | None = None
    tolerance: NonNegative = OPINION_TOLERANCE
    none_because: Annotated[str, Field(min_length=1)] | None = None

    @computed_field  # type: ignore[prop-decorator]  # pydantic documents this order of decorators
    @property
    def agrees(self) -> bool | None:
        """Whether the two figures are consistent; None without an opinion."""
        if self.proved is None or self.epsilon is None or self.at_least is None:
            return None
        slack = self.tolerance * max(1.0, self.proved, self.epsilon)
        too_small = self.proved < self.at_least - slack
        too_large = self.proved_at_least is not None and self.epsilon < self.proved_at_least - slack
        return not (too_small or too_large)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        given = {figure is not None for figure in (self.delta, self.proved, self.epsilon, self.at_least)}
        if given != {self.none_because is None}:
            whole = "a delta with the figures of both, or a reason why there is none"
            raise CertificateFormat(f"a second opinion is either {whole}", where="SecondOpinion")
        return self

    def not_checked(self) -> list[Condition]:
        """Return the condition that two accountants disagree, if they do."""
        disagrees = self.agrees is False
        return [Condition(code=Code.ACCOUNTANTS_DISAGREE, accountant=self.method)] if disagrees else []

    def __str__(self) -> str:
        if self.agrees is None:
            return f"NONE: {self.none_because}"
        theirs = f"{self.method} has epsilon {self.epsilon:.6g} at delta {self.delta:g}"
        if self.agrees:
            return f"AGREES: {theirs}"
        lower = "" if self.proved_at_least is None else f", at least {self.proved_at_least:.6g}"
        ours = f"{self.proved:.6g}{lower}, is proved here"
        return f"DISAGREES: {theirs}, at least {self.at_least:.6g} (version {self.version}), where {ours}"
