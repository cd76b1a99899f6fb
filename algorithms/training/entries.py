"""DP-SGD and DP-FTRL as the catalogue has them: parameters, built-in data, and how a file is read."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.algorithms.data.tables import read_table
from dpaudit.algorithms.form import Builtin, Parameter, Prepared, Values, own_size, size, words
from dpaudit.algorithms.public_parameters import public_size
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.mechanisms import Array


def _made(name: str, values: Values, sizes: tuple[int, int, int], tested: Array | None) -> Any:
    from dpaudit.algorithms.training.dp_ftrl import DPFTRL
    from dpaudit.algorithms.training.dp_sgd import DPSGD
    from dpaudit.algorithms.training.models import Model, Network, Softmax

    features, classes, records = sizes
    hidden = public_size(values["hidden"], "-P hidden")
    model: Model = Softmax(features, classes)
    if values["model"] == "network":
        model = Network(features, classes, hidden)
    stated: dict[str, Any] = {
        "guarantee": ApproxDP(epsilon=values["epsilon"], delta=values["delta"]),
        "sigma": values["sigma"],
        "steps": public_size(values["steps"], "-P steps"),
        "bound": values["C"],
        "learning_rate": values["eta"],
        "records": records,
        "tested": tested,
    }
    if name == "dp-sgd":
        more = {name: values[name] for name in ("rate", "sampling", "most")}
        return DPSGD(model, **stated, **more)
    more = {name: public_size(values[name], f"-P {name}") for name in ("batches", "bands")}
    return DPFTRL(model, **stated, **more, strategy=values["strategy"])


def _example(name: str, values: Values) -> Prepared:
    from dpaudit.algorithms.training.datasets import CLASSES, FEATURES, digits

    trained, tested = digits()
    return _made(name, values, (FEATURES, CLASSES, len(trained)), tested), trained


def _fit(name: str, path: Path, values: Values) -> Prepared:
    features, classes, records = (
        public_size(values[part], f"-P {part}") for part in ("features", "classes", "records")
    )
    columns = [*(f"x{number}" for number in range(1, features + 1)), "label"]
    header, table = read_table(path, columns)
    ordered = table[:, [header.index(column) for column in columns]]
    return _made(name, values, (features, classes, records), None), np.ascontiguousarray(ordered)


_TRAINING = {
    "epsilon": Parameter("epsilon of the claim", 3.0),
    "delta": Parameter("delta of the claim", 1e-4),
    "C": Parameter("norm to which gradients are clipped", 0.5),
    "model": words("what is trained: softmax regression, or a network", "softmax", "network"),
    "hidden": size("hidden units of the network", 16),
    "features": own_size("number of features of your own data", data="own"),
    "classes": own_size("number of classes of your own data", data="own"),
    "records": own_size("number of records of your own data, as it is publicly known", data="own"),
}

DP_SGD = Builtin(
    summary="training by noisy gradients of sampled batches (Abadi et al. 2016, Algorithm 1)",
    takes=_TRAINING
    | {
        "sigma": Parameter("noise multiplier: standard deviation over C", 1.5),
        "rate": Parameter("probability of each record to be in a batch", 0.1),
        "steps": size("gradient steps T", 100),
        "eta": Parameter("learning rate", 20.0),
        "sampling": words("how batches are drawn", "poisson", "truncated", "fixed-size"),
        "most": Parameter("largest truncated batch, over the expected one", 1.25),
    },
    built_in=partial(_example, "dp-sgd"),
    own=partial(_fit, "dp-sgd"),
)

DP_FTRL = Builtin(
    summary="training on noisy prefix sums of gradients, without sampling (Kairouz et al. 2021, Algorithm 1)",
    takes=_TRAINING
    | {
        "sigma": Parameter("noise multiplier: standard deviation over C", 4.0),
        "steps": size("gradient steps, of whole epochs", 100),
        "batches": size("batches of an epoch", 10),
        "eta": Parameter("learning rate", 20.0),
        "strategy": words("how noise is correlated", "banded", "tree", "independent"),
        "bands": size("bands of the banded strategy", 8),
    },
    built_in=partial(_example, "dp-ftrl"),
    own=partial(_fit, "dp-ftrl"),
)
