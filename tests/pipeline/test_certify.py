"""One pipeline: its defaults are the verbs', its ledger is composed once, and Python gets what they print."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

import dpaudit
from dpaudit import GDP, L2, ZCDP, ApproxDP, Claim, Curator, Gaussian, Pair
from dpaudit.accountants.composition.composition import Composition
from dpaudit.app.main import main
from dpaudit.app.options.audit_options import Settings
from dpaudit.auditors.replay.replay import FIRST, MOST
from dpaudit.claims.guarantees import DELTAS
from dpaudit.errors import InvalidParameter, UsageError
from dpaudit.pipeline.audit import TRIALS
from dpaudit.pipeline.convert import ORDERS
from tests.certified import certified

CLAIM = Claim(ZCDP(rho=0.25), unit="row", neighbouring="replace-one")
DATA, NEIGHBOUR = np.eye(4, 2), np.vstack([-np.eye(1, 2), np.eye(4, 2)[1:]])
RELEASES = 3


def sums(data: Any, curator: Curator) -> Any:
    noise = Gaussian(sigma=6.0, sensitivity=L2(2.0))
    return [curator.release(data.sum(axis=0), noise, label=f"sum {i}") for i in range(RELEASES)]


def silent(data: Any, curator: Curator) -> int:
    del data, curator
    return 3


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every release that was added to a composition of a whole ledger."""
    seen: list[Any] = []
    add = Composition.add

    def counting(self: Composition, release: Any) -> None:
        # A release's own account composes it alone, under the label that says so.
        if getattr(release, "label", "") != "alone":
            seen.append(release)
        add(self, release)

    monkeypatch.setattr(Composition, "add", counting)
    return seen


@pytest.mark.parametrize("claim", [CLAIM, Claim(ApproxDP(epsilon=4.0, delta=1e-5), unit="row")])
def test_a_run_is_composed_once(added: list[Any], claim: Claim) -> None:
    certificate = dpaudit.certify(sums, DATA, claim=claim, pairs=(DATA, NEIGHBOUR), seed=0, opinion=True)
    assert (certificate.proof, certificate.experiment) == ("PROVED", "NOT_REFUTED")
    assert certificate.profile
    assert certificate.second_opinion is not None
    assert certificate.second_opinion.agrees
    assert len(added) == RELEASES


#: On the second scale a report's course asks whether the accountant is a costly one.
SCALES = [["--rho", "0.25"], ["--epsilon", "4", "--delta", "1e-5"]]


def verb(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, list(arguments), prog_name="dpaudit")
    assert result.exit_code == status, result.output
    return result.output


def certify_into(folder: Path, *claim: str, algorithm: str = "sums") -> None:
    pair = f"{__file__}:pair"
    verb("certify", f"{__file__}:{algorithm}", "--pair", pair, "--unit", "row", *claim, "-o", str(folder))


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize("claim", SCALES)
def test_a_report_adds_each_release_once_more(added: list[Any], tmp_path: Path, claim: list[str]) -> None:
    """The totals after each release are of as many compositions: one pass, in which one grows."""
    certify_into(tmp_path / "out", *claim)
    assert "after each release" in (tmp_path / "out" / "report.html").read_text()
    assert len(added) == 2 * RELEASES
    for form in (["--format", "card"], ["-o", str(tmp_path / "page.html")]):
        added.clear()
        # Its figures are computed again from the ledger.
        verb("report", str(tmp_path / "out"), *form)
        assert len(added) == 2 * RELEASES


def test_a_recording_is_composed_once(added: list[Any]) -> None:
    """The run's ledger, and the audit's own recording, of which no pair moves the last two releases."""

    def one_moves(data: Any, curator: Curator) -> None:
        for i in range(RELEASES):
            noise = Gaussian(sigma=6.0, sensitivity=L2(2.0))
            curator.release(0.0 if i else data.sum(axis=0), noise, label=f"sum {i}")

    certificate = dpaudit.certify(one_moves, DATA, claim=CLAIM, pairs=(DATA, NEIGHBOUR), in_process=True)
    assert "unmoved-most" in {one.code for one in certificate.not_checked}
    assert len(added) == 2 * RELEASES


