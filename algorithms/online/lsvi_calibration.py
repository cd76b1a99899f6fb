"""How much noise Private LSVI-UCB adds, and what it is believed to hide.

Let features have norm at most 1 and rewards lie in [0, 1].

**Gram matrices.** One user adds phi phi' at each of H steps; two of these are never opposed, so that
replacing the user moves all H of them by sqrt(2 H) at most in the Frobenius norm. The user sits in
L = floor(log2 K) + 1 nodes of the tree. Noise of variance 2 H L / rho on a node (half of it off the diagonal)
costs rho / 2.

**Targets.** One user adds phi (r + V) to y_h, V = V_{h+1} in [0, v_{h+1}]: replaced, it moves y_h by
2 (1 + v_{h+1}) at most. With values in [0, H] that is 2 H + 2, and 2 at the last step, which nothing
follows; with values in [0, H - h + 1] it is 2 (H - h + 1). An update releases all H targets. U updates with
noise of variance sigma^2 cost U sum_h Delta_h^2 / (2 sigma^2): ``sound`` noise makes this rho / 2,

    sigma^2 = U [(H - 1)(2 H + 2)^2 + 4] / rho,    or    (2/3) U H (H + 1)(2 H + 1) / rho,

and ``as-published`` noise has sigma^2 = 6 H^2 N_max / rho, by a lemma that adds sensitivities up where their
squares add (Lemma 15): its share of one target is rho / (2 N), N the number of targets that it thinks are
released.

**Updates.** N_max = d H / log 2 log(1 + K / (lambda d)) bounds what the counter counts, which begins at 1 and
must be below N_max for another update. In the analysis (Theorem 11) it counts ``episodes`` in which there is
an update, so that there are ceil(N_max) - 1 of them. As printed it is incremented inside the loop over h, in
line 15, and counts ``steps``: there are ceil((N_max - 1) / H).

Ngo, D., Vietri, G. and Wu, Z. S. (2022). Improved Regret for Differentially Private Exploration in Linear
MDP. ICML. Algorithm 1, Lemmas 14 and 15, section 4.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from dpaudit.algorithms.online.lsvi import ValueRange
from dpaudit.algorithms.public_parameters import public_size, require_positive, require_word
from dpaudit.claims.guarantees import ZCDP
from dpaudit.claims.sensitivity import L2, Frobenius
from dpaudit.errors import InvalidParameter
from dpaudit.mechanisms import Gaussian, TreeAggregation

LSVICalibrationName: TypeAlias = Literal["sound", "as-published"]
Counted: TypeAlias = Literal["episodes", "steps"]


def published_ridge(users: int, horizon: int, dimension: int, rho: float, p: float) -> float:
    """Line 2: lambda = log(K) (6 sqrt(d + 1) + 2 log(3 K H / p)) / sqrt(2 rho)."""
    size = 6.0 * math.sqrt(dimension + 1.0) + 2.0 * math.log(3.0 * users * horizon / p)
    return math.log(users) * size / math.sqrt(2.0 * rho)


def published_count(users: int, horizon: int, dimension: int, ridge: float) -> float:
    """Line 3: N_max = d H / log 2 log(1 + K / (lambda d))."""
    return dimension * horizon / math.log(2.0) * math.log1p(users / (ridge * dimension))


def published_bonus(users: int, horizon: int, dimension: int, rho: float, p: float) -> float:
    """Theorem 16 and appendix B.1: beta = 5 H^2 sqrt(d lambda log chi) + 6 d H sqrt(log chi)."""
    ridge = published_ridge(users, horizon, dimension, rho, p)
    count = published_count(users, horizon, dimension, ridge)
    noise = horizon * count * math.sqrt(math.log(3.0 * users * horizon / p) / rho)  # lambda_y
    weights = max(1.0, 2.0 * horizon * math.sqrt(dimension * users / ridge) + noise / ridge)  # U_K
    log_chi = math.log(25.0**4 * 162.0 * dimension * horizon / p) + 4.0 * math.log(users) + math.log(weights)
    return 5.0 * horizon**2 * math.sqrt(dimension * ridge * log_chi) + 6.0 * dimension * horizon * math.sqrt(
        log_chi
    )


@dataclass(frozen=True)
class LSVICalibration:
    """The noise of one run, and how many updates it is for.

    Attributes:
        name: which calibration.
        counted: what the counter counts.
        values: where values lie.
        rho: the whole budget.
        users: K, enough that an update is ever made.
        horizon: H.
        dimension: d.
        ridge: lambda, the paper's or another.
        fixed_updates: their number where it is fixed beforehand; left out, it follows from N_max.
    """

    name: LSVICalibrationName
    counted: Counted
    values: ValueRange
    rho: float
    users: int
    horizon: int
    dimension: int
    ridge: float
    fixed_updates: int | None = None

    def __post_init__(self) -> None:
        for where, word, known in (
            ("calibration", self.name, get_args(LSVICalibrationName)),
            ("counted", self.counted, get_args(Counted)),
            ("values", self.values, get_args(ValueRange)),
        ):
            require_word(word, where, known)
        for where, size in (("users", self.users), ("horizon", self.horizon), ("dimension", self.dimension)):
            public_size(size, where)
        require_positive(self.rho, "rho")
        require_positive(self.ridge, "ridge")
        if self.fixed_updates is not None:
            public_size(self.fixed_updates, "fixed_updates")
        if self.updates < 1:
            raise InvalidParameter(
                f"N_max = {self.most_counted:.6g}: no update would ever be made",
                where="users",
                remedy="serve more users, or take a smaller lambda",
            )

    @property
    def most_counted(self) -> float:
        """N_max; where updates are fixed beforehand, what it stands for."""
        if self.fixed_updates is not None:
            return float(self.fixed_updates)
        return published_count(self.users, self.horizon, self.dimension, self.ridge)

    @cached_property
    def updates(self) -> int:
        """U, the most updates there can be."""
        if self.fixed_updates is not None:
            return self.fixed_updates
        counted_each = self.horizon if self.counted == "steps" else 1
        return math.ceil((self.most_counted - 1.0) / counted_each)

    def target_sensitivity(self, step: int) -> float:
        """Delta_h: how far one user moves y_h, step from 0."""
        left = self.horizon - step - 1
        after = left if self.values == "to-go" or left == 0 else self.horizon
        return 2.0 * (1.0 + after)

    @cached_property
    def target_variance(self) -> float:
        """sigma_y^2."""
        if self.name == "as-published":
            return 6.0 * self.horizon**2 * self.most_counted / self.rho
        squares = math.fsum(self.target_sensitivity(step) ** 2 for step in range(self.horizon))
        return self.updates * squares / self.rho

    def target_share(self, step: int) -> ZCDP:
        """What y_h is said to cost, step from 0: as published its share of rho / 2, else what it costs."""
        if self.name == "sound":
            return ZCDP(rho=self.target_sensitivity(step) ** 2 / (2.0 * self.target_variance))
        counts_targets = self.counted == "steps" and self.fixed_updates is None
        return ZCDP(rho=self.rho / (2.0 * self.most_counted * (1 if counts_targets else self.horizon)))

    @cached_property
    def targets(self) -> tuple[Gaussian, ...]:
        """The mechanism of y_h for each step."""
        sigma = math.sqrt(self.target_variance)
        return tuple(
            Gaussian(sigma=sigma, sensitivity=L2(self.target_sensitivity(step), "proved"))
            for step in range(self.horizon)
        )

    @cached_property
    def gram(self) -> TreeAggregation:
        """The mechanism of all H streams of Gram matrices together."""
        sensitivity = math.nextafter(math.sqrt(2.0 * self.horizon), math.inf)  # never rounded down
        levels = self.users.bit_length()
        sigma = sensitivity * math.sqrt(levels / self.rho)
        return TreeAggregation(sigma=sigma, steps=self.users, sensitivity=Frobenius(sensitivity, "proved"))
