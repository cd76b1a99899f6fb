"""Opacus itself: `nox -s interoperability`, with the extra `opacus` (and so torch) installed."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit import Ledger
from dpaudit.accountants.bridges.from_opacus import from_opacus, read_checkpoint
from dpaudit.app.main import main
from dpaudit.errors import UsageError
from tests import make

pytestmark = [
    pytest.mark.interoperability,
    pytest.mark.filterwarnings("default"),  # torch's own warnings are not ours
]

DATA = Path(__file__).parents[2] / "data"


def trained(accountant: str, multipliers: list[float], path: Path) -> Any:
    """A model trained for a pass with each of the noise multipliers; its engine, and the checkpoint saved."""
    import torch
    from opacus import PrivacyEngine

    torch.manual_seed(20260101)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(200, 2), torch.randn(200, 1))
    engine = PrivacyEngine(accountant=accountant)
    private, optimizer, batches = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=torch.utils.data.DataLoader(data, batch_size=20),
        noise_multiplier=multipliers[0],
        max_grad_norm=1.0,
    )
    for multiplier in multipliers:
        optimizer.noise_multiplier = multiplier
        for features, target in batches:
            optimizer.zero_grad()
            (private(features) - target).square().mean().backward()
            optimizer.step()
    engine.save_checkpoint(path=path, module=private, optimizer=optimizer)
    return engine


@pytest.mark.parametrize("accountant", ["rdp", "prv"])
def test_a_training_run_and_its_checkpoint(tmp_path: Path, accountant: str) -> None:
    engine = trained(accountant, [1.1, 0.9, 1.1], tmp_path / "model.pt")
    live = from_opacus(engine.accountant.state_dict())
    assert [(one.count, one.mechanism.mechanism.sigma) for one in live] == [(20, 1.1), (10, 0.9)]
    assert {one.mechanism.rate for one in live} == {0.1}
    saved = from_opacus(read_checkpoint(tmp_path / "model.pt"))
    assert (saved.header, saved.releases) == (live.header, live.releases)
    through_json = from_opacus(json.loads(json.dumps(engine.accountant.state_dict())))
    assert through_json.releases == live.releases


def test_the_command_reads_a_checkpoint(tmp_path: Path) -> None:
    trained("gdp", [1.1], tmp_path / "model.pt")
    ledger = tmp_path / "ledger.jsonl"
    arguments = ["import", str(tmp_path / "model.pt"), "-o", str(ledger), "--unit", "image"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    [release] = Ledger.read(ledger, allow_unhashed=True).releases
    assert release.count == 10


@pytest.mark.parametrize(
    ("steps", "delta", "truth"),
    [([(1.0, 0.01, 10_000)], 1e-6, 6.907384495), ([(1.1, 0.1, 20)], 1e-5, 0.0), ([(4.0, 1.0, 9)], 1e-6, 0.0)],
)
def test_our_renyi_figure_is_no_larger_than_opacus(
    steps: list[tuple[float, float, int]], delta: float, truth: float
) -> None:
    from opacus.accountants import PRVAccountant, RDPAccountant

    theirs, near = RDPAccountant(), PRVAccountant()
    theirs.history, near.history = list(steps), list(steps)
    ledger = from_opacus(theirs.state_dict())
    renyi, loss = make.epsilon(ledger, delta, "rdp"), make.epsilon(ledger, delta, "pld")
    assert truth - 1e-9 <= loss <= renyi <= theirs.get_epsilon(delta) + 1e-9
    # Their PRV figure holds up to 0.01 either way.
    assert float(near.get_epsilon(delta)) - 0.02 <= loss <= float(near.get_epsilon(delta)) + 1e-9


def test_what_this_package_writes_is_what_was_recorded() -> None:
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    for _ in range(10_000):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    recorded = json.loads((DATA / "opacus_1.6.0_rdp.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(accountant.state_dict())) == recorded
    assert accountant.get_epsilon(1e-6) == pytest.approx(7.414025254409949, rel=1e-9)


def test_the_page_has_the_epsilons_that_this_package_computes() -> None:
    from opacus.accountants import GaussianAccountant, PRVAccountant, RDPAccountant

    page = (DATA.parents[1] / "docs" / "proving" / "importing.md").read_text(encoding="utf-8")
    for kind in (RDPAccountant, PRVAccountant, GaussianAccountant):
        theirs = kind()
        theirs.history = [(1.0, 0.01, 10_000)]
        assert f"| Opacus `{theirs.mechanism()}` | {theirs.get_epsilon(1e-6):.6g} |" in page


class Planted:
    """An object whose reading runs code."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("old_format", [False, True])
def test_code_in_a_checkpoint_never_runs(tmp_path: Path, old_format: bool) -> None:
    import torch

    ran, source = tmp_path / "ran", tmp_path / "model.pt"
    state = {"history": [(1.0, 0.1, 1)], "mechanism": "rdp", "more": Planted(ran)}
    torch.save(state, source, _use_new_zipfile_serialization=not old_format)
    torch.load(source, weights_only=False)  # the fault is real: read otherwise, it runs
    assert ran.exists()
    ran.unlink()
    with pytest.raises(UsageError, match="does not read it as weights"):
        read_checkpoint(source)
    assert not ran.exists()


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"\x80\x02", pickle.dumps({"history": []})])
def test_broken_checkpoints_are_refused(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "model.pt"
    source.write_bytes(content)
    result = CliRunner().invoke(
        main, ["import", str(source), "-o", str(tmp_path / "ledger.jsonl"), "--unit", "image"]
    )
    assert result.exit_code == 2
    assert "fault in dpaudit" not in result.output
    assert not (tmp_path / "ledger.jsonl").exists()


def test_a_checkpoint_that_is_a_bare_tensor(tmp_path: Path) -> None:
    import torch

    torch.save(torch.zeros(2), tmp_path / "tensor.pt")
    with pytest.raises(UsageError, match="holds a Tensor"):
        read_checkpoint(tmp_path / "tensor.pt")
