"""Histories as Opacus 1.6.0 wrote them (tests/data), and others by hand."""

import json
import math
import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpaudit import Gaussian, Ledger, PoissonSampled
from dpaudit.accountants.bridges.from_opacus import from_opacus, read_checkpoint
from dpaudit.accountants.bridges.to_dp_events import to_dp_event
from dpaudit.errors import ClaimMismatch, InvalidParameter, MissingExtra, NotCertifiable, UsageError
from tests import make, oracles

DATA = Path(__file__).parents[2] / "data"


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"opacus_1.6.0_{name}.json").read_text(encoding="utf-8"))
    return found


def test_a_recorded_history_has_its_known_epsilon() -> None:
    ledger = from_opacus(recorded("rdp"))
    [release] = ledger.releases
    assert release.count == 10_000
    truth = 6.907384495
    opacus = 7.414025254409949  # what RDPAccountant.get_epsilon(1e-6) of 1.6.0 said of it
    assert truth - 1e-9 <= make.epsilon(ledger, 1e-6, "pld") <= truth * (1 + 1e-4)
    assert truth <= make.epsilon(ledger, 1e-6, "rdp") <= opacus + 1e-9


def test_a_schedule_of_noise_is_one_release_for_each_multiplier() -> None:
    ledger = from_opacus(recorded("schedule"), unit="image")
    assert [(one.label, one.count) for one in ledger] == [(f"history[{i}]", 100) for i in range(3)]
    assert ledger.header.unit == "image"
    assert ledger.header.neighbouring == "add-or-remove-one"
    # Opacus' PRV figure holds up to 0.01 either way; its RDP figure is an upper bound.
    assert 3.1296857586450977 - 0.02 <= make.epsilon(ledger, 1e-5, "pld") <= 3.1296857586450977 + 1e-9
    assert make.epsilon(ledger, 1e-5, "rdp") <= 3.7519699112646703 + 1e-9


@pytest.mark.nightly
def test_google_agrees_on_an_imported_history() -> None:
    from dp_accounting.pld import PLDAccountant

    ledger = from_opacus(recorded("schedule"))
    events = to_dp_event(ledger)
    theirs = PLDAccountant(events.relation).compose(events.event).get_epsilon(1e-5)
    assert make.epsilon(ledger, 1e-5, "pld") == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize(("sigma", "steps"), [(0.7, 1), (4.0, 9), (30.0, 2500)])
def test_whole_batches_are_plain_gaussian_noise(sigma: float, steps: int) -> None:
    ledger = from_opacus({"history": [(sigma, 1.0, steps)], "mechanism": "gdp"})
    found = make.epsilon(ledger, 1e-6, "pld")
    mu = math.sqrt(steps) / sigma

    assert oracles.gaussian_delta(mu, found) <= 1e-6 < oracles.gaussian_delta(mu, found * (1 - 1e-4))


def test_it_is_accounted_for_and_never_certified(tmp_path: Path) -> None:
    ledger = from_opacus(recorded("rdp"))
    with pytest.raises(NotCertifiable):
        ledger.require_certifiable()
    path = ledger.write(tmp_path / "ledger.jsonl")
    again = Ledger.read(path, allow_unhashed=True)
    assert (again.header, again.releases, again.hash) == (ledger.header, ledger.releases, ledger.hash)
    with pytest.raises(NotCertifiable):
        again.require_certifiable()
    assert again.releases[0].mechanism == PoissonSampled(
        rate=0.01,
        mechanism=Gaussian(sigma=1.0, sensitivity={"value": 1.0, "norm": "l2", "basis": "declared"}),
    )


def test_a_checkpoint_holds_the_state_beside_the_weights() -> None:
    state = OrderedDict(history=[(1.0, 0.5, 2)], mechanism="rdp")
    inside = from_opacus({"module_state_dict": {}, "privacy_accountant_state_dict": state})
    assert inside.releases == from_opacus(state).releases


def test_thousands_of_entries_of_few_kinds_are_few_releases() -> None:
    history = [(1.0 + i % 3, 0.01, 1) for i in range(6_000)]
    ledger = from_opacus({"history": history, "mechanism": "prv"})
    assert [one.count for one in ledger] == [2_000] * 3


