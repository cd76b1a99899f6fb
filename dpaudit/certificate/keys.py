"""Ed25519 keys in PEM files, read; what cannot be used is said, with what to do about its password."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dpaudit.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

#: Where `dpaudit sign` takes an encrypted key's password from: an option would stand in the shell's history.
PASSWORD: Final = "DPAUDIT_KEY_PASSWORD"  # noqa: S105  (the variable's name, not a password)


def require_library() -> None:
    """Raise `MissingExtra` unless the library `cryptography` is installed."""
    try:
        import cryptography  # noqa: F401  (only whether it is there)
    except ImportError:
        raise MissingExtra(
            "signatures need the library cryptography",
            where="signatures",
            why="without it nothing can be signed, and no signature checked",
            remedy="pip install 'dpaudit[sign]'",
        ) from None


def private_key(path: Path, password: bytes | None) -> Ed25519PrivateKey:
    """The private key in a PEM file.

    Raises:
        UsageError: it cannot be read, is no Ed25519 key, or its password is not this one.
        MissingExtra: the library `cryptography` is not installed.
    """
    require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _unusable(path, "private", error, remedy=_about_password(error, password)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _unusable(path, "private", "a key of another kind")
    return key


def public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a PEM file; raises as `private_key`."""
    require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise _unusable(path, "public", error) from None
    if not isinstance(key, Ed25519PublicKey):
        raise _unusable(path, "public", "a key of another kind")
    return key


def _about_password(error: Exception, password: bytes | None) -> str:
    """What to do where a password is missing, too many or wrong; empty where something else is the matter."""
    if isinstance(error, TypeError):  # the library's word for one too few or too many
        if password is None:
            return f"the key is encrypted: set the environment variable {PASSWORD} to its password"
        return f"the key is not encrypted: unset the environment variable {PASSWORD}"
    if password is not None and "password" in str(error):
        return f"set the environment variable {PASSWORD} to this key's password"
    return ""


def _unusable(path: Path, kind: str, error: object, *, remedy: str = "") -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else str(error).split("\n")[0].split(",")[0]
    return UsageError(
        f"cannot be used as an Ed25519 {kind} key: {reason}",
        where=os.fspath(path),
        why="signatures are checked against exactly one key",
        remedy=remedy or "make a pair with `dpaudit keygen KEY`: sign with KEY, check with KEY.pub",
    )
