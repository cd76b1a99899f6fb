"""The examples that audit other libraries run, where those are installed."""

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from dpaudit.auditors.sampling.trial import repeat_trial

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")  # other libraries' own
def test_an_opendp_measurement_is_sampled() -> None:
    example = load("audit_opendp")
    assert pytest.approx(1.0) == example.EPSILON
    scores = example.trials(4000)
    # The discrete Laplace distribution of scale 1: P(noise <= 0) = 1 / (1 + 1/e).
    for side, p in (
        (scores.data, 1 / (1 + math.exp(-1))),
        (scores.neighbour, math.exp(-1) / (1 + math.exp(-1))),
    ):
        # The noise is the operating system's: a correct one fails here once in ten million runs.
        assert stats.binomtest(int((side <= 1).sum()), 4000, p).pvalue > 1e-7


@pytest.mark.filterwarnings("default")  # other libraries' own
def test_a_diffprivlib_model_is_sampled_and_its_trials_repeat() -> None:
    example = load("audit_diffprivlib")
    scores = example.trials(60)
    assert scores.data.shape == scores.neighbour.shape == (60, 2)
    assert len(np.unique(scores.data)) == 120
    again = repeat_trial(example.MECHANISM, example.PAIR.neighbour, seed=0, side=1, index=59)
    assert np.array_equal(again, scores.neighbour[59])
