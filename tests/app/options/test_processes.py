"""Commands, gate and pytest: a target that does not end is told, and never passes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("own_processes", "few_runs")

TARGETS = """
import os, threading
import numpy as np
from dpaudit import L2, ZCDP, Claim, Gaussian

def pair():
    zeros = np.zeros((20, 2))
    return zeros, np.vstack([np.ones((1, 2)), zeros[1:]])

NOISE = Gaussian(sigma=4.0, sensitivity=L2(2.0))
RARE = 0.8125  # a value that no search for pairs tries

def good(data, curator):
    return curator.release_sum(data, bound=1.0, mechanism=NOISE, label="sums")

def exits(data, curator):
    good(data, curator)
    os._exit(0)

def hangs(data, curator):
    good(data, curator)
    threading.Event().wait()

def raises(data, curator):
    good(data, curator)
    raise KeyError("patient 4711")

def parts(data, curator):
    return good(data, curator), good(data, curator) if RARE in data else None

def stops(data, curator):
    if RARE in data:
        raise LookupError("patient 4711")
    return good(data, curator)

def asks(data, curator):
    if RARE in data:
        return curator.release_sum(data, bound=1.0, mechanism=NOISE, label="another name")
    return good(data, curator)

for one in (good, exits, hangs, raises, parts, stops, asks):
    one.claim = Claim(ZCDP(rho=0.125), unit="row", neighbouring="replace-one")
"""

GATE = """
[tool.dpaudit.targets.one]
target = "mine.py:{name}"
pair = "mine.py:pair"
[tool.dpaudit.audit]
trials = 1
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TARGETS)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("exits", (), "exit status 0 before it returned"),
        ("hangs", ("--timeout", "1"), "did not end within 1 s"),
        ("raises", (), "KeyError while running it"),
    ],
)
def test_a_target_that_does_not_return_is_no_success(
    dpaudit: Any, mine: Path, name: str, options: tuple[str, ...], says: str
) -> None:
    target = f"mine.py:{name}", "--pair", "mine.py:pair", *options
    for verb in (("certify", *target, "-o", "out"), ("audit", *target, "--trials", 1)):
        result = dpaudit(*verb)
        assert result.exit_code == 2, result.stdout + result.stderr
        assert says in " ".join(result.stderr.split()).replace(" while auditing it", " while running it")
        assert "4711" not in result.stdout + result.stderr
    assert not (mine / "out" / "certificate.json").exists()
    (mine / "pyproject.toml").write_text(GATE.format(name=name))
    gated = dpaudit("gate", *options, "--report", "sarif=out.sarif")
    assert gated.exit_code == 1
    assert says in " ".join(gated.stdout.split())
    assert dpaudit("gate", "--exit-zero", *options).exit_code == 1
    report = json.loads((mine / "out.sarif").read_text())
    assert "4711" not in json.dumps(report)
    assert len(report["runs"][0]["results"]) == 1


def test_an_innocent_target_passes_everywhere(dpaudit: Any, mine: Path, undrawn: None) -> None:
    target = "mine.py:good", "--pair", "mine.py:pair", "--timeout", 600, "--memory", 65536
    made = dpaudit("certify", *target, "-o", "out")
    assert made.exit_code == 0, made.stderr
    certificate = json.loads((mine / "out" / "certificate.json").read_text())
    assert certificate["process"] == {"kind": "twin", "stand_in": "the neighbour in the given pair"}
    assert dpaudit("audit", *target, "--trials", 1).exit_code == 0
    (mine / "pyproject.toml").write_text(GATE.format(name="good"))
    assert dpaudit("gate").exit_code == 0
    assert dpaudit("report", "out/certificate.json").exit_code == 0


FILES = ("certificate.json", "ledger.jsonl", "output.json", "report.html")
PRIVATE = ("certificate.private.json", "ledger.private.jsonl", "output.private.json", "report.private.html")


