"""The section of docs/papers/papers.md on Qiao and Wang (2023); `make_papers.py` writes the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from papers.common import premises, releases, table

from dpaudit.accountants.accounting import account
from dpaudit.accountants.closed_forms.conversions import zcdp_epsilon
from dpaudit.accountants.closed_forms.gaussian import gaussian_epsilon
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.linear_mdp import HORIZON, appendix_f_features, one_hot_features
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI
from dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi import DPVAPVI
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Accounting, Audit, Experiment, leading_figure
from dpaudit.claims.guarantees import ZCDP, PureDP
from dpaudit.claims.pairs import Pair
from dpaudit.curator.noise import Entry, LiveNoise, NoiseSource, Question, Transcript
from dpaudit.curator.running import run
from dpaudit.ledger.ledger import Noise
from dpaudit.mechanisms import Array, Laplace, SymmetricGaussian, distance

DELTA = 1e-6

#: Statistics that no earlier noise enters: counts (Algorithm 1), Gram matrices (Algorithm 2, line 4).
OF_DATA_ALONE = ("n_sa", "n_sas", "Sigma_")
#: Records and runs of the check that the upper figure of a loss is reached.
MANY, RUNS = 100_000, 2

HEAD = f"""\
## Qiao and Wang, Offline Reinforcement Learning with Differential Privacy (NeurIPS 2023)

Unit a trajectory, replace-one, central trust.

- **releases**: how many releases do not meet their own share of the budget, and by which factor at most.
- **total**: the total proved over the budget claimed; slack is its inverse. In brackets where a premise of
  the claim fails: what it would be if the premise held.
- **replay**: the verdict on the algorithm's own worst pair, and the findings by kind: how many releases move
  by more than the ledger declares, and by which factor at most.
- **loss of the pair**, over the claim: how far the outputs on this one pair of data sets are apart, as rho
  (epsilon for Laplace noise); a movement of length m under noise sigma costs m^2/(2 sigma^2). The lower
  figure is exact for the statistics that depend on the data only (n_sa, n_sas, Sigma), and so no more than the
  whole loss. The upper one is the sum over all releases along the transcript that costs most - every
  value as large as it can be, every variance 1 - and so no less than the whole loss.
- **epsilon at delta = {DELTA:g}** of the pair, where replay refutes: both figures by the exact curve of the
  Gaussian with mu = sqrt(sum m^2/sigma^2). A lower figure above what the claim allows refutes the claim.
"""

COLUMNS = (
    "form",
    "premises",
    "releases",
    "total",
    "slack",
    "proof",
    "replay",
    "loss of the pair over the claim",
    f"epsilon at {DELTA:g}",
)


@dataclass(frozen=True)
class Case:
    """One line of a table: an algorithm in one of its forms, and data to account for it on."""

    name: str
    algorithm: Any
    data: TrajectoryData


class Forced:
    """Noise that makes every value as large as it can be and every variance 1."""

    description = Noise(source="live", seeded=True)

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def answer(self, question: Question) -> Array:
        """Larger regression targets on a large Gram matrix."""
        size, d = 1e9, self.dimension
        if isinstance(question.release.mechanism, SymmetricGaussian):
            return size * np.eye(d)
        answer = np.full(question.query.shape, 1e4 * size)
        if _names(question.release.label)[1:]:  # the matrix's diagonal, and its entries above
            answer[:d], answer[d : d * (d + 1) // 2] = size, 0.0
        return answer


def section() -> str:
    """The section, as Markdown."""
    return "\n\n".join(
        (
            HEAD.rstrip("\n"),
            "### DP-APVI (Algorithm 1): H=20, S=2, A=4",
            table(COLUMNS, map(row, dp_apvi_cases())),
            "### DP-VAPVI (Algorithm 2): H=20, one-hot features of S=2, A=4, or those of appendix F",
            "As published with raw features, not split, is the paper's own experiment.",
            table(COLUMNS, map(row, dp_vapvi_cases())),
            _among_many(),
        )
    )


def dp_apvi_cases() -> Iterator[Case]:
    """Both kinds of noise."""
    rewards = np.zeros((HORIZON, 2, 4))
    for guarantee, noise in ((ZCDP(rho=1.0), "Gaussian"), (PureDP(epsilon=1.0), "Laplace")):
        yield Case(f"{noise}, {guarantee}", DPAPVI(rewards, guarantee), _records(2, 4))


def dp_vapvi_cases() -> Iterator[Case]:
    """Both calibrations, split or not, on three feature maps."""
    features = {
        "one-hot": one_hot_features(2, 4),
        "normalised": appendix_f_features(),
        "raw": appendix_f_features(normalised=False),
    }
    for calibration in ("as-published", "sound"):
        for kind, phi in features.items():
            for split in (False, True):
                yield Case(
                    f"{calibration}, {kind}, {'split' if split else 'not split'}",
                    DPVAPVI(phi, HORIZON, ZCDP(rho=1.0), calibration=calibration, split=split),
                    _records(*phi.shape[:2]),
                )


def _records(n_states: int, n_actions: int) -> TrajectoryData:
    rng = np.random.default_rng(0)
    return TrajectoryData(
        rng.integers(0, n_states, (20, HORIZON + 1)),
        rng.integers(0, n_actions, (20, HORIZON)),
        rng.random((20, HORIZON)),
        n_states,
        n_actions,
    )


def row(case: Case) -> list[str]:
    """The tool's results on one case."""
    algorithm = case.algorithm
    accounting = account(run(algorithm, case.data, seed=0).ledger)
    audit = replay(
        algorithm, algorithm.worst_pairs(), claim=algorithm.claim, seed=0, replays=3, extreme_outputs=False
    )
    ratio, slack = _total(accounting)
    losses = [pair_loss(algorithm, pair) for pair in algorithm.worst_pairs()]
    low, high = (max(column) for column in zip(*losses, strict=True))
    return [
        case.name,
        premises(algorithm.claim),
        releases(accounting, kinds=True),
        ratio,
        slack,
        str(accounting.verdict),
        _audit(audit),
        _range(low, high),
        _epsilon(algorithm, audit, low, high),
    ]


