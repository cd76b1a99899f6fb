import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit.ledger.ledger import Noise
from tests import make

# As in docs/design.md: 6 = 2 * 3 is the square of the sensitivity, 12 that of sigma, so rho = 6/24 = 0.25.
HEADER = {
    "record": "header",
    "schema": "dpaudit.ledger/1",
    "algorithm": "dp-apvi",
    "unit": "trajectory",
    "neighbouring": "replace-one",
    "trust_model": "central",
    "schedule": "fixed",
    "claim": {"guarantee": {"kind": "zcdp", "rho": 0.5}},
    "parameters": {"horizon": 3},
}
RELEASE = {
    "record": "release",
    "label": "n_sa",
    "mechanism": {
        "kind": "gaussian",
        "sigma": 3.4641016151377544,
        "sensitivity": {"value": 2.449489742783178, "norm": "l2", "basis": "clipped"},
    },
    "count": 1,
    "claimed": {"kind": "zcdp", "rho": 0.25},
}


@pytest.fixture
def by_hand(tmp_path: Path) -> Callable[..., Path]:
    """Write records as an unhashed file."""

    def write(*records: dict[str, Any] | str) -> Path:
        path = tmp_path / "hand.jsonl"
        path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
        return path

    return write


def changed(**fields: Any) -> dict[str, Any]:
    return {**RELEASE, **fields}


@pytest.mark.parametrize(
    "claim", [("--rho", 1), ("--mu", 1), ("--epsilon", 1), ("--epsilon", 1, "--delta", 0.1)]
)
def test_a_count_past_every_double_is_refused_on_every_scale(dpaudit: Any, by_hand: Any, claim: Any) -> None:
    """At a small order 10^400 runs of next to nothing would cost nothing, each of them rounded down to 0."""
    dim = {**RELEASE["mechanism"], "sigma": 1e150}
    footer = {"record": "footer", "releases": 1}
    for count, status in ((10**400, 2), (10**300, 0)):
        path = by_hand(HEADER, changed(mechanism=dim, count=count, claimed=None), footer)
        result = dpaudit("verify", path, "--allow-unhashed", "--exit-zero", *claim)
        assert result.exit_code == status, result.stderr
        assert ("the count is too large" in result.stderr) == (status == 2)


def test_the_documented_example_written_by_hand(answer: Any, dpaudit: Any, by_hand: Any) -> None:
    path = by_hand(HEADER, RELEASE, {"record": "footer", "releases": 1})
    assert dpaudit("verify", path).exit_code == 2
    assert "DPA203" in dpaudit("verify", path).stderr
    status, found = answer("verify", path, "--allow-unhashed")
    assert status == 0
    assert set(found) >= {"verdict", "claim", "bounds", "releases", "not_checked"}
    assert found["verdict"] == "PROVED"
    assert found["certifiable"] is False
    assert found["bounds"][0]["accountant"] == "zcdp"
    assert found["bounds"][0]["rho"] == pytest.approx(0.25, rel=1e-12)
    (release,) = found["releases"]
    assert (release["label"], release["claimed"], release["verdict"]) == ("n_sa", 0.25, "PROVED")
    assert release["rho"] == pytest.approx(0.25, rel=1e-12)
    assert "certifiable: no" in dpaudit("verify", path, "--allow-unhashed").stdout
    assert dpaudit("verify", path, "--allow-unhashed", "--strict").exit_code == 4


def test_a_hashed_ledger_and_its_total(answer: Any, ledger_file: Any) -> None:
    status, found = answer("verify", ledger_file(0.25, 0.25))
    assert (status, found["verdict"], found["certifiable"]) == (0, "PROVED", True)
    status, found = answer("verify", ledger_file(0.25, 0.25, 0.25))
    assert (status, found["verdict"]) == (1, "NOT_PROVED")
    assert found["bounds"][0]["rho"] == pytest.approx(0.75)


def test_bounds_are_sorted_tightest_first(answer: Any, ledger_file: Any) -> None:
    # delta(4.886557) of the 1-GDP Gaussian is 1e-6 (Balle and Wang 2018, Theorem 8); rho = 0.5 is mu = 1.
    status, found = answer("verify", ledger_file(0.5), "--epsilon", 4.8866, "--delta", 1e-6)
    assert (status, found["verdict"]) == (0, "PROVED")
    epsilons = [bound["epsilon"] for bound in found["bounds"]]
    assert epsilons == sorted(epsilons)
    assert len(epsilons) >= 2
    assert answer("verify", ledger_file(0.5), "--epsilon", 4.886, "--delta", 1e-6)[0] == 1


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--rho", 0.5], 0),
        (["--rho", 0.4999], 1),
        (["--mu", 1], 0),
        (["--mu", 0.999], 1),
        (["--epsilon", 50], 1),
    ],
)
def test_every_scale(dpaudit: Any, ledger_file: Any, options: list[object], status: int) -> None:
    assert dpaudit("verify", ledger_file(0.5), *options).exit_code == status


