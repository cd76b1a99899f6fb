"""Logged bandit feedback of a fashion shop, the small Open Bandit Dataset that comes with the package obp.

python examples/open_bandit.py rounds.csv
dpaudit certify dp-vapvi --data rounds.csv -P states=3 -P actions=34 -P horizon=1
dpaudit audit examples/open_bandit.py:learner

Each of 10 000 rounds is a recommendation to one person: a place on the page (the state), a garment (the
action, chosen at random), clicked or not (the reward). The unit of privacy is a round. The data do not say
whose round it was, so somebody with many rounds is protected for each, and not for all at once.

Needs the extra ``examples``: obp 0.4.0, the last release that does not need torch. Its own
`OpenBanditDataset` reads the log.

Saito, Y., Aihara, S., Matsutani, M. and Narita, Y. (2021). Open Bandit Dataset and Pipeline: Towards
Realistic and Reproducible Off-policy Evaluation. NeurIPS, Datasets and Benchmarks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from dpaudit import ZCDP
from dpaudit.algorithms.data.loaders import write_csv
from dpaudit.algorithms.data.trajectories import TrajectoryData
from dpaudit.algorithms.environments.linear_mdp import one_hot_features
from dpaudit.algorithms.offline.dp_vapvi import DPVAPVI

#: Public: the page's places and the campaign's garments, from the data set's description.
PLACES, GARMENTS = 3, 34


#: What is certified and audited: which garment to show in which place.
learner = DPVAPVI(one_hot_features(PLACES, GARMENTS), 1, guarantee=ZCDP(rho=1.0))


def rounds() -> TrajectoryData:
    """The log of the uniformly random policy in the campaign for men, as episodes of one step."""
    try:
        import obp
        from obp.dataset import OpenBanditDataset
    except ImportError:
        sys.exit('the data are in the package obp: pip install "dpaudit[examples]"')

    class Rounds(OpenBanditDataset):  # type: ignore[misc]  # obp has no types
        def pre_process(self) -> None:
            """Leave users' and garments' features out; the class offers this method to be overridden."""

    # obp's own default path; given explicitly, obp does not announce a download that it does not make.
    inside = Path(obp.__file__).parent / "dataset" / "obd"
    log = Rounds(behavior_policy="random", campaign="men", data_path=inside)
    place, garment, click = log.position, log.action, log.reward  # [n] each
    # Nothing follows a round: it ends where it began.
    return TrajectoryData(
        np.stack([place, place], axis=1),
        garment[:, None],
        click[:, None].astype(np.float64),
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
