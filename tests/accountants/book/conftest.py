"""Books on both databases: an SQLite file, and a PostgreSQL server that the session starts for itself."""

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_MISSING = "PostgreSQL's server is not installed: these tests start a real one (apt-get install postgresql)"


def _program(name: str) -> str:
    """A server program: on the path, or where Debian keeps them."""
    kept = sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")))
    found = kept[-1] if kept else shutil.which(name)
    assert found is not None, _MISSING
    return found


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a server that listens on a socket in a folder of its own."""
    # PostgreSQL refuses to run as root, so there it runs as the user whom its package made.
    as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    owner = "postgres" if as_owner else pwd.getpwuid(os.geteuid()).pw_name
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        if as_owner:
            shutil.chown(name, owner)
        data = f"{name}/data"

        def control(*arguments: str) -> None:
            subprocess.run(
                [*as_owner, *arguments], check=True, capture_output=True, timeout=60, cwd="/", text=True
            )

        control(_program("initdb"), "-D", data, "-A", "trust", "-U", owner, "--no-sync")
        control(_program("pg_ctl"), "-D", data, "-w", "-l", f"{name}/log", "-o", f"-k {name} -h ''", "start")
        try:
            yield f"postgresql://{owner}@/{{database}}?host={name}"
        finally:
            control(_program("pg_ctl"), "-D", data, "-m", "immediate", "stop")


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty book."""
    if request.param == "sqlite":
        return str(tmp_path / "book.sqlite")
    made: Callable[..., str] = request.getfixturevalue("database")
    return made()


@pytest.fixture
def database(server: str) -> Callable[..., str]:
    """Make a new, empty database, with settings of its own, such as ``synchronous_commit="off"``; its URL."""

    def make(**settings: str) -> str:
        import psycopg

        name = f"book_{secrets.token_hex(6)}"
        with psycopg.connect(server.format(database="postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
            for setting, value in settings.items():
                connection.execute(f"ALTER DATABASE \"{name}\" SET {setting} = '{value}'".encode())
        return server.format(database=name)

    return make
