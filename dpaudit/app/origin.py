"""Where this dpaudit was installed from, as pip recorded it (PEP 610): what others install, and its pages."""

import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, Final
from urllib.parse import urlsplit

#: Hosts whose pages show a file of a commit under ADDRESS/blob/COMMIT/FILE.
_SHOW_FILES: Final = {"github.com", "gitlab.com", "codeberg.org"}


@dataclass(frozen=True)
class Origin:
    """What to give pip for the same dpaudit elsewhere; None where nobody else can reach it.

    `pages` is the address of this commit's files, None where none is known.
    """

    requirement: str | None
    pages: str | None = None

    def page(self, file: str, section: str = "") -> str | None:
        """The address of a file of this repository, and of a section on it."""
        return None if self.pages is None else f"{self.pages}/{file}" + (f"#{section}" if section else "")


def origin() -> Origin:
    """The repository and commit, the address of an archive, or the version on the package index."""
    try:
        installed = distribution("dpaudit")
    except PackageNotFoundError:
        return Origin(None)
    recorded = installed.read_text("direct_url.json")
    if recorded is None:
        return Origin(f"dpaudit=={installed.version}")
    return _recorded(json.loads(recorded))


def _recorded(record: dict[str, Any]) -> Origin:
    url, commit = record["url"], record.get("vcs_info", {}).get("commit_id")
    parts = urlsplit(url)
    secret = parts.password is not None or (parts.username is not None and parts.scheme != "ssh")
    if parts.scheme not in {"http", "https", "ssh"} or secret:
        return Origin(None)  # a folder of this machine, or an address that holds somebody's token
    if commit is None:
        return Origin(f"dpaudit @ {url}")
    system = record["vcs_info"]["vcs"]
    pages = f"https://{parts.hostname}{parts.path.removesuffix('.git')}/blob/{commit}"
    return Origin(f"dpaudit @ {system}+{url}@{commit}", pages if parts.hostname in _SHOW_FILES else None)
