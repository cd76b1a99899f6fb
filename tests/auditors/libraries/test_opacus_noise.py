"""Opacus routed through a curator: what depends on the private number of records is found."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit import L2, ApproxDP, Claim, Gaussian, Neighbouring, Pair, PoissonSampled, epsilon
from dpaudit.auditors.libraries.opacus_noise import DISTRIBUTED
from dpaudit.auditors.libraries.routed import Routed
from dpaudit.auditors.replay.replay import replay
from dpaudit.certificate.verdicts import Audit, Experiment
from dpaudit.curator.noise import LiveNoise, Transcript
from dpaudit.curator.running import run
from dpaudit.errors import UsageError

pytestmark = [
    pytest.mark.interoperability,
    pytest.mark.filterwarnings("default"),  # torch's own warnings are not ours
]


def records(number: int) -> Any:
    features = np.random.default_rng(0).normal(size=(number, 3))
    features[-1] = [3.0, -3.0, 1.0]
    return np.column_stack([features, features @ [1.0, 2.0, 3.0]])


ALL = records(18)
FEWER = ALL[:-1]
#: Of which there are few samples.
FEW = Pair(ALL[-6:], ALL[-6:-1])


def dataset(rows: Any) -> Any:
    import torch

    columns = torch.from_numpy(rows).float()
    return torch.utils.data.TensorDataset(columns[:, :3], columns[:, 3:])


def weights_after(steps: int, model: Any, optimizer: Any, batches: Any) -> list[Any]:
    for _, (features, target) in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        (model(features) - target).square().mean().backward()
        optimizer.step()
    return [each.detach().numpy().copy() for each in model.parameters()]


def by_engine(rows: Any, **options: Any) -> list[Any]:
    """As the library's introduction has it: the average is over len(dataset) / len(batches) records."""
    import torch
    from opacus import PrivacyEngine

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(dataset(rows), batch_size=9)
    about = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, **options}
    made = PrivacyEngine().make_private(module=model, optimizer=optimizer, data_loader=loader, **about)
    return weights_after(2, *made)


def by_hand(rows: Any, *, rate: float = 1.0, norm: float | None = None) -> list[Any]:
    """Every number is public: the rate, the number of steps and what the sum is divided by."""
    import torch
    from opacus.data_loader import DPDataLoader
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(torch.nn.Linear(3, 1))
    descent = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = DPOptimizer(descent, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=9)
    if norm is not None:  # planted: clipped to another norm than the noise is calibrated to
        optimizer.pre_step = lambda closure=None: _mismatched(optimizer, norm)
    loader = DPDataLoader(dataset(rows), sample_rate=rate)
    return weights_after(2, model, optimizer, iter(_forever(loader)))


def _mismatched(optimizer: Any, norm: float) -> bool:
    optimizer.max_grad_norm, stated = norm, optimizer.max_grad_norm
    optimizer.clip_and_accumulate()
    optimizer.max_grad_norm = stated
    optimizer.add_noise()
    optimizer.scale_grad()
    return True


def _forever(loader: Any) -> Any:
    while True:
        yield from loader


def audited(target: Callable[[Any], Any], claimed: float = 10.0, pair: Pair | None = None) -> Audit:
    claim = Claim(ApproxDP(epsilon=claimed, delta=1e-5), neighbouring=Neighbouring.ADD_OR_REMOVE_ONE)
    about: dict[str, Any] = {"claim": claim, "replays": 3, "extreme_outputs": False}
    return replay(Routed(target, "opacus"), [pair or Pair(ALL, FEWER)], **about)


def test_an_average_over_the_private_number_of_records_is_found() -> None:
    found = audited(by_engine)
    assert found.verdict is Experiment.REFUTED
    assert "leak" in {each.kind for each in found.findings}


