"""In which processes a certified run was made, and what holds by that alone."""

from collections.abc import Iterable
from typing import Literal

from dpaudit.certificate.conditions import Code, Condition
from dpaudit.ledger.releases import Release
from dpaudit.models import Model


class Process(Model):
    """Where the algorithm ran.

    Attributes:
        kind: ``in-process``: where noise was drawn and the ledger written. ``worker``: in a process of its
            own. ``twin``: in one of its own, in lockstep with a second run on public stand-in data, whose
            requests were the questions and whose output is what is published.
        stand_in: where the twin's data came from.
    """

    kind: Literal["in-process", "worker", "twin"] = "in-process"
    stand_in: str | None = None

    def settles(self, condition: Condition) -> bool:
        """Whether a condition holds by the way in which the run was made."""
        by_twin = {Code.FIXED_SEQUENCE, Code.ONLY_THROUGH_LEDGER}
        return self.kind == "twin" and condition.code in by_twin

    def not_checked(self, releases: Iterable[Release]) -> Iterable[Condition]:
        """The conditions that are left on trust.

        `RECORDS_STOP_NOTHING` is among them however the run was made. Mapped rows do not exclude it: code
        before `map` can stop the run, and `map` can be slow.
        """
        stops = Condition(code=Code.RECORDS_STOP_NOTHING)
        match self.kind:
            case "in-process":
                return [Condition(code=Code.IN_PROCESS), stops]
            case "worker":
                return [stops, Condition(code=Code.HONEST_WORKER)]
            case "twin":
                public = Condition(code=Code.PUBLIC_STAND_IN, text=self.stand_in or "")
                sensitivities = [release.mechanism.declared_sensitivity for release in releases]
                mapped = all(one is not None and one.basis == "mapped" for one in sensitivities)
                own = Condition(code=Code.MAPPED_RECORDS if mapped else Code.OWN_RECORD)
                shared, honest = (Condition(code=c) for c in (Code.NOTHING_SHARED, Code.HONEST_WORKER))
                return [public, own, stops, shared, honest]


#: Of a run in the process that judges it.
IN_PROCESS = Process()
