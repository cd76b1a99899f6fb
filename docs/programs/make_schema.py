"""Write docs/certificate.schema.json from the certificate's type: `python docs/programs/make_schema.py`."""

from __future__ import annotations

import json
from pathlib import Path

from dpaudit.certificate.certificate import Certificate


def certificate_schema() -> str:
    """The JSON schema of a certificate file."""
    schema = Certificate.model_json_schema(mode="serialization", by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    (Path(__file__).parents[1] / "certificate.schema.json").write_text(certificate_schema(), encoding="utf-8")
