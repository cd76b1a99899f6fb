import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from dpaudit.accountants.accounting import account
from dpaudit.accountants.filters.filters import GDPFilter, ZCDPFilter
from dpaudit.algorithms.catalogue import CATALOGUE
from dpaudit.algorithms.environments.linear_mdp import LinearMDP, one_hot_features, random_linear_mdp
from dpaudit.algorithms.environments.online_users import OnlineUsers, User, constant_user, online_users
from dpaudit.algorithms.environments.tabular import TabularMDP, random_mdp
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.lsvi import (
    LinearModel,
    Seen,
    doubling,
    fixed_times,
    lsvi_ucb,
    views_regret,
)
from dpaudit.algorithms.papers.ngo_vietri_wu_2022.private_lsvi_ucb import (
    LSVICalibration,
    LSVIConstants,
    PrivateLSVIUCB,
    published_bonus,
    published_ridge,
)
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Experiment, Proof
from dpaudit.claims.guarantees import ZCDP, ApproxDP
from dpaudit.claims.relations import TrustModel
from dpaudit.curator.curator import Curator
from dpaudit.curator.noise import LiveNoise, NoNoise, ReplayedNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.curator.views import UserViews
from dpaudit.errors import DataError, InvalidParameter
from dpaudit.mechanisms import Gaussian, TreeAggregation
from tests.algorithms.changed import Changed

PROCESS = random_linear_mdp(4, 3, 3, 3, seed=20220717)
MODEL = LinearModel(PROCESS.features, 3)
LIVELY = LSVIConstants(bonus=1e-4, ridge=0.1, growth=1.01)


def calibrated(**changed: Any) -> LSVICalibration:
    ridge = published_ridge(1000, 5, 5, 1.0, 0.05)
    given: dict[str, Any] = {
        "name": "sound",
        "counted": "episodes",
        "values": "to-go",
        "rho": 1.0,
        "users": 1000,
        "horizon": 5,
        "dimension": 5,
        "ridge": ridge,
    }
    return LSVICalibration(**{**given, **changed})


# Noise


def test_the_worked_example() -> None:
    """K = 1000, H = d = 5, p = .05, rho = 1; lambda and N_max at 60 digits."""
    with mpmath.workdps(60):
        size = 6 * mpmath.sqrt(6) + 2 * mpmath.log(3 * 1000 * 5 / mpmath.mpf("0.05"))
        ridge = mpmath.log(1000) * size / mpmath.sqrt(2)
        count = 25 / mpmath.log(2) * mpmath.log(1 + 1000 / (5 * ridge))
    found = calibrated()
    assert found.ridge == pytest.approx(float(ridge), rel=1e-14)
    assert found.ridge == pytest.approx(194.99013, abs=5e-6)
    assert found.most_counted == pytest.approx(float(count), rel=1e-14)
    assert found.most_counted == pytest.approx(25.460388, abs=5e-7)
    assert calibrated(name="as-published").target_variance == pytest.approx(3819.0581, abs=5e-5)
    assert found.updates == 25
    assert calibrated(counted="steps").updates == 5
    assert calibrated(values="horizon").target_variance == pytest.approx(14_500, rel=1e-14)
    assert found.target_variance == pytest.approx(5_500, rel=1e-14)
    assert found.gram.levels == 10
    assert found.gram.sigma**2 == pytest.approx(100, rel=1e-14)


@pytest.mark.parametrize("counted", ["episodes", "steps"])
@pytest.mark.parametrize(("horizon", "users"), [(1, 300), (2, 1000), (5, 1000), (5, 50_000), (10, 3000)])
def test_the_cap_is_where_the_printed_counter_stops(counted: Any, horizon: int, users: int) -> None:
    """Lines 6, 8 and 15 with every condition on determinants true."""
    found = calibrated(counted=counted, horizon=horizon, users=users)
    counter, updates = 1, 0
    while counter < found.most_counted:
        counter += horizon if counted == "steps" else 1
        updates += 1
    assert found.updates == updates