def test_a_release_above_its_own_claim(answer: Any, dpaudit: Any, ledger_file: Any) -> None:
    path = ledger_file(0.125, claimed=0.1)
    status, found = answer("verify", path)
    assert (status, found["verdict"], found["releases"][0]["verdict"]) == (1, "PROVED", "NOT_PROVED")
    text = dpaudit("verify", path).stdout
    assert "release 'query 0': claimed 0.1, computed 0.125" in text
    assert "1.25 times the claim" in text.replace("\n    ", " ")
    assert dpaudit("verify", path, "--exit-zero").exit_code == 0


def test_releases_that_exceed_their_claims_alike_share_a_line(dpaudit: Any, by_hand: Any) -> None:
    over = changed(label="over", claimed={"kind": "zcdp", "rho": 1e-9})
    other = changed(label="other", claimed={"kind": "zcdp", "rho": 1e-9})
    path = by_hand(HEADER, over, over, other, over, {"record": "footer", "releases": 4})
    text = dpaudit("verify", path, "--allow-unhashed").stdout.replace("\n    ", " ")
    assert text.count("release 'over'") == text.count("release 'other'") == 1
    assert text.count("(3 releases)") == 1
    assert "more releases" not in text


def test_several_ledgers_are_a_list(answer: Any, dpaudit: Any, ledger_file: Any) -> None:
    good, bad = ledger_file(0.25, name="good.jsonl"), ledger_file(0.75, name="bad.jsonl")
    status, found = answer("verify", good, bad)
    assert status == 1
    assert [(one["ledger"], one["verdict"]) for one in found] == [
        (str(good), "PROVED"),
        (str(bad), "NOT_PROVED"),
    ]
    assert dpaudit("verify", good, good).exit_code == 0


def test_nothing_to_check(answer: Any, dpaudit: Any, ledger_file: Any) -> None:
    status, found = answer("verify", ledger_file(0.25, claim=None))
    assert (status, found["verdict"], found["claim"]) == (5, None, None)
    status, found = answer("verify", ledger_file())
    assert (status, found["verdict"]) == (5, None)  # of no releases every claim would be proved
    assert "no releases" in dpaudit("verify", ledger_file()).stderr
    assert dpaudit("verify", ledger_file(), "--exit-zero").exit_code == 0
    # A release's own claim, or one on the command line, is something to check.
    assert dpaudit("verify", ledger_file(0.25, claim=None, claimed=0.25)).exit_code == 0
    assert dpaudit("verify", ledger_file(0.25, claim=None), "--rho", 0.25).exit_code == 0


def test_a_claim_about_something_else(dpaudit: Any, ledger_file: Any) -> None:
    for options in (["--unit", "user"], ["--neighbouring", "zero-out"], ["--trust-model", "local"]):
        for guarantee in ([], ["--rho", 1]):
            result = dpaudit("verify", ledger_file(0.25), *guarantee, *options)
            assert (result.exit_code, "DPA401" in result.stderr) == (2, True)
        result = dpaudit("verify", ledger_file(0.25, claim=None), "--rho", 1, *options)
        assert (result.exit_code, "DPA401" in result.stderr) == (2, True)
    assert dpaudit("verify", ledger_file(0.25), "--unit", "row").exit_code == 0


def test_contradictory_options(dpaudit: Any, ledger_file: Any) -> None:
    for options in (["--rho", 1, "--epsilon", 1], ["--delta", 1e-6], ["--mu", 1, "--delta", 1e-6]):
        result = dpaudit("verify", ledger_file(0.25), *options)
        assert (result.exit_code, "DPA105" in result.stderr) == (2, True)


def test_premises_of_the_ledger_stay_with_another_figure(answer: Any, dpaudit: Any, by_hand: Any) -> None:
    premise = {"name": "small rho", "left": 2.0, "relation": "<", "right": 1.0, "source": "Theorem 1"}
    claim = {"guarantee": {"kind": "zcdp", "rho": 0.5}, "premises": [premise]}
    path = by_hand({**HEADER, "claim": claim}, RELEASE)
    status, found = answer("verify", path, "--allow-unhashed", "--rho", 5)
    assert (status, found["verdict"]) == (1, "NOT_PROVED")
    assert found["premises"] == [{**premise, "holds": False}]
    assert "FAILS  small rho: 2 < 1" in dpaudit("verify", path, "--allow-unhashed").stdout


