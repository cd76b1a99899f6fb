"""What accounting and replay say of DP-VAPVI by themselves; no verdict is written into the algorithm."""

from fractions import Fraction

import numpy as np
import pytest

from dpaudit.accountants.accounting import account
from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.data.trajectories import Trajectory, TrajectoryData
from dpaudit.algorithms.environments.linear_mdp import (
    appendix_f_behaviour,
    appendix_f_features,
    appendix_f_mdp,
    one_hot_features,
)
from dpaudit.algorithms.papers.qiao_wang_2023.dp_apvi import DPAPVI
from dpaudit.algorithms.papers.qiao_wang_2023.dp_vapvi import DPVAPVI
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Accounting, Experiment, Proof
from dpaudit.claims.guarantees import ZCDP
from dpaudit.curator.running import run
from dpaudit.errors import InvalidParameter, UsageError
from tests.algorithms.changed import random_data
from tests.sweeps import sweep

H = 20


def built_in(n: int = 40) -> TrajectoryData:
    mdp = appendix_f_mdp(0)
    return mdp.sample_trajectories(n, appendix_f_behaviour(), np.random.default_rng(0))


def accounting(algorithm: DPVAPVI, data: TrajectoryData) -> Accounting:
    return account(run(algorithm, data, seed=0).ledger)


# ---- The verdicts on the published noise.


def published_total(*, split: bool, horizon: int) -> Fraction:
    """Over rho, exactly: Gram matrices at 2/(5H), vectors at half their share times (H-h)^4/H^4 and so on.

    Half, because features without negative entries are never opposed: sqrt 2 is the factor, not 2.
    """
    share, half = Fraction(1, 5 * horizon), Fraction(1, 2)
    variances = values = Fraction(0)
    for h in range(1, horizon + 1):
        left = Fraction(horizon - h, horizon)
        variances += share * (2 + half * left**4 + half * left**2)
        values += share * (2 + half * Fraction(horizon - h + 1, horizon) ** 2)
    return max(variances, values) if split else variances + values


@sweep("kind", ["normalised", "one-hot"], everyday=(0,))
@sweep("split, slack", [(False, 1.1308), (True, 2.2299)], everyday=(0,))
def test_as_published_the_total_holds_and_each_gram_matrix_costs_twice_its_share(
    kind: str, split: bool, slack: float, nightly: bool
) -> None:
    phi = appendix_f_features() if kind == "normalised" else one_hot_features(2, 4)
    data = random_data(np.random.default_rng(0), 40, H, phi.shape[:2])
    algorithm = DPVAPVI(phi, H, ZCDP(rho=0.7), calibration="as-published", split=split)
    found = accounting(algorithm, data)
    assert found.verdict is Proof.PROVED
    assert not found.all_proved
    assert len(found.releases) == 5 * H
    for release in found.releases:
        assert isinstance(release.proved, ZCDP)
        assert isinstance(release.claimed, ZCDP)
        is_gram = release.label.startswith(("Sigma", "Lambda"))
        assert release.verdict is (Proof.NOT_PROVED if is_gram else Proof.PROVED)
        assert release.mechanism.kind == ("symmetric-gaussian" if is_gram else "gaussian")
        if is_gram:
            assert release.proved.rho / release.claimed.rho == pytest.approx(2.0, rel=1e-12)
    total = found.bounds[0].guarantee
    assert isinstance(total, ZCDP)
    expected = published_total(split=split, horizon=H)
    assert total.rho == pytest.approx(0.7 * float(expected), rel=1e-12)
    assert float(1 / expected) == pytest.approx(slack, abs=5e-5)
    replays = 5 if nightly else 1
    assert replay(
        algorithm, algorithm.worst_pairs(), claim=algorithm.claim, replays=replays, extreme_outputs=False
    ).verdict is (Experiment.NOT_REFUTED)


@pytest.mark.parametrize(("split", "slack"), [(False, 1.0323), (True, 2.0124)])
def test_with_opposed_features_the_slack_is_less(split: bool, slack: float) -> None:
    phi = one_hot_features(2, 2) * np.array([1, -1, 1, -1])
    data = random_data(np.random.default_rng(0), 10, H, (2, 2))
    found = accounting(DPVAPVI(phi, H, calibration="as-published", split=split), data)
    total = found.bounds[0].guarantee
    assert found.verdict is Proof.PROVED
    assert isinstance(total, ZCDP)
    assert 1 / total.rho == pytest.approx(slack, abs=5e-5)


