"""Ngo, Vietri and Wu (2022): Private LSVI-UCB for linear processes."""

FIGURES = {
    "ngo-vietri-wu-2022-regret": "regret and updates under joint privacy; not in the paper",
}
EARLIER = {"004-regret": "ngo-vietri-wu-2022-regret"}
