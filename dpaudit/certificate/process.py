"""The processes of a certified run, and the conditions that they settle."""

from collections.abc import Iterable
from typing import Literal

from dpaudit.certificate.conditions import Code, Condition
from dpaudit.ledger.releases import Release
from dpaudit.models import Model


class Process(Model):
    """The place of the algorithm's run.

    Attributes:
        kind: ``in-process``: in the process that drew the noise and wrote the ledger. ``worker``: in a
            separate process. ``twin``: in a separate process, in lockstep with a second run on public
            stand-in data; the second run's requests were the questions, and its output is published.
        stand_in: the source of the twin's data.
    """

    kind: Literal["in-process", "worker", "twin"] = "in-process"
    stand_in: str | None = None

    def settles(self, condition: Condition) -> bool:
        """Return whether the processes of the run guarantee a condition."""
        by_twin = {Code.FIXED_SEQUENCE, Code.ONLY_THROUGH_LEDGER}
        return self.kind == "twin" and condition.code in by_twin

    def not_checked(self, releases: Iterable[Release]) -> Iterable[Condition]:
        """The conditions that are left on trust.

        `RECORDS_STOP_NOTHING` is always among them, even for mapped rows: code before `map` can stop the run,
        and `map` can be slow.
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


#: The process of a run that is judged in the same process.
IN_PROCESS = Process()
