"""Write docs/papers/private-training.md: `python docs/programs/make_private_training.py [FILE] [--mnist FOLDER]`.

FILE keeps every run as it finishes, so that an interrupted call goes on where it stopped; left out, nothing is
kept. FOLDER holds the four files of MNIST, as `NAME.gz`; no package ships them, and without a folder that part
of the page stays as it is. Everything has fixed seeds.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from papers.common import table
from wrapping import wrapped

from dpaudit import L2, ApproxDP, Gaussian, Neighbouring, PoissonSampled, Proof, account, calibrate, run
from dpaudit.algorithms.figures.published_claims import estimate
from dpaudit.algorithms.training.datasets import digits
from dpaudit.algorithms.training.dp_ftrl import DPFTRL
from dpaudit.algorithms.training.dp_sgd import DPSGD
from dpaudit.algorithms.training.models import Network, Softmax
from dpaudit.mechanisms import Array

PAGE = Path(__file__).resolve().parents[1] / "papers" / "private-training.md"
BEGIN, END = "<!-- MNIST: written with --mnist -->", "<!-- end -->"
DELTA: Final = 1e-5
HIDDEN: Final = 16

HEAD = """\
# What private training loses

{example}

Each number is the share of test pictures that are recognised, with the 95% interval of its mean where there
are several runs. Noise was calibrated to the budget, and the ledger of every run was accounted for and found
PROVED. The step sizes of dp-sgd, its clipping norm and the regularisation of diffprivlib were chosen by a few
trials on training pictures that were held back; what these trials cost is not charged, as it is not in the
published results. Those of dp-ftrl were not tried, but set smaller where there is more noise.

- **without privacy**: scikit-learn's `LogisticRegression` and `MLPClassifier` (as many tanh units) on the
  same features.
- **softmax**, **network**: the two models of [the page on training](../walkthroughs/training.md), the network
  with {hidden} hidden units.
- **dp-sgd** is about adding or removing a record, **dp-ftrl** about blanking one.
- **diffprivlib**: two published algorithms of another library, with a delta of 0, which is the stronger
  claim: `LogisticRegression` (Chaudhuri, Monteleoni and Sarwate 2011; one class against the rest) and
  `GaussianNB` (Vaidya, Shafiq, Basu and Hong 2013).
"""

DIGITS = """
## The digits that scikit-learn ships

{trained:,} pictures of 8 by 8 to train on and {tested} to test with; delta = {delta:g}, {runs} runs.

{table}

No paper that reports private accuracy on these pictures is known to us. The rows of diffprivlib stand for
published algorithms at the same epsilon, and can be run again: both spend the budget on the ten classes one
by one, and their theorems are about pure differential privacy. That dp-sgd is better shows how far the
methods and their claims differ, and not that diffprivlib is at fault.
"""

PUBLISHED = """
## Beside what was published

The nearest published figures are on another data set. Abadi et al. (2016), section 5.2, report with their
DP-SGD on MNIST, 60,000 training pictures of 28 by 28, at delta = 1e-5: {published}; and {without:.1f}% without
privacy. That is forty times as many records as here, of which one then weighs less beside the same noise, on
larger pictures; their network has 1,000 rectified units behind a private projection to 60 principal
components. So the two tables do not tell which training is better; the loss to training without privacy is
{abadi} points there at epsilon = 8, and {ours} here. Later papers reach more on MNIST with features made for
pictures: convolutions with tanh units (Papernot et al. 2021) and scattering transforms (Tramer and Boneh
2021). The trainers that come with dpaudit have neither; `dpaudit.torch` takes such a model.
"""

MNIST = """
The same data, epsilon and delta with the trainers of dpaudit: delta = {delta:g}, one run each. Softmax regression sees
each picture {epochs:g} times, without any projection.

{table}

