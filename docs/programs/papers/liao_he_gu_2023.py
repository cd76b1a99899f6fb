"""The section of docs/papers/papers.md on Liao, He and Gu (2023); `make_papers.py` writes the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from papers.common import premises, table

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.environments.linear_mixture import one_hot_mixture, random_linear_mixture
from dpaudit.algorithms.environments.riverswim import figure_river
from dpaudit.algorithms.noise_calibration import sufficient_sigma
from dpaudit.algorithms.papers.liao_he_gu_2023.ldp_ucrl_vtr import (
    LDPUCRLVTR,
    MixtureCalibrationName,
    message_sensitivity,
    published_sigma,
)
from dpaudit.algorithms.papers.liao_he_gu_2023.value_targeted import MixtureModel
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Audit, Proof, leading_figure
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.running import run

CLAIMED = ApproxDP(epsilon=1.0, delta=1e-5)
HORIZON = 10

HEAD = f"""\
## Liao, He and Gu, Locally Differentially Private RL for Linear Mixture MDPs (ACML 2023)

LDP-UCRL-VTR, Algorithm 1, {CLAIMED}. Unit a user, replace-one, local trust: the ledger describes one user.

- **sigma**: the noise on every number that a user sends, and over the least that is enough for the
  sensitivity that the features have, with values from 0 to what can still be earned.
- **proof**: the verdict, and the total epsilon proved at the claim's delta from the ledger as it stands.
  Where a premise fails, that is what would hold if it did not.
- **replay**: on the algorithm's own worst pairs, outputs at the ends of the noise included; how far releases
  move over what the ledger declares.

`as-published` is the paper's noise and its argument; `experiment` the same noise with the sensitivity 1 that
section 6.2 states for one-hot features; `published-noise` the same noise with the sensitivity that the
features have; `exact` as much noise as that needs. The mixture has H={HORIZON} and features of norm 1, as
(3.1) asks; the river is that of section 6, S=3, H=6, rewards divided by H.
"""


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    name: str
    algorithm: LDPUCRLVTR


def cases() -> Iterator[Case]:
    """Every calibration on features that fit its premise, and those that the paper runs it on."""
    mixture = random_linear_mixture(3, 2, HORIZON, 4, seed=0)
    rewards = mixture.rewards / mixture.rewards.max()
    river = figure_river("homogeneous", 3)
    one_hot = MixtureModel(one_hot_mixture(river).features, river.rewards)

    def case(name: str, model: MixtureModel, calibration: MixtureCalibrationName) -> Case:
        mdp = river if model is one_hot else mixture
        return Case(f"{calibration}, {name}", LDPUCRLVTR(model, CLAIMED, calibration, mdp=mdp))

    for clip, words in ((True, "values clipped"), (False, "values not clipped below, as printed")):
        model = MixtureModel(mixture.features, rewards, clip_below=clip)
        yield case(f"mixture, {words}", model, "as-published")
    yield case("mixture, values clipped", MixtureModel(mixture.features, rewards), "exact")
    for calibration in ("as-published", "experiment", "published-noise", "exact"):
        yield case("one-hot, values clipped", one_hot, calibration)


def section() -> str:
    """The section, as Markdown."""
    columns = ("form", "premises", "releases", "sigma", "over the least", "proof", "replay")
    return f"{HEAD}\n{table(columns, map(row, cases()))}\n\n{_noise_needed()}"


def row(case: Case) -> list[str]:
    """The tool's results on one case."""
    algorithm = case.algorithm
    accounting = account(run(algorithm, algorithm.worst_pairs()[0].data, seed=0).ledger)
    audit = replay(algorithm, algorithm.worst_pairs(), claim=algorithm.claim, seed=0, replays=3)
    least = sufficient_sigma(CLAIMED, algorithm.noise.sensitivity)
    proved = sum(release.verdict is Proof.PROVED for release in accounting.releases)
    total = leading_figure(accounting.bounds[0].guarantee)
    return [
        case.name,
        premises(algorithm.claim),
        f"{proved} of {len(accounting.releases)} proved",
        f"{algorithm.noise.sigma:.4g}",
        f"{algorithm.noise.sigma / least:.4g}",
        f"{accounting.verdict}, epsilon={total:.4g}",
        _replayed(audit),
    ]


def _replayed(audit: Audit) -> str:
    found = [
        f"{finding.label} {_times(finding.measured / finding.declared)}"
        for finding in audit.findings
        if finding.measured and finding.declared
    ]
    return f"{audit.verdict}: {', '.join(found)}" if found else str(audit.verdict)


def _times(ratio: float) -> str:
    # Without a clip the ratio depends on the noise: only that it is enormous is the same on every machine.
    return "without bound" if ratio > 1e9 else f"{ratio:.4g} times"


def _noise_needed() -> str:
    up_to_horizon = message_sensitivity(1.0, [float(HORIZON)] * HORIZON, opposed=True)
    clipped = message_sensitivity(1.0, [float(left) for left in range(HORIZON)], opposed=True)
    published = published_sigma(CLAIMED, HORIZON)
    enough = [sufficient_sigma(CLAIMED, sensitivity) for sensitivity in (up_to_horizon, clipped)]
    return (
        f"For any features of norm 1 and H={HORIZON}: sigma is {published:.1f} as published; {enough[0]:.1f} "
        f"is enough for values up to H, {published / enough[0]:.4g} times less, and {enough[1]:.1f} for "
        "values up to H - h. At a large epsilon it turns round: the published noise falls as "
        f"1/epsilon, what is needed as 1/sqrt(epsilon). {_large()}"
    )


def _large() -> str:
    """The one-hot river at a budget where the published noise is too little."""
    river = figure_river("homogeneous", 3)
    model = MixtureModel(one_hot_mixture(river).features, river.rewards)
    wide = LDPUCRLVTR(model, ApproxDP(epsilon=1000.0, delta=0.1), "published-noise", mdp=river)
    accounting = account(run(wide, wide.worst_pairs()[0].data, seed=0).ledger)
    total = leading_figure(accounting.bounds[0].guarantee)
    return (
        f"With one-hot features on the river, {wide.guarantee} is {accounting.verdict}: epsilon={total:.4g}."
    )
