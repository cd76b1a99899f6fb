"""The section of docs/papers/papers.md on Ngo, Vietri and Wu (2022); `make_papers.py` writes the page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from papers.common import premises, ratios, releases, table

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.environments.linear_mdp import random_linear_mdp
from dpaudit.algorithms.environments.online_users import online_users
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.lsvi import LinearModel, ValueRange
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.private_lsvi_ucb import (
    Counted,
    LSVICalibrationName,
    LSVIConstants,
    PrivateLSVIUCB,
)
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Audit, leading_figure
from dpaudit.claims.claims import Claim
from dpaudit.claims.guarantees import ZCDP, AnyGuarantee, ApproxDP
from dpaudit.claims.sensitivity import L2
from dpaudit.curator.curator import Curator
from dpaudit.curator.running import run
from dpaudit.mechanisms import Gaussian

USERS, DIMENSION = 1000, 5
HORIZONS = (2, 5, 10)

HEAD = f"""\
## Ngo, Vietri and Wu, Improved Regret for Differentially Private Exploration in Linear MDP (ICML 2022)

Private LSVI-UCB, Algorithm 1, rho = 1, K={USERS}, d={DIMENSION}, p=0.05. Unit a user, replace-one, joint
trust: other users see the policies that the releases make, and the claim covers the releases.

- **updates**: the most that the counter allows. It counts `episodes` with an update, as Theorem 11 and the
  privacy analysis have it, or `steps`, incremented inside the loop over h as line 15 is printed.
- **y-releases**: what they cost over their half of the budget; in brackets N_max updates.
- **releases**: how many do not meet their own share, and by which factor at most.
- **proof**: the verdict, and the total rho proved. Where a premise fails, that is what would hold if it did
  not.
- **replay**: on the algorithm's own worst pair, K=4, two updates at fixed times, so that both follow the
  changed user; how far releases move at most over what the ledger declares.

`as-published` noise on y has variance 6 H^2 N_max/rho; `sound` as much as the updates need, for values in
[0, H] (`horizon`) or in [0, H-h+1] (`to-go`).
"""


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    calibration: LSVICalibrationName
    counted: Counted
    horizon: int
    values: ValueRange

    def algorithm(self, users: int, fixed_updates: int | None = None) -> PrivateLSVIUCB:
        """The algorithm on a small random process."""
        process = random_linear_mdp(4, 3, self.horizon, DIMENSION, seed=0)
        return PrivateLSVIUCB(
            LinearModel(process.features, self.horizon, self.values),
            users,
            calibration=self.calibration,
            counted=self.counted,
            constants=LSVIConstants(bonus=1e-4),
            fixed_updates=fixed_updates,
            mdp=process,
        )


def cases() -> Iterator[Case]:
    """Both readings of the counter as published, without the lower clip, and sound noise."""
    for horizon in HORIZONS:
        yield Case("as-published", "episodes", horizon, "horizon")
        yield Case("as-published", "steps", horizon, "horizon")
    yield Case("as-published", "steps", 5, "unclipped")
    yield Case("sound", "episodes", 5, "horizon")
    yield Case("sound", "episodes", 5, "to-go")


def section() -> str:
    """The section, as Markdown."""
    columns = ("form", "updates", "premises", "y-releases", "releases", "proof", "replay")
    return f"{HEAD}\n{table(columns, map(row, cases()))}\n\n{_lemma_15()}\n\n{_conversion()}"


def row(case: Case) -> list[str]:
    """The tool's results on one case."""
    algorithm = case.algorithm(USERS)
    accounting = account(_ledger(algorithm))
    total = leading_figure(accounting.bounds[0].guarantee)
    noise = algorithm.noise
    targets = _targets(algorithm) / (algorithm.guarantee.rho / 2)
    audited = case.algorithm(4, fixed_updates=2)
    audit = replay(audited, audited.worst_pairs(), claim=audited.claim, seed=0, replays=3)
    return [
        f"{case.calibration}, {case.counted}, H={case.horizon}, {case.values}",
        f"{noise.updates}, N_max={noise.most_counted:.4g}",
        premises(algorithm.claim),
        f"{targets:.4g} ({targets * noise.most_counted / noise.updates:.4g})",
        releases(accounting),
        f"{accounting.verdict}, rho={total:.4g}",
        _replayed(audit),
    ]


