"""Pages as a browser shows them: Chromium, headless, watched over its DevTools protocol."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import websocket

from dpaudit import L1, L2, ApproxDP, Claim, Gaussian, Header, Laplace, Ledger, Release, judge
from dpaudit.accountants.accounting import account
from dpaudit.accountants.curves.profile_points import profile_points
from dpaudit.app.verbs.report import report_text
from dpaudit.auditors.statistics.samples import Samples
from dpaudit.auditors.statistics.threshold import threshold
from dpaudit.claims.claims import Premise
from dpaudit.claims.guarantees import AnyGuarantee

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-port=0",
)  # fmt: skip


PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """One tab, and everything it said since the page was opened."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=30, suppress_origin=True)
        self._number = 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while (answer := self._receive()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path: Path, *, width: int = 900, scheme: str = "light") -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media="", features=media)
        self.call("Page.navigate", url="about:blank")
        self.events = []
        self.call("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()
        self.evaluate("new Promise(done => setTimeout(done, 150))")  # for what comes late

    def evaluate(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def complaints(self) -> list[str]:
        """Console messages and exceptions of the page."""
        kinds = {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"}
        return [json.dumps(event) for event in self.events if event["method"] in kinds]

    def requests(self) -> list[str]:
        """Everything that the page asked for, itself left out."""
        asked = (e for e in self.events if e["method"] == "Network.requestWillBeSent")
        found = [event["params"]["request"]["url"] for event in asked]
        return [url for url in found[1:] if not url.startswith("data:")]

    def close(self) -> None:
        self._socket.close()

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        if "method" in message:
            self.events.append(message)
        return message


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program, f"none of {PROGRAMS} is installed: .ci/run does it, with apt-get install chromium"
    folder = tmp_path_factory.mktemp("profile")
    process = subprocess.Popen(
        [program, *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        tab = Browser(_address(folder / "DevToolsActivePort"))
        yield tab
        tab.close()
    finally:
        process.terminate()
        process.wait(timeout=30)


def _address(file: Path) -> str:
    """Where the one tab listens, as soon as the browser has written its port."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        port = file.read_text().split()[:1] if file.exists() else []
        if port:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[0]}/json", timeout=10) as answer:
                pages = [tab for tab in json.load(answer) if tab["type"] == "page"]
            if pages:
                address: str = pages[0]["webSocketDebuggerUrl"]
                return address
        time.sleep(0.1)
    raise AssertionError("the browser did not start")


def report_file(folder: Path, claim: AnyGuarantee, *, audited: bool = True) -> Path:
    premise = Premise(name="enough rows", left=5, relation=">=", right=9)
    claimed = Claim(claim, premises=(premise,) if audited else ())
    ledger = Ledger(
        Header(
            algorithm="<b>weekly</b> $ | % counts", unit="person", neighbouring="replace-one", claim=claimed
        )
    )
    for week in range(30):
        noise = Gaussian(sigma=20.0, sensitivity=L2(1.0, "proved"))
        ledger.append(Release(label=f"week {week}: visits by region and by age group", mechanism=noise))
    slip = Laplace(scale=2.0, sensitivity=L1(1.0))
    label = "<img src=x onerror=alert(1)>" + "x" * 40
    ledger.append(Release(label=label, mechanism=slip, claimed=ApproxDP(epsilon=0.1, delta=1e-6)))
    ledger.finish()
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

#: Every drawn text and mark with the colour it has on the screen, and the colour behind it.
COLOURS = """(() => { const of = (mark, name) => getComputedStyle(mark)[name];
    const texts = Array.from(document.querySelectorAll('svg text')).map(e => of(e, 'fill'));
    const marks = Array.from(document.querySelectorAll('svg .mark-line path, svg .mark-rect.role-mark path'))
        .map(e => of(e, 'fill') == 'none' ? of(e, 'stroke') : of(e, 'fill'));
    const words = Array.from(document.querySelectorAll('p, td, th, li span, li strong, figcaption'))
        .map(e => of(e, 'color'));
    return {back: of(document.body, 'backgroundColor'), texts, marks, words} })()"""

#: By how much the page is wider than the window.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

#: Words in pictures that lie on each other, or outside of their picture.
COLLISIONS = """Array.from(document.querySelectorAll('figure svg')).flatMap(svg => {
    const whole = svg.getBoundingClientRect();
    const texts = Array.from(svg.querySelectorAll('text'))
        .filter(e => e.textContent.trim() && getComputedStyle(e).opacity > 0)
        .map(e => [e.textContent, e.getBoundingClientRect()]);
    const out = texts.filter(([, b]) => b.left < whole.left - 1 || b.right > whole.right + 1
        || b.top < whole.top - 1 || b.bottom > whole.bottom + 1).map(([t]) => t + ' is outside');
    for (let i = 0; i < texts.length; i++) for (let j = 0; j < i; j++) {
        const [[s, a], [t, b]] = [texts[i], texts[j]];
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 1 && high > 3) out.push(s + ' on ' + t);
    }
    return out })"""


def luminance(colour: str) -> float:
    """Relative luminance of an opaque sRGB colour, as WCAG 2.1 defines it."""
    channels = [float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_in_the_browser(browser: Browser, report: Path, scheme: str) -> None:
    browser.open(report, scheme=scheme)
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


def test_a_report_on_a_telephone(browser: Browser, report: Path) -> None:
    browser.open(report, width=360)
    assert browser.evaluate("innerWidth") == 360
    assert browser.evaluate(OVERFLOW) <= 0
    # What is wider scrolls by itself.
    assert browser.evaluate("document.querySelector('.scroll').scrollWidth") > 360


def test_a_report_on_paper(browser: Browser, report: Path) -> None:
    browser.open(report, scheme="dark")
    printed = base64.b64decode(browser.call("Page.printToPDF")["data"])
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000
    browser.call(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
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
