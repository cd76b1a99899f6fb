"""The index as a browser shows it from the disk, and what its form answers."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpaudit import ApproxDP, Neighbouring, PoissonSampled, Release
from dpaudit.accountants.accounting import bounds
from dpaudit.accountants.composition.composition import compose
from dpaudit.accountants.curves.rdp import RenyiProfile
from dpaudit.app.site.history import history
from dpaudit.app.site.pages import INDEX, index
from dpaudit.app.site.sources import Sources, read_sources
from tests import make
from tests.app.browser import COLLISIONS, COLOURS, OVERFLOW, Browser, contrast, luminance


@pytest.fixture
def site(runs: Path, git: Callable[..., str], certified: Any, tmp_path: Path) -> Path:
    git("init", "--quiet")
    for rho in (0.125, 0.25):
        certified(runs / "wards", rho)
        git("add", "--all")
        git("commit", "--quiet", "--message", "x")
    found = read_sources([runs], (), but=tmp_path / "none")
    grown = history(found.paths["wards/certificate.json"], found.certificates["wards/certificate.json"])
    assert grown is not None
    path, pages = tmp_path / INDEX, dict.fromkeys(found.certificates, "page.html")
    path.write_text(index("runs", found, {"wards/certificate.json": grown}, pages))
    return path


def test_the_index_in_the_browser(browser: Browser, site: Path) -> None:
    for scheme, width in (("light", 900), ("dark", 900), ("light", 360)):
        browser.open(site, width=width, scheme=scheme)
        assert (browser.complaints(), browser.requests()) == ([], [])
        assert browser.evaluate(OVERFLOW) <= 0
        assert browser.evaluate(COLLISIONS) == []
        found = browser.evaluate(COLOURS)
        assert (luminance(found["back"]) < 0.05) is (scheme == "dark")
        assert min(contrast(colour, found["back"]) for colour in found["texts"] + found["words"]) >= 4.5
        assert min(contrast(colour, found["back"]) for colour in found["marks"]) >= 2.0
        assert browser.evaluate("document.querySelectorAll('main b, main i, img').length") == 0
        assert browser.evaluate("document.querySelectorAll('figure svg').length") == 2
    assert browser.evaluate("document.querySelector('output').textContent").startswith("At most (5.6")
    assert browser.evaluate("document.querySelector('a').href") == (site.parent / "page.html").as_uri()


ASK = """(() => { const form = document.querySelector('form');
    for (const [name, value] of Object.entries(%s)) form.elements[name].value = value;
    form.dispatchEvent(new Event('input'));
    const output = form.querySelector('output');
    const command = form.querySelector('code').textContent;
    return [Number(output.dataset.epsilon), output.textContent, command] })()"""


@pytest.fixture
def ask(browser: Browser, tmp_path: Path) -> Callable[..., Any]:
    """What the form says."""
    path = tmp_path / INDEX
    path.write_text(index("x", Sources(), {}, {}))
    browser.open(path)
    return lambda *given: browser.evaluate(
        ASK % json.dumps(dict(zip(("sigma", "rate", "steps", "delta"), map(str, given), strict=True)))
    )


def steps(sigma: float, rate: float, number: int) -> Any:
    noise = make.gaussian(sigma)
    mechanism = noise if rate == 1.0 else PoissonSampled(mechanism=noise, rate=rate)
    release = Release(label="step", mechanism=mechanism, count=number)
    return compose([release], Neighbouring.ADD_OR_REMOVE_ONE)


def test_what_the_form_answers_is_an_upper_bound(ask: Callable[..., Any]) -> None:
    """No less than the least that all real orders prove, and not much more than it."""
    sigmas, rates = (0.3, 0.8, 1.1, 4.0, 40.0), (1e-5, 0.003, 0.2, 0.999, 1.0)
    for sigma, rate, number, delta in itertools.product(sigmas, rates, (1, 700, 10**6), (1e-3, 1e-12)):
        found, words, _ = ask(sigma, rate, number, delta)
        best = RenyiProfile.of(steps(sigma, rate, number)).epsilon(delta)
        assert best * (1 - 1e-9) <= found, (sigma, rate, number, delta)
        # Orders below 2 are what little noise and large epsilons need, and ones above 512 the smallest.
        if 0.1 < best < 10.0 and sigma >= 0.8:
            assert found <= 1.1 * best, (sigma, rate, number, delta)
        shown = float(words.split("(")[1].split(",")[0])
        assert found <= shown <= found * 1.0011 + 1e-300


def test_it_is_above_the_true_epsilon(ask: Callable[..., Any]) -> None:
    """Held against the lower bound of the accountant of privacy losses, which composes the pair exactly."""
    for sigma, rate, number, delta in ((1.1, 0.01, 10_000, 1e-5), (0.7, 0.05, 100, 1e-7), (3, 0.3, 50, 1e-4)):
        found, _, command = ask(sigma, rate, number, delta)
        least = bounds(steps(sigma, rate, number), ApproxDP(epsilon=0.0, delta=delta))[0].at_least
        assert least is not None
        assert least <= found <= 1.2 * least
        words = f"dpaudit epsilon gaussian --sigma {sigma:g} --rate {rate:g} --steps {number}"
        assert command.startswith(words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((0, 0.1, 1, 1e-5), "Give a sigma above 0."),
        (("x", 0.1, 1, 1e-5), "Give a sigma above 0."),
        ((1, 1.1, 1, 1e-5), "Give a sampling rate above 0, and at most 1."),
        ((1, "", 1, 1e-5), "Give a sampling rate above 0, and at most 1."),
        ((1, 0.1, 1.5, 1e-5), "Give a whole number of steps."),
        ((1, 0.1, 1, 1), "Give a delta between 0 and 1."),
        ((1, 0.1, 1, "<b>"), "Give a delta between 0 and 1."),
        ((1e-300, 0.1, 1, 1e-5), "No finite epsilon is known."),
        ((1e300, 0.1, 1, 1e-5), "At most ("),
        ((1, 1e-300, 1, 1e-5), "At most ("),
    ],
)
def test_what_cannot_be_answered(ask: Callable[..., Any], given: Any, words: str) -> None:
    assert ask(*given)[1].startswith(words)
