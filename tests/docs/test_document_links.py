"""Every relative link in the documents leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def broken(text: str, folder: Path) -> list[str]:
    links = (link.partition("#")[0] for link in LINK.findall(text))
    relative = [link for link in links if link and "://" not in link and not link.startswith("mailto:")]
    return [link for link in relative if link != "CONTRIBUTING.md" and not (folder / link).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    assert broken(document.read_text(encoding="utf-8"), document.parent) == []


def test_a_broken_link_would_be_found() -> None:
    assert broken("[a](docs/nowhere.md#part) [b](README.md) [c](https://example.org/x)", ROOT) == [
        "docs/nowhere.md"
    ]
