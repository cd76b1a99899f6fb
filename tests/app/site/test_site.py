"""One folder of pages about many files: each is shown or named, nothing private, whole or not at all."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit import ApproxDP
from dpaudit.app.site import command
from dpaudit.app.site.history import history
from dpaudit.app.site.pages import addresses
from dpaudit.app.site.sources import read_certificate
from dpaudit.certificate.verdicts import leading_figure

pytestmark = pytest.mark.usefixtures("undrawn")


def tables(page: str) -> dict[str, list[list[str]]]:
    """The rows of the tables under each heading, as text."""
    found: dict[str, list[list[str]]] = {}
    for heading, section in re.findall(r"<h2>(.*?)</h2>(.*?)(?=<h2>|</main>)", page, re.DOTALL):
        rows = re.findall(r"<tr>((?:<td.*?)+)</tr>", section)
        found[heading] = [[re.sub("<[^>]+>", "", c) for c in re.findall("<td.*?</td>", row)] for row in rows]
    return found


def test_everything_is_shown_or_named(dpaudit: Any, runs: Path, tmp_path: Path) -> None:
    result = dpaudit("site", runs, "-o", "public")
    assert result.exit_code == 3  # the worst: two files were edited or cut
    assert "public/index.html (2 certificates, 2 ledgers, 1 budget)" in result.stdout
    for file in ("edited/certificate.json", "cut/certificate.json", "ledger.jsonl", "dpaudit-book.sqlite"):
        assert f"not read: {file}: DPA" in result.stderr
    page = (tmp_path / "public" / "index.html").read_text()
    shown, name, nasty = tables(page), "certificate.json", "&lt;b&gt;a&lt;/b&gt;\\x1b"
    assert [row[:5] for row in shown["Certificates"]] == [
        [f"alone/{name}", nasty, "(2, 1e-05)", "stated: (2.94323, 1e-05)", "NOT PROVED"],
        [f"wards/{name}", "weekly counts", "rho 0.5", "(2.25409, 1e-06)", "PROVED"],
    ]
    assert [row[0] for row in shown["Ledgers without a certificate"]] == ["other.jsonl", "other/ledger.jsonl"]
    assert shown["Budgets"][0][:5] == ["&lt;i&gt;patients&lt;/i&gt;", "person", "rho (zCDP)", "1.5", "0"]
    assert [row[:2] for row in shown["Not read"]] == [
        ["cut/certificate.json", "DPA204"],
        ["dpaudit-book.sqlite", "DPA701"],
        ["edited/certificate.json", "DPA209"],
        ["ledger.jsonl", "DPA205"],
    ]
    left_out = "pipe.jsonl, rows.jsonl, settings.json, trials.sqlite"
    assert f"Left out: {left_out}: " in re.sub(r"\s+", " ", page)
    assert f"left out: {left_out}: " in result.stderr
    linked = re.findall('<a href="([^"]*)"', page)
    assert linked == ["certificates/alone-certificate.html", "certificates/wards-certificate.html"]
    for address in linked:
        report = (tmp_path / "public" / address).read_text()
        assert '<a href="../index.html">All certificates</a>' in report
    written = {path.name for path in (tmp_path / "public").rglob("*") if path.is_file()}
    assert written == {"index.html", "alone-certificate.html", "wards-certificate.html"}


def test_what_no_experiment_judged_is_not_green(
    dpaudit: Any, certified: Callable[..., Path], tmp_path: Path
) -> None:
    certified(tmp_path / "runs" / "a")
    assert dpaudit("site", "runs").exit_code == 0
    page = (tmp_path / "dpaudit-site" / "index.html").read_text()
    badge = (
        r'<li class="unclear"><span>Refuted by an experiment, of 1 certificate</span><strong>0; 1 not judged<'
    )
    assert re.search(badge, page)
    (row,) = tables(page)["Certificates"]
    assert row[-1].endswith("no experiment has judged the claim")


def test_nothing_private_is_shown(dpaudit: Any, runs: Path, tmp_path: Path) -> None:
    dpaudit("site", runs, "-o", "public")
    for path in (tmp_path / "public").rglob("*.html"):
        text = path.read_text()
        for private in (str(tmp_path), "secret note", "4711", "<b>", "<i>", "\x1b"):
            assert private not in text


def test_a_site_is_written_again_and_other_folders_are_not_touched(
    dpaudit: Any, refusal: Any, certified: Callable[..., Path], tmp_path: Path
) -> None:
    certified(tmp_path / "runs" / "a")
    certified(tmp_path / "runs" / "b")
    assert dpaudit("site", "runs").exit_code == 0
    pages = tmp_path / "dpaudit-site" / "certificates"
    assert sorted(path.name for path in pages.iterdir()) == ["a-certificate.html", "b-certificate.html"]
    (tmp_path / "runs" / "b" / "certificate.json").unlink()
    assert dpaudit("site", ".").exit_code == 0  # the site in it is no source
    assert sorted(path.name for path in pages.iterdir()) == ["runs-a-certificate.html"]
    before = (tmp_path / "runs" / "a" / "ledger.jsonl").read_bytes()
    for folder in ("runs", "runs/a", "runs/a/ledger.jsonl"):
        assert "DPA105 -o runs" in refusal("site", "runs", "-o", folder)
    assert (tmp_path / "runs" / "a" / "ledger.jsonl").read_bytes() == before


def test_an_interrupted_site_leaves_the_old_index(
    dpaudit: Any, certified: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified(tmp_path / "runs" / "a")
    assert dpaudit("site", "runs").exit_code == 0
    index = tmp_path / "dpaudit-site" / "index.html"
    before = index.read_bytes()
    certified(tmp_path / "runs" / "b")

    def full(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "index", full)
    assert dpaudit("site", "runs").exit_code == 130
    assert index.read_bytes() == before
    assert not [path for path in index.parent.rglob("*") if path.name.startswith(".")]
    monkeypatch.undo()
    index.unlink()  # as if the first site had been interrupted
    monkeypatch.chdir(tmp_path)
    assert dpaudit("site", "runs").exit_code == 0
    assert index.is_file()


@pytest.mark.parametrize("given", [("none",), ("empty",), ("empty", "--book", "none.sqlite"), ()])
def test_nothing_to_show(dpaudit: Any, tmp_path: Path, given: tuple[str, ...]) -> None:
    (tmp_path / "empty").mkdir()
    assert dpaudit("site", *given).exit_code == 2
    if "--book" not in given:
        assert not (tmp_path / "dpaudit-site").exists()


def test_several_folders_and_a_book_by_its_address(
    dpaudit: Any, runs: Path, certified: Callable[..., Path], tmp_path: Path
) -> None:
    certified(tmp_path / "second" / "wards")
    (runs / "budgets.sqlite").rename(tmp_path / "b.db")
    result = dpaudit("site", runs / "wards", "second", "--book", "b.db")
    assert result.exit_code == 0, result.stderr
    shown = tables((tmp_path / "dpaudit-site" / "index.html").read_text())
    names = [row[0] for row in shown["Certificates"]]
    assert names == ["wards/certificate.json", "second/wards/certificate.json"]
    assert len(shown["Budgets"]) == 2


def test_names_of_pages_are_plain_and_differ() -> None:
    names = ["a/b.json", "a-b.json", "A/B.json", "index.json", "é.json", "../x.json", "x" * 300 + ".json"]
    found = addresses(names)
    assert len({address.lower() for address in found.values()}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9-]{1,90}\.html", address) for address in found.values())
    assert "index.html" not in found.values()


def test_growth_over_commits(
    tmp_path: Path, certified: Callable[..., Path], git: Callable[..., str], dpaudit: Any
) -> None:
    git("init", "--quiet")
    path = certified(tmp_path / "wards")
    assert history(path, read_certificate(path)) is None  # not committed yet: one version
    for rho in (0.125, 0.25, None, 0.5):
        if rho is None:
            path.write_text("{")
        else:
            certified(tmp_path / "wards", rho)
        git("add", "--all")
        git("commit", "--quiet", "--message", "x")
    certified(tmp_path / "wards", 0.5, ApproxDP(epsilon=9.0, delta=1e-5))
    git("add", "--all")
    git("commit", "--quiet", "--message", "another scale")
    certified(tmp_path / "wards", 0.375)
    found = history(path, read_certificate(path))
    assert found is not None
    proved = [leading_figure(version.proved) for version in found.versions if version.proved]
    assert proved == pytest.approx([0.125, 0.25, 0.5, 0.375], rel=1e-12)
    assert [bool(version.commit) for version in found.versions] == [True, True, True, False]
    assert all(version.again for version in found.versions)
    assert (found.scale, found.left_out) == ("rho", 2)
    assert dpaudit("site", "wards").exit_code == 0
    rows = tables((tmp_path / "dpaudit-site" / "index.html").read_text())["Growth over commits"]
    assert [row[2:] for row in rows] == [
        ["rho 0.5", f"rho {rho}", "PROVED", "ledger"] for rho in (0.125, 0.25, 0.5, 0.375)
    ]
    assert rows[-1][:2] == ["not committed", "now"]


def test_growth_of_an_overstated_commit_is_left_out(
    tmp_path: Path, certified: Callable[..., Path], git: Callable[..., str]
) -> None:
    """A commit's certificate is held against its own ledger, and without one it is shown as stated."""
    git("init", "--quiet")
    path = certified(tmp_path)
    path.write_text(path.read_text().replace('"rho": 0.125', '"rho": 0.0625'))
    git("add", "--all")
    git("commit", "--quiet", "--message", "edited")
    certified(tmp_path, 0.25)
    git("rm", "--quiet", "--cached", "ledger.jsonl")
    git("add", "certificate.json")
    git("commit", "--quiet", "--message", "no ledger")
    certified(tmp_path, 0.5)
    found = history(path, read_certificate(path))
    assert found is not None
    assert [version.again for version in found.versions] == [False, True]
    proved = [leading_figure(version.proved) for version in found.versions if version.proved]
    assert proved == pytest.approx([0.25, 0.5], rel=1e-12)
    assert found.left_out == 1


def test_without_git_there_is_no_growth(
    tmp_path: Path, certified: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certified(tmp_path)
    monkeypatch.setenv("PATH", "")
    assert history(path, read_certificate(path)) is None


def test_what_is_linked_to_nothing_is_named(
    dpaudit: Any, certified: Callable[..., Path], tmp_path: Path
) -> None:
    certified(tmp_path / "runs" / "a*[1]")
    (tmp_path / "runs" / "certificate.json").symlink_to("none")
    result = dpaudit("site", "runs")
    assert result.exit_code == 2
    assert "not read: certificate.json: DPA204" in result.stderr
    assert "(1 certificate)" in result.stdout