@pytest.mark.parametrize("over", [2.0**-52, 1e-10, 1e-8])
def test_features_that_rounding_made_longer_than_1_keep_the_premise(over: float) -> None:
    # What they move more is in the sensitivities. Beyond 1e-9 nothing is forgiven.
    phi = one_hot_features(2, 3) * (1.0 + over)
    algorithm = DPVAPVI(phi, 3, calibration="as-published")
    (premise,) = algorithm.claim.premises
    assert algorithm.noise.largest_norm > 1.0
    assert premise.holds == (over < 1e-9)
    found = accounting(algorithm, random_data(np.random.default_rng(0), 10, 3, (2, 3)))
    assert found.verdict is (Proof.PROVED if over < 1e-9 else Proof.NOT_PROVED)
    gram = found.releases[0].mechanism
    assert gram.sensitivity is not None  # type: ignore[union-attr]
    if premise.holds:
        assert gram.sensitivity.value >= np.sqrt(2.0) * algorithm.noise.largest_norm**2  # type: ignore[union-attr]


@sweep("split", [False, True], everyday=(0,))
def test_the_papers_own_experiment_fails_its_premise_and_is_refuted(split: bool) -> None:
    algorithm = DPVAPVI(appendix_f_features(normalised=False), H, calibration="as-published", split=split)
    found = accounting(algorithm, built_in())
    assert found.verdict is Proof.NOT_PROVED
    assert found.claim is not None
    (premise,) = found.claim.premises
    assert not premise.holds
    assert premise.left**2 == pytest.approx(7.0)
    audit = replay(
        algorithm, algorithm.worst_pairs(), claim=algorithm.claim, replays=8, extreme_outputs=False
    )
    assert audit.verdict is Experiment.REFUTED
    assert "p-value" in audit.refuted_by  # what is released tells more than is claimed, by its exact loss
    assert {finding.kind for finding in audit.findings} == {"sensitivity"}
    # Two Gram matrices x x' move by up to sqrt(67), as a search over all pairs of features finds.
    flat = appendix_f_features(normalised=False).reshape(-1, 10)
    furthest = max(
        float(np.linalg.norm(np.outer(x, x) - np.outer(y, y))) for x in flat[::3] for y in flat[1::3]
    )
    grams = [f for f in audit.findings if (f.label or "").startswith(("Sigma", "Lambda"))]
    # Not every Lambda: the variances that the noise happens to suggest weigh records down.
    assert {f.label for f in grams} >= {f"Sigma_{h}" for h in range(1, H + 1)}
    assert all(f.declared == pytest.approx(np.sqrt(2.0)) for f in grams)
    assert max(f.measured or 0.0 for f in grams) >= furthest - 1e-9


@sweep("normalised", [True, False], everyday=(0,))
@sweep("split", [False, True], everyday=(0,))
def test_sound_noise_proves_the_total_and_every_release_at_their_figures(
    normalised: bool, split: bool, nightly: bool
) -> None:
    algorithm = DPVAPVI(appendix_f_features(normalised=normalised), H, ZCDP(rho=0.3), split=split)
    found = accounting(algorithm, built_in())
    assert found.verdict is Proof.PROVED
    assert found.all_proved
    total = found.bounds[0].guarantee
    assert isinstance(total, ZCDP)
    assert total.rho == pytest.approx(0.3, rel=1e-12)
    assert len(found.releases) == 2 * H - 1
    for release in found.releases:
        assert isinstance(release.proved, ZCDP)
        assert isinstance(release.claimed, ZCDP)
        assert release.proved.rho == pytest.approx(release.claimed.rho, rel=1e-12)
        assert release.mechanism.sensitivity.basis == "proved"  # type: ignore[union-attr]
    replays = 5 if nightly else 1
    assert replay(
        algorithm, algorithm.worst_pairs(), claim=algorithm.claim, replays=replays, extreme_outputs=False
    ).verdict is (Experiment.NOT_REFUTED)


