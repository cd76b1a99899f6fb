"""The names of the files that `dpaudit certify -o` writes into its folder.

The files of a run that diverged from its twin have other names: the divergence depends on the private data,
so these files are for the data holder alone.
"""

from pathlib import Path
from typing import Final

LEDGER: Final = "ledger.jsonl"
CERTIFICATE: Final = "certificate.json"
REPORT: Final = "report.html"
OUTPUT: Final = "output.json"

#: The permissions of a private file: its owner may read it, and nobody else.
PRIVATE_MODE: Final = 0o600


def private_name(name: str) -> str:
    """Return the file's name if it is for the data holder alone: ``output.private.json``."""
    path = Path(name)
    return f"{path.stem}.private{path.suffix}"


PRIVATE: Final = frozenset(map(private_name, (LEDGER, CERTIFICATE, REPORT, OUTPUT)))


def ledger_beside(certificate: Path) -> Path:
    """Return the path of the ledger that `dpaudit certify -o` wrote beside a certificate."""
    private = certificate.name in PRIVATE
    return certificate.with_name(private_name(LEDGER) if private else LEDGER)


def certificate_in(folder: Path) -> Path:
    """Return the path of the certificate that `dpaudit certify -o` wrote into a folder."""
    public, private = folder / CERTIFICATE, folder / private_name(CERTIFICATE)
    return private if private.is_file() and not public.is_file() else public