@pytest.mark.parametrize("values", ["to-go", "horizon"])
@pytest.mark.parametrize("horizon", [1, 2, 5, 10])
def test_sound_noise_costs_the_budget(values: Any, horizon: int) -> None:
    """Written down again: U sum_h (2 (1 + most of V_{h+1}))^2 / (2 sigma^2) is rho / 2."""
    found = calibrated(values=values, horizon=horizon, rho=0.3)
    tops = [
        0 if h == horizon else (horizon - h if values == "to-go" else horizon) for h in range(1, horizon + 1)
    ]
    squares = sum((2 * (1 + top)) ** 2 for top in tops)
    closed = {
        "to-go": 2 / 3 * horizon * (horizon + 1) * (2 * horizon + 1),
        "horizon": (horizon - 1) * (2 * horizon + 2) ** 2 + 4,
    }
    assert squares == pytest.approx(closed[values])
    assert found.updates * squares / (2 * found.target_variance) == pytest.approx(0.15)


# What the tool says


def few(horizon: int, dimension: int, **options: Any) -> tuple[PrivateLSVIUCB, OnlineUsers]:
    process = random_linear_mdp(3, 2, horizon, dimension, seed=1)
    model = LinearModel(process.features, horizon, options.pop("values", "horizon"))
    algorithm = PrivateLSVIUCB(model, 1000, mdp=process, **options)
    return algorithm, online_users(process, 3, seed=0)


@pytest.mark.parametrize(("horizon", "times"), [(2, 1.67), (5, 3.87), (10, 7.27)])
def test_as_published_the_claim_hangs_on_what_the_counter_counts(horizon: int, times: float) -> None:
    """What the y-releases cost over their rho / 2: 2 [(H-1)(H+1)^2 + 1] / (3 H^2), of N_max updates."""
    closed = 2 * ((horizon - 1) * (horizon + 1) ** 2 + 1) / (3 * horizon**2)
    assert closed == pytest.approx(times, abs=5e-3)
    for counted, verdict in (("episodes", Proof.NOT_PROVED), ("steps", Proof.PROVED)):
        algorithm, users = few(horizon, 5, calibration="as-published", counted=counted)
        ledger = run(algorithm, users, seed=0).ledger
        accounting = account(ledger)
        noise = algorithm.noise
        assert len(ledger.releases) == 1 + noise.updates * horizon
        total = accounting.bounds[0].guarantee
        assert isinstance(total, ZCDP)
        expected = 0.5 + 0.5 * closed * noise.updates / noise.most_counted
        assert total.rho == pytest.approx(expected, rel=1e-9)
        assert accounting.verdict is verdict


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_sound_is_proved_at_exactly_the_budget(horizon: int) -> None:
    for values in ("to-go", "horizon"):
        algorithm, users = few(horizon, 3, values=values, guarantee=ZCDP(rho=0.7))
        accounting = account(run(algorithm, users, seed=0).ledger)
        assert accounting.all_proved
        total = accounting.bounds[0].guarantee
        assert isinstance(total, ZCDP)
        assert total.rho == pytest.approx(0.7, rel=1e-9)
        assert algorithm.claim.trust_model is TrustModel.JOINT


def test_the_epsilon_of_section_4_is_false_and_lemma_6_right() -> None:
    algorithm, users = few(3, 3, guarantee=ZCDP(rho=0.1))
    ledger = run(algorithm, users, seed=0).ledger
    logarithm = math.log(1e5)
    for epsilon, verdict in (
        (0.1 + math.sqrt(0.1 * logarithm), Proof.NOT_PROVED),
        (0.1 + 2 * math.sqrt(0.1 * logarithm), Proof.PROVED),
    ):
        claim = replace_guarantee(algorithm, ApproxDP(epsilon=epsilon, delta=1e-5))
        accounting = account(ledger, claim)
        assert accounting.verdict is verdict
    least = accounting.bounds[0].guarantee
    assert isinstance(least, ApproxDP)
    assert least.epsilon == pytest.approx(1.76006, abs=5e-6)


def replace_guarantee(algorithm: PrivateLSVIUCB, guarantee: ApproxDP) -> Any:
    return algorithm.claim.model_copy(update={"guarantee": guarantee})


@pytest.mark.parametrize("budget", [ZCDPFilter(1.0), GDPFilter(math.sqrt(2.0))])
def test_held_to_a_budget_it_releases_what_it_needs(budget: Any) -> None:
    users = online_users(PROCESS, 40, seed=0)
    algorithm = PrivateLSVIUCB(MODEL, 1000, constants=LIVELY)
    result = run(algorithm, users, seed=0, budget=budget)
    made = result.output.views[-1].updates
    assert 1 <= made <= algorithm.noise.updates
    assert [r.label for r in result.ledger.releases] == ["Lambda", *["y_3", "y_2", "y_1"] * made]
    assert account(result.ledger).bounds