@pytest.mark.usefixtures("own_processes")
def test_the_twin_with_public_numbers_is_not_refuted() -> None:
    found = audited(by_hand)
    assert found.verdict is Experiment.NOT_REFUTED, found.findings
    assert found.epsilon_lower is not None
    assert 0.0 < found.epsilon_lower <= 6.573  # of two steps with sigma 1, so that mu = sqrt(2)


def test_the_density_of_a_sample_is_that_of_all_samples() -> None:
    """Two steps at the rate 1/2 with sigma 1: the audit's bound is close below the proved one."""
    found = audited(lambda rows: by_hand(rows, rate=0.5), pair=FEW)
    assert (found.verdict, found.findings) == (Experiment.NOT_REFUTED, ())
    assert found.epsilon_lower is not None
    step = PoissonSampled(rate=0.5, mechanism=Gaussian(sigma=1.0, sensitivity=L2(1.01)))
    proved: Any = epsilon(step, 1e-5, count=2).guarantee
    assert 0.5 * proved.epsilon < found.epsilon_lower <= proved.epsilon


def test_a_claim_of_smaller_samples_is_refuted() -> None:
    found = audited(lambda rows: by_hand(rows, rate=0.5), claimed=0.5, pair=FEW)
    assert (found.verdict, found.findings) == (Experiment.REFUTED, ())


def test_rows_of_a_sample_are_clipped_by_the_optimizers_own_code() -> None:
    found = audited(lambda rows: by_hand(rows, rate=0.5, norm=2.0), pair=FEW)
    assert {each.kind for each in found.findings} == {"sensitivity"}


def by_managed_batches(rows: Any) -> list[Any]:
    import torch
    from opacus import PrivacyEngine
    from opacus.data_loader import DPDataLoader
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    model, loader = torch.nn.Linear(3, 1), DPDataLoader(dataset(rows), sample_rate=0.5)
    about: Any = {"module": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}
    about |= {"data_loader": loader, "noise_multiplier": 1.0, "max_grad_norm": 1.0}
    model, optimizer, loader = PrivacyEngine().make_private(**about)
    optimizer.expected_batch_size = 9
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as small:
        return weights_after(100, model, optimizer, small)


def test_physical_batches_of_a_sample_are_parts_of_one() -> None:
    transcripts = Transcript(), Transcript()
    for target, transcript in zip(
        (by_managed_batches, lambda rows: by_hand(rows, rate=0.5)), transcripts, strict=True
    ):
        run(Routed(target, "opacus"), FEW.data, noise=LiveNoise(0), transcript=transcript)
    one, other = (transcript.entries[0].rows for transcript in transcripts)
    assert one is not None
    assert other is not None
    assert one.shape == (6, 4)
    assert other == pytest.approx(one, abs=1e-6)


def cut(rows: Any) -> list[Any]:
    """The fault: of every Poisson sample only the first three records are used."""
    import torch
    from opacus import PrivacyEngine
    from opacus.data_loader import DPDataLoader

    about: Any = {"module": (model := torch.nn.Linear(3, 1)), "noise_multiplier": 1.0, "max_grad_norm": 1.0}
    about |= {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}
    made = PrivacyEngine().make_private(**about, data_loader=DPDataLoader(dataset(rows), sample_rate=0.5))
    return weights_after(2, *made[:2], ((features[:3], target[:3]) for features, target in made[2]))


def test_a_sample_that_is_cut_is_refused() -> None:
    with pytest.raises(UsageError, match="not every record"):
        run(Routed(cut, "opacus"), ALL, seed=1)


def dropping(rows: Any) -> list[Any]:
    import torch
    from opacus import PrivacyEngine
    from opacus.data_loader import DPDataLoader

    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Dropout(0.5))
    about: Any = {"module": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}
    about |= {"data_loader": DPDataLoader(dataset(rows), sample_rate=0.5)}
    return weights_after(2, *PrivacyEngine().make_private(**about, noise_multiplier=1.0, max_grad_norm=1.0))


def test_dropout_is_refused() -> None:
    """Its masks are public, and drawn for each place in a batch."""
    with pytest.raises(UsageError, match="one mask for each place"):
        run(Routed(dropping, "opacus"), FEW.data, seed=0)


