"""Every field of a release in every form that a release takes: a new field is lost in none of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpaudit import ZCDP, Claim, Ledger, Partition, Release, account, judge
from dpaudit.app.report.report_page import report
from dpaudit.app.text.compared import Comparison, Side
from dpaudit.certificate.certificate import Certificate
from dpaudit.certificate.verdicts import describes
from dpaudit.claims.guarantees import ApproxDP
from dpaudit.curator.admission import new_release
from dpaudit.ledger.columns import PlainReleases
from dpaudit.ledger.file import LedgerStream
from dpaudit.mechanisms import PoissonSampled
from dpaudit.page.blocks import Grid
from dpaudit.processes.wire import frame, value_of
from dpaudit.processes.worker import Asked, _line_of
from tests import make

NOISE = make.gaussian(4.0)
PLAIN: dict[str, Any] = {
    "label": "step",
    "mechanism": NOISE,
    "count": 3,
    "partition": Partition(part="a", split="s", by="values"),
    "grid": NOISE.grid,
    "claimed": ZCDP(rho=2.0),
}
SAMPLED = PLAIN | {
    "mechanism": PoissonSampled(rate=0.5, mechanism=NOISE),
    "claimed": ApproxDP(epsilon=9.0, delta=1e-5),
    "sample": "batch",
}
#: Each field with another value than SAMPLED has.
OTHER: dict[str, Any] = {
    "label": "other",
    "mechanism": PoissonSampled(rate=0.25, mechanism=NOISE),
    "count": 4,
    "partition": Partition(part="b", split="s", by="values"),
    "grid": None,
    "claimed": ApproxDP(epsilon=8.0, delta=1e-5),
    "sample": "another",
}


def certificate(release: Release) -> Certificate:
    made = make.ledger(release)
    claim = Claim(ApproxDP(epsilon=20.0, delta=1e-5), unit="row", neighbouring="add-or-remove-one")
    return judge(made, account(made, claim), [], command="dpaudit certify")


def test_the_fields_are_all_here() -> None:
    assert set(SAMPLED) == set(OTHER) == set(Release.model_fields)
    # A sample takes a mechanism on a sample, which is not plain.
    assert set(PLAIN) == set(Release.model_fields) - {"sample"}
    for name, field in Release.model_fields.items():
        assert SAMPLED[name] != OTHER[name]
        assert field.is_required() or SAMPLED[name] != field.get_default()


@pytest.mark.parametrize("fields", [PLAIN, SAMPLED])
def test_a_ledger_keeps_every_field(fields: dict[str, Any], tmp_path: Path) -> None:
    release = Release(**fields)
    made = make.ledger(*[release] * 40)  # of so many, plain ones are read in columns
    path = made.write(tmp_path / "ledger.jsonl")
    assert made.releases == Ledger.read(path).releases == (release,) * 40
    with LedgerStream(path) as stream:
        blocks = [one if isinstance(one, PlainReleases) else [one] for one in stream.blocks()]
        found = [one for block in blocks for one in block]
    assert found == [release] * 40
    whole = json.loads(release.canonical())
    assert whole == release.to_json()
    assert {name for name in whole if name != "record"} == set(fields)
    with LedgerStream(path) as stream:  # and plain lines with it still take the quick way
        assert any(isinstance(one, PlainReleases) for one in stream.blocks()) is ("sample" not in fields)


def test_columns_keep_every_field() -> None:
    release = Release(**PLAIN)
    columns = PlainReleases.of([release])
    assert columns.scale.tolist() == [NOISE.sigma]  # it has a place there
    assert columns[0] == release


@pytest.mark.parametrize("fields", [PLAIN, SAMPLED])
def test_a_curators_line_and_a_request_keep_every_field(fields: dict[str, Any]) -> None:
    release = Release(**fields)
    stated = {name: value for name, value in fields.items() if name != "grid"}
    line = new_release(**stated, on_grid=True)
    assert line == release
    sent = value_of(frame((release.label, release.sample, _line_of(release))))
    nothing: Any = [None] * (len(Asked._fields) - 3)
    assert Asked(*sent, *nothing).line() == release


def test_a_certificate_keeps_every_field() -> None:
    release = Release(**SAMPLED)
    made = certificate(release)
    for one in (made, Certificate.from_record(made.to_json(), where="here")):
        assert describes(one.releases, [release])
        (row,) = one.releases
        assert {name: getattr(row, name) for name in Release.model_fields} == SAMPLED


@pytest.mark.parametrize("name", [name for name in OTHER if name != "grid"])
def test_a_report_and_a_comparison_show_every_field(name: str) -> None:
    """But the grid: it follows from the mechanism."""
    one, two = (certificate(Release(**fields)) for fields in (SAMPLED, SAMPLED | {name: OTHER[name]}))
    assert Comparison(*map(Side.of_certificate, (one, one))).changes() == []
    assert Comparison(*map(Side.of_certificate, (one, two))).changes() != []
    assert table(one) == table(one)
    assert table(one) != table(two)


def table(of: Certificate) -> Grid:
    """The report's table of releases."""
    return next(one for one in report(of, None) if isinstance(one, Grid) and one.columns[0] == "release")


#: Runs with a release that has one field more, which no other line of the package knows.
WIDER = """
import importlib.machinery, importlib.util, sys

class Wider(importlib.machinery.SourceFileLoader):
    def get_data(self, path):
        text = super().get_data(path)
        if path.endswith("releases.py"):
            text = text.replace(b"    label: ", b"    remark: str | None = None\\n    label: ", 1)
        return text

    def path_stats(self, path):
        raise OSError  # no compiled file is read or written

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        found = super().find_spec(name, path, target) if name == "dpaudit.ledger.releases" else None
        loader = found and Wider(name, found.origin)
        return found and importlib.util.spec_from_file_location(name, found.origin, loader=loader)

sys.meta_path.insert(0, Finder)
import tests.properties.test_release_fields as fields

with_remark = [{**each, "remark": "x"} for each in (fields.PLAIN, fields.SAMPLED)]
assert fields.Release(**with_remark[0]).remark == "x"
for each in with_remark:
    fields.test_a_ledger_keeps_every_field(each, fields.Path(sys.argv[1]))
    fields.test_a_curators_line_and_a_request_keep_every_field(each)
for name, each in zip(("PLAIN", "SAMPLED"), with_remark):
    setattr(fields, name, each)
fields.test_columns_keep_every_field()
fields.test_a_certificate_keeps_every_field()
try:
    fields.test_the_fields_are_all_here()
except AssertionError:
    print("travelled, and the list of this file has to name it")
"""


def test_a_field_that_the_model_alone_knows_travels_everywhere(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    words = [sys.executable, "-c", WIDER, str(tmp_path)]
    ran = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    assert ran.stdout == "travelled, and the list of this file has to name it\n", ran.stderr
