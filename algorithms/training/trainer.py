"""What DP-SGD and DP-FTRL have in common: claim, parameters, worst pairs, and how good a model is."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.training.models import ABSENT, Model, require_records
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array

#: Parameters are kept within this of 0, so that no noise, however rare, makes a gradient that is no number.
RADIUS = 1e6


@dataclass(frozen=True, eq=False)
class Trainer:
    """A callable ``(records, curator) -> theta``, frozen with its public parameters."""

    model: Model
    guarantee: ApproxDP  # what is claimed of all steps together; the ledger shows whether sigma is enough
    sigma: float  # the noise's standard deviation over the clipping norm: the noise multiplier
    steps: int  # T
    bound: float = 1.0  # C, to which each gradient is clipped
    learning_rate: float = 1.0  # eta
    tested: Array | None = None  # public records, on which a model is measured

    def __post_init__(self) -> None:
        for name in ("sigma", "bound", "learning_rate"):
            public.require_positive(getattr(self, name), name)
        if public.public_size(self.steps, "steps") == 0:
            raise InvalidParameter("steps = 0", where="steps", remedy="give at least one step")
        if self.tested is not None:
            public.set_read_only(self, tested=require_records(self.tested, self.model))

    @property
    def claim(self) -> Claim:
        """(epsilon, delta)-DP of all noisy gradients together, and so of every model on the way."""
        return Claim(self.guarantee, unit="record", neighbouring=Neighbouring.ADD_OR_REMOVE_ONE)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        return {
            "model": f"{type(self.model).__name__} of {self.model.size} parameters",
            "sigma": self.sigma,
            "steps": self.steps,
            "C": self.bound,
            "eta": self.learning_rate,
        }

    def gradients(self, theta: Array, records: Array) -> Array:
        """The gradient of every record's loss, [n, p]; zeros for a blank one.

        Raises `InvalidParameter`: the model gives anything else.
        """
        present = records[:, -1] != ABSENT
        found = np.zeros((len(records), self.model.size))
        rows = np.asarray(self.model.gradients(theta, records[present]))
        if rows.shape != found[present].shape:
            what, remedy = "gradients that are not a row for each record", "give all rows, [n, p]"
            raise InvalidParameter(what, where="model.gradients", remedy=remedy)
        found[present] = rows
        return found

    def stepped(self, theta: Array, along: Array) -> Array:
        """theta - eta times a direction, kept within `RADIUS`."""
        return np.clip(theta - self.learning_rate * along, -RADIUS, RADIUS)

    @abstractmethod
    def __call__(self, data: Array, curator: Curator) -> Array:
        """The model that was learnt, [p]."""

    def utility(self, output: Array) -> dict[str, float]:
        """Accuracy and mean loss on the public test records; empty without them."""
        if self.tested is None:
            return {}
        right = self.model.predictions(output, self.tested) == self.tested[:, -1]
        losses = self.model.losses(output, self.tested)
        return {"accuracy on test records": float(right.mean()), "loss on test records": float(losses.mean())}

    def stand_in(self, users: int | None) -> Array:
        """Two records of zeros, which a twin may see."""
        del users
        return np.zeros((2, self.model.features + 1))

    def worst_pairs(self) -> Sequence[Pair]:
        """Return pairs in which a record with the longest gradient is removed, alone and among others."""
        width = self.model.features + 1
        others = np.zeros((8, width))
        others[:, 0] = 1.0
        odd = np.zeros((1, width))
        odd[0, 1 % self.model.features], odd[0, -1] = 1.0, self.model.classes - 1
        return (
            Pair(odd, odd[:0], "the only record, taken out", unit=0),
            Pair(np.vstack([others, odd]), others, "one of nine records, taken out", unit=8),
        )