{verdict}
"""

FOOT = """
This page is made by `python docs/programs/make_private_training.py`, its second part with `--mnist FOLDER`.
"""

#: Test accuracy that Abadi et al. (2016), section 5.2, report on MNIST at delta = 1e-5, and without privacy.
ABADI: Final[Mapping[float, float]] = {0.5: 0.90, 2.0: 0.95, 8.0: 0.97}
ABADI_WITHOUT: Final = 0.983

#: SHA-256 of the four unpacked files of MNIST.
FILES: Final[Mapping[str, str]] = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


@dataclass(frozen=True)
class Plan:
    """How a data set is trained on: the budgets, and steps that see every picture equally often."""

    budgets: tuple[float, ...]
    runs: int
    rate: float
    steps: int
    bound: float
    rates: Mapping[str, tuple[float, ...]]  # learning rates at each budget


@dataclass(frozen=True)
class Pictures:
    """Records to train on and to test with: features, then the label."""

    trained: Array
    tested: Array

    @property
    def features(self) -> int:
        """The number of features."""
        return int(self.trained.shape[1]) - 1


PLANS: Final[Mapping[str, Plan]] = {
    "digits": Plan(
        budgets=(1.0, 3.0, 8.0),
        runs=10,
        rate=0.2,
        steps=50,
        bound=0.1,
        rates={
            "dp-sgd, softmax": (100.0, 200.0, 200.0),
            "dp-sgd, network": (30.0, 60.0, 100.0),
            "dp-ftrl, softmax": (50.0, 100.0, 200.0),
            "dp-ftrl, network": (15.0, 30.0, 100.0),
        },
    ),
    "mnist": Plan(
        budgets=(0.5, 2.0, 8.0),
        runs=1,
        rate=0.02,
        steps=250,
        bound=0.1,
        rates={"dp-sgd, softmax": (600.0, 1000.0, 1500.0)},
    ),
}


def trainer(plan: Plan, method: str, epsilon: float, data: Pictures) -> DPSGD | DPFTRL:
    """A trainer whose noise just meets the budget."""
    name, kind = method.split(", ")
    stated: dict[str, Any] = {
        "model": Softmax(data.features, 10) if kind == "softmax" else Network(data.features, 10, HIDDEN),
        "guarantee": ApproxDP(epsilon=epsilon, delta=DELTA),
        "sigma": multiplier(name, plan.rate, plan.steps, epsilon),
        "steps": plan.steps,
        "bound": plan.bound,
        "learning_rate": plan.rates[method][plan.budgets.index(epsilon)],
        "records": len(data.trained),
        "tested": data.tested,
    }
    return DPSGD(rate=plan.rate, **stated) if name == "dp-sgd" else DPFTRL(**epochs(plan.rate), **stated)


def epochs(rate: float) -> dict[str, Any]:
    """The batches of an epoch of DP-FTRL, of the size that they have on average in DP-SGD, and its bands."""
    batches = round(1.0 / rate)
    return {"batches": batches, "bands": min(batches, 8)}


@cache
def multiplier(name: str, rate: float, steps: int, epsilon: float) -> float:
    """The least noise multiplier that meets a budget."""
    target = ApproxDP(epsilon=epsilon, delta=DELTA)
    if name == "dp-sgd":
        sampled = PoissonSampled(rate=rate, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.0)))
        found: Any = calibrate(sampled, target, count=steps).mechanism
        return float(found.mechanism.sigma)
    noise = DPFTRL(Softmax(1, 2), target, 1.0, steps, **epochs(rate)).mechanism
    found = calibrate(noise, target, neighbouring=Neighbouring.ZERO_OUT).mechanism
    return float(found.sigma)


def scaled(rows: Array) -> Array:
    """Features of length 1 with a constant, as the models take them."""
    wide = np.column_stack([rows[:, :-1], np.ones(len(rows))])
    return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True))


def pixels(rows: Array) -> Array:
    """Features as they are."""
    return rows[:, :-1]


def other(method: str, epsilon: float, data: Pictures, seed: int) -> float:
    """Of scikit-learn's and diffprivlib's models."""
    from diffprivlib.models import GaussianNB
    from diffprivlib.models import LogisticRegression as Private
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    features = scaled
    if method == "diffprivlib, regression":
        model: Any = Private(epsilon=epsilon, data_norm=1.0, C=0.1, random_state=seed, max_iter=300)
    elif method == "diffprivlib, naive Bayes":
        model, features = GaussianNB(epsilon=epsilon, bounds=(0.0, 1.0), random_state=seed), pixels
    elif method == "without privacy, softmax":
        model = LogisticRegression(C=100.0, max_iter=200)
    else:
        chosen: Any = {"activation": "tanh", "learning_rate_init": 0.01, "max_iter": 400}
        model = MLPClassifier((HIDDEN,), random_state=seed, **chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a solver stopped at its last iteration
        model.fit(features(data.trained), data.trained[:, -1])
    return float(model.score(features(data.tested), data.tested[:, -1]))


def accuracy(name: str, method: str, epsilon: float, data: Pictures, seed: int) -> float:
    """Of one run on the test pictures; raises `RuntimeError` where its ledger does not prove the budget."""
    if not method.startswith("dp-"):
        return other(method, epsilon, data, seed)
    algorithm = trainer(PLANS[name], method, epsilon, data)
    made = run(algorithm, data.trained, seed=seed)
    if account(made.ledger).verdict is not Proof.PROVED:
        raise RuntimeError(f"{method} at epsilon = {epsilon:g} is not proved")
    return algorithm.utility(made.output)["accuracy on test records"]


def measured(name: str, methods: Sequence[str], data: Pictures, kept: Path | None) -> dict[Any, Array]:
    """The accuracies of all runs, by method and budget; each is kept as it finishes."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept and kept.exists() else []
    before = {tuple(key): value for key, value in map(json.loads, lines)}
    found: dict[Any, Array] = {}
    for method in methods:
        for epsilon in PLANS[name].budgets:
            runs = []
            for seed in range(PLANS[name].runs):
                key = (name, method, epsilon if "without" not in method else 0.0, seed)
                if key not in before:
                    before[key] = accuracy(name, method, epsilon, data, seed)
                    if kept:
                        with kept.open("a", encoding="utf-8") as file:
                            file.write(json.dumps([key, before[key]]) + "\n")
                runs.append(before[key])
            found[method, epsilon] = np.array(runs)
    return found


