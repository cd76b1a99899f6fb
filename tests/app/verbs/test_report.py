"""The report: what it says follows from the certificate, whatever stands in there."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from dpaudit import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Certificate,
    Claim,
    DpauditError,
    Partition,
    PureDP,
    Release,
    judge,
)
from dpaudit.accountants.accounting import account
from dpaudit.accountants.curves.profile_points import profile_points
from dpaudit.app.main import main
from dpaudit.app.report.report_charts import charts
from dpaudit.app.report.running_total import MOST_LINES, course, shares
from dpaudit.app.text.conditions import sentences
from dpaudit.app.verbs.report import accounted_again, approximately, report_text
from dpaudit.certificate.statement import Statement
from dpaudit.certificate.verdicts import Audit, Finding, Proof
from dpaudit.claims.bounds import Bound
from dpaudit.claims.claims import Premise
from dpaudit.claims.guarantees import AnyGuarantee
from dpaudit.page.chart import marks, specification, svg
from tests import make
from tests.sweeps import sweep

GAUSSIAN = make.gaussian(2.0)  # rho 1/8
CLAIMED = ZCDP(rho=0.25)


def certificate(
    *releases: Release,
    claim: Claim | AnyGuarantee = CLAIMED,
    audits: tuple[Audit, ...] = (),
    statement: Statement | None = None,
    **header: Any,
) -> Certificate:
    stated = claim if isinstance(claim, Claim) else Claim(claim)
    about = {"algorithm": "weekly counts", "unit": "person", "neighbouring": "replace-one", **header}
    ledger = make.ledger(*releases or [make.release(GAUSSIAN, label="counts")], claim=stated, **about)
    accounting = account(ledger)
    return judge(
        ledger,
        accounting,
        audits,
        command="dpaudit certify weekly.py:counts",
        profile=profile_points(ledger, accounting),
        statement=statement or Statement(),
    )


def words(found: Certificate) -> str:
    return " ".join(report_text(found, (), "md").replace("\\", "").split())


def audit(**fields: Any) -> Audit:
    return Audit(
        method="replay", claim=Claim(CLAIMED), pairs=1, trials=9, seed=0, about="transcript", **fields
    )


def test_the_best_guess_is_the_gaussian_mechanisms() -> None:
    """Telling N(0, 1) from N(mu, 1) at even odds succeeds with probability Phi(mu / 2)."""
    for times in (1, 4):
        made = certificate(Release(label="counts", mechanism=GAUSSIAN, count=times))
        exact = 100 * float(ndtr(0.5 * math.sqrt(times) / 2))
        assert f"in at most {math.ceil(10 * exact) / 10:g} of 100 cases" in words(made)
    huge = certificate(Release(label="counts", mechanism=GAUSSIAN, count=10_000), claim=ZCDP(rho=1e6))
    assert "in at most 100 of 100 cases" in words(huge)
    assert "next to no protection" in words(huge)


OVER = "the time limit of 120 seconds was over before it could tell"


@pytest.mark.parametrize(
    ("found", "reason", "first"),
    [
        ((), "no audit was run", "the claim by experiment: no audit was run"),
        (
            (audit(inconclusive=(OVER,)),),
            f"replay: {OVER}",
            f"the claim by experiment: an audit was inconclusive (replay: {OVER})",
        ),
    ],
    ids=["none", "over"],
)
def test_that_no_experiment_judged_the_claim_is_not_green_and_comes_first(
    found: tuple[Audit, ...], reason: str, first: str
) -> None:
    made = certificate(audits=found)
    assert made.publishable
    page = report_text(made, (), "html")
    answer = "yes, if everything under Not checked is true; no experiment has judged the claim"
    assert re.search(rf'<li class="unclear"><span>[^<]*published\?</span><strong>{answer}<', page)
    assert f"No experiment has judged this claim: {reason}. The claim of" in words(made)
    listed = report_text(made, (), "md").partition("## Not checked")[2]
    assert listed.split("\n- ")[1].partition("\n")[0] == first
    judged = certificate(audits=(audit(),))
    assert re.search(r'<li class="good"><span>[^<]*published', report_text(judged, (), "html"))
    assert "No experiment" not in words(judged)


def test_a_certificate_cannot_hide_that_an_audit_judged_nothing() -> None:
    record = certificate(audits=(audit(inconclusive=(OVER,)),)).to_json()
    record["not_checked"] = [c for c in record["not_checked"] if c["code"] != "audit-judged-nothing"]
    with pytest.raises(DpauditError, match="not_checked lacks audit-judged-nothing"):
        Certificate.from_record(record, where="certificate.json")


def test_verdicts_are_the_certificates() -> None:
    good = words(certificate())
    assert "Proof, from the ledger of every release: **PROVED**" in good
    assert "**INCONCLUSIVE**" in good
    assert "No audit was run" in good
    costly = words(certificate(claim=ZCDP(rho=0.1)))
    assert (
        "Do not rely on this claim. The claim is 0.1-zCDP; the least that can be proved is rho 0.125."
        in costly
    )
    own = certificate(Release(label="counts", mechanism=GAUSSIAN, claimed=ZCDP(rho=0.1)))
    assert own.proof is Proof.PROVED
    assert "**NOT PROVED**" in words(own)
    assert "the claim for 1 of the releases is not" in words(own)
    premise = Premise(name="enough rows", left=5, relation=">=", right=9, source="Theorem 3")
    failing = words(certificate(claim=Claim(CLAIMED, premises=(premise,))))
    assert "A condition of its theorem does not hold here: enough rows: 5 >= 9" in failing
    assert "in at most" not in failing
    assert "| enough rows: 5 >= 9 | FAILS | Theorem 3 |" in report_text(
        certificate(claim=Claim(CLAIMED, premises=(premise,))), (), "md"
    ).replace("\\", "")


def test_a_refutation_comes_first() -> None:
    finding = Finding(kind="sensitivity", label="counts", detail="moves too far", declared=1.0, measured=5.0)
    made = words(certificate(audits=(audit(findings=(finding,)),)))
    assert "Do not rely on this claim. An experiment contradicts it" in made
    assert "in at most" not in made
    assert "sensitivity: in 'counts', moves too far (declared 1, measured 5)" in made


def test_a_seeded_run_is_not_to_be_published() -> None:
    made = words(certificate(noise={"seeded": True}))
    assert "**no: its noise came from a known seed**" in made
    assert "do not publish this output" in made


def test_what_was_not_stated_is_visible() -> None:
    statement = Statement(delta_rationale="less than 1/n", waivers=(), assumptions=("one account a person",))
    text = report_text(certificate(statement=statement), (), "md")
    assert "| Why this delta | less than 1/n |" in text
    assert "| Waivers | none |" in text
    assert "| Access |" not in text
    (silent,) = (line for line in text.splitlines() if line.startswith("Not stated by the author:"))
    assert "; Access;" in silent
    assert "Waivers" not in silent
    assert "- assumed: one account a person" in text
    assert "dpaudit certify weekly.py:counts" in text


def test_not_checked_is_complete() -> None:
    made = certificate()
    text = words(made)
    assert all(line in text for line in sentences(made.not_checked))


@sweep(
    "claim",
    [
        ZCDP(rho=0.25),
        GDP(mu=1.0),
        ApproxDP(epsilon=1.0, delta=1e-5),
        RDP(alpha=8.0, epsilon=2.0),
        PureDP(epsilon=1.0),
        ZCDP(rho=0.0),
        ApproxDP(epsilon=0.0, delta=1e-300),
        ZCDP(rho=1e9),
    ],
    everyday=(2, 4),
)
def test_every_claim_has_its_pictures(claim: AnyGuarantee) -> None:
    made = certificate(*(Release(label=name, mechanism=GAUSSIAN) for name in ("counts", "sums")), claim=claim)
    proved = not isinstance(claim, PureDP)  # Gaussian noise has no pure epsilon
    assert set(charts(made)) == {"budget", "profile", "trade-off"} | ({"course"} if proved else set())
    assert "<svg" in report_text(made, ())


def test_of_one_release_no_picture_has_a_single_bar_or_step() -> None:
    assert set(charts(certificate())) == {"profile", "trade-off"}
    assert "after each release" not in report_text(certificate(), ())


def test_a_legend_names_the_curves_that_are_seen() -> None:
    """Of one Gaussian release two accountants have the same curve, and so do the two of a zCDP claim."""

    def legend(made: Certificate) -> list[str]:
        return list(charts(made)["profile"][0]["layer"][0]["encoding"]["color"]["scale"]["domain"])

    made = certificate(claim=ZCDP(rho=0.5))
    assert [curve.method for curve in made.profile] == ["gdp", "zcdp", "rdp", "pld"]
    assert legend(made) == ["gdp, pld", "zcdp, rdp", "the claim"]
    (exact, *others) = made.profile
    raised = exact.model_copy(update={"points": tuple((e, min(1.0, 1.1 * d)) for e, d in exact.points)})
    apart = made.model_copy(update={"profile": (raised, *others)})
    assert legend(apart) == ["gdp", "zcdp, rdp", "pld", "the claim"]
    unseen = exact.model_copy(update={"points": tuple((e, 1e-13 * d) for e, d in exact.points)})
    assert legend(made.model_copy(update={"profile": (unseen, *others)})) == ["zcdp, rdp", "pld", "the claim"]


def test_a_picture_that_is_no_vega_lite_is_seen_by_every_test_that_draws_it() -> None:
    """The check of `tests/app/conftest.py` itself."""
    encoding = {"x": {"field": "x", "type": "quantitative"}}
    assert svg(specification(marks([{"x": 1}], "point", encoding, size=20)))
    with pytest.raises(jsonschema.ValidationError, match="wide"):
        svg(specification(marks([{"x": 1}], "point", encoding, size="wide")))


def test_a_claim_past_all_curves_still_has_a_report() -> None:
    made = certificate(claim=ZCDP(rho=1e200))
    assert "trade-off" not in charts(made)
    assert "The trade-off is not drawn" in report_text(made, ())
    assert "not drawn" not in report_text(made, (), "md")


@pytest.mark.nightly
def test_pure_noise_and_a_filter_have_pictures() -> None:
    laplace = Release(label="counts", mechanism=make.laplace(2.0))
    assert "course" in charts(certificate(laplace, laplace, claim=PureDP(epsilon=1.0)))
    held = certificate(schedule="filtered", budget=ZCDP(rho=0.25))
    found = course(held)
    assert found is not None
    assert found[0] == ZCDP(rho=0.25)
    assert found[1] == [(1, 0.125)]


def test_the_course_is_the_accountants_after_every_release() -> None:
    halves = [Release(label=p, mechanism=GAUSSIAN, partition=Partition(part=p)) for p in ("left", "right")]
    made = certificate(*halves, Release(label="all", mechanism=GAUSSIAN))
    found = course(made)
    assert found is not None
    assert [total for _, total in found[1]] == [0.125, 0.125, 0.25]
    many = certificate(
        *(Release(label=f"r {n}", mechanism=GAUSSIAN) for n in range(500)), claim=ZCDP(rho=99.0)
    )
    found = course(many)
    assert found is not None
    assert len(found[1]) <= 48
    assert found[1][-1] == (500, 62.5)


def test_a_failure_among_all_others_shows_although_the_costliest_of_its_group_claims_nothing() -> None:
    cheap = make.gaussian(99.0)
    releases = [
        release
        for n in range(MOST_LINES + 1)
        for label in (chr(ord("a") + n),)
        for release in (
            Release(label=f"{label}1", mechanism=GAUSSIAN),
            Release(label=f"{label}2", mechanism=cheap, claimed=ZCDP(rho=1e-9)),
        )
    ]
    others = shares(certificate(*releases, claim=ZCDP(rho=99.0)).releases)[-1]
    assert (others.label, others.number, others.verdict) == ("all others", 2, Proof.NOT_PROVED)


def test_shares_add_up_and_failures_are_never_hidden() -> None:
    releases = [Release(label=f"{'abcdefghij'[n % 10]}{'xyz'[n % 3]}", mechanism=GAUSSIAN) for n in range(60)]
    wrong = Release(label="wrong", mechanism=make.gaussian(99.0), claimed=ZCDP(rho=1e-9))
    made = certificate(*releases, wrong, claim=ZCDP(rho=99.0))
    found = shares(made.releases)
    assert len(found) <= MOST_LINES + 1
    assert sum(share.share or 0.0 for share in found) == pytest.approx(1.0)
    assert sum(share.number for share in found) == 61
    assert next(share for share in found if share.label == "wrong").verdict is Proof.NOT_PROVED


@pytest.fixture
def good(tmp_path: Path) -> Path:
    made = certificate(audits=(audit(epsilon_lower=0.5, delta=1e-5, confidence=0.95),))
    return made.write(tmp_path / "certificate.json")


@pytest.mark.parametrize(
    ("form", "begin"), [("html", "<!DOCTYPE html>"), ("md", "# "), ("latex", r"\section*{")]
)
def test_formats(dpaudit: Any, good: Path, tmp_path: Path, form: str, begin: str) -> None:
    printed = dpaudit("report", good, "--format", form)
    assert printed.exit_code == 0
    result = dpaudit("report", good, "--format", form, "-o", tmp_path / "report")
    assert (result.exit_code, result.stdout) == (0, f"written: {tmp_path / 'report'}\n")
    text = (tmp_path / "report").read_text(encoding="utf-8")
    assert text.startswith(begin)
    assert text == printed.stdout


def test_an_ending_says_which_format_is_meant(dpaudit: Any, refusal: Any, good: Path, tmp_path: Path) -> None:
    for name, form in (("r.md", "md"), ("r.TEX", "latex"), ("r.html", "html"), ("r", "html")):
        assert dpaudit("report", good, "-o", tmp_path / name).exit_code == 0
        assert (tmp_path / name).read_text() == dpaudit("report", good, "--format", form).stdout
    assert dpaudit("report", good, "-o", tmp_path / "r.md", "--format", "html").exit_code == 0
    assert (tmp_path / "r.md").read_text().startswith("<!DOCTYPE html>")
    assert "open it in a browser and print it" in refusal("report", good, "-o", tmp_path / "r.pdf")
    assert not (tmp_path / "r.pdf").exists()


def test_a_file_is_replaced_whole_or_not_at_all(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.html"
    report.write_text("the old one")
    before = sorted(tmp_path.iterdir())

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", killed)
    result = CliRunner().invoke(main, ["report", str(good), "-o", str(report)])
    assert result.exit_code == 130
    assert report.read_text() == "the old one"
    assert sorted(tmp_path.iterdir()) == before


def test_a_place_that_cannot_be_written(dpaudit: Any, good: Path, tmp_path: Path) -> None:
    assert dpaudit("report", good, "-o", tmp_path / "no" / "such" / "report.html").exit_code == 2
    assert dpaudit("report", good, "-o", tmp_path).exit_code == 2
    assert dpaudit("report", tmp_path / "nowhere.json").exit_code == 2
    (tmp_path / "empty").mkdir()
    assert dpaudit("report", tmp_path / "empty").exit_code == 2


def test_flipped_bits(dpaudit: Any, good: Path, tmp_path: Path) -> None:
    source, damaged = good.read_bytes(), tmp_path / "damaged.json"
    dice = np.random.default_rng(3)
    for _ in range(150):
        content = bytearray(source)
        content[dice.integers(len(content))] ^= 1 << int(dice.integers(8))
        damaged.write_bytes(content)
        result = dpaudit("report", damaged, "--format", "md")
        # Free text, such as the command, holds no figure that a flip could contradict.
        assert result.exit_code in {0, 2, 3}
        assert "fault in dpaudit" not in result.stderr, result.stderr


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["\ud800", "<script>", "%$#", "PROVED", 10**400, 1e308, 5e-324, -1, 0, [], {}, [[]], {"a": [1]}]
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside: list[tuple[Any, ...]] = []
    if isinstance(value, dict):
        inside = [found for name, item in value.items() for found in places(item, (*path, name))]
    elif isinstance(value, list):
        inside = [found for index, item in enumerate(value[:3]) for found in places(item, (*path, index))]
    return [path, *inside] if path else inside


RECORD = certificate(
    audits=(audit(epsilon_lower=0.5, delta=1e-5, confidence=0.95, event="e"),),
    statement=Statement(assumptions=("a",)),
    parameters={"n": 3, "names": ["a", {"b": None}]},
).to_json()
EDITS = st.lists(
    st.tuples(st.sampled_from(places(RECORD)), st.one_of(VALUES, st.just("DELETE"))), min_size=1, max_size=2
)


def edited(edits: list[tuple[tuple[Any, ...], Any]]) -> Any:
    record = json.loads(json.dumps(RECORD))
    for path, value in edits:
        place: Any = record
        try:
            for step in path[:-1]:
                place = place[step]
            if value == "DELETE":
                del place[path[-1]]
            else:
                place[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier edit took it away
    return record


@given(edits=EDITS)
def test_malformed_certificates(edits: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "malformed.json"
    path.write_text(json.dumps(edited(edits)), encoding="utf-8")
    for verb in (["report", str(path), "--format", "md"], ["diff", str(path), str(path)]):
        result = CliRunner().invoke(main, verb)
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert "fault in dpaudit" not in result.stderr, result.stderr
        assert result.exit_code in {0, 1, 2, 3}
        if result.exit_code == 2:
            assert "DPA" in result.stderr


def forms(path: Path) -> list[str]:
    read: Callable[[Any], str] = lambda form: report_text(Certificate.read(path), (), form)  # noqa: E731
    return [read(form) for form in ("html", "md", "latex")]


def test_a_reach_without_a_limit_is_said_and_not_drawn() -> None:
    reached = {"epsilon_lower": 0.5, "delta": 1e-5, "confidence": 0.95}
    endless = certificate(audits=(audit(**reached, largest_refutable_epsilon=1e6),))
    assert "| any |" in report_text(endless, (), "md")
    assert "1e+06" not in report_text(endless, (), "md")
    limited = certificate(audits=(audit(**reached, largest_refutable_epsilon=7.0),))
    assert "| 7 |" in report_text(limited, (), "md")
    drawn = [json.dumps(specification(charts(one)["audits"][0])) for one in (endless, limited)]
    assert ["most it could refute" in one for one in drawn] == [False, True]
    assert "1000000" not in drawn[0]


def test_a_backslash_stays_one(tmp_path: Path) -> None:
    """In labels of findings and in parameters, as everywhere else."""
    name = "tables\\new"
    path = tmp_path / "c.json"
    certificate(
        audits=(audit(findings=(Finding(kind="leak", label=name, detail=name, where=name),)),),
        parameters={"plain": name, "several": [name, {name: 0.123456789}]},
    ).write(path)
    _, md, tex = forms(path)
    shown = "tables\\textbackslash{}new"
    assert tex.count(shown) == tex.count("\\textbackslash{}") == 6
    assert f"{{[}}{shown}, \\{{{shown}: 0.123457\\}}{{]}}" in tex
    assert md.count("tables\\\\new") == 6
    assert md.count("\\\\") == 6


@pytest.mark.parametrize("name", ["\ud800", "a\u202eb\x1b[2J", "</svg><script>x</script>", "x" * 5000])
def test_strange_names_are_shown_or_refused(name: str, tmp_path: Path, dpaudit: Any) -> None:
    record = json.loads(json.dumps(RECORD))
    record["algorithm"] = record["unit"] = record["claim"]["unit"] = name
    record["releases"][0]["label"] = name
    path = tmp_path / "c.json"
    path.write_text(json.dumps(record))
    result = dpaudit("report", path, "-o", tmp_path / "r.html")
    assert result.exit_code in {0, 2}
    if result.exit_code == 0:
        for text in forms(path):
            assert "\u202e" not in text
            assert "\x1b" not in text
            assert not re.search(r"(?<!\\)<script", text)


def test_certify_writes_the_report_and_takes_a_statement(
    dpaudit: Any, mine: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "s.toml").write_text(
        'access = "published <b>weekly</b>"\nassumptions = ["one account a person"]\n'
    )
    options = ("--pair", mine("pair"), "--rho", 0.125, "-o", "out", "--statement", "s.toml")
    result = dpaudit("certify", mine("sums"), *options)
    assert result.exit_code == 0, result.stderr
    assert "written: out/report.html" in result.stdout
    assert "assumed: one account a person" in result.stdout
    found = Certificate.read(tmp_path / "out" / "certificate.json")
    assert found.statement.access == "published <b>weekly</b>"
    assert {curve.method for curve in found.profile} >= {"gdp", "zcdp"}
    report = tmp_path / "out" / "report.html"
    assert "published &lt;b&gt;weekly&lt;/b&gt;" in report.read_text()
    ledger = tmp_path / "out" / "ledger.jsonl"
    computed = approximately(accounted_again(found, ledger))
    assert report.read_text() == report_text(found, computed, ledger=ledger.read_bytes())
    # Should the next run fail, no report of this one may stand beside its ledger.
    assert dpaudit("certify", mine("failing"), *options).exit_code == 2
    assert not report.exists()


def test_a_wrong_statement_stops_before_anything_runs(
    dpaudit: Any, mine: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "s.toml").write_text('acces = "published"\n')
    for name in ("s.toml", "nowhere.toml"):
        result = dpaudit(
            "certify", mine("sums"), "--pair", mine("pair"), "--rho", 1, "-o", "out", "--statement", name
        )
        assert (result.exit_code, "DPA105" in result.stderr) == (2, True)
        assert not (tmp_path / "out").exists()


def test_the_page_begins_with_the_proved_epsilon_and_delta() -> None:
    made = certificate()
    exact = Bound(guarantee=ApproxDP(epsilon=1.5, delta=1e-6), method="gdp", rigour="float-pessimistic")
    lines = report_text(made, (exact,), "md").split("\n\n")
    assert lines[0] == "# Privacy of weekly counts"
    assert lines[1] == "Proved: (1.5, 1e-06)-DP per person, for all releases together, by gdp."
    assert "Bounds, curves and releases were computed again from the ledger" in words(made)
    own = certificate(claim=ApproxDP(epsilon=3.0, delta=1e-5))
    assert report_text(own, (exact,), "md").split("\n\n")[1].startswith("Proved: (1.9")
    refuted = certificate(audits=(audit(findings=(Finding(kind="leak", detail="x"),)),))
    assert report_text(refuted, (exact,), "md").split("\n\n")[1].startswith("Do not rely on any figure here")
    premise = Premise(name="enough rows", left=5, relation=">=", right=9)
    failing = certificate(claim=Claim(CLAIMED, premises=(premise,)))
    assert "No (epsilon, delta) is proved" in report_text(failing, (exact,), "md").replace("\\", "")


def test_a_page_without_a_ledger_says_so_first_and_is_never_publishable(dpaudit: Any, tmp_path: Path) -> None:
    made = certificate()
    assert made.publishable
    made.write(tmp_path / "c.json")
    for form in ("md", "latex", "html"):
        text = dpaudit("report", tmp_path / "c.json", "--format", form).stdout
        title = text.split("\n")[0] if form != "html" else re.findall("<h1>(.*?)</h1>", text)[0]
        assert "Privacy of weekly counts: figures not computed again" in title
        assert "no: its figures were not computed again from its ledger" in text
        assert "yes, if everything" not in text


@pytest.fixture
def made(dpaudit: Any, mine: Callable[[str], str], tmp_path: Path) -> Path:
    options = ("--pair", mine("pair"), "--rho", 0.125, "--unit", "row", "-o", tmp_path / "out")
    assert dpaudit("certify", mine("sums"), *options).exit_code == 0
    return tmp_path / "out" / "certificate.json"


def _smaller(record: Any) -> None:
    for bound in record["bounds"]:
        bound["guarantee"]["rho"] *= 0.5


def _flatter(record: Any) -> None:
    for curve in record["profile"]:
        curve["points"] = [[epsilon, delta * 0.5] for epsilon, delta in curve["points"]]


def _unseeded(record: Any) -> None:
    record["ledger_hash"] = "0" * 64


EDITS = {
    "a smaller bound": _smaller,
    "a flatter curve": _flatter,
    "another ledger": _unseeded,
    "nothing": lambda record: None,
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_certificate_is_not_believed(dpaudit: Any, made: Path, edit: str) -> None:
    record = json.loads(made.read_text())
    EDITS[edit](record)
    made.write_text(json.dumps(record))
    result = dpaudit(
        "report", made, "-o", made.with_name("again.html"), "--registry", made.with_name("r.yaml")
    )
    innocent = edit == "nothing"
    assert result.exit_code == (0 if innocent else 3), result.stderr
    assert made.with_name("again.html").exists() == made.with_name("r.yaml").exists() == innocent
    assert innocent or "DPA209" in result.stderr
    if innocent:
        assert "yes, if everything under Not checked is true" in made.with_name("again.html").read_text()


def test_what_no_ledger_contains_is_said_to_be_as_stated(dpaudit: Any, made: Path) -> None:
    """A twin settles two conditions: nothing but the certificate says that there was one."""
    record = json.loads(made.read_text())
    assert record["process"]["kind"] == "in-process"
    record["process"] = {"kind": "twin", "stand_in": "public data"}
    settled = {"in-process", "fixed-sequence", "only-through-ledger"}
    kept = [one for one in record["not_checked"] if one["code"] not in settled]
    more = [{"code": "public-stand-in", "text": "public data"}]
    more += [{"code": code} for code in ("own-record", "nothing-shared", "honest-worker")]
    made.write_text(json.dumps(record | {"not_checked": [*kept, *more]}))
    result = dpaudit("report", made, "--format", "md")
    assert result.exit_code == 0, result.stderr
    assert "audits, the processes of the run," in result.stdout


def test_a_ledger_that_was_cut_short_is_not_believed(dpaudit: Any, made: Path) -> None:
    ledger = made.with_name("ledger.jsonl")
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    assert dpaudit("report", made).exit_code == 3
    elsewhere = made.with_name("elsewhere.jsonl")
    ledger.rename(elsewhere)
    assert dpaudit("report", made, "--ledger", elsewhere).exit_code == 3
    assert dpaudit("report", made, "--ledger", made.with_name("nowhere")).exit_code == 2
    assert "figures not computed again" in dpaudit("report", made, "--format", "md").stdout
    assert dpaudit("report", made, "--registry", made.with_name("r.yaml")).exit_code == 2
