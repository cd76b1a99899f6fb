"""Training in JAX through a curator: gradients against JAX's own, one record after another, and optax."""

from typing import Any

import numpy as np
import pytest

import dpaudit
from dpaudit import L2, ApproxDP, Claim, Curator, Pair
from dpaudit.accountants.filters.filters import GDPFilter
from dpaudit.curator.batches import Batches
from dpaudit.errors import BudgetExceeded, DataError, InvalidParameter
from dpaudit.jax import PrivateGradient
from tests.make import curator

pytestmark = [
    pytest.mark.training,
    pytest.mark.filterwarnings("default"),  # jax's own warnings are not ours
]

RNG = np.random.default_rng(0)
INPUTS, TARGETS = RNG.normal(size=(30, 4)), RNG.normal(size=30)
START = {"weights": np.array([0.5, -1.0, 0.2, 0.0], dtype=np.float32), "bias": np.float32(0.1)}
QUIET: dict[str, Any] = {"rate": 1.0, "bound": 0.5, "noise_multiplier": 1e-6, "records": 30}
CLAIM = Claim(ApproxDP(epsilon=30.0, delta=1e-5), unit="record", neighbouring="add-or-remove-one")


def loss(params: Any, row: Any, target: Any) -> Any:
    return (row @ params["weights"] + params["bias"] - target) ** 2


@pytest.mark.parametrize("together", [1, 7, 64])
def test_gradients_are_the_mean_of_clipped_ones(together: int) -> None:
    own = curator()
    found = PrivateGradient(loss, own, together=together, **QUIET)(START, INPUTS, TARGETS)
    errors = 2 * (INPUTS @ START["weights"] + START["bias"] - TARGETS)
    rows = errors[:, None] * np.column_stack([INPUTS, np.ones(30)])
    rows *= np.minimum(1.0, 0.5 / np.linalg.norm(rows, axis=1))[:, None]
    assert np.append(found["weights"], found["bias"]) == pytest.approx(rows.sum(axis=0) / 30, abs=1e-5)
    assert found["weights"].dtype == np.float32
    assert len(own.ledger.releases) == 1


def trains(rows: Any, own: Curator) -> Any:
    import jax
    import optax

    private = PrivateGradient(loss, own, rate=1.0, bound=0.5, noise_multiplier=4.0, records=9)
    optimizer = optax.adam(0.1)
    params = jax.tree.map(np.asarray, START)
    state = optimizer.init(params)
    for _ in range(3):
        change, state = optimizer.update(private(params, rows[:, :4], rows[:, 4]), state)
        params = optax.apply_updates(params, change)
    return jax.tree.map(np.asarray, params)


def test_optax_trains_by_them_and_replay_finds_nothing() -> None:
    rows = np.column_stack([INPUTS, TARGETS])[:9]
    audit = dpaudit.replay(trains, [Pair(rows, rows[:8], "the last record")], claim=CLAIM, replays=5)
    assert not audit.findings
    made = dpaudit.run(trains, rows, claim=CLAIM)
    assert [release.label for release in made.ledger.releases] == ["gradient"] * 3
    assert not np.allclose(made.output["weights"], START["weights"])


def test_a_sample_is_drawn_and_a_budget_holds() -> None:
    own = curator()
    private = PrivateGradient(loss, own, rate=0.5, bound=0.5, noise_multiplier=4.0, records=30, label="g")
    for _ in range(3):
        private(START, INPUTS, TARGETS)
    [release] = set(own.ledger.releases)
    assert (release.label, release.mechanism.kind, release.mechanism.rate) == ("g", "poisson-sampled", 0.5)
    private = PrivateGradient(
        loss, curator(budget=GDPFilter(0.52, "add-or-remove-one")), **{**QUIET, "noise_multiplier": 4.0}
    )
    for _ in range(4):
        private(START, INPUTS, TARGETS)
    with pytest.raises(BudgetExceeded):
        private(START, INPUTS, TARGETS)


def test_what_is_private_or_no_number_is_refused() -> None:
    for changed in (
        {"rate": 0.0},
        {"rate": 2.0},
        {"bound": -1.0},
        {"noise_multiplier": 0.0},
        {"together": 0},
    ):
        with pytest.raises(InvalidParameter):
            PrivateGradient(loss, curator(), **{**QUIET, **changed})
    with pytest.raises(InvalidParameter, match="records"):
        PrivateGradient(loss, curator(), **{**QUIET, "records": None})(START, INPUTS, TARGETS)
    for columns in ((INPUTS, TARGETS[:-1]), ()):
        with pytest.raises(DataError, match="columns of lengths"):
            PrivateGradient(loss, curator(), **QUIET)(START, *columns)


def test_nothing_is_charged_for_rounding_in_any_precision() -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    try:
        own = curator()
        private = PrivateGradient(loss, own, **QUIET)
        double = {name: np.asarray(each, dtype=np.float64) for name, each in START.items()}
        for params in (double, START, {name: each.astype(np.float16) for name, each in START.items()}):
            found = private(params, INPUTS, TARGETS)
            assert found["weights"].dtype == params["weights"].dtype
    finally:
        jax.config.update("jax_enable_x64", False)
    declared = [release.mechanism.declared_sensitivity for release in own.ledger.releases]
    assert [each and each.value for each in declared] == [0.5, 0.5, 0.5]


def test_no_other_record_has_a_part_in_a_gradient_not_even_in_its_last_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added: list[Any] = []
    monkeypatch.setattr(Batches, "add", lambda self, rows: added.append(rows.copy()))
    monkeypatch.setattr(Batches, "noisy", lambda self: np.zeros(5))

    def rows(first: int) -> Any:
        added.clear()
        private = PrivateGradient(loss, curator(), together=16, **QUIET)
        private(START, INPUTS[first:].astype(np.float32), TARGETS[first:].astype(np.float32))
        return {row.tobytes() for row in np.vstack(added)}

    whole = rows(0)
    for first in (1, 23, 29):
        less = rows(first)
        assert (len(whole), len(less)) == (30, 30 - first)
        assert less < whole


def test_jax_privacys_own_clipping_is_taken_and_its_bound() -> None:
    import jax_privacy

    def mean_loss(params: Any, rows: Any, targets: Any) -> Any:
        return loss(params, rows, targets).mean()

    about: dict[str, Any] = {"l2_clip_norm": 0.5, "batch_argnums": (1, 2)}
    clipped = jax_privacy.clipped_grad(mean_loss, **about)
    stated = {name: each for name, each in QUIET.items() if name != "bound"}
    own = curator()
    found = PrivateGradient(clipped, own, **stated)(START, INPUTS, TARGETS)
    expected = clipped(START, INPUTS, TARGETS)
    for name in ("weights", "bias"):
        assert found[name] == pytest.approx(np.asarray(expected[name]) / 30, abs=1e-5)
    [release] = own.ledger.releases
    assert release.mechanism.declared_sensitivity == L2(0.5).model_copy(update={"basis": "clipped"})
    with_norms = jax_privacy.clipped_grad(mean_loss, return_grad_norms=True, **about)
    for wrong, remedy in ((with_norms, "return_grad_norms"), (loss, "bound=")):
        with pytest.raises(InvalidParameter, match=remedy):
            PrivateGradient(wrong, curator(), **stated)