def shown(runs: Array) -> str:
    """A mean in per cent, with its interval where there are several runs that differ."""
    mean = estimate(runs)
    return f"{100 * mean.mean:.1f}" + (f" ± {100 * mean.half_width:.1f}" if np.ptp(runs) > 0.0 else "")


def rows_of(name: str, found: Mapping[Any, Array]) -> list[list[str]]:
    """A row for each method: its name, and a number for each budget."""
    methods = dict.fromkeys(method for method, _ in found)
    return [
        [method, *(shown(found[method, epsilon]) for epsilon in PLANS[name].budgets)] for method in methods
    ]


def columns_of(name: str) -> list[str]:
    """The heads of the columns."""
    return ["per cent right", *(f"epsilon = {epsilon:g}" for epsilon in PLANS[name].budgets)]


OTHERS = ("diffprivlib, regression", "diffprivlib, naive Bayes")
BASELINES = ("without privacy, softmax", "without privacy, network")


@cache
def built_in() -> Pictures:
    """The digits."""
    return Pictures(*digits())


def digits_part(found: Mapping[Any, Array]) -> str:
    """The section on the digits."""
    data = built_in()
    return DIGITS.format(
        trained=len(data.trained),
        tested=len(data.tested),
        delta=DELTA,
        runs=PLANS["digits"].runs,
        table=table(columns_of("digits"), rows_of("digits", found)),
    )


def published_part(found: Mapping[Any, Array]) -> str:
    """The section on published figures."""
    without, private = found["without privacy, softmax", 8.0], found["dp-sgd, softmax", 8.0]
    return PUBLISHED.format(
        published=", ".join(
            f"{100 * share:.0f}% at epsilon = {epsilon:g}" for epsilon, share in ABADI.items()
        ),
        without=100 * ABADI_WITHOUT,
        abadi=f"{100 * (ABADI_WITHOUT - ABADI[8.0]):.1f}",
        ours=f"{100 * (without.mean() - private.mean()):.1f}",
    )


def mnist(folder: Path) -> Pictures:
    """MNIST, with pixels shifted and scaled by the usual public numbers; raises `ValueError` for other files."""
    parts = []
    for name, digest in FILES.items():
        raw = gzip.decompress((folder / f"{name}.gz").read_bytes())
        if hashlib.sha256(raw).hexdigest() != digest:
            raise ValueError(f"{folder / name}.gz is not the file of MNIST")
        many = int.from_bytes(raw[4:8], "big")
        parts.append(np.frombuffer(raw, np.uint8, offset=16 if "images" in name else 8).reshape(many, -1))
    pictures = [(each / 255.0 - 0.1307) / 0.3081 for each in parts[::2]]
    trained, tested = (np.hstack(pair) for pair in zip(pictures, parts[1::2], strict=True))
    return Pictures(trained.astype(np.float64), tested.astype(np.float64))


def mnist_part(found: Mapping[Any, Array]) -> str:
    """The section on MNIST."""
    plan = PLANS["mnist"]
    published = [f"{100 * ABADI[epsilon]:.0f}" for epsilon in plan.budgets]
    best = [
        max(found[method, epsilon].mean() for method, _ in found if method.startswith("dp-"))
        for epsilon in plan.budgets
    ]
    gaps = [
        f"{100 * (ABADI[e] - mine):.1f} at epsilon = {e:g}"
        for e, mine in zip(plan.budgets, best, strict=True)
    ]
    return MNIST.format(
        delta=DELTA,
        table=table(columns_of("mnist"), [*rows_of("mnist", found), ["Abadi et al. 2016", *published]]),
        epochs=plan.rate * plan.steps,
        verdict=f"The published figure is higher by {', '.join(gaps)} points; less than 0 is lower.",
    )


def example(found: Mapping[Any, Array]) -> str:
    """The page's first sentence."""
    private, public = found["dp-sgd, softmax", 3.0], found["without privacy, softmax", 3.0]
    return (
        f"On the digits that scikit-learn ships, softmax regression trained by `dp-sgd` at (3, 1e-05)-DP "
        f"recognises {shown(private)}% of the test pictures; without privacy it is {shown(public)}%."
    )


def main() -> None:
    """Run what is not kept, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kept", nargs="?", type=Path)
    parser.add_argument("--mnist", type=Path)
    given = parser.parse_args()
    methods = [*BASELINES, *PLANS["digits"].rates, *OTHERS]
    found = measured("digits", methods, built_in(), given.kept)
    if given.mnist:
        data = mnist(given.mnist)
        second = mnist_part(measured("mnist", list(PLANS["mnist"].rates), data, given.kept))
    else:
        second = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    head = HEAD.format(example=example(found), hidden=HIDDEN)
    text = (
        f"{head}{digits_part(found)}{published_part(found)}\n{BEGIN}\n{second.strip(chr(10))}\n{END}\n{FOOT}"
    )
    PAGE.write_text(wrapped(text), encoding="utf-8")


if __name__ == "__main__":
    main()
