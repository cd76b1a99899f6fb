"""A small course of treatment: four states of health, two actions, four visits.

States 0 critical, 1 ill, 2 recovering, 3 healthy; actions 0 wait, 1 treat. A visit earns the state's worth,
less a cost of treating. Treating moves a patient up one state with probability 0.8 (waiting: 0.1) and
otherwise leaves the patient there; a healthy patient relapses one state with probability 0.1
untreated and 0.5 treated.

The optimum is known: treat whoever is not healthy, except at the last visit, where treating only costs; wait
with the healthy.
"""

import numpy as np

from dpaudit.algorithms.environments.tabular import BuiltinData, TabularMDP, uniform_policy

WAIT, TREAT = 0, 1
HEALTHY = 3

_WORTH = np.array([0.05, 0.2, 0.5, 1.0])  # [S]
_COST_OF_TREATING = 0.05


def treatment_mdp(horizon: int = 4) -> TabularMDP:
    """The process described above, S = 4, A = 2."""
    kernel = np.zeros((4, 2, 4))
    for state in range(HEALTHY):
        for action, success in ((WAIT, 0.1), (TREAT, 0.8)):
            kernel[state, action, state + 1] = success
            kernel[state, action, state] = 1.0 - success
    for action, relapse in ((WAIT, 0.1), (TREAT, 0.5)):
        kernel[HEALTHY, action, HEALTHY - 1] = relapse
        kernel[HEALTHY, action, HEALTHY] = 1.0 - relapse
    rewards = np.stack([_WORTH, _WORTH - _COST_OF_TREATING], axis=1)  # [S, A]
    return TabularMDP.steady(kernel, rewards, np.array([0.3, 0.4, 0.2, 0.1]), horizon)


def treatment_data(n_trajectories: int = 20_000, *, seed: int = 20230611) -> BuiltinData:
    """Simulated patients, each treated or not by the toss of a coin; the same for the same seed."""
    mdp = treatment_mdp()
    data = mdp.sample_trajectories(n_trajectories, uniform_policy(mdp), np.random.default_rng(seed))
    return BuiltinData(data, mdp)
