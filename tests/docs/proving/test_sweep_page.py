"""The figures of the sweep on the page of accountants were written by its command, from a whole run."""

import re
from pathlib import Path

from dpaudit import Neighbouring
from tests.properties.test_soundness import DELTAS, KINDS, SLOW

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_figures_of_a_whole_sweep() -> None:
    page = (ROOT / "docs" / "proving" / "accountants.md").read_text(encoding="utf-8")
    section = page.partition("<!-- written by docs/programs/make_sweep.py -->")[2].partition("<!-- end -->")[
        0
    ]
    assert section.strip().startswith(f"{len(KINDS) + len(SLOW)} kinds")
    rows = re.findall(r"^\| ([\w ]+) \|" + r" ([0-9,]+) \|" * 7 + "$", section, re.MULTILINE)
    *sizes, whole = [[int(number.replace(",", "")) for number in numbers] for _, *numbers in rows]
    assert len(sizes) == 3
    assert [sum(column) for column in zip(*sizes, strict=True)] == whole
    alone = len(Neighbouring) * (len(KINDS) + len(SLOW))
    assert [mixes for mixes, *_ in sizes] == [alone, len(KINDS), len(KINDS)]
    mixes, exact, _, epsilons, deltas, ends, refused = whole
    assert min(exact, ends) > 0
    assert epsilons + refused >= mixes * len(DELTAS)  # at least one accountant answers, or all refuse
    assert deltas >= 3 * epsilons
