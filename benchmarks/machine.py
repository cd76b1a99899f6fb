"""When and on what figures were measured, in words for the page that shows them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import textwrap
from datetime import UTC, datetime
from pathlib import Path


def machine(*libraries: str) -> list[str]:
    """The day, the processor, Python, and the versions of dpaudit and of libraries: lines of at most 110."""
    model = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        named = [
            line.split(":", 1)[1].strip() for line in facts.read_text().splitlines() if "model name" in line
        ]
        model = named[0] if named else model
    versions = ", ".join(f"{name} {_version(name)}" for name in ("dpaudit", "numpy", "scipy", *libraries))
    return [
        f"{datetime.now(UTC):%Y-%m-%d}; {model}, {os.cpu_count()} cores, one thread each;",
        *textwrap.wrap(f"{platform.system()}, Python {platform.python_version()}; {versions}.", 110),
    ]


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
