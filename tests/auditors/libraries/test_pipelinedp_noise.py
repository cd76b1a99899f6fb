"""PipelineDP routed through a curator: a stated sensitivity that is too small is found, its twin is not."""

import inspect
from typing import Any

import pytest

from dpaudit import ApproxDP, Claim, Neighbouring, Pair
from dpaudit.auditors.libraries.routed import Routed
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.errors import UsageError
from tests.sweeps import sweep

pytestmark = [
    pytest.mark.interoperability,
    pytest.mark.filterwarnings("default"),  # other libraries' own
]

ROWS = [(person, "ab"[person % 2], float(person)) for person in range(10)]
OF_ONE = [(99, "a", 10.0), (99, "a", 10.0), (99, "b", 10.0), (99, "b", 1.0)]


def audited(target: Any, one: Any = (*ROWS, *OF_ONE), other: Any = tuple(ROWS)) -> Audit:
    claim = Claim(ApproxDP(epsilon=1.0, delta=1e-6), neighbouring=Neighbouring.ADD_OR_REMOVE_ONE)
    about: dict[str, Any] = {"claim": claim, "replays": 3, "extreme_outputs": False}
    return replay(Routed(target, "pipelinedp"), [Pair(one, other)], **about)


def aggregated(rows: Any, metrics: list[str], noise: str = "LAPLACE", most: int = 3, **options: Any) -> Any:
    import pipeline_dp as dp

    budget = dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-6)
    engine, median = dp.DPEngine(budget, dp.LocalBackend()), dp.Metrics.PERCENTILE(50)
    wanted = dp.AggregateParams(
        metrics=[median if each == "MEDIAN" else getattr(dp.Metrics, each) for each in metrics],
        noise_kind=getattr(dp.NoiseKind, noise),
        max_partitions_contributed=min(most, 2),
        max_contributions_per_partition=most,
        min_value=0.0,
        max_value=10.0,
    )
    of_row = dp.DataExtractors(*(lambda row, place=place: row[place] for place in range(3)))
    found = engine.aggregate(list(rows), wanted, of_row, **{"public_partitions": ["a", "b"], **options})
    budget.compute_budgets()
    return [(partition, tuple(values)) for partition, values in found]


@sweep(
    "metrics, noise, most",
    [
        (["COUNT", "SUM"], "LAPLACE", 3),
        (["COUNT", "SUM"], "LAPLACE", 1),
        (["MEAN"], "GAUSSIAN", 3),
        (["VARIANCE"], "LAPLACE", 3),
        (["PRIVACY_ID_COUNT"], "LAPLACE", 1),
    ],
    everyday=range(5),
)
def test_what_is_correct_is_not_refuted(metrics: list[str], noise: str, most: int) -> None:
    found = audited(lambda rows: aggregated(rows, metrics, noise, most))
    assert found.verdict is Experiment.NOT_REFUTED, found.findings
    assert found.epsilon_lower is not None
    assert 0.0 < found.epsilon_lower <= 1.0


def test_the_order_of_records_does_not_matter() -> None:
    found = audited(lambda rows: aggregated(rows, ["COUNT"]), (*OF_ONE[::-1], *ROWS), tuple(ROWS))
    assert found.verdict is Experiment.NOT_REFUTED, found.findings


@pytest.mark.usefixtures("own_processes")
def test_a_sensitivity_that_is_too_small_is_found() -> None:
    def target(rows: Any, sensitivity: float = 4.0) -> Any:
        from pipeline_dp.dp_computations import LaplaceMechanism

        made = LaplaceMechanism.create_from_epsilon(1.0, sensitivity)
        return made.add_noise(len(rows))

    assert audited(target).verdict is Experiment.NOT_REFUTED
    [finding] = audited(lambda rows: target(rows, sensitivity=2.0)).findings
    assert (finding.kind, finding.declared, finding.measured) == ("sensitivity", 2.0, 4.0)


@pytest.mark.parametrize(
    ("metrics", "options", "words"),
    [(["MEDIAN"], {}, "quantiles"), (["COUNT"], {"public_partitions": None}, "private partitions")],
)
def test_what_replay_would_misjudge_is_refused(metrics: list[str], options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        audited(lambda rows: aggregated(rows, metrics, **options))


def test_the_noise_layer_is_the_one_that_is_routed() -> None:
    """Where the library moves, this fails."""
    from pipeline_dp import dp_computations, partition_selection, pipeline_backend, sampling_utils

    below = {each.__name__ for each in dp_computations.AdditiveMechanism.__subclasses__()}
    assert below == {"GaussianMechanism", "LaplaceMechanism"}
    for function, names in (
        (dp_computations.AdditiveMechanism.add_noise, ["self", "value"]),
        (dp_computations.apply_laplace_mechanism, ["value", "eps", "l1_sensitivity"]),
        (dp_computations.apply_gaussian_mechanism, ["value", "eps", "delta", "l2_sensitivity"]),
        (dp_computations.ExponentialMechanism.apply, ["self", "eps", "inputs_to_score_col"]),
        (sampling_utils.choose_from_list_without_replacement, ["a", "size"]),
        (pipeline_backend.LocalBackend.group_by_key, ["self", "col", "stage_name"]),
        (pipeline_backend.LocalBackend.sample_fixed_per_key, ["self", "col", "n", "stage_name"]),
    ):
        assert list(inspect.signature(function).parameters) == names, function
    makers = {name for name in vars(partition_selection) if name.startswith("create_")}
    assert makers == {
        "create_gaussian_thresholding",
        "create_laplace_thresholding",
        "create_partition_selection_strategy",
        "create_weighted_gaussian_thresholding",
    }