# ---- What the records may be, and one face.


def test_a_record_that_a_feature_map_does_not_know_cannot_be_built() -> None:
    # Feature norms and rewards hold by the public domain: the data's holder alone is told.
    algorithm = DPVAPVI(one_hot_features(2, 3), 2)
    data = random_data(np.random.default_rng(0), 3, 2, (2, 3))
    ledgers = [run(algorithm, data, seed=i).ledger.header.parameters for i in range(2)]
    assert ledgers[0] == ledgers[1]
    with pytest.raises(Exception, match="reward"):
        data.replace(0, Trajectory(np.zeros(3, int), np.zeros(2, int), np.array([0.5, 7.0])))


def test_both_built_in_algorithms_wear_one_face() -> None:
    for name, kind in (("dp-apvi", DPAPVI), ("dp-vapvi", DPVAPVI)):
        algorithm, data = CATALOGUE[name].example()
        assert isinstance(algorithm, kind)
        assert algorithm.name == name
        result = run(algorithm, data, seed=0)
        assert set(algorithm.utility(result.output)) == {"suboptimality", "optimal value"}
        assert account(result.ledger).all_proved


def test_the_catalogue_honours_its_parameters() -> None:
    algorithm, data = CATALOGUE["dp-vapvi"].example(
        rho=2.0, calibration="as-published", split="true", features="raw", K=30, horizon=3, C=0.5, instance=4
    )
    assert len(data) == 30
    assert (algorithm.horizon, algorithm.split, algorithm.calibration) == (3, True, "as-published")
    assert algorithm.guarantee == ZCDP(rho=2.0)
    assert algorithm.noise.largest_norm**2 == pytest.approx(7.0)
    assert algorithm.constants.bonus == 0.5
    with pytest.raises(UsageError):
        CATALOGUE["dp-vapvi"].example(split="perhaps")
    with pytest.raises(UsageError):
        CATALOGUE["dp-vapvi"].example(features="other")
    with pytest.raises(UsageError):
        CATALOGUE["dp-vapvi"].example(unknown=1)


@pytest.mark.parametrize("calibration", ["sound", "as-published"])
def test_shift_and_ridge_move_what_is_planned_and_nothing_of_the_ledger(calibration: str) -> None:
    def made(**given: float) -> tuple[np.ndarray, dict[str, object], list[object], object]:
        algorithm, data = CATALOGUE["dp-vapvi"].example(
            calibration=calibration, rho=25.0, K=400, horizon=2, C=0.0, **given
        )
        found = run(algorithm, data, seed=3)
        proof = account(found.ledger)
        stated = found.ledger.header.parameters
        releases = [(release.label, release.mechanism) for release in found.ledger]
        return found.output.values, stated, releases, (proof.verdict, proof.bounds)

    values, stated, releases, proof = made()
    assert (stated["noise_shift"], stated["lambda"]) == (1.0, 1.0)
    for name, number in (("noise_shift", 4.0), ("lambda", 30.0)):
        other, told, same_releases, same_proof = made(**{name: number})
        assert told == {**stated, name: number}
        assert (same_releases, same_proof) == (releases, proof)
        # With the same noise at the last step, a larger matrix leaves smaller weights and so smaller values.
        assert (np.abs(other[1]) < np.abs(values[1])).all()


@pytest.mark.parametrize("name", ["noise_shift", "lambda"])
def test_a_shift_or_a_ridge_that_is_no_number_in_range_is_refused(name: str) -> None:
    zero = [0.0] if name == "lambda" else []
    for bad in (-1.0, np.nan, np.inf, "2", True, *zero):
        with pytest.raises(InvalidParameter, match=r"noise_shift|lambda|ridge"):
            CATALOGUE["dp-vapvi"].example(K=2, horizon=2, **{name: bad})


def test_a_shift_beyond_all_numbers_plans_on_nothing() -> None:
    for shift in (1e200, 1e308):
        algorithm, data = CATALOGUE["dp-vapvi"].example(K=20, horizon=2, noise_shift=shift)
        assert not run(algorithm, data, seed=0).output.values.any()
