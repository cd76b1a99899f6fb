"""Logged bandit feedback of a fashion shop, the small Open Bandit Dataset that the package obp brings along.

python examples/open_bandit.py rounds.csv
dpaudit certify dp-vapvi --data rounds.csv -P states=3 -P actions=34 -P horizon=1
dpaudit audit examples/open_bandit.py:learner

Each of 10 000 rounds is a recommendation to somebody: a place on the page (the state), a garment (the
action, chosen at random), clicked or not (the reward). The unit of privacy is a round; whose round it was
the data do not say, so that somebody with many rounds is protected for each, and not for all at once.

Needs ``pip install --no-deps obp``: its dependencies (torch, pandas, seaborn and others) are for what is
not used here. The file is read through the package's folder; none of its modules with heavy imports is
imported.

Saito, Y., Aihara, S., Matsutani, M. and Narita, Y. (2021). Open Bandit Dataset and Pipeline: Towards
Realistic and Reproducible Off-policy Evaluation. NeurIPS, Datasets and Benchmarks.
"""

from __future__ import annotations

import csv
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np

from dpaudit import ZCDP
from dpaudit.algorithms.dp_vapvi import DPVAPVI
from dpaudit.algorithms.linear_mdp import one_hot_features
from dpaudit.algorithms.loaders import write_csv
from dpaudit.algorithms.trajectories import TrajectoryData

#: Public: the page's places and the campaign's garments, from the data set's description.
PLACES, GARMENTS = 3, 34


#: What is certified and audited: which garment to show in which place.
learner = DPVAPVI(one_hot_features(PLACES, GARMENTS), 1, guarantee=ZCDP(rho=1.0))


def rounds() -> TrajectoryData:
    """The log of the uniformly random policy in the campaign for men, as episodes of one step."""
    try:
        log = files("obp") / "dataset" / "obd" / "random" / "men" / "men.csv"
    except ModuleNotFoundError:
        sys.exit("the data are in the package obp: pip install --no-deps obp")
    with log.open(encoding="utf-8", newline="") as lines:
        rows = [
            (int(row["position"]) - 1, int(row["item_id"]), float(row["click"]))
            for row in csv.DictReader(lines)
        ]
    place, garment, click = (np.array(column) for column in zip(*rows, strict=True))  # [n] each
    # Nothing follows a round: it ends where it began.
    return TrajectoryData(
        np.stack([place, place], axis=1),
        garment[:, None],
        click[:, None],
        n_states=PLACES,
        n_actions=GARMENTS,
    )


def main(path: Path) -> None:
    """Write what the command line takes."""
    data = rounds()
    write_csv(data, path)
    print(f"{len(data)} rounds, S={data.n_states} places, A={data.n_actions} garments, H={data.horizon}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