def test_gradients_clipped_to_another_norm_are_found() -> None:
    found = audited(lambda rows: by_hand(rows, norm=2.0))
    assert {each.kind for each in found.findings} == {"sensitivity"}
    assert found.findings[0].label == "the sum of clipped gradients of 2 parameters"


def test_adaptive_clipping_divides_by_the_private_size_of_the_batch() -> None:
    options = {
        "clipping": "adaptive",
        "target_unclipped_quantile": 0.5,
        "clipbound_learning_rate": 0.2,
        "max_clipbound": 10.0,
        "min_clipbound": 0.1,
        "unclipped_num_std": 1.0,
    }
    assert audited(lambda rows: by_engine(rows, **options)).verdict is Experiment.REFUTED


@pytest.mark.parametrize("clipping", ["flat", "per_layer"])
def test_each_step_is_one_release_with_the_stated_noise(clipping: str) -> None:
    norm = 2.0 if clipping == "flat" else [1.2, 1.6]
    transcript = Transcript()

    def target(rows: Any) -> Any:
        return by_engine(rows, clipping=clipping, max_grad_norm=norm, noise_multiplier=1.5)

    run(Routed(target, "opacus"), ALL, noise=LiveNoise(0), transcript=transcript)
    assert [entry.query.shape for entry in transcript.entries] == [(4,), (4,)]
    for entry in transcript.entries:
        stated = entry.release.mechanism
        assert (stated.kind, stated.rate, stated.noise) == ("poisson-sampled", 0.5, ("sigma", 3.0))
        assert stated.declared_sensitivity is not None
        assert stated.declared_sensitivity.value == pytest.approx(2.0, rel=2e-2)


def test_torch_is_as_it_was() -> None:
    import torch
    from opacus.optimizers import DPOptimizer, optimizer

    before = torch.get_rng_state(), DPOptimizer.add_noise, optimizer._generate_noise, torch.get_num_threads()
    run(Routed(by_engine, "opacus"), ALL, seed=0)
    after = torch.get_rng_state(), DPOptimizer.add_noise, optimizer._generate_noise, torch.get_num_threads()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_an_optimizer_of_ones_own_is_refused() -> None:
    from opacus import optimizers

    class Own(optimizers.DPOptimizer):
        def add_noise(self) -> None:
            super().add_noise()

    def target(rows: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("opacus.privacy_engine.get_optimizer_class", lambda **_: Own)
            return by_engine(rows)

    with pytest.raises(UsageError, match="an optimizer that is not Opacus's"):
        run(Routed(target, "opacus"), ALL, seed=0)


def test_the_noise_layer_is_the_one_that_is_routed() -> None:
    """Where the library moves, this fails."""
    from opacus import optimizers
    from opacus.optimizers import optimizer
    from opacus.utils.adaptive_clipping.adaptive_clipping_utils import DPTensorFastGradientAdaptiveClipping
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    kinds = {name: each for name, each in vars(optimizers).items() if inspect.isclass(each)}
    assert {name for name, each in kinds.items() if "add_noise" in vars(each)} - set(DISTRIBUTED) == {
        "AdaClipDPOptimizer",
        "DPOptimizer",
        "DPOptimizerFastGradientClipping",
    }
    assert set(kinds) - set(DISTRIBUTED) == {
        "AdaClipDPOptimizer",
        "DPOptimizer",
        "DPOptimizerFastGradientClipping",
        "DPPerLayerOptimizer",
    }
    names = ["std", "reference", "generator", "secure_mode"]
    assert list(inspect.signature(optimizer._generate_noise).parameters) == names
    sampler = list(inspect.signature(UniformWithReplacementSampler).parameters)
    assert sampler == ["num_samples", "sample_rate", "generator", "steps"]
    assert "_update_clip_and_noise" in vars(DPTensorFastGradientAdaptiveClipping)
