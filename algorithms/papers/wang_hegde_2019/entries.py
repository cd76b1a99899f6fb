"""Q-learning with functional noise as the catalogue has it: its forms and their parameters."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, no_file, size, words
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.errors import UsageError

_PUBLISHED = frozenset({"sigma", "resets", "view", "k", "lipschitz_squared", "nodes"})
#: The parameters that each form of Q-learning takes beside those of all.
_Q_FORMS: Mapping[str, frozenset[str]] = {
    "corrected": frozenset({"clip", "beta", "nodes"}),
    "as-printed": _PUBLISHED,
    "as-coded": _PUBLISHED,
    "noisy-rewards": frozenset(),
    "noisy-gradients": frozenset({"clip"}),
}
_Q_COMMON = frozenset({"epsilon", "delta", "updates", "batch", "step_size", "discount", "exploration"})


def _q_learning(values: Values) -> Prepared:
    from dpaudit.algorithms.environments.line_world import middle_rewards
    from dpaudit.algorithms.papers.wang_hegde_2019.dp_q_learning import DPQLearning
    from dpaudit.algorithms.papers.wang_hegde_2019.functional_q import (
        CodedCalibration,
        CodedQLearning,
        FunctionalCalibration,
        FunctionalQLearning,
    )
    from dpaudit.algorithms.papers.wang_hegde_2019.perturbed_q import PerturbedQLearning

    form = values.pop("form")
    taken = _Q_COMMON | _Q_FORMS[form]
    for name in values:
        if name not in taken:
            why = "a parameter that has no effect would look as if it had been used"
            remedy = f"leave it out; this form takes {', '.join(sorted(taken))}"
            what = f"parameter {name!r} for form {form}"
            raise UsageError(what, where=f"-P {name}", why=why, remedy=remedy)
    guarantee = ApproxDP(epsilon=values.pop("epsilon"), delta=values.pop("delta"))
    updates, batch = (public_size(values.pop(name), name) for name in ("updates", "batch"))
    algorithm: DPQLearning | FunctionalQLearning | PerturbedQLearning
    if form == "corrected":
        algorithm = DPQLearning(guarantee, updates=updates, batch=batch, **{"nodes": 9, **values})
    elif form.startswith("as-"):
        names = values.keys() & {"sigma", "step_size", "k", "lipschitz_squared"}
        noise = {"batch": batch, **{name: values.pop(name) for name in names}}
        if form == "as-printed":
            calibration = FunctionalCalibration(guarantee, samples=updates * batch, **noise)
            algorithm = FunctionalQLearning(calibration, **values)
        else:
            coded = CodedCalibration(guarantee, samples=updates + batch - 1, **noise)
            algorithm = CodedQLearning(coded, **values)
    else:
        perturbed: Any = form.removeprefix("noisy-")
        algorithm = PerturbedQLearning(perturbed, guarantee, updates + batch - 1, batch, **values)
    return algorithm, middle_rewards()


DP_Q_LEARNING = Builtin(
    summary="Q-learning with functional noise on [0, 1] (Wang and Hegde 2019), corrected or as published",
    takes={
        "form": words("which algorithm", *_Q_FORMS),
        "epsilon": Parameter("epsilon of the claim", 0.9),
        "delta": Parameter("delta of the claim", 1e-4),
        "updates": size("N", 4),
        "batch": size("B, steps between two updates; as-coded and noisy: transitions of one update", 10),
        "step_size": Parameter("corrected: default 5; as-printed: alpha, default 3e-4; others: default 0.01"),
        "discount": Parameter("gamma; corrected: default 0.5; others: default 0.999"),
        "exploration": Parameter(
            "share of random actions at the beginning; corrected: default 1; as-printed: 0; others: 0.9"
        ),
        "nodes": size("states at which values are kept (corrected, default 9) or shown (as-..., 17)"),
        "clip": Parameter("c, of each step's RKHS norm (corrected, default 0.05) or of each gradient (0.5)"),
        "beta": Parameter("beta of the kernel, corrected; default 5"),
        "sigma": Parameter("sigma of the noise, as-...; default 0.32"),
        "resets": size("J, how many paths, as-...; default one for each update, as-coded for each episode"),
        "view": Parameter("as-...: raw (default, line 24), fresh or iterates", kind="text"),
        "k": Parameter("k of Theorem 5, as-...; default 2.3"),
        "lipschitz_squared": Parameter("L^2 of Theorem 5, as-...; default 16"),
    },
    built_in=_q_learning,
    own=partial(
        no_file,
        "its data are a reward function, which answers wherever the agent goes",
        "DPQLearning on a RewardFunction",
    ),
)
