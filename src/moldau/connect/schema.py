"""The schema of a key or a value, as Kafka Connect's `Schema`: a type, whether null is allowed, a name,
fields.

Logical types are, as there, a name on a plain type: Decimal (BYTES, parameter `scale`), Date and Time (INT32
days,
ms), Timestamp (INT64 ms). The same names are used (`org.apache.kafka.connect.data.…`), because JSON
with schemas carries them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"


class Type(Enum):
    """The types; the values are the names in JSON with schemas."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a STRUCT."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema is a value: equal ones are the same. Made once a stream, not once a record."""

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    default: Any = None
    """None: there is no default."""
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    fields: tuple[Field, ...] = ()
    """Of a STRUCT, in order."""
    key_schema: Schema | None = None
    """Of a MAP."""
    value_schema: Schema | None = None
    """Of a MAP's values or an ARRAY's elements."""

    def field_named(self, name: str) -> Field | None:
        """The field of that name, or None."""
        return next((each for each in self.fields if each.name == name), None)
