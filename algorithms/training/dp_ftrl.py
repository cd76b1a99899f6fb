"""DP-FTRL: follow the regularised leader on noisy prefix sums of clipped gradients.

Algorithm 1 of Kairouz et al. (2021) without constraints: theta_{t+1} = theta_1 - eta s_t, where s_t is the
noisy sum of the first t gradients. Its noise is that of a tree, as published, or correlated by a banded
strategy (Choquette-Choo et al. 2023), which takes records in the same order in every epoch. Who takes part
when is public: nothing is sampled.

Kairouz, P. et al. (2021). Practical and Private (Deep) Learning Without Sampling or Shuffling. ICML.
Choquette-Choo, C. A. et al. (2023). (Amplified) Banded Matrix Factorization. NeurIPS.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.training.models import ABSENT, require_records
from dpaudit.algorithms.training.trainer import Trainer
from dpaudit.claims.claims import Claim
from dpaudit.claims.pairs import Pair
from dpaudit.claims.relations import Neighbouring
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array, MatrixMechanism, Toeplitz, TreeAggregation
from dpaudit.mechanisms.correlated.least_error import least_error_banded

Strategy: TypeAlias = Literal["banded", "tree", "independent"]


@dataclass(frozen=True, eq=False)
class DPFTRL(Trainer):
    """Training on batches in a public order: step t takes the records at places t, t + B, t + 2B, ...

    B is the number of batches of an epoch; `steps` is a multiple of it. A record takes part once an epoch.
    """

    batches: int = 10  # B
    records: int = 1000  # N, as it is publicly known: it fixes the group size N / B alone
    strategy: Strategy = "banded"
    bands: int = 8  # of the banded strategy, at most B

    name = "dp-ftrl"

    def __post_init__(self) -> None:
        super().__post_init__()
        public.require_word(self.strategy, "strategy", get_args(Strategy))
        for name in ("batches", "records", "bands"):
            public.public_size(getattr(self, name), name)
        if self.steps % self.batches:
            what, remedy = f"{self.steps} steps of {self.batches} batches", "give whole epochs"
            raise InvalidParameter(what, where="steps", remedy=remedy)
        if self.strategy == "banded" and self.bands > self.batches:
            what = f"{self.bands} bands for epochs of {self.batches} steps"
            why, remedy = "a record's steps would lie within reach of each other", "give at most one a batch"
            raise InvalidParameter(what, where="bands", why=why, remedy=remedy)
        if self.strategy == "tree" and self.steps != self.batches:
            what, remedy = f"{self.steps // self.batches} epochs of a tree", "train for one, or take `banded`"
            why = "its cost is known for one participation of each record"
            raise InvalidParameter(what, where="strategy", why=why, remedy=remedy)
        _ = self.mechanism  # found once, and not again by every run

    @property
    def claim(self) -> Claim:
        """(epsilon, delta)-DP with regard to blanking a record, which leaves the others in their places."""
        return Claim(self.guarantee, unit="record", neighbouring=Neighbouring.ZERO_OUT)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        bands = {"bands": self.bands} if self.strategy == "banded" else {}
        more = {"batches": self.batches, "records": self.records, "strategy": self.strategy}
        return {**super().parameters, **more, **bands}

    def __call__(self, data: Array, curator: Curator) -> Array:
        """Algorithm 1; the curator clips, adds up and adds the noise of each step in one call.

        Raises `DataError` (for the data's holder): records of another form than the model's.
        """
        records = require_records(data, self.model)
        group = self.records / self.batches
        tree = curator.stream(self.mechanism, "gradients", (self.model.size,), bound=self.bound)  # T

        first = theta = self.model.initial()  # theta_1
        for t in range(self.steps):  # For t = 1 to n:
            batch = records[t % self.batches :: self.batches]
            noisy = tree.add(self.gradients(theta, batch))  # T <- AddToTree(T, t, g_t); s_t <- GetSum(T, t)
            theta = self.stepped(first, noisy / group)  # theta_{t+1}
        return theta

    @cached_property
    def mechanism(self) -> MatrixMechanism | TreeAggregation:
        """Noise of standard deviation sigma C times what the strategy's columns take."""
        noise: dict[str, Any] = {"sigma": self.sigma * self.bound, "sensitivity": L2(self.bound)}
        noise["steps"] = self.steps
        if self.strategy == "tree":
            return TreeAggregation(**noise)
        rows = (
            least_error_banded(self.steps, self.bands)
            if self.strategy == "banded"
            else Toeplitz(coefficients=(1.0,))
        )
        epochs = self.steps // self.batches
        return MatrixMechanism(strategy=rows, participations=epochs, separation=self.batches, **noise)

    def worst_pairs(self) -> Sequence[Pair]:
        """Return pairs in which a record with the longest gradient is blanked, alone and among others."""
        blanked = []
        for pair in super().worst_pairs():
            blank = pair.data.copy()
            blank[-1] = 0.0
            blank[-1, -1] = ABSENT
            about = pair.description.replace("taken out", "blanked")
            blanked.append(Pair(pair.data, blank, about, unit=pair.unit))
        return blanked
