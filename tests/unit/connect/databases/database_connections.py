"""Connections of the drivers themselves, beside what is tested."""

from __future__ import annotations

from typing import Any


def connected(url: str) -> Any:
    """A connection of the driver itself, which commits by itself."""
    from urllib.parse import parse_qsl, urlsplit

    if url.startswith("jdbc:sqlite:"):
        import sqlite3

        return sqlite3.connect(url.removeprefix("jdbc:sqlite:"), isolation_level=None, timeout=30)
    parts = urlsplit(url)
    if parts.scheme.startswith("postgresql"):
        import psycopg

        host = dict(parse_qsl(parts.query))["host"]
        return psycopg.connect(host=host, user="moldau", dbname=parts.path[1:], autocommit=True)
    import pymysql

    return pymysql.connect(
        host=parts.hostname, port=parts.port, user="moldau", database=parts.path[1:], autocommit=True
    )
