"""A PostgreSQL of a test's own, on a Unix socket, without durability; skips where none is installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65_534  # PostgreSQL refuses to run as root


def _places() -> str:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return os.pathsep.join([os.environ.get("PATH", ""), *map(str, found)])


def missing() -> str:
    """Why the tests cannot run here, or nothing."""
    for command in ("initdb", "postgres", "pg_ctl"):
        if shutil.which(command, path=_places()) is None:
            return f"{command} is not on the PATH (Debian package postgresql)"
    for module in ("sqlalchemy", "psycopg"):
        try:
            __import__(module)
        except ImportError:
            return f"{module} is not installed (the extra dev brings it)"
    return ""


class Postgres:
    """A server in a folder."""

    def __init__(self, folder: Path, options: str = "") -> None:
        self._folder = folder
        self._options = options
        self.folder = str(folder)
        self.url = f"postgresql+psycopg://moldau@/postgres?host={folder}"

    def _run(self, *command: str) -> None:
        user = NOBODY if os.geteuid() == 0 else None
        program = shutil.which(command[0], path=_places()) or command[0]
        with (self._folder / "commands.log").open("ab") as out:
            subprocess.run(
                [program, *command[1:]], check=True, stdout=out, stderr=out, user=user, cwd=self._folder
            )

    def make(self) -> None:
        self._run("initdb", "-D", "data", "-A", "trust", "-U", "moldau", "--no-sync", "-E", "UTF8")

    def start(self) -> None:
        options = (
            f"-c listen_addresses='' -c fsync=off -c shared_buffers=8MB -k {self._folder} {self._options}"
        )
        self._run("pg_ctl", "-D", "data", "-w", "-t", "60", "-l", "server.log", "-o", options, "start")

    def stop(self) -> None:
        """As a crash: connections break, open transactions are gone."""
        self._run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")


@contextlib.contextmanager
def running_postgres(options: str = "") -> Iterator[Postgres]:
    """A started server; skips where there can be none."""
    if reason := missing():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="mpg", dir="/tmp"))  # short: it holds a Unix socket
    folder.chmod(0o777)
    server = Postgres(folder, options)
    try:
        server.make()
        server.start()
        yield server
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
