"""Databases for these tests: one of each kind for all, a schema or database for each test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[3] / "kit"))

from cdc_reader import Reader, mariadb_reader, postgres_reader
from database_connections import connected
from kit_mariadb import Mariadb, running_mariadb
from kit_postgres import Postgres, running_postgres

LOGICAL = (
    "-c wal_level=logical -c max_wal_senders=20 -c max_replication_slots=60 "
    "-c max_connections=40 -c max_locks_per_transaction=10"
)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    with running_postgres(LOGICAL) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[Mariadb]:
    with running_mariadb() as server:
        yield server


_numbers = iter(range(1, 1_000_000))


@pytest.fixture
def postgres(postgres_server: Postgres) -> str:
    """The address of an empty database."""
    import psycopg

    name = f"shop{next(_numbers)}"
    with psycopg.connect(
        host=postgres_server.folder, user="moldau", dbname="postgres", autocommit=True
    ) as all_:
        all_.execute(f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://moldau@/{name}?host={postgres_server.folder}"


@pytest.fixture
def mariadb(mariadb_server: Mariadb) -> str:
    """The address of an empty database."""
    import pymysql

    name = f"shop{next(_numbers)}"
    with pymysql.connect(host="127.0.0.1", port=mariadb_server.port, user="moldau", autocommit=True) as all_:
        all_.cursor().execute(f"CREATE DATABASE {name}")
    return f"mysql+pymysql://moldau@127.0.0.1:{mariadb_server.port}/{name}"


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def any_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"jdbc:sqlite:{tmp_path}/shop.db"
    return str(request.getfixturevalue({"postgresql": "postgres"}.get(request.param, request.param)))


@pytest.fixture
def sql() -> Iterator[Callable[..., list[Any]]]:
    """Rows of a statement, by a connection that has nothing to do with ours."""
    opened: dict[str, Any] = {}

    def run(url: str, statement: str) -> list[Any]:
        if url not in opened:
            opened[url] = connected(url)
        cursor = opened[url].cursor()
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []

    yield run
    for each in opened.values():
        each.close()


@pytest.fixture
def postgres_readers() -> Iterator[Callable[..., Reader]]:
    """Makes readers of changes (see postgres_reader); what they have made ends with the test."""
    made: list[Reader] = []

    def start(url: str, **given: Any) -> Reader:
        made.append(postgres_reader(url, **given))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def mariadb_readers() -> Iterator[Callable[..., Reader]]:
    """The same of MariaDB."""
    made: list[Reader] = []

    def start(url: str, **given: Any) -> Reader:
        made.append(mariadb_reader(url, **given))
        return made[-1]

    yield start
    for each in made:
        each.close()
