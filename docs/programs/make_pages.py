"""Draw a report's first page, and the index of a site about a folder of runs: `python docs/programs/make_pages.py`.

Writes docs/images/report.png and site.png. It needs git, Chromium and the extras `book` and `pictures`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "images"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

_IDENTITY = {
    **{
        f"GIT_{who}_{what}": "ann@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    },
    **{f"GIT_{who}_DATE": "2026-07-01T12:00:00Z" for who in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def call(folder: Path, *words: str) -> None:
    """Run a command in a folder, whatever its exit code."""
    environment = {**os.environ, **_IDENTITY, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False)  # noqa: S603


def report(folder: Path) -> Path:
    """The report of the README's first command."""
    call(folder, sys.executable, "-m", "dpaudit.app.main", "certify", "dp-apvi", "-o", "out")
    return folder / "out" / "report.html"


def site(folder: Path) -> Path:
    """Runs of three commits, a book and a certificate that was cut short; the site's index."""

    def dpaudit(*words: str) -> None:
        call(folder, sys.executable, "-m", "dpaudit.app.main", *words)

    call(folder, "git", "init", "--quiet")
    for rho in ("0.4", "0.5", "0.8"):
        dpaudit("certify", "dp-apvi", "-P", f"rho={rho}", "--rho", "1", "--seed", "0", "-o", "runs/wards")
        call(folder, "git", "add", "--all")
        call(folder, "git", "commit", "--quiet", "--message", f"rho {rho}")
    dpaudit("certify", "dp-lsw", "--seed", "0", "-o", "runs/policy")
    dpaudit("book", "open", "patients", "--rho", "1.5", "--unit", "trajectory", "--book", "runs/book.sqlite")
    for cost in ("0.8", "0.4"):
        dpaudit("book", "reserve", "patients", "--rho", cost, "--book", "runs/book.sqlite")
    (folder / "runs" / "old").mkdir()
    (folder / "runs" / "old" / "certificate.json").write_text("{", encoding="utf-8")
    dpaudit("site", "runs")
    return folder / "dpaudit-site" / "index.html"


def main() -> None:
    """Draw both pages."""
    program = str(next(filter(None, map(shutil.which, CHROMIUM))))
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    for make, name, width, height, scale in (
        (report, "report.png", 825, 1300, 1.0),
        (site, "site.png", 900, 1500, 1.5),
    ):
        with tempfile.TemporaryDirectory() as folder:
            size = (f"--window-size={width},{height}", f"--force-device-scale-factor={scale}")
            picture, page = f"--screenshot={IMAGES / name}", make(Path(folder)).as_uri()
            subprocess.run([program, *options, *size, picture, page], check=True, capture_output=True)  # noqa: S603


if __name__ == "__main__":
    main()