def _total(accounting: Accounting) -> tuple[str, str]:
    claim = accounting.claim
    if claim is None:
        raise ValueError("no claim")
    ratio = leading_figure(accounting.bounds[0].guarantee) / leading_figure(claim.guarantee)
    words = f"{_figure(ratio)}", f"{_figure(1 / ratio)}"
    return words if all(p.holds for p in claim.premises) else (f"({words[0]})", f"({words[1]})")


def _audit(audit: Audit) -> str:
    words = str(audit.verdict)
    for kind in dict.fromkeys(finding.kind for finding in audit.findings):
        found = [finding for finding in audit.findings if finding.kind == kind]
        labels = {finding.label for finding in found}
        worst = max((f.measured or 0.0) / f.declared for f in found if f.declared)
        words += f": {kind} of {len(labels)} releases, up to {_figure(worst)} times what is declared"
    return words


def pair_loss(algorithm: Any, pair: Pair) -> tuple[float, float]:
    """Bounds on a pair's loss over the claimed figure: in rho, or for Laplace noise in epsilon."""
    budget = leading_figure(algorithm.claim.guarantee)
    least = sum(
        cost for name, cost in _costs(algorithm, pair, LiveNoise(0)) if name.startswith(OF_DATA_ALONE)
    )
    dimension = algorithm.features.shape[-1] if hasattr(algorithm, "features") else 0
    return least / budget, sum(cost for _, cost in _costs(algorithm, pair, Forced(dimension))) / budget


def _among_many() -> str:
    """What the worst pair loses in live runs, where many records resemble it."""
    raw, normalised = appendix_f_features(normalised=False), appendix_f_features()
    own = _live(DPVAPVI(raw, HORIZON, ZCDP(rho=1.0), calibration="as-published"))
    sound = _live(DPVAPVI(normalised, HORIZON, ZCDP(rho=1.0)))
    return (
        f"The upper figures against live noise: in each of {RUNS} runs on {MANY} records, copies of the pair's, the "
        f"transcript of the paper's own experiment costs {own} times the rho claimed, and that of sound noise on "
        f"normalised features, not split, {sound} times."
    )


def _live(algorithm: DPVAPVI) -> str:
    (pair,) = algorithm.worst_pairs()
    few, copies = pair.data, MANY // len(pair.data)
    columns = [np.tile(column, (copies, 1)) for column in (few.states, few.actions, few.rewards)]
    many = TrajectoryData(*columns, few.n_states, few.n_actions)
    among = Pair(many, many.replace(0, pair.neighbour[0]), pair.description, unit=0)
    sums = [sum(cost for _, cost in _costs(algorithm, among, LiveNoise(seed))) for seed in range(RUNS)]
    return f"{_figure(min(sums))} to {_figure(max(sums))}"


def _names(label: str) -> list[str]:
    """The statistics that a release holds: a matrix and vectors, where it holds several."""
    return label.split(", ")


def _costs(algorithm: Any, pair: Pair, noise: NoiseSource) -> list[tuple[str, float]]:
    """Each statistic and what it loses on the pair, both sides answered alike."""
    entries = _entries(algorithm, pair.data, noise)
    costs = []
    for entry, twin in zip(entries, _entries(algorithm, pair.neighbour, _Repeated(entries)), strict=True):
        mechanism: Any = entry.release.mechanism
        names, parts = _names(entry.release.label), [entry.query - twin.query]
        if names[1:]:
            d = algorithm.features.shape[-1]
            parts = np.split(parts[0], d * (d + 1) // 2 + d * np.arange(len(names) - 1))
        for name, part in zip(names, parts, strict=True):
            moved = distance(mechanism.norm, part)
            laplace = isinstance(mechanism, Laplace)
            costs.append(
                (name, moved / mechanism.scale if laplace else moved**2 / (2.0 * mechanism.sigma**2))
            )
    return costs


class _Repeated:
    """Every question answered as it was before."""

    description = Noise(source="live", seeded=True)

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.outputs = iter([entry.output for entry in entries])

    def answer(self, question: Question) -> Array:
        """The next output."""
        del question
        return next(self.outputs).copy()


def _entries(algorithm: Any, data: TrajectoryData, noise: NoiseSource) -> list[Entry]:
    transcript = Transcript()
    run(algorithm, data, noise=noise, transcript=transcript)
    return transcript.entries


def _range(low: float, high: float) -> str:
    exact = math.isclose(low, high, rel_tol=1e-9)
    return f"exactly {_figure(low)}" if exact else f"{_figure(low)} to {_figure(high)}"


def _epsilon(algorithm: Any, audit: Audit, low: float, high: float) -> str:
    if audit.verdict is not Experiment.REFUTED:
        return ""
    rho = algorithm.claim.guarantee.rho
    figures = [gaussian_epsilon(DELTA, math.sqrt(2.0 * rho * ratio)) for ratio in (low, high)]
    allowed = zcdp_epsilon(rho, DELTA)
    return f"{_figure(figures[0])} to {_figure(figures[1])}; the claim allows {_figure(allowed)}"


def _figure(number: float) -> str:
    return f"{number:.4g}"
