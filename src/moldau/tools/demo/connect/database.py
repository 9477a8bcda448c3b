"""A PostgreSQL for the demo: started in a folder of its own, filled with a year of departures, changed
while it is read.

Debian's and Ubuntu's packages are installed where that is possible (as root); elsewhere the demo says what is
missing.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import socket
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from moldau.tools.demo.flights import FLIGHTS_FILE, find_table
from moldau.tools.shared.errors import CommandError

USER = "moldau"
TABLE = "flights"
COLUMNS = (
    "id integer primary key",
    "day date not null",
    "carrier text not null",
    "airline text not null",
    "origin text not null",
    "dest text not null",
    "dep_delay integer",
    "distance integer not null",
)
_NOBODY = 65_534  # PostgreSQL refuses to run as root
_INSTALL_SECONDS = 600


def _places() -> str:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return os.pathsep.join([os.environ.get("PATH", ""), *map(str, found)])


def _program(name: str) -> str | None:
    return shutil.which(name, path=_places())


def require_postgres() -> str:
    """What was done to have it, or nothing. CommandError that says how to install it."""
    if _program("initdb") and _program("pg_ctl"):
        return ""
    apt = shutil.which("apt-get")
    if apt is not None and os.geteuid() == 0:
        quiet: Mapping[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "postgresql"]):
            subprocess.run([apt, *words], check=False, env=environment, timeout=_INSTALL_SECONDS, **quiet)
        if _program("initdb"):
            return "installed PostgreSQL"
    raise CommandError(
        "the demo needs PostgreSQL's programs (initdb, pg_ctl): install the package postgresql, and start "
        "again"
    )


class Database:
    """A running server with one table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    def connect(self) -> Any:
        """A connection of psycopg's, each statement a transaction."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname="postgres", autocommit=True
        )

    def start(self) -> None:
        """CommandError with the server's last lines."""
        self._run("initdb", "-D", "data", "-A", "trust", "-U", USER, "--no-sync", "-E", "UTF8")
        options = (
            f"-c listen_addresses=127.0.0.1 -p {self.port} -c wal_level=logical -c fsync=off "
            f"-k {self._folder}"
        )
        self._run("pg_ctl", "-D", "data", "-w", "-t", "60", "-l", "server.log", "-o", options, "start")

    def stop(self) -> None:
        """Whatever it is doing."""
        with suppress(CommandError):
            self._run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    def fill(self, count: int) -> int:
        """Make the table with the first `count` departures; how many there are."""
        with self.connect() as connection:
            connection.execute(f"CREATE TABLE {TABLE} ({', '.join(COLUMNS)})")
            with connection.cursor().copy(f"COPY {TABLE} FROM STDIN") as rows:
                filled = 0
                for row in _departures(count):
                    rows.write_row(row)
                    filled += 1
        return filled

    def change(self, first: int) -> None:
        """Some rows get another delay, some go, some come: what a table does while it is read."""
        with self.connect() as connection:
            connection.execute(
                f"UPDATE {TABLE} SET dep_delay = coalesce(dep_delay, 0) + 1 WHERE id %% 97 = %s",
                (first % 97,),
            )
            connection.execute(f"DELETE FROM {TABLE} WHERE id %% 997 = %s", (first % 997,))
            connection.execute(
                f"INSERT INTO {TABLE} VALUES (%s, '2013-12-31', 'MQ', 'Envoy Air', 'JFK', 'PRG', NULL, 4075) "
                "ON CONFLICT (id) DO NOTHING",
                (10_000_000 + first,),
            )

    def rows(self) -> list[tuple[Any, ...]]:
        """The whole table, by id."""
        with self.connect() as connection:
            found: list[tuple[Any, ...]] = connection.execute(f"SELECT * FROM {TABLE} ORDER BY id").fetchall()
        return found

    def _run(self, name: str, *words: str) -> None:
        program = _program(name) or name
        user = _NOBODY if os.geteuid() == 0 else None
        log = self._folder / "commands.log"
        with log.open("ab") as out:
            done = subprocess.run(
                [program, *words], check=False, stdout=out, stderr=out, user=user, cwd=self._folder
            )
        if done.returncode:
            said = log.read_text("utf-8", "replace").strip().splitlines()[-3:]
            raise CommandError(f"PostgreSQL's {name} failed: {' '.join(said)}")


@contextmanager
def database(folder: Path) -> Iterator[Database]:
    """A started server, until the end of the block."""
    folder.mkdir()
    folder.chmod(0o777)  # its server is another user
    server = Database(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _departures(count: int) -> Iterator[tuple[Any, ...]]:
    with find_table("airlines.csv").open(encoding="utf-8", newline="") as lines:
        airlines = {row["carrier"]: row["name"] for row in csv.DictReader(lines)}
    with zipfile.ZipFile(find_table(FLIGHTS_FILE)) as archive, archive.open(archive.namelist()[0]) as packed:
        rows = csv.DictReader(io.TextIOWrapper(packed, "utf-8", newline=""))
        for number, row in zip(range(1, count + 1), rows, strict=False):
            delay = row["dep_delay"]
            yield (
                number,
                f"{int(row['year'])}-{int(row['month']):02}-{int(row['day']):02}",
                row["carrier"],
                airlines[row["carrier"]],
                row["origin"],
                row["dest"],
                int(float(delay)) if delay not in ("", "NA") else None,
                int(float(row["distance"])),
            )
