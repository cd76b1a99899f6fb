"""Write docs/papers/papers.md, what dpaudit says of each paper: `python docs/programs/make_papers.py`."""

from __future__ import annotations

from pathlib import Path

from papers import (
    balle_gomrokchi_precup_2016,
    liao_he_gu_2023,
    ngo_vietri_wu_2022,
    qiao_wang_2023,
    wang_hegde_2019,
)
from wrapping import wrapped

HEAD = """\
# What dpaudit says of the papers

Every verdict and figure below is what accounting and replay return. Accounting proves a claim or does not; an
audit refutes one or does not, and never proves one.
"""

FOOT = """\
This page is made by `python docs/programs/make_papers.py`; a test makes it again and compares.
"""


def papers_page() -> str:
    """The whole page, as Markdown."""
    papers = (
        qiao_wang_2023,
        balle_gomrokchi_precup_2016,
        wang_hegde_2019,
        liao_he_gu_2023,
        ngo_vietri_wu_2022,
    )
    parts = [HEAD, *(paper.section() for paper in papers), FOOT]
    return wrapped("\n\n".join(part.rstrip("\n") for part in parts))


if __name__ == "__main__":
    (Path(__file__).parents[1] / "papers" / "papers.md").write_text(papers_page(), encoding="utf-8")
