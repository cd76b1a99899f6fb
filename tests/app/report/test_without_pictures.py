"""Without the extra that draws, everything is answered but the pictures."""

from pathlib import Path
from typing import Any

import pytest

from dpaudit.page import chart


@pytest.fixture(autouse=True)
def undrawable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart, "can_draw", lambda: False)


def test_pages_say_that_pictures_are_left_out(dpaudit: Any, tmp_path: Path) -> None:
    assert dpaudit("certify", "dp-apvi", "-o", "out").exit_code == 0
    assert dpaudit("site", "out").exit_code == 0
    for page in (tmp_path / "out" / "report.html", tmp_path / "dpaudit-site" / "index.html"):
        text = page.read_text()
        assert "Pictures are left out: they need the extra <code>pictures</code>" in text
        assert "<svg" not in text
        assert "</html>" in text


@pytest.mark.parametrize(
    "command",
    [
        ("convert", "--rho", 0.5, "--plot", "a.svg"),
        ("epsilon", "gaussian", "--sigma", 1.1, "--delta", 1e-5, "--plot", "a.svg"),
        ("reproduce", "qiao-wang-2023-figure-1a", "-o", "out"),
    ],
)
def test_what_only_draws_is_refused_before_it_computes(refusal: Any, tmp_path: Path, command: Any) -> None:
    assert "pip install 'dpaudit[pictures]'" in refusal(*command)
    assert [path.name for path in tmp_path.iterdir()] == []