def test_a_budget_that_runs_out_ends_the_updates_and_nothing_else() -> None:
    """As published and analysed, rho pays for a part of the updates alone."""
    users = online_users(PROCESS, 60, seed=0)
    model = LinearModel(PROCESS.features, 3, "horizon")
    algorithm = PrivateLSVIUCB(model, 1000, calibration="as-published", constants=LIVELY)
    free, held = (run(algorithm, users, seed=0, budget=ZCDPFilter(rho)) for rho in (100.0, 1.0))
    assert free.output.views[-1].updates == algorithm.noise.updates
    # 2 [(H-1)(H+1)^2 + 1] / (3 H^2) of N_max updates would cost rho / 2.
    affordable = math.floor(algorithm.noise.most_counted / (2 * 33 / 27))
    assert held.output.views[-1].updates == affordable < algorithm.noise.updates
    assert len(held.output.views) == 60
    assert account(held.ledger).bounds
    spent = ZCDPFilter(1.0)
    for release in held.ledger.releases:
        spent.spend(release)


# Sensitivities


def queries(algorithm: PrivateLSVIUCB, users: OnlineUsers, noise: Any) -> list[Any]:
    transcript = Transcript()
    run(algorithm, users, noise=noise, transcript=transcript)
    return transcript.entries


class Loud:
    """Outputs that drive every value to its bound, and matrices that always call for an update."""

    description = LiveNoise(0).description

    def answer(self, question: Any) -> Any:
        if not question.query.size:
            return question.query
        if isinstance(question.release.mechanism, TreeAggregation):
            return np.zeros_like(question.query) + 10.0 ** float(question.at) * np.eye(2)
        return np.array([0.0, 1e12])


@pytest.mark.parametrize("values", ["to-go", "horizon"])
def test_no_pair_of_users_moves_more_than_the_ledger_says_and_opposed_ones_reach_it(values: Any) -> None:
    """Search over users of random trees, on features of norm 1 that point apart; every value at its bound."""
    horizon, shape = 3, (3, 3, 2)
    turned = np.array([[1.0, 0.2], [0.2, 1.0], [-1.0, 0.2]])
    features = np.repeat((turned / np.linalg.norm(turned, axis=1)[:, None])[:, None], 2, axis=1)
    mdp = random_mdp(3, 2, horizon, seed=0)
    algorithm = PrivateLSVIUCB(LinearModel(features, horizon, values), 4, fixed_updates=2)
    users = online_users(mdp, 4, seed=1)
    rng = np.random.default_rng(0)
    largest = {"Lambda": 0.0, "y_1": 0.0, "y_2": 0.0, "y_3": 0.0}
    for trial in range(60):
        trees = [
            User(int(rng.integers(3)), rng.integers(0, 3, shape), rng.integers(0, 2, shape).astype(float))
            for _ in range(2)
        ]
        if trial == 0:
            trees = [constant_user(mdp, state, reward=1.0) for state in (0, 2)]
        sides = [queries(algorithm, users.replace(0, tree), Loud()) for tree in trees]
        squares: dict[str, float] = {}
        for one, other in zip(*sides, strict=True):
            moved = float(np.linalg.norm(one.query - other.query))
            if one.release.label == "Lambda":
                squares["Lambda"] = squares.get("Lambda", 0.0) + moved**2
            else:
                squares[one.release.label] = max(squares.get(one.release.label, 0.0), moved**2)
        largest = {label: max(largest[label], math.sqrt(found)) for label, found in squares.items()}
    for step, mechanism in enumerate(algorithm.noise.targets):
        declared, found = mechanism.sensitivity.value, largest[f"y_{step + 1}"]
        assert 0.97 * declared <= found <= declared * (1 + 1e-12)
    assert largest["Lambda"] <= algorithm.noise.gram.sensitivity.value * (1 + 1e-12)


