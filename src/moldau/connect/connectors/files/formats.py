"""One open file of a FileSink: Parquet, CSV or JSON lines; rows go out in pieces, so that memory stays
bounded."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from moldau.connect.batch import Column
from moldau.connect.connectors.json_rows import as_json, row_values
from moldau.connect.errors import BadRecord, ConnectError
from moldau.connect.inference import infer_schema
from moldau.connect.schema import Schema, Type
from moldau.connect.values import column_of

FORMATS = ("parquet", "csv", "json")


def with_schema(column: Column, row: int = 0) -> Column:
    """The column with a schema, inferred if it has none. ConnectError, BadRecord."""
    if column.schema is not None:
        return column
    schema = infer_schema(column.values)
    if schema.type is not Type.STRUCT:
        raise BadRecord("the value is no object with fields, which this format needs", row)
    return column_of(schema, column.values)


def table_of(column: Column) -> pa.Table:
    """Its fields as columns."""
    if column.schema is None or column.schema.type is not Type.STRUCT:
        raise ConnectError("values that are no objects with fields cannot be columns: use format=json")
    return pa.Table.from_struct_array(column.values)


class OpenFile:
    """See the module. OSError from all of it."""

    def __init__(self, path: Path, format_: str, schema: Schema | None, compression: str) -> None:
        self.path = path
        self.schema = schema
        self.rows = 0
        self._format = format_
        self._compression = compression
        self._file = open(path, "wb")  # noqa: SIM115 (close)
        self._writer: Any = None

    def write(self, column: Column) -> None:
        """Append rows."""
        self.rows += len(column)
        if self._format == "json":
            self._file.write(b"".join(as_json(each) + b"\n" for each in row_values(column)))
            return
        table = table_of(column)
        if self._writer is None:
            if self._format == "parquet":
                self._writer = parquet.ParquetWriter(self._file, table.schema, compression=self._compression)
            else:
                self._writer = csv.CSVWriter(self._file, table.schema)
        if self._format == "csv":
            table = _flat(table)
        self._writer.write_table(table)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.tell()

    def close(self) -> None:
        """Complete it."""
        if self._writer is not None:
            self._writer.close()
        self._file.close()

    def discard(self) -> None:
        """Write no more to it."""
        with suppress(OSError):  # what could not be written is not wanted either
            self._file.close()


def _flat(table: pa.Table) -> pa.Table:
    nested = [each.name for each in table.schema if pa.types.is_nested(each.type)]
    if nested:
        raise ConnectError(
            f"CSV has no place for lists and objects: {', '.join(nested)} (the Flatten transform)"
        )
    return table
