"""Rows of a table, read through COPY: texts through the conversions of the log, or whole columns of them.

COPY (SELECT ...) TO STDOUT (FORMAT csv)    null is nothing, an empty text is ""
Arrow reads the CSV as columns of texts, and casts those whose type it can (columns.py): no Python touches
a value. A column with a value that Arrow does not read (a date before Christ) goes value by value.
"""

from __future__ import annotations

import selectors
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import csv

from moldau.connect.connectors.cdc.converting import Unreadable, converted
from moldau.connect.connectors.cdc.postgres.replication import quoted
from moldau.connect.connectors.cdc.postgres.transactions import Followed
from moldau.connect.errors import ConnectError, Retriable
from moldau.connect.source import Refused

SILENCE_SECONDS_MAX = 600.0
"""Of a server between two rows; it may sort for long before the first."""
BLOCK_BYTES_MAX = 8 << 20
"""Of texts that are turned into columns together."""


def select_of(followed: Followed, behind: str = "") -> str:
    """A SELECT of all captured columns, in order."""
    relation = followed.relation
    columns = ", ".join(quoted(relation.columns[place].name) for place in followed.places)
    return f"SELECT {columns} FROM {quoted(relation.schema)}.{quoted(relation.table)} {behind}"


def copied(connection: Any, select: str, names: Sequence[str], count: int) -> Iterator[pa.Table]:
    """Rows as columns of texts, so many at a time; memory does not grow with the table. Retriable,
    ConnectError."""
    import psycopg

    try:
        for lines in _blocks(connection.pgconn, f"COPY ({select}) TO STDOUT (FORMAT csv)", count):
            yield texts_of(lines, names)
    except psycopg.OperationalError as error:
        raise Retriable(f"PostgreSQL went away while a table was read: {_line(error)}") from error
    except psycopg.Error as error:
        raise ConnectError(f"a table cannot be read: {_line(error)} (statement: {select})") from error


def _blocks(connection: Any, statement: str, count: int) -> Iterator[list[Any]]:
    """Lines of CSV, a row each, by libpq itself: psycopg's own way costs several times as much a row.
    psycopg.Error."""
    import psycopg
    from psycopg import pq

    connection.send_query(statement.encode())
    result = connection.get_result()
    if result is None or result.status != pq.ExecStatus.COPY_OUT:
        raise _refused(connection, result)
    is_over = False
    try:
        lines: list[Any] = []
        size_bytes = 0
        get = connection.get_copy_data
        with selectors.DefaultSelector() as waiting:  # select() ends at descriptor 1024
            waiting.register(connection.socket, selectors.EVENT_READ)
            while True:
                length, line = get(1)
                if length > 0:
                    lines.append(line)
                    size_bytes += length
                    if len(lines) >= count or size_bytes >= BLOCK_BYTES_MAX:
                        yield lines
                        lines, size_bytes = [], 0
                elif length < 0:
                    break
                else:
                    if not waiting.select(SILENCE_SECONDS_MAX):
                        raise psycopg.OperationalError(f"no row came for {SILENCE_SECONDS_MAX:.0f} s")
                    connection.consume_input()
        if lines:
            yield lines
        result = connection.get_result()
        is_over = True
        if result is not None and result.status != pq.ExecStatus.COMMAND_OK:
            raise _refused(connection, result)
        while connection.get_result() is not None:
            pass
    finally:
        if not is_over:  # nobody reads on: the connection is in the middle of the rows
            connection.finish()


def _refused(connection: Any, result: Any) -> Exception:
    import psycopg
    from psycopg import pq

    said = (result or connection).error_message.decode(errors="replace").strip()
    state = result.error_field(pq.DiagnosticField.SQLSTATE) if result is not None else None
    if state is None or connection.status != pq.ConnStatus.OK:
        away: Exception = psycopg.OperationalError(said)
        return away
    try:
        kind: type[Exception] = psycopg.errors.lookup(state.decode())
    except KeyError:
        kind = psycopg.DatabaseError
    return kind(said)


def texts_of(lines: Sequence[Any], names: Sequence[str]) -> pa.Table:
    """Lines of CSV as columns of texts."""
    if not names:
        return pa.Table.from_batches([], pa.schema([])) if not lines else _empty(len(lines))
    block = b"".join(lines)
    numbers = [str(place) for place in range(len(names))]  # names of columns may be there twice
    return csv.read_csv(
        pa.py_buffer(block),
        read_options=csv.ReadOptions(column_names=numbers, use_threads=False, block_size=len(block) + 1),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types={each: pa.string() for each in numbers},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _empty(count: int) -> pa.Table:
    """Rows of a table all of whose columns are left out."""
    return pa.table({"": pa.nulls(count)}).select([])


def rows_of(texts: pa.Table, followed: Followed) -> list[tuple[str | None, ...]]:
    """As rows."""
    if not followed.places:
        return [()] * texts.num_rows
    return list(zip(*(each.to_pylist() for each in texts.columns), strict=True))


def converted_rows(
    followed: Followed, rows: Sequence[Sequence[str | None]]
) -> tuple[list[list[Any]], list[Refused]]:
    """Values, and the rows that have none."""
    made, refused = [], []
    table = followed.table
    for row in rows:
        try:
            made.append(converted(table.columns, row))
        except Unreadable as error:
            refused.append(table.refused(error, "r", None, row))
    return made, refused


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
