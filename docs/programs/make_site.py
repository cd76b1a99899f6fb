"""Make a folder of runs and the site about it, and draw its index: `python docs/programs/make_site.py`.

Writes docs/images/site.png. It needs git, Chromium and the extra `book`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).parents[1] / "images" / "site.png"
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


def made(folder: Path) -> Path:
    """Runs of three commits, a book and a certificate that was cut short; the site's index."""
    environment = {**os.environ, **_IDENTITY, "PYTHONPATH": str(Path(__file__).parents[2])}

    def call(*words: str) -> str:
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
        return done.stdout.strip()

    def dpaudit(*words: str) -> str:
        return call(sys.executable, "-m", "dpaudit.app.main", *words)

    call("git", "init", "--quiet")
    for rho in ("0.4", "0.5", "0.8"):
        dpaudit("certify", "dp-apvi", "-P", f"rho={rho}", "--rho", "1", "--seed", "0", "-o", "runs/wards")
        call("git", "add", "--all")
        call("git", "commit", "--quiet", "--message", f"rho {rho}")
    dpaudit("certify", "dp-lsw", "--seed", "0", "-o", "runs/policy")
    dpaudit("book", "open", "patients", "--rho", "1.5", "--unit", "trajectory", "--book", "runs/book.sqlite")
    for cost in ("0.8", "0.4"):
        dpaudit("book", "reserve", "patients", "--rho", cost, "--book", "runs/book.sqlite")
    (folder / "runs" / "old").mkdir()
    (folder / "runs" / "old" / "certificate.json").write_text("{", encoding="utf-8")
    dpaudit("site", "runs")
    return folder / "dpaudit-site" / "index.html"


def main() -> None:
    """Draw the page."""
    program = next(filter(None, map(shutil.which, CHROMIUM)))
    with tempfile.TemporaryDirectory() as folder:
        page = made(Path(folder))
        size = ("--window-size=900,1500", "--hide-scrollbars", "--force-device-scale-factor=1.5")
        options = ("--headless", "--no-sandbox", "--disable-gpu", *size)
        subprocess.run(  # noqa: S603
            [str(program), *options, f"--screenshot={PICTURE}", page.as_uri()],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    main()
