"""DP-SGD: stochastic gradient descent with clipped gradients and Gaussian noise.

Algorithm 1 of Abadi et al. (2016), and the same on samples of one size and on samples that are cut, as
programs draw them that need batches of a bounded size.

Abadi, M. et al. (2016). Deep Learning with Differential Privacy. CCS.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from dpaudit.algorithms import public_parameters as public
from dpaudit.algorithms.training.models import require_records
from dpaudit.algorithms.training.trainer import Trainer
from dpaudit.claims.pairs import Pair
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Array, FixedSizeSampled, Gaussian, PoissonSampled, TruncatedPoissonSampled

#: The entries of gradients that are in memory at once; in a batch of any size.
AT_ONCE = 2**22

Sampling: TypeAlias = Literal["poisson", "truncated", "fixed-size"]


@dataclass(frozen=True, eq=False)
class DPSGD(Trainer):
    """Algorithm 1, with a public number of records N that only fixes the group size L = rate N."""

    rate: float = 0.1  # L / N, with which each record is in a batch
    # N, as it is publicly known: of Poisson samples the data need not have so many, of truncated ones they
    # have no more, and of samples of one size no fewer
    records: int = 1000
    sampling: Sampling = "poisson"
    most: float = 1.25  # the largest batch over L, where samples are cut

    name = "dp-sgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        public.require_word(self.sampling, "sampling", get_args(Sampling))
        if not 0.0 < self.rate <= 1.0:
            raise InvalidParameter(f"rate = {self.rate!r}", where="rate", remedy="give a rate in (0, 1]")
        public.public_size(self.records, "records")
        if not 1.0 <= self.most < math.inf:
            raise InvalidParameter(
                f"most = {self.most!r}", where="most", remedy="give a number of at least 1"
            )

    @property
    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger's header."""
        cut = {"most": self.most} if self.sampling == "truncated" else {}
        more = {"rate": self.rate, "records": self.records, "sampling": self.sampling}
        return {**super().parameters, **more, **cut}

    def __call__(self, data: Array, curator: Curator) -> Array:
        """Algorithm 1; the curator draws each batch, clips, adds up and adds the noise.

        Raises `DataError` (for the data's holder): records of another form than the model's.
        """
        records = require_records(data, self.model)
        batches = curator.batches(self._mechanism(), "gradient", (self.model.size,), bound=self.bound)
        group = self.rate * self.records  # L
        together = max(1, AT_ONCE // self.model.size)

        theta = self.model.initial()  # Initialise theta_0.
        for _ in range(self.steps):  # For t in [T]:
            drawn = batches.draw(len(records))  # take a random sample L_t,
            for first in range(0, len(drawn), together):  # compute and clip gradients,
                batches.add(self.gradients(theta, records[drawn[first : first + together]]))
            theta = self.stepped(theta, batches.noisy() / group)  # add noise, and descend.
        return theta  # Output theta_T.

    def worst_pairs(self) -> Sequence[Pair]:
        """As of every trainer; with N other records where no data set may have fewer."""
        if self.sampling != "fixed-size":
            return super().worst_pairs()
        (_, many) = super().worst_pairs()
        others = many.neighbour[:1].repeat(self.records, axis=0)
        return (Pair(np.vstack([others, many.data[-1:]]), others, "one record more", unit=self.records),)

    def stand_in(self, users: int | None) -> Array:
        """Records of zeros: as many as a sample of one size needs, else two."""
        few = super().stand_in(users)
        return few[:1].repeat(self.records, axis=0) if self.sampling == "fixed-size" else few

    def _mechanism(self) -> PoissonSampled | TruncatedPoissonSampled | FixedSizeSampled:
        """The noise of one step, of standard deviation sigma C, on a sum over a sample."""
        # Where a record may stand in the place of another, the sum changes by both.
        change = self.bound if self.sampling == "poisson" else 2.0 * self.bound
        noise, group = (
            Gaussian(sigma=self.sigma * self.bound, sensitivity=L2(change)),
            self.rate * self.records,
        )
        match self.sampling:
            case "poisson":
                return PoissonSampled(rate=self.rate, mechanism=noise)
            case "truncated":
                most = math.ceil(self.most * group)
                return TruncatedPoissonSampled(
                    rate=self.rate, most=most, units=self.records, contribution=self.bound, mechanism=noise
                )
            case "fixed-size":
                return FixedSizeSampled(size=max(1, round(group)), units=self.records, mechanism=noise)