def test_orthogonal_users_reach_the_sensitivity_of_the_matrices() -> None:
    algorithm = PrivateLSVIUCB(LinearModel(one_hot_features(2, 1), 4), 8, fixed_updates=1)
    mdp = random_mdp(2, 1, 4, seed=0)
    users = online_users(mdp, 3, seed=0)
    sides = [queries(algorithm, users.replace(1, constant_user(mdp, s)), LiveNoise(0)) for s in (0, 1)]
    moved = [one.query - two.query for one, two in zip(*sides, strict=True) if one.query.shape == (4, 2, 2)]
    norms = [float(np.linalg.norm(m)) for m in moved]
    assert sorted(norms)[:2] == [0.0, 0.0]
    assert max(norms) == pytest.approx(algorithm.noise.gram.sensitivity.value) == pytest.approx(math.sqrt(8))


# Replay


@pytest.mark.parametrize(("values", "refuted"), [("to-go", False), ("horizon", False), ("unclipped", True)])
def test_without_the_lower_clip_the_premise_fails_and_replay_shows_why(values: Any, refuted: bool) -> None:
    model = LinearModel(PROCESS.features, 3, values)
    algorithm = PrivateLSVIUCB(model, 4, fixed_updates=2, constants=LIVELY, mdp=PROCESS)
    accounting = account(run(algorithm, online_users(PROCESS, 4, seed=0), seed=0).ledger)
    assert accounting.verdict is (Proof.NOT_PROVED if refuted else Proof.PROVED)
    assert [p.name for p in algorithm.claim.premises if not p.holds] == (["least value V"] if refuted else [])
    audit = replay(algorithm, algorithm.worst_pairs(), seed=0, replays=2)
    assert audit.verdict is (Experiment.REFUTED if refuted else Experiment.NOT_REFUTED)
    assert {f.kind for f in audit.findings} == ({"sensitivity"} if refuted else set())
    if refuted:
        assert max(f.measured / f.declared for f in audit.findings if f.declared and f.measured) > 1e6


@pytest.mark.parametrize(
    ("ridge", "values"),
    [(0.03, "to-go"), (0.03, "unclipped"), pytest.param(1.0, "unclipped", marks=pytest.mark.nightly)],
)
def test_the_built_in_pair_forces_updates_and_refutes_what_is_not_clipped(
    ridge: float, values: str, nightly: bool
) -> None:
    algorithm, _ = CATALOGUE["private-lsvi-ucb"].example(
        calibration="as-published", values=values, ridge=ridge
    )
    (pair,) = algorithm.worst_pairs()
    assert run(algorithm, pair.data, seed=0).output.views[-1].updates > 0
    audit = replay(algorithm, [pair], seed=0, replays=2 if nightly else 1)
    assert {finding.label for finding in audit.findings} == (
        {"y_1", "y_2"} if values == "unclipped" else set()
    )


def honest(algorithm: PrivateLSVIUCB, data: OnlineUsers, curator: Curator) -> UserViews:
    return algorithm(data, curator)


def through_the_policy(algorithm: PrivateLSVIUCB, data: OnlineUsers, curator: Curator) -> UserViews:
    """A leak: later users are told what was best for the first one, beside what was released."""
    views = algorithm(data, curator).views
    first = data[0].first_state
    later = (view._replace(policy=np.where(view.policy >= 0, first % 3, 0)) for view in views[1:])
    return UserViews((views[0], *later))


def one_word(algorithm: PrivateLSVIUCB, data: OnlineUsers, curator: Curator) -> UserViews:
    """A leak: the last user's actions hang on the first one's."""
    views = list(algorithm(data, curator).views)
    states = data[0].episode(lambda step, state: int(views[0].policy[step, state])).states
    views[-1] = views[-1]._replace(actions=(views[-1].actions + states.sum()) % 3)
    return UserViews(tuple(views))


@pytest.mark.parametrize(("do", "found"), [(honest, False), (through_the_policy, True), (one_word, True)])
def test_a_leak_to_other_users_is_found_and_the_users_own_view_is_none(do: Any, found: bool) -> None:
    features = one_hot_features(2, 2)  # in the two states of a pair the best actions differ
    mdp = random_mdp(2, 2, 3, seed=3)
    constants = replace(LIVELY, bonus=0.0)
    algorithm = PrivateLSVIUCB(LinearModel(features, 3), 6, fixed_updates=3, constants=constants, mdp=mdp)
    users = online_users(mdp, 6, seed=4)
    pair_users = [users.replace(0, constant_user(mdp, state, reward=1.0)) for state in (0, 1)]
    pair = replace(algorithm.worst_pairs()[0], data=pair_users[0], neighbour=pair_users[1])
    audit = replay(Changed(algorithm, do), [pair], seed=0, replays=3)
    assert {f.kind for f in audit.findings} == ({"leak"} if found else set())
    assert not audit.inconclusive


