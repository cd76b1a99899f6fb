import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit import ZCDP, ApproxDP, Certificate, Claim, Curator, Ledger, OpaquePureDP, Partition, judge, run
from dpaudit.accountants.accounting import account
from dpaudit.accountants.curves.profile_points import profile_points
from dpaudit.certificate.certificate import Sampled
from dpaudit.certificate.conditions import Code, Condition
from dpaudit.certificate.statement import Statement
from dpaudit.certificate.verdicts import Audit
from dpaudit.claims.claims import Premise
from dpaudit.claims.relations import View
from dpaudit.errors import CertificateFormat, CertificateMismatch, InvalidParameter, NotCertifiable
from dpaudit.ledger.header import Noise
from dpaudit.mechanisms import AnyMechanism
from tests import make

CLAIM = Claim(ZCDP(rho=0.5), unit="row", neighbouring="replace-one")
GAUSSIAN = make.gaussian(4.0, 2.0)
DISCRETE = make.discrete_gaussian(4.0, 2.0)
RARE = (Condition(code=Code.RARE_EVENTS),)
AUDIT = Audit(method="replay", claim=CLAIM, pairs=1, trials=2, seed=0, about="transcript", not_checked=RARE)


def ledger(*mechanisms: AnyMechanism, seed: int | None = None, **options: Any) -> Ledger:
    def algorithm(data: Any, curator: Curator) -> None:
        for index, mechanism in enumerate(mechanisms):
            curator.release(data, mechanism, label=f"release {index}")  # type: ignore[arg-type]

    return run(algorithm, 1.0, claim=CLAIM, seed=seed, **options).ledger


def in_floating_point(found: Ledger) -> Ledger:
    """The same run as it is written where numpy drew its noise."""
    header = found.header.model_copy(update={"noise": Noise(sampler="numpy-float64")})
    return make.ledger(*(release.model_copy(update={"grid": None}) for release in found), **dict(header))


def certificate(found: Ledger) -> Certificate:
    accounting = account(found)
    return judge(
        found,
        accounting,
        [AUDIT.model_copy(update={"claim": accounting.claim})],
        command="dpaudit certify",
        profile=profile_points(found, accounting),
        statement=Statement(assumptions=("one account a person",)),
    )


@pytest.fixture
def record() -> dict[str, Any]:
    return certificate(in_floating_point(ledger(GAUSSIAN, DISCRETE))).to_json()


def test_a_certificate_is_read_back(tmp_path: Path) -> None:
    made = certificate(ledger(GAUSSIAN, parameters={"sizes": [1, 2], "deep": {"a": [None]}}))
    assert Certificate.read(made.write(tmp_path / "c.json")) == made


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a lower bound": lambda c: c["bounds"][0].update(direction="lower"),
    "a bound with a confidence": lambda c: c["bounds"][0].update(confidence=0.5),
    "a lower end above its bound": lambda c: c["bounds"][0].update(at_least=0.6),
    "bounds out of order": lambda c: c["bounds"].insert(
        0, {**c["bounds"][0], "guarantee": {"kind": "zcdp", "rho": 0.4}}
    ),
    "publishable": lambda c: c.update(publishable=False),
    "seeded": lambda c: c["numerics"].update(seeded=True),
    "unit": lambda c: c.update(unit="user"),
    "unit of the claim": lambda c: c["claim"].update(unit="user"),
    "a claim about no unit": lambda c: c["claim"].pop("unit"),
    "relation": lambda c: c.update(neighbouring="zero-out"),
    "trust": lambda c: c.update(trust_model="local"),
    "view": lambda c: c.update(view="final-output"),
    "tolerance": lambda c: c["numerics"].update(claim_tolerance=0.1),
    "no releases": lambda c: c.update(releases=[]),
    "exact noise": lambda c: c["numerics"].update(floating_point=False),
    "an exact sampler": lambda c: c["numerics"].update(sampler="dpaudit-exact"),
    "unknown sampler": lambda c: c["numerics"].update(sampler="exact"),
    "the warning left out": lambda c: c["not_checked"].remove({"code": "floating-point-noise"}),
    "the audit's limits left out": lambda c: c["not_checked"].remove({"code": "rare-events"}),
    "the audit left out": lambda c: c.update(audits=[], experiment="INCONCLUSIVE"),
    "proof": lambda c: c.update(proof="NOT_PROVED"),
    "bound above the claim": lambda c: c["bounds"][0]["guarantee"].update(rho=0.6),
    "experiment": lambda c: c.update(experiment="REFUTED"),
    "hash": lambda c: c.update(ledger_hash=""),
    "statement left out": lambda c: c.pop("statement"),
    "profile left out": lambda c: c.pop("profile"),
    "a statement's field left out": lambda c: c["statement"].pop("access"),
    "sampling": lambda c: c.update(sampling=["every record once"]),
    "an assumption hidden": lambda c: c["not_checked"].remove(
        {"code": "assumed", "text": "one account a person"}
    ),
    "an unknown condition": lambda c: c["not_checked"].append({"code": "something-else"}),
    "a condition in words": lambda c: c["not_checked"].append("no audit was run"),
    "a condition without its parameter": lambda c: c["not_checked"].append({"code": "assumed"}),
    "a parameter of another condition": lambda c: c["not_checked"].append({"code": "no-hashes", "draws": 3}),
    "schema of version 1": lambda c: c.update(schema="dpaudit.certificate/1"),
    "a curve that grows": lambda c: c["profile"][0]["points"][3].__setitem__(1, 1.0),
    "a curve of few points": lambda c: c["profile"][0].update(points=c["profile"][0]["points"][:19]),
    "unknown field": lambda c: c.update(more=1),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_certificate_is_refused(record: dict[str, Any], edit: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(record))
    Certificate.read(path)  # the innocent twin
    EDITS[edit](record)
    path.write_text(json.dumps(record))
    with pytest.raises(CertificateFormat) as caught:
        Certificate.read(path)
    assert str(path) in caught.value.where


