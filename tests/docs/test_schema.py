"""The published schema is the certificate's own."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_published_schema_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "programs" / "make_schema.py"))["certificate_schema"]()
    stored = (DOCS / "certificate.schema.json").read_text(encoding="utf-8")
    assert json.loads(stored) == json.loads(made), "run: python docs/programs/make_schema.py"
