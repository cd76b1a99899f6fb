"""Pages as a browser shows them: Chromium, headless, watched over its DevTools protocol."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit import L2, ZCDP, ApproxDP, Certificate, Claim, Gaussian, Premise, judge
from dpaudit.accountants.accounting import account
from dpaudit.accountants.curves.profile_points import profile_points
from dpaudit.app.verbs.report import report_text
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.claims.guarantees import AnyGuarantee
from tests import make
from tests.app.browser import COLLISIONS, COLOURS, OVERFLOW, Browser, contrast, luminance
from tests.checker.certified import certified


def report_file(folder: Path, claim: AnyGuarantee, *, audited: bool = True) -> Path:
    premise = Premise(name="enough rows", left=5, relation=">=", right=9)
    claimed = Claim(claim, premises=(premise,) if audited else ())
    noise = Gaussian(sigma=20.0, sensitivity=L2(1.0, "proved"))
    weeks = (f"week {week}: visits by region and by age group" for week in range(30))
    releases = [make.release(noise, label=week) for week in weeks]
    label = "<img src=x onerror=alert(1)>" + "x" * 40
    slip = make.release(make.laplace(2.0), label=label, claimed=ApproxDP(epsilon=0.1, delta=1e-6))
    about = {"algorithm": "<b>weekly</b> $ | % counts", "unit": "person", "neighbouring": "replace-one"}
    ledger = make.ledger(*releases, slip, claim=claimed, **about)
    accounting = account(ledger)
    random = np.random.default_rng(0)
    scores = Samples(random.laplace(size=4000) + 1, random.laplace(size=4000))
    audits = [threshold(scores, claim=accounting.claim)] if audited else []
    profile = profile_points(ledger, accounting)
    made = judge(ledger, accounting, audits, command="dpaudit certify weekly.py:counts", profile=profile)
    path = folder / "report.html"
    path.write_text(report_text(made, ()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_file(tmp_path_factory.mktemp("report"), ApproxDP(epsilon=1.0, delta=1e-5))


MARKS = """Array.from(document.querySelectorAll('figure svg')).map(svg =>
    ['rect', 'line', 'symbol', 'area'].flatMap(kind => Array.from(svg.querySelectorAll(`.mark-${kind} path`)))
    .map(mark => mark.getBoundingClientRect()).filter(box => box.width + box.height > 2).length)"""


def test_the_detectors_find_what_they_are_for(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<!DOCTYPE html><link rel="icon" href="data:,"><div style="width:3000px">wide</div>'
        '<img src="http://127.0.0.1:9/pixel.png"><script>console.error("x"); throw Error("y")</script>'
        '<figure><svg width="100" height="50"><g class="mark-line"><path d=""></path></g>'
        '<text x="5" y="20">one word</text><text x="20" y="22">another</text>'
        '<text x="90" y="40">outside</text></svg></figure>'
    )
    browser.open(page, width=360)
    assert browser.requests() == ["http://127.0.0.1:9/pixel.png"]
    assert len(browser.complaints()) >= 2
    assert browser.evaluate(MARKS) == [0]
    assert browser.evaluate(OVERFLOW) > 2000
    assert browser.evaluate(COLLISIONS) == ["outside is outside", "another on one word"]
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    innocent = tmp_path / "good.html"
    innocent.write_text('<!DOCTYPE html><link rel="icon" href="data:,"><p>nothing</p>')
    browser.open(innocent)
    assert (browser.requests(), browser.complaints()) == ([], [])


@pytest.mark.parametrize(("scheme", "width"), [("light", 900), ("dark", 900), ("light", 1600)])
def test_a_report_in_the_browser(browser: Browser, report: Path, scheme: str, width: int) -> None:
    browser.open(report, scheme=scheme, width=width)
    assert browser.complaints() == []
    assert browser.requests() == []
    marks = browser.evaluate(MARKS)
    assert len(marks) == 5
    assert min(marks) >= 2
    assert browser.evaluate(COLLISIONS) == []
    assert browser.evaluate(OVERFLOW) <= 0
    found = browser.evaluate(COLOURS)
    assert (luminance(found["back"]) < 0.05) is (scheme == "dark")
    assert min(contrast(colour, found["back"]) for colour in found["texts"] + found["words"]) >= 4.5
    assert min(contrast(colour, found["back"]) for colour in found["marks"]) >= 2.0
    assert browser.evaluate("document.querySelectorAll('script, b, img').length") == 0


CHECKED = """new Promise(done => { const look = () => {
    const box = document.querySelector('#checked'), found = box.querySelector('summary');
    if (!found) return setTimeout(look, 50);
    done([box.className, found.textContent, getComputedStyle(found).color]); }; look(); })"""


def test_a_report_checks_itself_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    certificate, ledger = certified(ZCDP(rho=0.5), [make.release(make.laplace(2.0))])
    made = Certificate.from_record(json.loads(certificate), where="made")
    page = tmp_path / "report.html"
    page.write_text(report_text(made, (), ledger=ledger), encoding="utf-8")
    for scheme in ("light", "dark"):
        browser.open(page, scheme=scheme)
        tone, words, colour = browser.evaluate(CHECKED)
        assert (tone, words) == ("good", "Checked in this browser: holds, 3 figures.")
        assert contrast(colour, browser.evaluate("getComputedStyle(checked).backgroundColor")) >= 4.5
        assert browser.complaints() == []
        assert all(url.startswith("blob:") for url in browser.requests())  # the worker
        assert browser.evaluate(OVERFLOW) <= 0
    lower = page.read_text(encoding="utf-8").replace('rho\\": 0.5', 'rho\\": 0.01')
    page.write_text(lower, encoding="utf-8")
    browser.open(page)
    tone, words, _ = browser.evaluate(CHECKED)
    assert tone == "bad"
    assert words.startswith("Checked in this browser: does not hold: ")


def test_a_report_on_a_telephone(browser: Browser, report: Path) -> None:
    browser.open(report, width=360)
    assert browser.evaluate("innerWidth") == 360
    assert browser.evaluate(OVERFLOW) <= 0
    # What is wider scrolls by itself.
    assert browser.evaluate("document.querySelector('.scroll').scrollWidth") > 360


def test_a_plain_table_fits_on_a_telephone(browser: Browser, tmp_path: Path) -> None:
    """Five columns with short words: what is proved stands in the fourth, and is not cut off."""
    noises = [Gaussian(sigma=2.1 + day, sensitivity=L2(1.0, "clipped")) for day in range(4)]
    days = [make.release(noise, label=f"day {day}") for day, noise in enumerate(noises)]
    about = {"algorithm": "sums", "neighbouring": "replace-one"}
    ledger = make.ledger(*days, claim=Claim(ZCDP(rho=1)), **about)
    page = tmp_path / "report.html"
    page.write_text(
        report_text(judge(ledger, account(ledger), [], command="dpaudit certify"), ()), encoding="utf-8"
    )
    browser.open(page, width=360)
    cut = "document.querySelector('.scroll').getBoundingClientRect().right"
    proved = "document.querySelectorAll('.scroll td')[3].getBoundingClientRect().right"
    assert browser.evaluate("document.querySelectorAll('.scroll th')[3].textContent") == "proved"
    assert browser.evaluate(proved) <= browser.evaluate(cut)


def test_a_report_on_paper(browser: Browser, report: Path) -> None:
    browser.open(report, scheme="dark")
    printed = base64.b64decode(browser.call("Page.printToPDF")["data"])
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000
    # A letter page of 8.5 by 11 inches without the margins of the style sheet. No page but the last is left
    # half empty: all together are filled to more than two thirds.
    width, height = 8.5 * 96 - 32 * 96 / 25.4, 11 * 96 - 36 * 96 / 25.4
    pages = printed.count(b"/Type /Page\n")
    browser.call(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=int(width), height=900, deviceScaleFactor=1, mobile=False
    )
    long = browser.evaluate("document.documentElement.scrollHeight") / height
    assert pages >= 2
    assert 2 / 3 * (pages - 1) < long
    assert luminance(browser.evaluate(COLOURS)["back"]) > 0.9 or browser.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--page').trim()"
    ) == ("#ffffff")
    assert luminance(browser.evaluate(COLOURS)["words"][0]) < 0.1


def test_a_figure_in_the_browser(browser: Browser, dpaudit: Any, tmp_path: Path) -> None:
    options = ("--episodes", 5, "--episodes", 20, "--runs", 2, "--workers", 1)
    assert dpaudit("reproduce", "qiao-wang-2023-figure-1a", "-o", tmp_path, *options).exit_code == 0
    for scheme, width in (("light", 900), ("dark", 360)):
        browser.open(tmp_path / "qiao-wang-2023-figure-1a.html", scheme=scheme, width=width)
        assert (browser.complaints(), browser.requests()) == ([], [])
        (marks,) = browser.evaluate(MARKS)
        assert marks >= 8
        assert browser.evaluate(OVERFLOW) <= 0


def test_a_curve_in_the_browser(browser: Browser, dpaudit: Any, tmp_path: Path) -> None:
    path = tmp_path / "curve.html"
    assert dpaudit("convert", "--rho", 0.5, "--delta", 1e-6, "--plot", path).exit_code == 0
    browser.open(path)
    assert (browser.complaints(), browser.requests()) == ([], [])
    assert browser.evaluate(MARKS)[0] >= 3