def _ledger(algorithm: PrivateLSVIUCB) -> Any:
    mdp = algorithm.mdp
    if mdp is None:
        raise ValueError("no process")
    return run(algorithm, online_users(mdp, 2, seed=0), seed=0).ledger


def _targets(algorithm: PrivateLSVIUCB) -> float:
    """What the tool proves of the y-releases alone."""

    def alone(data: None, curator: Curator) -> None:
        del data
        for mechanism in algorithm.noise.targets * algorithm.noise.updates:
            curator.release([0.0] * DIMENSION, mechanism, label="y")

    return leading_figure(account(run(alone, None, seed=0).ledger).bounds[0].guarantee)


def _replayed(audit: Audit) -> str:
    past = ratios(audit)
    if not past:
        return str(audit.verdict)
    # Without a clip the ratio depends on the noise: only that it is enormous is the same on every machine.
    words = "without bound" if max(past) > 1e6 else f"up to {max(past):.4g} times"
    labels = sorted({str(f.label) for f in audit.findings})
    return f"{audit.verdict}: {', '.join(labels)} {words}"


def _judged(guarantee: AnyGuarantee, sensitivities: list[float], variance: float) -> str:
    """The verdict on Gaussian releases of one variance, and what is proved of them."""

    def released(data: None, curator: Curator) -> None:
        del data
        for i, value in enumerate(sensitivities):
            mechanism = Gaussian(sigma=math.sqrt(variance), sensitivity=L2(value))
            curator.release(0.0, mechanism, label=f"f_{i + 1}")

    found = account(run(released, None, claim=Claim(guarantee), seed=0).ledger)
    return f"{found.verdict} with rho={leading_figure(found.bounds[0].guarantee):.4g}"


def _lemma_15() -> str:
    """The lemma's noise, Delta/rho for sensitivities that add up to Delta, held against the fold."""
    rho = 1.0
    words = []
    for values in ([1.0] * 4, [2.0] * 4, [4.0], [12.0] * 4):
        published, enough = sum(values) / rho, sum(value * value for value in values) / (2.0 * rho)
        words.append(
            f"{len(values)} of sensitivity {values[0]:g}: variance {published:g} is "
            f"{_judged(ZCDP(rho=rho), values, published)}, {enough:g} is "
            f"{_judged(ZCDP(rho=rho), values, enough)}"
        )
    return (
        "Lemma 15 has noise of variance Delta/rho for releases whose sensitivities D_i add up to Delta; what "
        f"is enough is sum D_i^2/(2 rho). At rho=1: {'; '.join(words)}. The lemma holds up to D_i = 2; "
        "targets move by up to 2H + 2."
    )


def _conversion() -> str:
    """Section 4.2's epsilon and Lemma 6's, judged on a sound ledger."""
    rho, delta = 0.1, 1e-5
    process = random_linear_mdp(4, 3, 3, 3, seed=0)
    algorithm = PrivateLSVIUCB(LinearModel(process.features, 3), USERS, ZCDP(rho=rho), mdp=process)
    ledger = _ledger(algorithm)
    root = math.sqrt(rho * math.log(1.0 / delta))
    words = []
    for source, epsilon in (("section 4.2", rho + root), ("Lemma 6", rho + 2.0 * root)):
        claim = algorithm.claim.model_copy(update={"guarantee": ApproxDP(epsilon=epsilon, delta=delta)})
        found = account(ledger, claim)
        words.append(f"{source} says epsilon = {epsilon:.6g}: {found.verdict}")
        least = leading_figure(found.bounds[0].guarantee)
    return (
        f"From rho = {rho:g} at delta = {delta:g}, {'; '.join(words)}. The exact curve of this ledger, whose "
        f"releases are all Gaussian, has {least:.6g}."
    )