@pytest.mark.parametrize("text", ['{"proof": "PROVED", ', '{"algorithm": NaN, '])
def test_a_field_twice_or_no_number_is_refused(record: dict[str, Any], text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text + json.dumps(record)[1:])
    with pytest.raises(CertificateFormat, match="cannot be read"):
        Certificate.read(path)


def test_a_ledger_given_for_a_certificate_and_a_missing_file_are_named(tmp_path: Path) -> None:
    ledger(GAUSSIAN).write(tmp_path / "ledger.jsonl")
    for name, reason in (("ledger.jsonl", "Extra data"), ("nothing.json", "cannot be read: No such file")):
        with pytest.raises(CertificateFormat, match=reason) as caught:
            Certificate.read(tmp_path / name)
        assert "not a ledger" in caught.value.remedy


def test_a_certificate_is_held_against_its_ledger() -> None:
    own, other = ledger(GAUSSIAN, DISCRETE), ledger(GAUSSIAN, DISCRETE)
    made = certificate(own)
    made.require_ledger(own)
    with pytest.raises(CertificateMismatch, match="hash"):
        made.require_ledger(other)
    less = made.releases[0].model_copy(update={"mechanism": make.gaussian(9.0, 2.0)})
    for edited in (
        {"algorithm": "another"},
        {"parameters": {"n": 1}},
        {"group_size": 2},
        {"budget": ZCDP(rho=0.5)},
        {"releases": (less, made.releases[1])},
        {"releases": made.releases[:1]},
    ):
        with pytest.raises(CertificateMismatch, match="differ from"):
            made.model_copy(update=edited).require_ledger(own)


def test_a_claim_keeps_what_the_ledgers_own_rests_on() -> None:
    false = Premise(name="enough rows", left=5, relation=">=", right=9)
    own = CLAIM.model_copy(update={"premises": (false,), "assumptions": ("rewards are public",)})
    found = make.ledger(GAUSSIAN, neighbouring="replace-one", claim=own)
    costlier = own.model_copy(update={"guarantee": ZCDP(rho=0.7)})
    for claim in (own, costlier):  # the innocent twins
        made = judge(found, account(found, claim), [], command="")
        made.require_ledger(found)
        assert made.proof == "NOT_PROVED"
    for less, words in (
        ({"premises": ()}, "the premise enough rows"),
        ({"premises": (false.model_copy(update={"left": 9}),)}, "the premise enough rows"),
        ({"assumptions": ()}, "the assumption 'rewards are public'"),
        ({"view": View.FINAL_OUTPUT}, "the view 'all-releases'"),
    ):
        accounting = account(found, costlier.model_copy(update=less))
        with pytest.raises(NotCertifiable, match=words):
            judge(found, accounting, [], command="")
        forged = made.model_copy(update={"claim": accounting.claim})
        with pytest.raises(CertificateMismatch, match=words):
            forged.require_ledger(found)


def test_an_accounting_of_another_ledger_certifies_nothing() -> None:
    costly, cheap = ledger(GAUSSIAN, GAUSSIAN, GAUSSIAN, GAUSSIAN, GAUSSIAN), ledger(GAUSSIAN)
    assert account(costly).verdict == "NOT_PROVED"
    with pytest.raises(NotCertifiable, match="another ledger"):
        judge(costly, account(cheap), [], command="")
    edited = account(costly).model_copy(update={"releases": account(cheap).releases})
    with pytest.raises(NotCertifiable, match="another ledger"):
        judge(costly, edited, [], command="")


def test_a_ledger_without_releases_certifies_nothing() -> None:
    empty = ledger()
    with pytest.raises(NotCertifiable, match="no releases"):
        judge(empty, account(empty), [], command="")


def test_the_warning_about_floating_point_follows_the_mechanisms() -> None:
    for mechanisms, warned in (([GAUSSIAN], True), ([DISCRETE], False), ([DISCRETE, GAUSSIAN], True)):
        exact = ledger(*mechanisms)
        assert exact.header.noise.sampler == "dpaudit-exact"
        assert [release.grid for release in exact] == [mechanism.grid for mechanism in mechanisms]
        for drawn, rough in ((exact, False), (in_floating_point(exact), warned)):
            made = certificate(drawn)
            assert made.numerics.floating_point is rough
            assert (Condition(code=Code.FLOATING_POINT_NOISE) in made.not_checked) is rough


