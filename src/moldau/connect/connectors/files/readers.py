"""What is in a file, from a position on: lines, JSON lines, CSV, Parquet, Avro.

    lines json csv     position: bytes; a line counts once it ends, or where the file is finished
    parquet avro       position: rows; the file is whole when it gets its name

A reader yields (columns or values, position behind them). Schemas: Parquet has its own; CSV infers one from
its first rows, and JSON and Avro on request, once: it is kept with the offset (source.py).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import csv, parquet

from moldau.connect.arrow_types import arrow_type, schema_of
from moldau.connect.building import Given
from moldau.connect.connectors.files.stream_source import split_lines
from moldau.connect.errors import ConnectError
from moldau.connect.inference import infer_schema
from moldau.connect.schema import Field, Schema, Type

FORMATS = ("lines", "json", "csv", "parquet", "avro")
GROWING = ("lines", "json", "csv")
_CHUNK_BYTES = 1 << 20
_LINE_BYTES_MAX = 256 << 20


class Piece(NamedTuple):
    """Consecutive records of a file."""

    values: Given
    schema: Schema | None
    position: int
    """Behind them."""


class Reader:
    """Reads files of one format. `schema` is set once it is known."""

    def __init__(
        self, format_: str, rows_max: int, schema: Schema | None, infer: bool, delimiter: str
    ) -> None:
        self.schema = schema
        self._format = format_
        self._rows_max = rows_max
        self._infer = infer
        self._delimiter = delimiter

    def pieces(self, path: Path, position: int, finished: bool) -> Iterator[Piece]:
        """What comes behind the position by now. OSError, ConnectError."""
        if self._format == "parquet":
            return self._parquet(path, position)
        if self._format == "avro":
            return self._avro(path, position)
        return self._text(path, position, finished)

    def _text(self, path: Path, position: int, finished: bool) -> Iterator[Piece]:
        with open(path, "rb") as file:
            header = file.readline() if self._format == "csv" else b""
            if self._format == "csv" and position == 0:
                if not header.endswith(b"\n") and not finished:
                    return
                position = len(header)
            file.seek(position)
            rest = b""
            while True:
                chunk = file.read(_CHUNK_BYTES)
                lines, rest, taken = split_lines(rest + chunk)
                if len(rest) > _LINE_BYTES_MAX:
                    raise ConnectError(
                        f"{path} has a line of more than {_LINE_BYTES_MAX} bytes at {position}"
                    )
                if not chunk and finished and rest:
                    ended = rest[:-1] if rest.endswith(b"\r") else rest
                    lines, taken, rest = [*lines, ended], [*taken, len(rest)], b""
                for first in range(0, len(lines), self._rows_max):
                    part = lines[first : first + self._rows_max]
                    began = position
                    position += sum(taken[first : first + len(part)])
                    yield self._piece(path, header, part, began, position)
                if not chunk:
                    return

    def _piece(self, path: Path, header: bytes, lines: list[bytes], began: int, position: int) -> Piece:
        if self._format == "lines":
            texts = [each.decode("utf-8", "replace") for each in lines]
            return Piece(texts, Schema(Type.STRING), position)
        if self._format == "json":
            return self._json(path, lines, began, position)
        return self._csv(path, header, lines, began, position)

    def _json(self, path: Path, lines: list[bytes], began: int, position: int) -> Piece:
        values = []
        at = began
        for each in lines:
            if each.strip():
                try:
                    values.append(json.loads(each))
                except (ValueError, RecursionError) as error:
                    raise ConnectError(f"{path}: the line at byte {at} is no JSON: {error}") from error
            at += len(each) + 1
        if self._infer and self.schema is None and values:
            self.schema = infer_schema(values)
        return Piece(values, self.schema, position)

    def _csv(self, path: Path, header: bytes, lines: list[bytes], began: int, position: int) -> Piece:
        types = None
        if self.schema is not None:
            types = {each.name: arrow_type(each.schema) for each in self.schema.fields}
        data = header.rstrip(b"\r\n") + b"\n" + b"\n".join(lines) + b"\n"
        try:
            table = csv.read_csv(
                io.BytesIO(data),
                read_options=csv.ReadOptions(block_size=max(len(data), 1024)),
                parse_options=csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=False),
                convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True),
            )
        except pa.ArrowInvalid as error:
            raise ConnectError(
                f"{path}: rows at byte {began} do not fit the others ({error}): give a schema, or correct it"
            ) from error
        if self.schema is None:
            if not table.num_rows:
                return Piece([], None, position)
            self.schema = _optional(schema_of(pa.struct(list(table.schema)), False))
        return Piece(table, self.schema, position)

    def _parquet(self, path: Path, position: int) -> Iterator[Piece]:
        try:
            file = parquet.ParquetFile(path)
        except pa.ArrowInvalid as error:
            raise ConnectError(f"{path} is no Parquet file: {error}") from error
        with file:
            at = 0
            for batch in file.iter_batches(self._rows_max):
                count = batch.num_rows
                if at + count > position:
                    part = batch.slice(max(position - at, 0))
                    yield Piece(part, self.schema, at + count)
                at += count

    def _avro(self, path: Path, position: int) -> Iterator[Piece]:
        try:
            import fastavro
        except ImportError as missing:
            raise ConnectError('Avro files need fastavro: pip install "moldau[connect-files]"') from missing
        with open(path, "rb") as file:
            try:
                part: list[Any] = []
                at = 0
                for each in fastavro.reader(file):
                    at += 1
                    if at > position:
                        part.append(each)
                    if len(part) == self._rows_max:
                        yield self._avro_piece(part, at)
                        part = []
                if part:
                    yield self._avro_piece(part, at)
            except (ValueError, EOFError) as error:
                raise ConnectError(f"{path} is no Avro file, or is damaged: {error}") from error

    def _avro_piece(self, values: list[Any], position: int) -> Piece:
        if self._infer and self.schema is None:
            self.schema = infer_schema(values)
        return Piece(values, self.schema, position)


def row_count(path: Path, format_: str) -> int:
    """How many rows a whole file has: the position at its end."""
    if format_ == "parquet":
        with parquet.ParquetFile(path) as file:
            count: int = file.metadata.num_rows
            return count
    import fastavro

    with open(path, "rb") as opened:
        return sum(block.num_records for block in fastavro.block_reader(opened))


def _optional(schema: Schema) -> Schema:
    """The same with all fields optional: the next row may lack one."""
    fields = tuple(Field(each.name, each.schema.as_optional()) for each in schema.fields)
    return Schema(Type.STRUCT, fields=fields)
