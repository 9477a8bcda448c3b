"""connection.url: what Java's drivers write (`jdbc:postgresql://host/db?user=u`) and what SQLAlchemy does.

    jdbc:postgresql://host:5432/db?currentSchema=s    postgresql+psycopg
    jdbc:mysql://host/db  jdbc:mariadb://host/db      mysql+pymysql
    jdbc:sqlite:/path/file.db                         sqlite
    postgresql+psycopg://..., any other               as SQLAlchemy reads it

Of Java's parameters those are taken that mean something here (user, password, currentSchema, sslmode,
connectTimeout, ApplicationName, useSSL); the others are passed over, as they tune Java's driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from moldau.connect.errors import ConnectError

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}
_PLAIN = {"postgres": "postgresql+psycopg", **_DRIVERS}
_TAKEN = {
    "postgresql": {"sslmode", "sslrootcert", "sslcert", "sslkey", "application_name", "host", "options"}
}
_SQLALCHEMY_NEEDED = "the JDBC connectors need the extra connect-jdbc: pip install 'moldau[connect-jdbc]'"


def database_url(settings: Mapping[str, Any]) -> Any:
    """SQLAlchemy's URL of `connection.url`, user and password. ConnectError, without the password."""
    try:
        from sqlalchemy.engine import URL, make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise ConnectError(_SQLALCHEMY_NEEDED) from None
    text = str(settings["connection.url"]).strip()
    user, password = settings.get("connection.user"), settings.get("connection.password")
    if text.startswith("jdbc:sqlite:"):
        return URL.create("sqlite", database=text.removeprefix("jdbc:sqlite:") or None)
    if text.startswith("jdbc:"):
        return _of_java(text, user, password)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConnectError(
            "connection.url cannot be read: give jdbc:postgresql://host:5432/database, "
            "jdbc:mysql://host:3306/database, jdbc:sqlite:/path or an address of SQLAlchemy's"
        ) from None
    if url.drivername in _PLAIN:
        url = url.set(drivername=_PLAIN[url.drivername])
    if user:
        url = url.set(username=user)
    return url.set(password=password) if password else url


def _of_java(text: str, user: Any, password: Any) -> Any:
    from sqlalchemy.engine import URL

    parts = urlsplit(text.removeprefix("jdbc:"))
    if parts.scheme not in _DRIVERS:
        raise ConnectError(
            f"connection.url is for {parts.scheme or text[:20]!r}: there is a driver for "
            f"{', '.join(_DRIVERS)} and sqlite; for others give an address of SQLAlchemy's"
        )
    given = dict(parse_qsl(parts.query))
    query = _query(parts.scheme, given)
    try:
        port = parts.port
    except ValueError:
        raise ConnectError("connection.url has no valid port") from None
    return URL.create(
        _DRIVERS[parts.scheme],
        username=user or given.get("user") or (unquote(parts.username) if parts.username else None),
        password=password or given.get("password") or (unquote(parts.password) if parts.password else None),
        host=parts.hostname,
        port=port,
        database=unquote(parts.path.lstrip("/")) or None,
        query=query,
    )


def _query(scheme: str, given: Mapping[str, str]) -> dict[str, str]:
    if scheme != "postgresql":
        return {"charset": "utf8mb4"}
    query = {name: value for name, value in given.items() if name in _TAKEN["postgresql"]}
    if "ApplicationName" in given:
        query["application_name"] = given["ApplicationName"]
    if "currentSchema" in given:
        query["options"] = f"-c search_path={given['currentSchema']}"
    return query