@pytest.fixture
def diverged(dpaudit: Any, mine: Path, undrawn: None) -> Any:
    """A run whose worker asks for more than its twin, written over the files of an innocent one."""
    np.save(mine / "data.npy", np.full((20, 2), 0.8125))
    np.save(mine / "public.npy", np.zeros((20, 2)))
    assert certify(dpaudit, "good", "public.npy").exit_code == 0
    assert all((mine / "out" / name).exists() for name in FILES)
    return certify(dpaudit, "parts", "data.npy")


def certify(dpaudit: Any, name: str, data: str, *options: str) -> Any:
    target = f"mine.py:{name}", "--pair", "mine.py:pair", "--data", data, "--rho", 0.25
    return dpaudit("certify", *target, "-o", "out", *options)


def test_a_run_that_diverges_is_told_on_stderr_alone(dpaudit: Any, mine: Path, diverged: Any) -> None:
    assert diverged.exit_code == 1
    assert "for the data's holder alone: control-flow" in diverged.stderr
    said = " ".join(diverged.stdout.split())
    assert "proof PROVED" in said
    assert "withheld the run on the data diverged from its twin's: publish nothing of it" in said
    assert "- let records that cannot be used count as zero, as release_sum(records, map=f) does" in said
    assert "control-flow" not in diverged.stdout
    for name in PRIVATE:
        assert "control-flow" not in (mine / "out" / name).read_text()
    certificate = json.loads((mine / "out" / PRIVATE[0]).read_text())
    assert (certificate["diverged"], certificate["publishable"]) == (True, False)
    assert len(certificate["releases"]) == 1
    alone = certify(dpaudit, "parts", "data.npy", "--in-process")
    assert alone.exit_code == 0
    assert len(json.loads((mine / "out" / FILES[0]).read_text())["releases"]) == 2


def test_a_run_that_diverges_leaves_nothing_that_can_be_published(
    dpaudit: Any, mine: Path, diverged: Any
) -> None:
    left = {path.name: path.stat().st_mode & 0o777 for path in (mine / "out").iterdir()}
    assert {name: mode for name, mode in left.items() if name[0] != "."} == dict.fromkeys(PRIVATE, 0o600)
    assert f"written: {Path('out') / 'output.private.json'} (do not publish it: its run" in diverged.stdout
    # A later run that does not diverge leaves nothing of it.
    assert certify(dpaudit, "good", "public.npy").exit_code == 0
    assert {path.name for path in (mine / "out").iterdir() if path.name[0] != "."} == set(FILES)


def test_a_certificate_of_a_run_that_diverged_is_not_signed(
    dpaudit: Any, refusal: Any, mine: Path, diverged: Any
) -> None:
    pytest.importorskip("cryptography")
    assert dpaudit("keygen", "key").exit_code == 0
    refused = refusal("sign", "out/certificate.private.json", "--key", "key")
    assert "DPA404 certificate of 'parts': the certificate of a run that diverged from its twin" in refused
    assert dpaudit("sign", "out/certificate.json", "--key", "key").exit_code == 2
    assert not [path for path in (mine / "out").iterdir() if path.name.endswith(".dsse.json")]


def test_a_report_about_a_run_that_diverged_says_no(dpaudit: Any, mine: Path, diverged: Any) -> None:
    page = dpaudit("report", "out", "--format", "md")
    assert page.exit_code == 0
    assert "output be published?: **no: its run on the data diverged from its twin's" in page.stdout
    assert "Show nobody this page" in page.stdout
    assert "figures not computed again" not in page.stdout  # the private ledger was found
    card = dpaudit("report", "out", "--format", "card", "-o", "card.md")
    assert card.exit_code == 0
    assert "Not to be published: its run on the data diverged" in (mine / "card.md").read_text()
    assert (mine / "card.md").stat().st_mode & 0o777 == 0o600
    assert dpaudit("report", "out", "--registry", "entry.yaml").exit_code == 2


