"""Records in Confluent's wire format -> columns of the reader's schema.

    | magic 0 | schema id 4 | [Protobuf: message indexes] | payload |

Every record names the schema it was written with; it is resolved to the reader's, so that a batch whose
schema changes half-way has one set of columns. A record is bad if it has no such header, if `schema_by_id`
does not know its schema (UnknownSchema), if that schema cannot be resolved to the reader's, or if its bytes
are not what the schema says. A bad record is a null row, and leaves nothing else behind. A null value (a
tombstone) is a null row and not bad.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from moldau.schemas.columns import avro_slow, avro_types
from moldau.schemas.columns.avro_tree import avro_tree
from moldau.schemas.columns.errors import NoColumns
from moldau.schemas.schema import ParsedSchema, SchemaType


def spark_types(parsed: ParsedSchema) -> pa.Schema:
    """The columns of a schema; NoColumns if Spark can have none for it."""
    if parsed.schema_type is SchemaType.AVRO:
        return pa.schema(avro_types.arrow_fields(avro_tree(parsed)))
    raise NoColumns(f"schemas of type {parsed.schema_type} have no columns yet")


class Decoder:
    """Decodes batches with one reader's schema; writers' schemas are asked for once each.

    Not thread-safe. `problems` says for ids of schemas why their records are bad.
    """

    def __init__(self, reader: ParsedSchema, schema_by_id: Callable[[int], ParsedSchema]) -> None:
        self.schema = spark_types(reader)
        self.problems: dict[int, str] = {}
        self._decoder = avro_slow.SlowDecoder(avro_tree(reader), reader, schema_by_id, self.problems)

    def decode(self, values: pa.Array) -> tuple[pa.StructArray, pa.BooleanArray]:
        """The rows of these records (binary, with header), and which of them are bad; as many as there are
        values.
        """
        rows: list[dict[str, Any] | None] = []
        bad = []
        for value in values:
            data = value.as_py()
            row = None if data is None else self._decoder.row(data)
            rows.append(row)
            bad.append(data is not None and row is None)
        return pa.array(rows, pa.struct(list(self.schema))), pa.array(bad, pa.bool_())
