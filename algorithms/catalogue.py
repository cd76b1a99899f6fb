"""The algorithms that come with dpaudit, by their command-line names.

Each algorithm is imported when it is made: a run of one does not wait for what only the others need.
"""

from collections.abc import Mapping

from dpaudit.algorithms.form import Builtin
from dpaudit.algorithms.papers.balle_gomrokchi_precup_2016.entries import DP_LSL, DP_LSW
from dpaudit.algorithms.papers.he_zhou_2025.entries import DP_POLICY_GRADIENT
from dpaudit.algorithms.papers.liao_he_gu_2023.entries import LDP_UCRL_VTR
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.entries import PRIVATE_LSVI_UCB
from dpaudit.algorithms.papers.qiao_wang_2023.entries import DP_APVI, DP_VAPVI
from dpaudit.algorithms.papers.qiao_wang_2024.entries import DP_UCBVI
from dpaudit.algorithms.papers.wang_hegde_2019.entries import DP_Q_LEARNING
from dpaudit.algorithms.training.entries import DP_FTRL, DP_SGD

CATALOGUE: Mapping[str, Builtin] = {
    "dp-apvi": DP_APVI,
    "dp-vapvi": DP_VAPVI,
    "dp-lsw": DP_LSW,
    "dp-lsl": DP_LSL,
    "ldp-ucrl-vtr": LDP_UCRL_VTR,
    "private-lsvi-ucb": PRIVATE_LSVI_UCB,
    "dp-q-learning": DP_Q_LEARNING,
    "dp-ucbvi": DP_UCBVI,
    "dp-policy-gradient": DP_POLICY_GRADIENT,
    "dp-sgd": DP_SGD,
    "dp-ftrl": DP_FTRL,
}
