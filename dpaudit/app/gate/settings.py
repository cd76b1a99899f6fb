"""The keys of `[tool.dpaudit]`: a closed model, which refuses unknown ones."""

import datetime as dt
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from dpaudit.app.options.claim_options import StatedClaim
from dpaudit.claims.relations import Neighbouring, TrustModel
from dpaudit.errors import UsageError
from dpaudit.models import Count, Fraction, NonNegative, Positive
from dpaudit.noise.randomness import Sampler
from dpaudit.page.printable import printable_lines

#: What a finding of the gate may be about, and so what a waiver may name.
Waivable = Literal[
    "not-proved",
    "release-not-proved",
    "refuted",
    "inconclusive",
    "max-epsilon",
    "delta-at-most",
    "allowed-samplers",
    "fail-on-increase",
]

#: A change of the gate that the next ones may make: a finding's name, or FINDING:NAME for one check or key.
AllowedChange = Annotated[
    str, Field(pattern=r"^(policy-loosened|target-removed|waiver-added)(:[A-Za-z0-9][A-Za-z0-9._-]*)?$")
]

#: One line of text, as file names and references are.
Line = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f]+$")]
Name = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class Settings(BaseModel):
    """A table of the configuration; its keys are written with hyphens."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=lambda name: name.replace("_", "-")
    )


class ClaimSettings(Settings):
    """What is claimed: one guarantee, and optionally for whom."""

    epsilon: NonNegative | None = None
    delta: Fraction | None = None
    rho: NonNegative | None = None
    mu: NonNegative | None = None
    unit: Line | None = None
    neighbouring: Annotated[Neighbouring, Field(strict=False)] | None = None
    trust_model: Annotated[TrustModel, Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _one_guarantee(self) -> Self:
        try:
            self.stated().required()
        except UsageError as error:
            raise ValueError(f"{error.what}: {error.why}") from None
        return self

    def stated(self) -> StatedClaim:
        """The claim as the command line's options would state it."""
        return StatedClaim(**dict(self))


def _natural(seed: Any) -> Any:
    if seed != "fresh" and (isinstance(seed, str) or seed < 0):
        raise ValueError(f'a seed is a whole number from 0 on, or "fresh", not {seed!r}')
    return seed


class Effort(Settings):
    """How hard one target is audited; what is left out, the next wider table says.

    What it could not finish within the time limit, in seconds, is inconclusive. `trials` are recordings to
    replay; of a sampling audit, runs on each side. The seed ``"fresh"`` is another one each time.
    """

    method: Literal["replay", "threshold", "sequential"] | None = None
    trials: Annotated[Count, Field(le=100_000_000)] | None = None
    time_limit: Annotated[Positive, Field(le=1e6)] | None = None
    seed: Annotated[int | str, AfterValidator(_natural)] | None = None


class GateEffort(Effort):
    """The effort of a whole gate; `confidence` is that no true claim is refuted, by all audits together."""

    confidence: Fraction | None = None


class Profiles(Settings):
    """What differs from `[tool.dpaudit.audit]` in one profile."""

    pr: GateEffort = GateEffort()
    nightly: GateEffort = GateEffort()


class Check(Settings):
    """What targets and ledgers have in common.

    `claim` left out is the target's or ledger's own; `n` is the public number of units, for
    ``delta-at-most = "1/n"``; `baseline` is a certificate whose cost must not be exceeded.
    """

    claim: ClaimSettings | None = None
    n: Count | None = None
    baseline: Line | None = None


class Target(Check):
    """An algorithm to run, account for and audit; the keys are those of `dpaudit certify`."""

    target: Line
    data: Line | None = None
    pair: Line | None = None
    parameters: dict[Line, int | float | Line] = {}
    users: Count | None = None
    budget_rho: NonNegative | None = None
    budget_mu: NonNegative | None = None
    audit: Effort = Effort()


class LedgerFile(Check):
    """A check of a ledger that was written before."""

    ledger: Line
    allow_unhashed: bool = False


def _delta_or_1_over_n(delta: Any) -> Any:
    if delta != "1/n" and (isinstance(delta, str) or not 0 < delta < 1):
        raise ValueError(f'a delta is a number between 0 and 1, or "1/n", not {delta!r}')
    return delta


class Policy(Settings):
    """What holds for every check, whatever it claims.

    Every ledger must be proved (max_epsilon, delta_at_most)-DP and cost no more than its check's baseline
    certificate; no claim may have a larger delta (a number, or ``"1/n"`` with each check's n). A later change
    may make `allowed_changes` without failing `dpaudit gate --base`: a finding, or finding:NAME.
    """

    max_epsilon: NonNegative | None = None
    delta_at_most: Annotated[float | str, AfterValidator(_delta_or_1_over_n)] | None = None
    allowed_samplers: Annotated[list[Sampler], Field(min_length=1)] | None = None
    fail_on_increase: bool = False
    allowed_changes: list[AllowedChange] = []


class Waiver(Settings):
    """A finding that is let pass until a day, the last one in UTC, and why; it stays visible."""

    check: Name
    finding: Waivable
    reason: Annotated[
        str, Field(min_length=1, max_length=2000, pattern=r"\S"), AfterValidator(printable_lines)
    ]
    expires: dt.date


class Gate(Settings):
    """The whole of `[tool.dpaudit]`."""

    targets: dict[Name, Target] = {}
    ledgers: dict[Name, LedgerFile] = {}
    policy: Policy = Policy()
    audit: GateEffort = GateEffort()
    profile: Profiles = Profiles()
    waivers: list[Waiver] = []