def test_the_users_own_actions_do_differ() -> None:
    """Under one recording the changed user acts otherwise, and no other user does."""
    mdp = random_mdp(2, 2, 3, seed=3)
    model = LinearModel(one_hot_features(2, 2), 3)
    algorithm = PrivateLSVIUCB(model, 12, fixed_updates=8, constants=replace(LIVELY, bonus=0.0))
    users = online_users(mdp, 12, seed=4)
    for unit in range(4, 12):
        policy = run(algorithm, users, seed=1).output.views[unit].policy
        acts = [constant_user(mdp, s).episode(lambda h, x, p=policy: int(p[h, x])).actions for s in (0, 1)]
        if not np.array_equal(*acts):
            break
    else:
        pytest.fail("no policy that tells the two states apart")
    transcript = Transcript()
    one = run(algorithm, users.replace(unit, constant_user(mdp, 0)), seed=1, transcript=transcript).output
    other = run(algorithm, users.replace(unit, constant_user(mdp, 1)), noise=ReplayedNoise(transcript)).output
    same = [np.array_equal(a.actions, b.actions) for a, b in zip(one.views, other.views, strict=True)]
    assert same == [index != unit for index in range(12)]


# The algorithm


@pytest.mark.parametrize("values", ["to-go", "horizon", "unclipped"])
def test_without_noise_it_is_lsvi_ucb(values: Any) -> None:
    model = LinearModel(PROCESS.features, 3, values)
    users = online_users(PROCESS, 300, seed=3, random_rewards=True)
    constants = LSVIConstants(bonus=1e-4, ridge=0.02)
    algorithm = PrivateLSVIUCB(model, 300, constants=constants, mdp=PROCESS)
    private = run(algorithm, users, noise=NoNoise()).output
    plain = lsvi_ucb(
        users,
        model,
        ridge=algorithm.ridge,
        bonus=algorithm.bonus,
        updates=doubling(2.0, algorithm.noise.updates),
    )
    for one, other in zip(private.views, plain.views, strict=True):
        assert one.updates == other.updates
        assert np.array_equal(one.policy, other.policy)
        assert np.array_equal(one.actions, other.actions)
    assert plain.views[-1].updates > 3


@pytest.mark.parametrize("seed", [0, 1])
def test_line_by_line(seed: int) -> None:
    """Algorithm 1 written down again with loops over users, on the same noise."""
    horizon, d = 3, 3
    constants = LSVIConstants(bonus=1e-4, ridge=0.05, growth=1.3)
    algorithm = PrivateLSVIUCB(LinearModel(PROCESS.features, horizon, "horizon"), 40, constants=constants)
    users = online_users(PROCESS, 40, seed=2, random_rewards=True)
    transcript = Transcript()
    views = run(algorithm, users, seed=seed, transcript=transcript).output.views
    outputs = iter([entry.output for entry in transcript.entries[1:]])
    phi = PROCESS.features
    lam, beta = algorithm.ridge, algorithm.bonus
    gram = [2 * lam * np.eye(d) for _ in range(horizon)]
    at_update = [np.linalg.det(g) for g in gram]
    seen: list[tuple[Any, Any, Any]] = []
    count, made = 1, 0

    def greedy(weights: Callable[[int, Any], Any]) -> np.ndarray:
        policy = np.zeros((horizon, 4), dtype=int)
        value = dict.fromkeys(range(4), 0.0)
        for h in reversed(range(horizon)):
            w = weights(h, value)
            found = {}
            for x in range(4):
                options = []
                for a in range(3):
                    width = beta * math.sqrt(max(0.0, phi[x, a] @ np.linalg.inv(gram[h]) @ phi[x, a]))
                    options.append(max(0.0, min(phi[x, a] @ w + width, horizon)))
                policy[h, x] = int(np.argmax(options))
                found[x] = max(options)
            value = found
        return policy

    policy = greedy(lambda h, value: np.zeros(d))
    for k in range(1, 41):
        dets = [np.linalg.det(g) for g in gram]
        grown = any(
            now > 0 and now / then >= constants.growth for now, then in zip(dets, at_update, strict=True)
        )
        if grown and count < algorithm.noise.most_counted:

            def weights(h: int, value: dict[int, float], gram: Any = gram) -> Any:
                y = np.zeros(d)
                for states, actions, rewards in seen:
                    y += phi[states[h], actions[h]] * (rewards[h] + value[int(states[h + 1])])
                noisy = next(outputs)
                assert np.linalg.norm(noisy - y) < 20 * math.sqrt(algorithm.noise.target_variance)
                return np.linalg.inv(gram[h]) @ noisy

            policy = greedy(weights)
            count, made = count + 1, made + 1
            at_update = [now if now > 0 else then for now, then in zip(dets, at_update, strict=True)]
        assert views[k - 1].updates == made
        assert np.array_equal(views[k - 1].policy, policy)
        episode = users[k - 1].episode(lambda h, x, p=policy: int(p[h, x]))
        assert np.array_equal(views[k - 1].actions, episode.actions)
        seen.append(episode)
        released = next(outputs)
        gram = [released[h] + 2 * lam * np.eye(d) for h in range(horizon)]
    assert made >= 1


