"""A built-in algorithm: `dpaudit certify staircase-count -P epsilon=0.5`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit import L1, Claim, Curator, Neighbouring, Pair, PureDP
from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values
from staircase.mechanism import Staircase


@dataclass(frozen=True)
class StaircaseCount:
    """The number of rows with staircase noise.

    Args:
        epsilon: the budget of pure differential privacy.
    """

    epsilon: float = 1.0

    name = "staircase-count"

    @property
    def claim(self) -> Claim:
        """A row more or less moves the number of rows by 1."""
        return Claim(PureDP(epsilon=self.epsilon), unit="row", neighbouring=Neighbouring.ADD_OR_REMOVE_ONE)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {"epsilon": self.epsilon}

    def __call__(self, rows: Sequence[str], curator: Curator) -> float:
        """The noisy number of rows."""
        noise = Staircase(epsilon=self.epsilon, sensitivity=L1(1.0))
        return float(curator.release(len(rows), noise, label="count", claimed=PureDP(epsilon=self.epsilon)))

    def worst_pairs(self) -> Sequence[Pair]:
        """A row removed: the count moves by all that it can."""
        return (Pair(["a row", "another"], ["a row"], "a row removed", unit=1),)


def _example(values: Values) -> Prepared:
    return StaircaseCount(**values), ["a row"] * 100


def _own(path: Path, values: Values) -> Prepared:
    return StaircaseCount(**values), path.read_text(encoding="utf-8").splitlines()


STAIRCASE_COUNT = Builtin(
    summary="the number of rows with staircase noise",
    takes={"epsilon": Parameter("budget of pure differential privacy", 1.0)},
    built_in=_example,
    own=_own,
)
