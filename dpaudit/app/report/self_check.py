"""What makes a report check itself: the certificate, its ledger, and the checker in JavaScript."""

import json
from pathlib import Path

from dpaudit.certificate.certificate import Certificate

#: Reports carry no larger ledgers: the page would be slow to open and to send.
MOST_BYTES = 1_000_000


def self_check(certificate: Certificate, ledger: bytes) -> str:
    """Return the scripts that end a report, as HTML; empty if the ledger is too large."""
    if len(ledger) > MOST_BYTES:
        return ""
    carried = {"certificate": json.dumps(certificate.to_json()), "ledger": ledger.decode()}
    text = json.dumps(carried).replace("<", "\\u003c")
    source = Path(__file__).with_name("checker.js").read_text(encoding="utf-8")
    return f'<script type="application/json" id="to-check">{text}</script>\n<script>\n{source}</script>'