def test_every_query_of_the_stream_is_one_users() -> None:
    users = online_users(PROCESS, 5, seed=0)
    algorithm = PrivateLSVIUCB(MODEL, 1000)
    transcript = Transcript()
    views = run(algorithm, users, seed=0, transcript=transcript).output.views
    items = [entry.query for entry in transcript.entries if entry.query.shape == (3, 3, 3)]
    for user, view, item in zip(users, views, items, strict=True):
        states, actions, _ = user.episode(lambda h, x, v=view: int(v.policy[h, x]))
        for h in range(3):
            vector = PROCESS.features[states[h], actions[h]]
            np.testing.assert_allclose(item[h], np.outer(vector, vector), rtol=1e-14)
    assert [entry.release.label for entry in transcript.entries].count("y_1") == algorithm.noise.updates
    padding = [entry for entry in transcript.entries if entry.release.label.startswith("y")]
    assert all(not entry.query.any() for entry in padding)


def tiny(seed: int) -> LinearMDP:
    """One-hot features of 2 states and 2 actions, 2 steps."""
    table = random_mdp(2, 2, 2, seed=seed)
    return LinearMDP(
        one_hot_features(2, 2), table.transitions.reshape(2, 4, 2), table.rewards.reshape(2, 4), table.initial
    )


@pytest.mark.parametrize("seed", range(4))
def test_lsvi_ucb_finds_the_best_of_all_policies(seed: int) -> None:
    """The optimum by enumeration of all 16 policies and of all paths."""
    process = tiny(seed)
    mdp = process
    values = {}
    for choice in itertools.product(range(2), repeat=4):
        policy = np.array(choice).reshape(2, 2)
        value = 0.0
        for start, middle in itertools.product(range(2), repeat=2):
            first, second = policy[0, start], policy[1, middle]
            chance = mdp.initial[start] * mdp.transitions[0, start, first, middle]
            value += chance * (mdp.rewards[0, start, first] + mdp.rewards[1, middle, second])
        values[choice] = value
    best = max(values.values())
    assert mdp.initial @ mdp.optimal_values()[0] == pytest.approx(best)
    users = online_users(mdp, 3000, seed=seed)
    views = lsvi_ucb(users, LinearModel(process.features, 2), ridge=0.5, bonus=2.0)
    regret = views_regret(mdp, views)
    worst = best - min(values.values())
    assert regret[-1] - regret[-301] < 300 * 0.1 * worst
    losses = [best - values[tuple(view.policy.ravel())] for view in views.views]
    np.testing.assert_allclose(regret, np.cumsum(losses), rtol=1e-9, atol=1e-9)


def test_fixed_times_are_as_many_as_stated_and_evenly_apart() -> None:
    for users, most in ((10, 1), (10, 9), (1000, 16), (7, 3)):
        times = fixed_times(users, most)
        due = []
        for k in range(1, users + 1):
            if times(k, len(due), np.zeros(1)):
                due.append(k)
        assert len(due) == most
        assert due[0] > 1
        gaps = np.diff([1, *due, users + 1])
        assert gaps.max() - gaps.min() <= 1


def test_matrices_without_volume_neither_update_nor_break() -> None:
    algorithm = PrivateLSVIUCB(MODEL, 200, ZCDP(rho=1e-3), constants=LSVIConstants(ridge=1e-4, bonus=0.1))
    views = run(algorithm, online_users(PROCESS, 200, seed=0), seed=0).output.views
    assert len(views) == 200
    assert views[-1].updates <= algorithm.noise.updates


