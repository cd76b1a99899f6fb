"""Write docs/papers.md, what dpaudit itself says of each paper's algorithm: `python docs/make_papers.py`."""

from __future__ import annotations

from pathlib import Path

import papers_balle_gomrokchi_precup_2016 as balle_gomrokchi_precup_2016
import papers_liao_he_gu_2023 as liao_he_gu_2023
import papers_ngo_vietri_wu_2022 as ngo_vietri_wu_2022
import papers_qiao_wang_2023 as qiao_wang_2023
import papers_wang_hegde_2019 as wang_hegde_2019
from wrapping import wrapped

HEAD = """\
# What dpaudit says of the papers

Every verdict and figure below is what accounting and replay return. Accounting proves a claim or does not; an
audit refutes one or does not, and never proves one.
"""

FOOT = """\
This page is made by `python docs/make_papers.py`; a test makes it again and compares.
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
    (Path(__file__).parent / "papers.md").write_text(papers_page(), encoding="utf-8")