GAUSSIAN = RELEASE["mechanism"]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (["not json"], "DPA201"),
        (["[1, 2]"], "DPA201"),
        ([{**HEADER, "schema": "dpaudit.ledger.ledger/2"}], "DPA202"),
        ([{**HEADER, "surprise": 1}], "DPA101"),
        ([RELEASE], "DPA201"),
        ([HEADER, {"record": "gossip"}], "DPA201"),
        ([HEADER, changed(mechanism={"kind": "magic"})], "DPA103"),
        ([HEADER, changed(mechanism={**GAUSSIAN, "sigma": -1.0})], "DPA101"),
        ([HEADER, changed(mechanism={**GAUSSIAN, "sigma": 0.0})], "DPA101"),
        ([HEADER, json.dumps(changed(mechanism={**GAUSSIAN, "sigma": float("nan")}))], "DPA201"),
        ([HEADER, json.dumps(RELEASE).replace("3.4641016151377544", "1e999")], "DPA101"),
        ([HEADER, changed(mechanism={**GAUSSIAN, "sensitivity": {"value": 1.0, "norm": "l1"}})], "DPA102"),
        ([HEADER, changed(mechanism={**GAUSSIAN, "sensitivity": {"value": -1.0, "norm": "l2"}})], "DPA101"),
        ([HEADER, changed(count=0)], "DPA101"),
    ],
)
def test_bad_lines_exit_2_and_name_file_and_line(
    dpaudit: Any, by_hand: Any, records: list[Any], code: str
) -> None:
    path = by_hand(*records)
    result = dpaudit("verify", path, "--allow-unhashed", "--exit-zero")
    assert result.exit_code == 2
    assert f"error: {code} {path}:{len(records)}" in result.stderr
    assert "\n  why: " in result.stderr
    assert "\n  do:  " in result.stderr
    assert result.stdout == ""


def test_missing_files_and_folders_exit_2(dpaudit: Any, tmp_path: Path) -> None:
    assert dpaudit("verify", tmp_path / "nowhere.jsonl").exit_code == 2
    assert dpaudit("verify", tmp_path).exit_code == 2


def _without_footer(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


def _edited(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'"label":"query 0"', b'"label":"query 7"') for line in lines]


def _release_taken_out(lines: list[bytes]) -> list[bytes]:
    return [lines[0], *lines[2:]]


def _line_after_footer(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[1]]


def _empty(lines: list[bytes]) -> list[bytes]:
    return []


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (_without_footer, "DPA205"),
        (_edited, "DPA206"),
        (_release_taken_out, "DPA206"),
        (_line_after_footer, "DPA207"),
        (_empty, "DPA205"),
    ],
)
def test_damaged_ledgers_exit_3(
    dpaudit: Any, ledger_file: Any, damage: Callable[[list[bytes]], list[bytes]], code: str
) -> None:
    path: Path = ledger_file(0.1, 0.1)
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(damage(whole)))
    for verb in (["verify", "--exit-zero"], ["ledger", "check"]):
        result = dpaudit(*verb, path)
        assert result.exit_code == 3
        assert code in result.stderr
        assert result.stdout == ""


def test_replayed_noise_proves_nothing(refusal: Any, by_hand: Any) -> None:
    path = by_hand({**HEADER, "noise": {"source": "none"}}, RELEASE)
    assert f"DPA404 {path}: " in refusal("verify", path, "--allow-unhashed")


@pytest.mark.parametrize("rigour", ["float-pessimistic", "interval"])
def test_a_whole_ledger_without_noise_is_not_said_to_be_cut_short(
    dpaudit: Any, refusal: Any, tmp_path: Path, rigour: str
) -> None:
    noise = Noise(source="replayed")
    ledger = make.ledger(make.gaussian(4.0, 2.0), neighbouring="replace-one", noise=noise)
    path = ledger.write(tmp_path / "l.jsonl")
    result = refusal("verify", path, "--rigour", rigour)
    assert "DPA404" in result
    assert "its noise was replayed" in result
    assert "footer" not in result
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))  # the planted twin
    cut = dpaudit("verify", path, "--rigour", rigour)
    assert cut.exit_code == 3
    assert "no footer" in cut.stderr