def test_few_lines_of_ledger_however_many_users() -> None:
    algorithm = PrivateLSVIUCB(LinearModel(random_linear_mdp(6, 4, 5, 5, seed=0).features, 5), 100_000)
    ledger = run(algorithm, online_users(random_linear_mdp(6, 4, 5, 5, seed=0), 2, seed=0)).ledger
    assert len(ledger.releases) == 1 + 5 * algorithm.noise.updates < 1000
    assert sum(map(len, ledger.lines())) < 400_000
    assert {type(r.mechanism) for r in ledger.releases} == {TreeAggregation, Gaussian}


def test_with_the_published_beta_every_policy_is_the_first() -> None:
    users = online_users(PROCESS, 2000, seed=0)
    views = run(PrivateLSVIUCB(MODEL, 2000), users, seed=0).output.views
    assert views[-1].updates > 0
    assert all(np.array_equal(view.policy, views[0].policy) for view in views)
    assert (
        published_bonus(2000, 3, 3, 1.0, 0.05) / math.sqrt(2 * published_ridge(2000, 3, 3, 1.0, 0.05)) > 300
    )


def test_utility_and_views() -> None:
    algorithm = PrivateLSVIUCB(MODEL, 50, fixed_updates=2, mdp=PROCESS)
    views = run(algorithm, online_users(PROCESS, 50, seed=0), seed=0).output
    assert all(isinstance(view, Seen) for view in views.views)
    found = algorithm.utility(views)
    assert found["updates"] == 2.0
    assert found["regret"] == pytest.approx(
        sum(PROCESS.suboptimality(view.policy) for view in views.views), rel=1e-9
    )
    assert algorithm.utility(UserViews(())) == {}


# Bad input


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinearModel(np.zeros((2, 2, 2)), 3),
        lambda: LinearModel(MODEL.features, 0),
        lambda: LinearModel(MODEL.features, 3, "both"),  # type: ignore[arg-type]
        lambda: PrivateLSVIUCB(MODEL, 1),
        lambda: PrivateLSVIUCB(MODEL, 10, ZCDP(rho=0.0)),
        lambda: PrivateLSVIUCB(MODEL, 3),
        lambda: PrivateLSVIUCB(MODEL, 10, calibration="best"),  # type: ignore[arg-type]
        lambda: PrivateLSVIUCB(MODEL, 1000, counted="users"),  # type: ignore[arg-type]
        lambda: PrivateLSVIUCB(MODEL, 10, fixed_updates=0),
        lambda: PrivateLSVIUCB(MODEL, 10, fixed_updates=10),
        lambda: LSVIConstants(bonus=-1.0),
        lambda: LSVIConstants(bonus=math.nan),
        lambda: LSVIConstants(ridge=0.0),
        lambda: LSVIConstants(ridge=math.inf),
        lambda: LSVIConstants(growth=1.0),
        lambda: LSVIConstants(growth=math.nan),
        lambda: LSVIConstants(failure_probability=0.0),
        lambda: LSVIConstants(failure_probability=1.0),
        lambda: calibrated(values="all"),
        lambda: lsvi_ucb(online_users(PROCESS, 2, 0), MODEL, ridge=0.0, bonus=1.0),
    ],
)
def test_what_cannot_be_run_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidParameter):
        make()


def test_users_of_other_sizes_and_too_many_are_refused() -> None:
    algorithm = PrivateLSVIUCB(MODEL, 5, fixed_updates=2)
    with pytest.raises(DataError):
        run(algorithm, online_users(random_mdp(3, 3, 3, seed=0), 2, seed=0))
    with pytest.raises(DataError):
        run(algorithm, online_users(PROCESS, 6, seed=0))


def test_features_past_norm_1_fail_the_premise() -> None:
    algorithm = PrivateLSVIUCB(LinearModel(1.5 * one_hot_features(2, 2), 3), 1000)
    assert [p.name for p in algorithm.claim.premises if not p.holds] == ["norm(phi(x, a)) for every (x, a)"]
    mdp = TabularMDP(np.full((3, 2, 2, 2), 0.5), np.zeros((3, 2, 2)), np.array([0.5, 0.5]))
    assert account(run(algorithm, online_users(mdp, 2, seed=0), seed=0).ledger).verdict is Proof.NOT_PROVED
