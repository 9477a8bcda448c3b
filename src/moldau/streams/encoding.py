"""Encodes rows into records: the reverse of decoding.py.

    key      one column: its text (bytes stay bytes); several columns: a JSON object of them; none if all
             of them are null; with a key_format a struct of them, which the sink writes with the schema
    json     every column of the row, the key's too, so that a value can be read alone
    string   the column `value`, or the only column beside the key, as text
    avro, json-schema, protobuf    every column of the row; the sink writes the struct with the schema
    raw      the same as bytes; columns `key` and `headers` are passed on if the row has them

In a table a row whose columns beside the key are all null is a tombstone, which removes the key; rows without
a key are left out, because a compacted topic refuses them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.streams.errors import AppError
from moldau.streams.topic import SCHEMA_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from moldau.streams.flow import Output

ONE_COLUMN = ("string", "raw")
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


def encoded(rows: DataFrame, output: Output) -> DataFrame:
    """The records of these rows: columns key, value, and headers if there are any."""
    from pyspark.sql import functions as F

    missing = [name for name in output.key if name not in rows.columns]
    if missing:
        raise AppError(
            f"{output.topic}: the key {', '.join(missing)} is no column of the rows, which have "
            f"{', '.join(rows.columns)}"
        )
    key, value = _key(rows, output), _value(rows, output)
    if output.is_table:
        others = [name for name in rows.columns if name not in output.key]
        if others:
            value = F.when(_any_known(others), value)
    if output.value not in SCHEMA_FORMATS:
        value = value.cast("binary")
    if output.key_format is None:
        key = key.cast("binary")
    columns = [key.alias("key"), value.alias("value")]
    if output.value in ONE_COLUMN and _is_headers(rows):
        columns.append(F.col("headers"))
    records = rows.select(*columns)
    return records.filter(F.col("key").isNotNull()) if output.is_table else records


def _key(rows: DataFrame, output: Output) -> Column:
    from pyspark.sql import functions as F

    if not output.key:
        passed_on = output.value in ONE_COLUMN and "key" in rows.columns
        return F.col("key") if passed_on else F.lit(None)
    if output.key_format is not None:
        return F.when(_any_known(output.key), F.struct(*map(F.col, map(_quoted, output.key))))
    if len(output.key) > 1:
        return F.when(_any_known(output.key), F.to_json(F.struct(*map(F.col, map(_quoted, output.key)))))
    column = F.col(_quoted(output.key[0]))
    kind = rows.schema[output.key[0]].dataType.typeName()
    return F.to_json(column) if kind in ("struct", "array", "map", "variant") else column.cast(_text(kind))


def _any_known(names: Iterable[str]) -> Column:
    """True if one of the columns is not null, else null."""
    from pyspark.sql import functions as F

    return F.coalesce(*(F.col(_quoted(name)).isNotNull() | F.lit(None) for name in names))


def _value(rows: DataFrame, output: Output) -> Column:
    from pyspark.sql import functions as F

    columns = [F.col(_quoted(name)) for name in rows.columns]
    if output.value in SCHEMA_FORMATS:
        return F.struct(*columns)
    if output.value == "json":
        return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    name = _value_column(rows, output)
    return F.col(_quoted(name)).cast(_text(rows.schema[name].dataType.typeName()))


def _value_column(rows: DataFrame, output: Output) -> str:
    if "value" in rows.columns:
        return "value"
    others = [name for name in rows.columns if name not in (*output.key, "key", "headers")]
    if len(others) != 1:
        raise AppError(
            f"{output.topic}: value={output.value!r} writes the column value, and the rows have "
            f"{', '.join(rows.columns)}; name one so, or write value='json'"
        )
    return others[0]


def _text(kind: str) -> str:
    return "binary" if kind == "binary" else "string"


def _is_headers(rows: DataFrame) -> bool:
    return "headers" in rows.columns and rows.schema["headers"].dataType.simpleString() == HEADERS_TYPE


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
