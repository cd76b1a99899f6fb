"""How ledgers, accountings, audits and certificates read in a notebook."""

from html.parser import HTMLParser
from typing import Any

import numpy as np

import dpaudit
from dpaudit import L2, ZCDP, Claim, Curator, Gaussian, Pair
from dpaudit.notebook import MOST_ROWS, as_html

CLAIM = Claim(ZCDP(rho=1.0), unit="row", neighbouring="replace-one")
NOISE = Gaussian(sigma=1.0, sensitivity=L2(1.0))


class Cells(HTMLParser):
    """The texts of a page, and its tags, each of which has to be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self.tags.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def released(data: Any, curator: Curator) -> Any:
    return curator.release(data.sum(), NOISE, label="<b>sum</b>\u202e")


def shown(value: Any) -> Cells:
    page = Cells(value._repr_html_())
    assert page.tags <= {"p", "b", "table", "tr", "th", "td"}
    return page


def test_what_is_made_of_a_run_is_shown_with_its_verdicts() -> None:
    pair = Pair(np.zeros(3), np.array([0.0, 0.0, 1.0]))
    result = dpaudit.run(released, np.zeros(3), claim=CLAIM, seed=0)
    ledger = shown(result.ledger).texts
    assert {"Ledger of released", "unit", "row", "gaussian", "complete"} <= set(ledger)
    assert "<b>sum</b>\\u202e" in ledger  # as text
    accounting = shown(dpaudit.account(result.ledger)).texts
    assert {"PROVED", "1-zCDP per row (replace-one, central)", "0.5-zCDP"} <= set(accounting)
    audit = shown(dpaudit.audit(released, pair, claim=CLAIM, trials=5)).texts
    assert {"Audit by replay", "NOT_REFUTED"} <= set(audit)
    whole = shown(dpaudit.certify(released, np.zeros(3), claim=CLAIM, pairs=pair, seed=0)).texts
    assert {"Certificate of released", "Accounting"} & set(whole) == {"Certificate of released"}
    assert {"PROVED", "NOT_REFUTED", "Audit by replay"} <= set(whole)


def test_findings_are_listed() -> None:
    def leaking(data: Any, curator: Curator) -> Any:
        return released(data, curator), float(data[2])

    pair = Pair(np.zeros(3), np.array([0.0, 0.0, 1.0]))
    texts = shown(dpaudit.audit(leaking, pair, claim=CLAIM, trials=5)).texts
    assert {"REFUTED", "leak"} <= set(texts)


def test_very_many_rows_are_counted() -> None:
    rows = [(f"step {i}",) for i in range(MOST_ROWS + 3)]
    texts = Cells(as_html("title", {"left out": None, "kept": 0.5}, ("name",), rows)).texts
    assert "... and 3 more" in texts
    assert f"step {MOST_ROWS - 1}" in texts
    assert f"step {MOST_ROWS}" not in texts
    assert "left out" not in texts
