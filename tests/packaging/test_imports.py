"""What people do many times a day does not wait for libraries that it does not need."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dpaudit import L2, ZCDP, Claim, Gaussian, Header, Ledger, Neighbouring, Release

ROOT = Path(__file__).parents[2]
#: No everyday command computes with these; each takes longer to import than a small ledger to verify.
SLOW = {"altair", "cloudpickle", "dp_accounting", "flint", "gymnasium", "jinja2", "joblib", "matplotlib"} | {
    *("minari", "pandas", "pyarrow", "scipy.stats", "sklearn", "sqlite3", "torch", "vl_convert")
}
#: What a ledger of Gaussian noise is verified without.
SCIPY = {"scipy.fft", "scipy.integrate", "scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.special"}
COMMAND = """import json, sys
from dpaudit.app.main import main
try:
    main(sys.argv[1:], prog_name="dpaudit")
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
#: Several commands in one interpreter: what none of them brings is not there after all of them.
COMMANDS = """import json, sys
from dpaudit.app.main import main
for command in json.loads(sys.argv[1]):
    try:
        main(command, prog_name="dpaudit")
    except SystemExit as end:
        assert not end.code, (command, end.code)
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def loaded(program: str, *arguments: object) -> set[str]:
    """The modules in an interpreter of its own after a program that ends well."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = set(json.loads(done.stderr.splitlines()[-1]))
    return found | {name.partition(".")[0] for name in found}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A file of two releases."""
    claim = Claim(ZCDP(rho=1.0), unit="row")
    header = Header(algorithm="sums", unit="row", neighbouring=Neighbouring.REPLACE_ONE, claim=claim)
    made = Ledger(header)
    for name in ("a", "b"):
        made.append(Release(label=name, mechanism=Gaussian(sigma=2.0, sensitivity=L2(1.0))))
    made.finish()
    return made.write(tmp_path / "ledger.jsonl")


def test_the_package_by_itself_loads_nothing() -> None:
    found = loaded("import dpaudit, json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)")
    assert "dpaudit" in found
    assert not {one for one in found if one.startswith("dpaudit.")}
    assert found.isdisjoint({"click", "numpy", "pydantic", "rich", "scipy", *SLOW})


def test_help_loads_no_library_that_computes() -> None:
    assert loaded(COMMAND, "--help").isdisjoint({"numpy", "pydantic", "rich", "scipy", *SLOW})


def test_verify_convert_calibrate_and_epsilon(ledger: Path) -> None:
    commands = [
        ["verify", str(ledger)],
        ["convert", "--rho", "0.5", "--delta", "1e-6"],
        ["calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6"],
        ["epsilon", "gaussian", "--sigma", "1.1", "--rate", "0.01", "--steps", "10000", "--delta", "1e-5"],
    ]
    found = loaded(COMMANDS, json.dumps(commands))
    assert "dpaudit.accountants.accounting" in found
    assert found.isdisjoint(SLOW | SCIPY)


WITHOUT_WINGS = """import json, sys
wings = json.loads(sys.argv[1])

class Refused:
    def find_spec(self, name, path=None, target=None):
        if any(name == wing or name.startswith(wing + ".") for wing in wings):
            raise ImportError(name)

sys.meta_path.insert(0, Refused())
from dpaudit import L1, Claim, Laplace, PureDP, audit, calibrate, certify, supports, verify

def count(rows, curator):
    return curator.release(len(rows), Laplace(scale=2.0, sensitivity=L1(1.0)), label="count")

claim = Claim(PureDP(epsilon=0.5), unit="row", neighbouring="add-or-remove-one")
pair = (["a", "b"], ["a"])
certificate = certify(count, ["a", "b"], claim=claim, pairs=pair, path=sys.argv[2])
assert str(certificate.proof) == str(verify(sys.argv[2]).accounting.verdict) == "PROVED"
assert str(audit(count, pair, claim=claim, method="sequential", trials=50).verdict) == "INCONCLUSIVE"
assert supports("laplace").drawn_by == "release"
assert calibrate(Laplace(scale=1.0, sensitivity=L1(1.0)), PureDP(epsilon=0.5)).value == 2.0
from dpaudit.app.main import main
for command in (["verify", sys.argv[2]], ["convert", "--rho", "0.5"], ["epsilon", "laplace", "--scale", "2"]):
    try:
        main(command, prog_name="dpaudit")
    except SystemExit as end:
        assert not end.code, command
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def test_the_core_works_without_any_wing(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (wings,) = (
        one["protected_modules"]
        for one in project["tool"]["importlinter"]["contracts"]
        if one["type"] == "protected"
    )
    assert "dpaudit.tables" in wings
    assert "dpaudit.pipeline" in loaded(WITHOUT_WINGS, json.dumps(wings), tmp_path / "ledger.jsonl")


def test_certify() -> None:
    # A replay tests the samplers by scipy's special functions, and one draw in 16,000 is decided in balls.
    # Before version 1.17, scipy's special functions themselves import sparse matrices.
    brought = loaded(
        "import json, scipy.special, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    own = {"scipy.optimize", "scipy.sparse"} - brought
    assert loaded(COMMAND, "certify", "dp-apvi").isdisjoint(SLOW - {"flint"} | own)


@pytest.mark.nightly
def test_certify_with_a_page(tmp_path: Path) -> None:
    with_page = loaded(COMMAND, "certify", "dp-apvi", "-o", tmp_path)
    assert with_page.isdisjoint(SLOW - {"flint", "jinja2", "vl_convert"})


@pytest.mark.nightly
def test_the_second_opinion_loads_what_gives_it() -> None:
    """The check itself: a library that is used is found."""
    assert {"dp_accounting", "scipy.stats"} <= loaded(COMMAND, "certify", "dp-apvi", "--second-opinion")