def test_rigour_interval_judges_the_total_by_an_enclosure(
    answer: Any, ledger_file: Callable[..., Path]
) -> None:
    path = ledger_file(0.25, 0.25)
    status, found = answer("verify", path, "--epsilon", 4.8866, "--delta", 1e-6, "--rigour", "interval")
    assert status == 0
    assert [bound["rigour"] for bound in found["bounds"]] == ["interval"]
    assert found["bounds"][0]["epsilon"] == pytest.approx(4.886554117462212, rel=1e-14)
    assert answer("verify", path, "--epsilon", 4.8865, "--delta", 1e-6, "--rigour", "interval")[0] == 1
    assert (
        answer("certify", "dp-apvi", "--rigour", "interval", "--seed", 1)[1]["bounds"][0]["rigour"]
        == "interval"
    )


@pytest.mark.parametrize(
    ("noise", "norm", "epsilon"),
    [
        ({"kind": "gaussian", "sigma": 1.0}, "l2", 2.124515171120),
        ({"kind": "laplace", "scale": 1.0}, "l1", 1.286407399770),
    ],
    ids=["gaussian", "laplace"],
)
def test_rigour_interval_of_poisson_samples(
    answer: Any, by_hand: Any, noise: dict[str, Any], norm: str, epsilon: float
) -> None:
    inner = {**noise, "sensitivity": {"value": 1.0, "norm": norm, "basis": "clipped"}}
    sampled = {"kind": "poisson-sampled", "rate": 0.01, "mechanism": inner}
    header = {**HEADER, "neighbouring": "add-or-remove-one", "claim": None}
    release = {"record": "release", "label": "gradient", "mechanism": sampled, "count": 1000}
    path = by_hand(header, release, {"record": "footer", "releases": 1})
    asked = ("verify", path, "--allow-unhashed", "--delta", 1e-6, "--rigour", "interval")
    status, found = answer(*asked, "--epsilon", epsilon * (1 + 1e-11))
    assert status == 0, found
    (bound,) = found["bounds"]
    assert bound["rigour"] == "interval"
    assert bound["accountant"] == "contour"
    assert bound["at_least"] <= bound["epsilon"] <= bound["at_least"] * (1 + 1e-12)
    assert answer(*asked, "--epsilon", epsilon * (1 - 1e-6))[0] == 1


def test_gaussian_noise_under_a_claim_of_pure_dp_hints_at_delta(dpaudit: Any, ledger_file: Any) -> None:
    path = ledger_file(0.5)
    pure = dpaudit("verify", path, "--epsilon", 4.89)
    assert pure.exit_code == 1
    assert "add --delta to claim (epsilon, delta)-DP" in " ".join(pure.stdout.split())
    for options in (["--epsilon", 4.89, "--delta", 1e-6], ["--epsilon", 1, "--delta", 1e-6], ["--rho", 0.1]):
        assert "--delta" not in dpaudit("verify", path, *options).output


def test_of_several_ledgers_what_was_not_checked_is_printed_once(dpaudit: Any, ledger_file: Any) -> None:
    paths = [ledger_file(0.1, name=f"{name}.jsonl") for name in "abcde"]
    declared = make.ledger(make.gaussian(1.0), algorithm="hand-made", neighbouring="replace-one")
    paths.append(declared.write(paths[0].parent / "f.jsonl"))
    said = " ".join(dpaudit("verify", *paths).stdout.split())
    assert said.count("Not checked") == 1
    assert said.count("whether anything left the algorithm outside the ledger") == 1
    named = f"the declared sensitivity of 1 release: 'r' ({paths[-1]})"
    assert named.replace(" ", "") in said.replace(" ", "")  # a long path is broken between two lines
    alone = dpaudit("verify", paths[-1]).stdout
    assert str(paths[-1]) not in alone[alone.index("Not checked") :]


def test_a_certificate_in_a_ledgers_place_is_named(dpaudit: Any, refusal: Any, tmp_path: Path) -> None:
    indented = tmp_path / "certificate.json"
    indented.write_text('{\n  "schema": "dpaudit.certificate/2"\n}\n')
    short = tmp_path / "short.json"
    short.write_text('{"schema":"dpaudit.certificate/2"}')
    for path in (indented, short):
        for verb in (["verify"], ["ledger", "check"]):
            assert "name the ledger, such as the ledger.jsonl beside a certificate" in refusal(*verb, path)
    edited = tmp_path / "ledger.jsonl"
    edited.write_text('{"schema"\n')  # no certificate: the usual remedy
    assert "Ledger.write" in dpaudit("verify", edited).stderr
