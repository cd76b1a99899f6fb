"""Q-learning under its command-line name: which form of it, and what may be set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpaudit.algorithms.data.trajectories import public_size
from dpaudit.algorithms.environments.line_world import RewardFunction, middle_rewards
from dpaudit.algorithms.q_learning.dp_q_learning import DPQLearning
from dpaudit.algorithms.q_learning.functional_calibration import FunctionalCalibration
from dpaudit.algorithms.q_learning.functional_q import FunctionalQLearning
from dpaudit.algorithms.q_learning.perturbed_q import Perturbed, PerturbedQLearning
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.errors import UsageError

QLearning = DPQLearning | FunctionalQLearning | PerturbedQLearning

#: Of each form, the parameters that it takes beside those of all.
_OWN: Mapping[str, frozenset[str]] = {
    "corrected": frozenset({"clip", "beta", "nodes"}),
    "published": frozenset({"sigma", "resets", "view", "k", "lipschitz_squared", "nodes"}),
    "noisy-rewards": frozenset(),
    "noisy-gradients": frozenset({"clip"}),
}
_COMMON = frozenset({"form", "epsilon", "delta", "updates", "batch", "step_size", "discount", "exploration"})

#: What may be set, each with a line of explanation.
PARAMETERS = {
    "form": "corrected (default), published, noisy-rewards or noisy-gradients",
    "epsilon": "of the claim; default 0.9",
    "delta": "of the claim; default 1e-4",
    "updates": "N; default 4",
    "batch": "B, steps between two updates; default 10",
    "step_size": "corrected: default 5; published: alpha, default 3e-4; others: default 0.5",
    "discount": "gamma; default 0.5",
    "exploration": "share of random actions at the beginning; default 1, published 0",
    "nodes": "how many states values are kept at (corrected, default 9) or shown at (published, 17)",
    "clip": "c, of each step's RKHS norm (corrected, default 0.05) or of each gradient (default 0.5)",
    "beta": "of the kernel, corrected; default 5",
    "sigma": "of the noise, published; default 0.32",
    "resets": "J, how many paths, published; default one for each update",
    "view": "published: raw (default, line 24), fresh or iterates",
    "k": "of Theorem 5, published; default 2.3",
    "lipschitz_squared": "L^2 of Theorem 5, published; default 16",
}


def prepared_dp_q_learning(
    path: Path | None, parameters: Mapping[str, Any]
) -> tuple[QLearning, RewardFunction]:
    """A form of the algorithm on the walk on [0, 1], and the rewards of that walk.

    Raises:
        UsageError: a data file, an unknown form, or a parameter that the form does not take.
        InvalidParameter: a number out of range.
    """
    if path is not None:
        raise UsageError(
            "dp-q-learning on a file",
            where="--data",
            why="its data are a reward function, asked wherever the agent goes",
            remedy="leave --data out, or call DPQLearning on a RewardFunction of your own from Python",
        )
    form = parameters.get("form", "corrected")
    if form not in _OWN:
        raise UsageError(f"form {form!r}", where="-P form", remedy=f"give one of {', '.join(_OWN)}")
    for name in parameters:
        if name not in _COMMON | _OWN[form]:
            raise UsageError(
                f"parameter {name!r} for form {form}",
                where=f"-P {name}",
                why="a parameter that does nothing would look like one that was honoured",
                remedy=f"leave it out; this form takes {', '.join(sorted(_COMMON | _OWN[form]))}",
            )
    guarantee = ApproxDP(epsilon=parameters.get("epsilon", 0.9), delta=parameters.get("delta", 1e-4))
    updates = public_size(parameters.get("updates", 4), "updates")
    batch = public_size(parameters.get("batch", 10), "batch")
    given = {name: value for name, value in parameters.items() if name not in _SHARED}
    return _made(form, guarantee, updates, batch, given), middle_rewards()


_SHARED = frozenset({"form", "epsilon", "delta", "updates", "batch"})


def _made(form: str, guarantee: ApproxDP, updates: int, batch: int, given: dict[str, Any]) -> QLearning:
    if form == "corrected":
        return DPQLearning(guarantee, updates=updates, batch=batch, **{"nodes": 9, **given})
    if form == "published":
        of_noise = {"sigma", "step_size", "k", "lipschitz_squared"}
        calibration = FunctionalCalibration(
            guarantee,
            samples=updates * batch,
            batch=batch,
            **{name: value for name, value in given.items() if name in of_noise},
        )
        rest = {name: value for name, value in given.items() if name not in of_noise}
        return FunctionalQLearning(calibration, **rest)
    perturbed: Perturbed = "rewards" if form == "noisy-rewards" else "gradients"
    return PerturbedQLearning(perturbed, guarantee, updates * batch, batch, **given)
