"""Every auditor on every mechanism of a zoo: which claims are refuted, with which bounds, at what cost.

All bounds of a table hold together with its confidence: the error is split evenly over its audits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpaudit.auditors.replay.replay import replay
from dpaudit.auditors.sampling.curatorless import Plain
from dpaudit.auditors.sampling.trials import run_trials
from dpaudit.auditors.statistics.clopper_pearson import require_fraction
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.sequential import sequential
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.auditors.zoo.zoo import ZOO, Specimen
from dpaudit.certificate.verdicts import Audit, Experiment


@dataclass(frozen=True)
class ZooRow:
    """One mechanism, audited by every method that applies to it.

    Attributes:
        audits: threshold and sequential on the same trials, and replay where the mechanism draws its noise
            from a curator.
        trials: runs on each side.
        seconds: for all audits.
    """

    name: str
    specimen: Specimen
    audits: tuple[Audit, ...]
    trials: int
    seconds: float

    @property
    def refuted(self) -> bool:
        """Whether any auditor refutes the claim."""
        return any(audit.verdict is Experiment.REFUTED for audit in self.audits)

    @property
    def right(self) -> bool:
        """Whether it is refuted if the claim is false on the pair, and only then."""
        return self.refuted is not self.specimen.innocent

    def epsilon_lower(self, method: str) -> float | None:
        """The bound by one method; None where it was not used."""
        return next((audit.epsilon_lower for audit in self.audits if audit.method == method), None)


def zoo_rows(
    zoo: Mapping[str, Specimen] = ZOO, *, trials: int, seed: int = 0, confidence: float = 0.95
) -> Iterator[ZooRow]:
    """Audit every mechanism of a zoo, one row after the other.

    A mechanism that is slow to run gets fewer trials a side; all audits use the one root seed, and all bounds
    and verdicts of the table hold together with the confidence.

    Raises:
        InvalidParameter: no trials, a negative seed, or a confidence outside (0, 1).
    """
    require_fraction("confidence", confidence)
    audits = sum(2 if isinstance(specimen.algorithm, Plain) else 3 for specimen in zoo.values())
    return _rows(zoo, trials, seed, 1 - (1 - confidence) / audits)


def _rows(zoo: Mapping[str, Specimen], trials: int, seed: int, confidence: float) -> Iterator[ZooRow]:
    for name, specimen in zoo.items():
        began = time.perf_counter()
        count = min(trials, specimen.most_trials or trials)
        drawn = run_trials(specimen.algorithm, specimen.pair, count, seed=seed, score=specimen.score)
        samples = Samples(drawn.data, drawn.neighbour, seed)
        audits = [
            audit(samples, claim=specimen.claim, confidence=confidence) for audit in (threshold, sequential)
        ]
        if not isinstance(specimen.algorithm, Plain):
            audits.append(replay(specimen.algorithm, [specimen.pair], seed=seed, confidence=confidence))
        yield ZooRow(name, specimen, tuple(audits), count, time.perf_counter() - began)