@pytest.mark.usefixtures("few_runs")
def test_a_costlier_run_is_composed_once_and_so_is_its_baseline(
    added: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    certify_into(tmp_path / "base", *SCALES[0])
    certify_into(tmp_path / "many", *SCALES[0], algorithm="many")
    policy = "[tool.dpaudit.policy]\nfail-on-increase = true\n"
    target = f'[tool.dpaudit.targets.a]\ntarget = "{__file__}:costlier"\npair = "{__file__}:pair"\n'
    held = 'claim = { rho = 0.25, unit = "row" }\nbaseline = "base/certificate.json"\n'
    ledger = '[tool.dpaudit.ledgers.b]\nledger = "many/ledger.jsonl"\n'
    for table, last, number in ((target, "costlier", RELEASES), (ledger, f"sum {MANY - 1}", MANY)):
        (tmp_path / "pyproject.toml").write_text(policy + table + held)
        added.clear()
        report = verb("gate", status=1)
        assert "costs rho" in report
        assert f"release {last!r}" in report
        assert len(added) == number + RELEASES


def costlier(data: Any, curator: Curator) -> None:
    for i in range(RELEASES):
        last = i == RELEASES - 1
        noise = Gaussian(sigma=5.0 if last else 6.0, sensitivity=L2(2.0))
        curator.release(data.sum(axis=0), noise, label="costlier" if last else f"sum {i}")


#: Of so many releases in a file without a baseline the gate keeps the first ones alone.
MANY = 24


def many(data: Any, curator: Curator) -> None:
    for i in range(MANY):
        noise = Gaussian(sigma=12.0 if i == MANY - 1 else 15.0, sensitivity=L2(2.0))
        curator.release(data.sum(axis=0), noise, label=f"sum {i}")


def test_the_gate_composes_a_run_once_whatever_the_policy(
    added: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        "[tool.dpaudit.policy]\nmax-epsilon = 10.0\ndelta-at-most = 1e-6",
        f'[tool.dpaudit.targets.sums]\ntarget = "{__file__}:sums"',
        f'pair = "{__file__}:pair"\nclaim = {{ rho = 0.25, unit = "row" }}\naudit = {{ trials = 2 }}',
    ]
    (tmp_path / "pyproject.toml").write_text("\n".join(lines))
    result = CliRunner().invoke(main, ["gate"], prog_name="dpaudit")
    assert result.exit_code == 0, result.output
    assert len(added) == RELEASES


def pair() -> Pair:
    return Pair(DATA, NEIGHBOUR)


def test_python_certifies_what_the_verb_does(tmp_path: Path) -> None:
    reference = f"{__file__}:sums"
    options = ["--pair", f"{__file__}:pair", "--rho", "0.25", "--unit", "row", "--seed", "5"]
    result = CliRunner().invoke(main, ["certify", reference, *options, "--output-format", "json"])
    printed = json.loads(result.stdout)
    claim = Claim(ZCDP(rho=0.25), unit="row")
    own = dpaudit.certify(sums, DATA, claim=claim, pairs=pair(), seed=5, path=tmp_path / "l.jsonl").to_json()
    differ = {name for name in own if own[name] != printed[name]}
    assert differ <= {"command", "audits", "not_checked"}  # findings name the module under its path
    verified = dpaudit.verify(tmp_path / "l.jsonl")
    assert verified.not_certifiable is None
    assert verified.accounting.bounds == tuple(dpaudit.account(verified_ledger(tmp_path)).bounds)


def verified_ledger(folder: Path) -> dpaudit.Ledger:
    return dpaudit.Ledger.read(folder / "l.jsonl")


def test_without_pairs_nothing_is_audited() -> None:
    certificate = dpaudit.certify(sums, DATA, claim=CLAIM)
    assert certificate.audits == ()
    assert certificate.experiment == "INCONCLUSIVE"


def test_a_run_that_releases_nothing_is_not_certified() -> None:
    with pytest.raises(dpaudit.DpauditError, match="released nothing through its curator"):
        dpaudit.certify(silent, DATA, claim=CLAIM)


def test_without_a_claim_nothing_is_run() -> None:
    def never(data: Any, curator: Curator) -> None:
        del data, curator
        pytest.fail("it was run")

    with pytest.raises(dpaudit.DpauditError, match="nothing is claimed"):
        dpaudit.certify(never, DATA)


def test_a_budget_is_whole_again_for_the_audit() -> None:
    from dpaudit.accountants.filters.filters import ZCDPFilter

    budget = ZCDPFilter(0.25, dpaudit.Neighbouring.REPLACE_ONE)
    found = certified(sums, DATA, claim=CLAIM, pairs=(DATA, NEIGHBOUR), budget=budget, curves=False)
    assert found.certificate.proof == "PROVED"
    assert found.certificate.experiment == "NOT_REFUTED"


def test_an_option_that_replay_would_ignore_is_refused() -> None:
    with pytest.raises(dpaudit.DpauditError, match="workers with the method replay"):
        dpaudit.audit(sums, (DATA, NEIGHBOUR), claim=CLAIM, workers=2)


def option_defaults(verb: str) -> dict[str, Any]:
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    return {
        str(option.name): option.default
        for option in command.params
        if isinstance(option, click.Option) and isinstance(option.default, str | int | float)
    }


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


@pytest.mark.parametrize(
    ("verb", "functions"),
    [
        ("certify", [dpaudit.certify, dpaudit.account]),
        ("verify", [dpaudit.verify, dpaudit.account]),
        ("audit", [dpaudit.audit, dpaudit.one_run, dpaudit.replay]),
    ],
)
def test_defaults_are_those_of_the_verbs(verb: str, functions: list[Callable[..., Any]]) -> None:
    own = option_defaults(verb)
    shared = 0
    for function in functions:
        for name, default in defaults(function).items():
            if name in own and default is not None:
                assert own[name] == default, (function, name)
                shared += 1
    assert shared >= len(functions) - 1


def test_defaults_that_help_states_in_words() -> None:
    assert (defaults(dpaudit.replay)["replays"], FIRST, MOST) == (None, 6, 100)
    assert {TRIALS[method] for method in ("sequential", "threshold", "gdp")} == {5_000}
    assert Settings().number == 1_000
    assert defaults(dpaudit.convert) == {"deltas": DELTAS, "orders": ORDERS}
    described = option_defaults("calibrate")
    assert not {"count", "neighbouring"} & set(described)  # left out, they are the function's own
    assert defaults(dpaudit.calibrate) == {"count": 1, "neighbouring": "add-or-remove-one"}


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"method": "one-run"}, "give one of replay"),
        ({"method": "thresold"}, "did you mean 'threshold'"),
        ({"method": "sequential", "score": "logistics"}, "did you mean 'logistic'"),
    ],
)
def test_an_unknown_method_or_score_makes_no_other_audit(options: Any, answer: str) -> None:
    claim = Claim(GDP(mu=1.0), unit="row", neighbouring="replace-one")
    with pytest.raises(UsageError, match=rf"no (method|score) [\s\S]*{answer}"):
        dpaudit.audit(sums, (DATA, NEIGHBOUR), claim=claim, trials=50, **options)


def test_no_workers_are_not_one_worker() -> None:
    with pytest.raises(InvalidParameter, match="0 workers"):
        dpaudit.audit(sums, (DATA, NEIGHBOUR), claim=CLAIM, method="sequential", trials=50, workers=0)


def test_an_unknown_rigour_gives_no_figures_of_another() -> None:
    rigour: Any = "Interval"
    with pytest.raises(UsageError, match="no rigour 'Interval'"):
        dpaudit.account(dpaudit.run(sums, DATA, claim=CLAIM).ledger, rigour=rigour)


def test_an_array_is_no_list_of_pairs() -> None:
    with pytest.raises(UsageError, match="pairs of type ndarray"):
        dpaudit.certify(sums, DATA, claim=CLAIM, pairs=DATA)