def test_an_exact_sampler_does_not_silence_the_warning_for_a_line_off_its_grid() -> None:
    forged = make.ledger(make.release(GAUSSIAN, label="off"), **dict(ledger(GAUSSIAN).header))
    with pytest.raises(NotCertifiable, match="release 'off' lacks the grid"):
        certificate(forged)


def test_the_warning_stays_for_a_sampler_of_the_authors_own() -> None:
    """It draws from a numpy generator, whatever draws the other releases."""
    own = OpaquePureDP(epsilon=0.1, justification="Theorem 1")

    def algorithm(data: Any, curator: Curator) -> None:
        curator.release(data, GAUSSIAN, label="one")
        curator.release_opaque(
            data, lambda value, generator: generator.laplace(value, 20.0), own, label="two"
        )

    made = certificate(run(algorithm, 1.0, claim=CLAIM).ledger)
    assert made.numerics.sampler == "dpaudit-exact"
    assert made.numerics.floating_point
    assert Condition(code=Code.FLOATING_POINT_NOISE) in made.not_checked


def test_an_unknown_sampler_is_refused() -> None:
    make.header(noise={"sampler": "opendp-discrete"})
    with pytest.raises(InvalidParameter, match="numpy-float64"):
        make.header(noise={"sampler": "numpy"})


def test_two_runs_differ_and_a_seeded_one_can_be_repeated() -> None:
    one, two = ledger(GAUSSIAN), ledger(GAUSSIAN)
    assert one.hash != two.hash
    assert one.header.run != two.header.run
    seeded = [ledger(GAUSSIAN, seed=3) for _ in range(2)]
    assert b"".join(seeded[0].lines()) == b"".join(seeded[1].lines())
    assert seeded[0].header.run is None
    with pytest.raises(InvalidParameter):
        make.header(run="mine")


def test_parameters_cannot_change_behind_the_hash() -> None:
    given = {"sizes": [1, 2], "names": {"a": 1}}
    found = ledger(GAUSSIAN, parameters=given)
    before = b"".join(found.lines())
    given["sizes"].append(3)  # type: ignore[attr-defined]
    given["names"]["a"] = 9  # type: ignore[index]
    kept: Any = found.header.parameters
    for change in (
        lambda: kept.update(n=1),
        lambda: kept.__setitem__("sizes", []),
        lambda: kept["sizes"].append(3),
        lambda: kept["names"].__setitem__("a", 9),
    ):
        with pytest.raises((TypeError, AttributeError)):
            change()
    assert b"".join(found.lines()) == before
    assert found.header.to_json()["parameters"] == {"sizes": [1, 2], "names": {"a": 1}}
    for copied in (copy.deepcopy(found.header), pickle.loads(pickle.dumps(found.header))):  # noqa: S301
        assert copied == found.header


def test_parameters_may_have_the_names_of_verdicts(tmp_path: Path) -> None:
    """What follows from the rest is left out where it stands, and nowhere else."""
    made = certificate(ledger(GAUSSIAN, parameters={"sampling": "none", "verdict": {"experiment": 1}}))
    assert Certificate.read(made.write(tmp_path / "c.json")) == made


def test_sampling_is_read_off_the_releases() -> None:
    assert certificate(ledger(GAUSSIAN)).sampling == ()
    claim = Claim(ApproxDP(epsilon=9.0, delta=1e-6))
    other = make.ledger(make.poisson(GAUSSIAN, 0.25), claim=claim)
    assert certificate(other).sampling == (Sampled(label="r", rate=0.25),)


def test_an_audit_of_another_claim_is_no_evidence_about_this_one(record: dict[str, Any]) -> None:
    """Not where the two are put together, and not where a certificate that holds both is read."""
    made = ledger(GAUSSIAN)
    weaker = AUDIT.model_copy(update={"claim": Claim(ZCDP(rho=100.0), unit="row")})
    with pytest.raises(NotCertifiable, match="an audit is of 100-zCDP"):
        judge(made, account(made), [weaker], command="x")
    record["audits"][0]["claim"]["guarantee"]["rho"] = 100.0
    with pytest.raises(CertificateFormat, match="an audit is of another claim"):
        Certificate.from_record(record, where="x")


def test_no_audit_finds_more_than_it_could_have_refuted(record: dict[str, Any]) -> None:
    record["audits"][0] |= {"epsilon_lower": 3.0, "largest_refutable_epsilon": 2.0, "delta": 1e-6}
    with pytest.raises(CertificateFormat, match="above what its audit could refute"):
        Certificate.from_record(record, where="x")


def test_another_part_of_a_split_is_another_release() -> None:
    half = make.release(GAUSSIAN, part="first", grid=GAUSSIAN.grid)
    parts = make.ledger(half, **dict(ledger(GAUSSIAN).header))
    found = certificate(parts)
    assert found.releases[0].partition == Partition(part="first")
    moved = found.releases[0].model_copy(update={"partition": None})
    with pytest.raises(CertificateMismatch, match="differ from"):
        found.model_copy(update={"releases": (moved,)}).require_ledger(parts)
