"""The algorithms that come with dpaudit, by their command-line names, and those that packages add.

Each one is imported when it is used: a run of one does not wait for what only the others need.
"""

from typing import Final

from dpaudit.algorithms.form import Builtin
from dpaudit.registry import Registry

_PLACES: Final = {
    "dp-apvi": "papers.qiao_wang_2023.entries:DP_APVI",
    "dp-vapvi": "papers.qiao_wang_2023.entries:DP_VAPVI",
    "dp-lsw": "papers.balle_gomrokchi_precup_2016.entries:DP_LSW",
    "dp-lsl": "papers.balle_gomrokchi_precup_2016.entries:DP_LSL",
    "ldp-ucrl-vtr": "papers.liao_he_gu_2023.entries:LDP_UCRL_VTR",
    "private-lsvi-ucb": "papers.ngo_vietri_wu_2022.entries:PRIVATE_LSVI_UCB",
    "dp-q-learning": "papers.wang_hegde_2019.entries:DP_Q_LEARNING",
    "dp-ucbvi": "papers.qiao_wang_2024.entries:DP_UCBVI",
    "dp-policy-gradient": "papers.he_zhou_2025.entries:DP_POLICY_GRADIENT",
    "dp-sgd": "training.entries:DP_SGD",
    "dp-ftrl": "training.entries:DP_FTRL",
}


CATALOGUE: Registry[Builtin] = Registry(
    "algorithms", Builtin, {name: f"dpaudit.algorithms.{place}" for name, place in _PLACES.items()}
)
