"""Rows of a table as the log would have them: COPY's text format, through the same conversions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from moldau.connect.connectors.cdc.postgres.replication import quoted
from moldau.connect.connectors.cdc.postgres.transactions import Followed, unreadable
from moldau.connect.errors import ConnectError, Retriable


def select_of(followed: Followed, behind: str = "") -> str:
    """A SELECT of all captured columns, in order."""
    relation = followed.relation
    columns = ", ".join(quoted(relation.columns[place].name) for place in followed.places)
    return f"SELECT {columns} FROM {quoted(relation.schema)}.{quoted(relation.table)} {behind}"


def copied(connection: Any, select: str, count: int) -> Iterator[list[tuple[str | None, ...]]]:
    """Texts of rows, so many at a time; memory does not grow with the table. Retriable, ConnectError."""
    import psycopg

    try:
        with connection.cursor() as cursor, cursor.copy(f"COPY ({select}) TO STDOUT") as copy:
            rows = copy.rows()
            while part := list(islice(rows, count)):
                yield part
    except psycopg.OperationalError as error:
        raise Retriable(f"PostgreSQL went away while a table was read: {error}") from error
    except psycopg.Error as error:
        raise ConnectError(f"a table cannot be read: {error} (statement: {select})") from error


def values_of(followed: Followed, rows: list[tuple[str | None, ...]]) -> list[list[Any]]:
    """Converted, a list a row."""
    columns = []
    for column, texts in zip(followed.table.columns, zip(*rows, strict=True), strict=True):
        convert = column.convert
        if convert is None:
            columns.append(list(texts))
            continue
        try:
            columns.append([None if text is None else convert(text) for text in texts])
        except (ConnectError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise unreadable(followed, column, error) from error
    return [list(row) for row in zip(*columns, strict=True)]