@pytest.mark.parametrize(
    "entry",
    [
        (math.nan, 0.1, 1),
        (math.inf, 0.1, 1),
        (-1.0, 0.1, 1),
        (0.0, 0.1, 1),
        (True, 0.1, 1),
        ("1", 0.1, 1),
        (None, 0.1, 1),
        (1.0, 0.0, 1),
        (1.0, -0.1, 1),
        (1.0, 1.0000001, 1),
        (1.0, math.nan, 1),
        (1.0, 0.1, 0),
        (1.0, 0.1, -5),
        (1.0, 0.1, 2.5),
        (1.0, 0.1, 5.0),
        (1.0, 0.1, 10**30),
        (1.0, 0.1, "5"),
        (1.0, 0.1, True),
    ],
)
def test_numbers_that_mean_nothing_are_refused_where_they_stand(entry: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidParameter, match=r"history\[1\]"):
        from_opacus({"history": [(1.0, 0.1, 1), entry], "mechanism": "rdp"})


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"history": None},
        {"history": "1.0"},
        {"history": {"0": 1}},
        {"history": [1.0]},
        {"history": [(1.0, 0.1)]},
        {"history": [(1.0, 0.1, 1, 1)]},
        {"privacy_accountant_state_dict": 3},
        [],
        None,
    ],
)
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(UsageError):
        from_opacus(state)


@pytest.mark.parametrize("steps", [10**30, 5.0, 2.5, "5"])
def test_what_to_do_about_steps_is_said(steps: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"history\[0\].*steps(?s:.*)as an integer"):
        from_opacus({"history": [(1.0, 0.1, steps)], "mechanism": "rdp"})


def test_a_state_with_two_histories_is_ambiguous() -> None:
    mild, harsh = {"history": [(9.0, 0.1, 1)]}, {"history": [(0.1, 0.1, 1)]}
    for outer, inner in ((mild, harsh), (harsh, mild)):
        with pytest.raises(UsageError, match="two histories"):
            from_opacus({**outer, "privacy_accountant_state_dict": inner})


def test_what_no_history_tells_is_named() -> None:
    """Why accumulation is: ten batches of rate 0.01 cost more than the one of rate 0.1 that is recorded."""
    sigma, rate, batches = 1.0, 0.01, 10
    recorded_epsilon = make.epsilon(from_opacus({"history": [(sigma, rate * batches, 1)]}), 1e-6, "pld")
    times = np.arange(batches + 1)
    chance = binom.pmf(times, batches, rate)

    def delta(threshold: float) -> float:  # of the sets {x > threshold}: no more than the truth
        lost = math.log(chance @ np.exp((2 * threshold * times - times**2) / (2 * sigma**2)))
        assert lost > recorded_epsilon
        tail = norm.sf((threshold - times) / sigma)
        return float(chance @ tail - math.exp(recorded_epsilon) * norm.sf(threshold / sigma))

    assert delta(5.0) > 1.2e-6  # a history alone would promise less than 1e-6
    trusted = " ".join(from_opacus(recorded("rdp")).header.to_json()["parameters"]["taken on trust"])
    for condition in ("gradient accumulation", "AdaClip", "nothing else was released", "Poisson samples"):
        assert condition in trusted


def test_a_history_without_steps_proves_nothing() -> None:
    with pytest.raises(InvalidParameter, match="no releases"):
        from_opacus({"history": [], "mechanism": "rdp"})


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "no-such-relation"])
def test_other_relations_are_refused(relation: str) -> None:
    with pytest.raises(ClaimMismatch):
        from_opacus({"history": [(1.0, 0.1, 1)]}, neighbouring=relation)


@pytest.mark.parametrize(
    ("torch", "said"),
    [(None, r"dpaudit\[opacus\]"), (SimpleNamespace(__version__="2.5.1+cpu"), r"2\.6 or newer")],
)
def test_a_checkpoint_needs_a_torch_that_can_be_trusted_with_a_foreign_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: Any, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(MissingExtra, match=said):
        read_checkpoint(tmp_path / "model.pt")