def test_a_site_shows_nothing_of_a_run_that_diverged(dpaudit: Any, mine: Path, diverged: Any) -> None:
    alone = dpaudit("site", "out", "-o", "site")
    assert (alone.exit_code, "no certificate, ledger or budget book" in alone.stderr) == (2, True)
    np.save(mine / "data.npy", np.zeros((20, 2)))
    target = "mine.py:good", "--pair", "mine.py:pair", "--rho", 0.25
    assert dpaudit("certify", *target, "-o", "other").exit_code == 0
    both = dpaudit("site", ".", "-o", "site")
    assert both.exit_code == 0
    assert "private" not in (mine / "site" / "index.html").read_text()
    # Given by hand under another name, it is shown as what it is.
    (mine / "other" / "certificate.json").write_bytes((mine / "out" / PRIVATE[0]).read_bytes())
    (mine / "other" / "ledger.jsonl").write_bytes((mine / "out" / PRIVATE[1]).read_bytes())
    assert dpaudit("site", "other", "-o", "site").exit_code == 0
    assert "no: its run on the data diverged" in (mine / "site" / "index.html").read_text()


def test_a_gates_report_has_the_twins_line_and_words_alone(dpaudit: Any, mine: Path) -> None:
    """On the data the target raises two lines above its release, or asks for another one below it."""
    np.save(mine / "data.npy", np.full((20, 2), 0.8125))
    lines = (mine / "mine.py").read_text().splitlines()
    release = 1 + next(n for n, line in enumerate(lines) if "curator.release_sum" in line)
    for name in ("stops", "asks"):
        (mine / "pyproject.toml").write_text(
            GATE.format(name=name) + "[tool.dpaudit.targets.one.claim]\nrho = 1\n"
        )
        text = (mine / "pyproject.toml").read_text().replace("pair = ", 'data = "data.npy"\npair = ')
        (mine / "pyproject.toml").write_text(text)
        gated = dpaudit("gate", "--report", "sarif=out.sarif")
        assert gated.exit_code == 1, gated.stdout + gated.stderr
        report = (mine / "out.sarif").read_text()
        (found,) = json.loads(report)["runs"][0]["results"]
        region = found["locations"][0]["physicalLocation"]["region"]["startLine"]
        assert (found["ruleId"], region) == ("refuted", release)
        for private in ("4711", "LookupError", "another name"):
            assert private not in report + gated.stdout + gated.stderr
        told = dpaudit("gate", "--show-target-errors")
        assert ("LookupError" if name == "stops" else "another name") in told.stderr


def test_the_commands_process_never_imports_the_target(mine: Path, python: list[str]) -> None:
    program = (
        "import sys\n"
        "from dpaudit.app.main import main\n"
        "try:\n"
        "    main(['audit', 'mine.py:good', '--pair', 'mine.py:pair', '--trials', '1'])\n"
        "finally:\n"
        "    print([name for name in sys.modules if name.startswith('dpaudit_target')], file=sys.stderr)\n"
    )
    done = subprocess.run([*python, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_an_audit_in_pytest_runs_elsewhere(mine: Path, python: list[str]) -> None:
    # There too the samplers are tested with few draws.
    (mine / "conftest.py").write_text(
        "from dpaudit.auditors.replay import sampler_check\n"
        "for name in ('DRAWS', 'SLOW_DRAWS', 'CHOICES'):\n"
        "    setattr(sampler_check, name, getattr(sampler_check, name) // 10)\n"
    )
    (mine / "test_mine.py").write_text(
        "import sys\n"
        "sys.path.insert(0, '.')\n"
        "import mine, pytest\n"
        "@pytest.mark.dp_claim(rho=0.125, unit='row')\n"
        "@pytest.mark.parametrize('target', [mine.good, mine.exits])\n"
        "def test_one(dp_audit, target):\n"
        "    dp_audit(target, mine.pair(), trials=1)\n"
    )
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-n", "0", "test_mine.py"]
    done = subprocess.run([*python, "-m", "pytest", *arguments], capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "exit status 0 before it returned" in done.stdout
