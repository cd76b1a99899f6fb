"""Chromium, headless, watched over its DevTools protocol, and what is asked of a page in it."""

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import websocket

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


@contextmanager
def opened(profile: Path) -> Iterator[Browser]:
    """A browser with one tab, its profile in an empty folder."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program, f"none of {PROGRAMS} is installed: .ci/run does it, with apt-get install chromium"
    process = subprocess.Popen(
        [program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        tab = Browser(_address(profile / "DevToolsActivePort"))
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
