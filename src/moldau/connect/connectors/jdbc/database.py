"""An open database: how its names are written, and what its errors mean.

connection lost, deadlock, lock, server starting, disk full    Retriable
a value that does not fit, a key that exists, NOT NULL         RowRefused: one of the rows is at fault
anything else (no right, no such column, syntax)               ConnectError
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from moldau.connect.connectors.jdbc.loaders import register_loaders
from moldau.connect.connectors.jdbc.urls import database_url
from moldau.connect.errors import ConnectError, Retriable

_PASSING_STATES = ("08", "40", "53", "55P03", "57P", "58030")
"""Beginnings of PostgreSQL's codes (SQLSTATE) of conditions that pass: connection, transaction rolled back,
resources, lock, shutdown, input/output."""
_PASSING_NUMBERS = {
    1040,
    1041,
    1053,
    1077,
    1205,
    1206,
    1213,
    1021,
    1114,
    2002,
    2003,
    2006,
    2013,
    2014,
    2055,
    3024,
}
"""MySQL's."""
CONNECT_SECONDS = 10
_PLAIN_NAME = re.compile(r"[^\W\d][\w$]*")
"""What can be a name without quotes."""


class RowRefused(Exception):
    """The database refuses a value of one of the rows that were just written."""


class TableName(NamedTuple):
    """A table, and the schema (MySQL: the database) if one was given."""

    schema: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


def table_name(text: str) -> TableName:
    """`table` or `schema.table`. ConnectError for more parts."""
    parts = text.split(".")
    if len(parts) > 2 or not all(parts):
        raise ConnectError(
            f"{text!r} is no name of a table or schema.table: choose table.name.format, or rename with "
            f"RegexRouter"
        )
    return TableName(parts[0] if len(parts) == 2 else None, parts[-1])


class Database:
    """An engine of SQLAlchemy, and what depends on the product."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        import sqlalchemy

        url = database_url(settings)
        self.quoted = str(settings.get("quote.sql.identifiers") or "ALWAYS").upper() != "NEVER"
        self.dialect: str = url.get_backend_name()
        if self.dialect == "mariadb":
            self.dialect = "mysql"
        try:
            self.engine: Any = sqlalchemy.create_engine(
                url, pool_size=2, max_overflow=2, connect_args=_connect_args(self.dialect)
            )
        except ImportError as error:
            raise ConnectError(
                f"the driver for {url.drivername} is not installed ({error}): pip install "
                f"'moldau[connect-jdbc]', or the driver's package"
            ) from None
        except sqlalchemy.exc.ArgumentError as error:
            raise ConnectError(f"connection.url cannot be used: {error}") from None
        if self.dialect == "sqlite":
            _begin_for_real(self.engine)
        if url.drivername == "postgresql+psycopg":
            sqlalchemy.event.listen(self.engine, "connect", lambda one, _: register_loaders(one))
        shown = {name: "***" if "pass" in name.lower() else value for name, value in url.query.items()}
        self.place = url.set(query=shown).render_as_string(hide_password=True)

    def quote(self, name: str) -> str:
        """An identifier as it stands in a statement: names come from records, too."""
        if not self.quoted and _PLAIN_NAME.fullmatch(name):
            return name
        return self.in_quotes(name)

    def in_quotes(self, name: str) -> str:
        """An identifier that is one whatever words the product reserves."""
        if self.dialect == "mysql":
            return "`" + name.replace("`", "``") + "`"
        return '"' + name.replace('"', '""') + '"'

    def table(self, table: TableName) -> str:
        """A table's name as it stands in a statement."""
        if table.schema:
            return f"{self.quote(table.schema)}.{self.quote(table.name)}"
        return self.quote(table.name)

    def run(self, connection: Any, statement: str) -> Any:
        """A statement without parameters, whatever characters its names have."""
        return connection.exec_driver_sql(
            statement if self.dialect == "sqlite" else statement.replace("%", "%%")
        )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """A connection in a transaction, which is committed at the end. Retriable, ConnectError,
        RowRefused."""
        with self.errors(), self.engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """The database's errors as a connector's."""
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        try:
            yield
        except DBAPIError as error:
            raise self._meaning(error) from error
        except SQLAlchemyError as error:
            raise ConnectError(f"{self.place}: {error}") from error

    def _meaning(self, error: Any) -> Exception:
        original = error.orig
        said = said_by(original)
        if error.connection_invalidated or _passes(original):
            return Retriable(f"database {self.place} is away or busy: {said}")
        kind = type(error).__name__
        if kind in ("DataError", "IntegrityError") or _is_of_a_row(original):
            return RowRefused(said)
        return ConnectError(f"database {self.place} refuses: {said}")

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def said_by(original: Any) -> str:
    """What a driver's error says, in a line: message, detail, and where in the data."""
    diagnosis = getattr(original, "diag", None)
    if diagnosis is not None and diagnosis.message_primary:
        parts = [diagnosis.message_primary, diagnosis.message_detail, diagnosis.context]
        return "; ".join(" ".join(str(part).split()) for part in parts if part)[:500]
    arguments = getattr(original, "args", ())
    return " ".join(str(arguments[-1] if arguments else original).split())[:500]


_WRONG_LOGIN = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|"
    r"(role|database) .* does not exist|is not permitted to log in|certificate verify failed"
)


def is_wrong_login(said: str) -> bool:
    """Whether PostgreSQL refuses who asks, or does not have the database: libpq gives no code of it."""
    return _WRONG_LOGIN.search(said) is not None


def _passes(original: Any) -> bool:
    state = getattr(original, "sqlstate", None)
    if state:
        return bool(state.startswith(_PASSING_STATES))
    arguments = getattr(original, "args", ())
    first = arguments[0] if arguments else None
    if isinstance(first, int):
        return first in _PASSING_NUMBERS
    if type(original).__module__.startswith("psycopg"):  # no answer of a server at all, or a refusal
        if is_wrong_login(str(original)):
            return False
        return type(original).__name__ in ("OperationalError", "ConnectionTimeout", "InterfaceError")
    return "database is locked" in str(original) or "disk I/O" in str(original)


def _is_of_a_row(original: Any) -> bool:
    state = getattr(original, "sqlstate", None) or ""
    arguments = getattr(original, "args", ())
    # 42804: a value of another type; 54000: a row or its key is too large for a page;
    # 1366, 1265, 1292, 1406, 1048, 1364, 3140, 4025: MySQL's of values
    return state in ("42804", "54000") or bool(
        arguments and arguments[0] in (1366, 1265, 1292, 1406, 1048, 1364, 1264, 1367, 3140, 4025)
    )


def _connect_args(dialect: str) -> dict[str, Any]:
    if dialect == "postgresql":
        return {"connect_timeout": CONNECT_SECONDS, "keepalives_idle": 30, "keepalives_interval": 10}
    if dialect == "mysql":
        return {
            "connect_timeout": CONNECT_SECONDS,
            "charset": "utf8mb4",
            "init_command": "SET time_zone='+00:00'",
        }
    return {"timeout": 30} if dialect == "sqlite" else {}


def _begin_for_real(engine: Any) -> None:
    """SQLite's driver begins transactions late and forgets SAVEPOINT; so we begin ourselves."""
    from sqlalchemy import event

    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
