"""The schema of a key or a value, as Kafka Connect's `Schema`: a type, whether null is allowed, a name,
fields.

Logical types are, as there, a name on a plain type: Decimal (BYTES, parameter `scale`), Date and Time (INT32
days,
ms), Timestamp (INT64 ms). The same names are used (`org.apache.kafka.connect.data.…`), because JSON
with schemas carries them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
PRECISION = "connect.decimal.precision"
"""The parameter of a Decimal that says how many digits it has at most (Confluent's)."""


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
    default: Any = field(default=None, hash=False)
    """None: there is no default. Of a logical type: as Python has it (Decimal, date, time, datetime)."""
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

    def as_optional(self, optional: bool = True) -> Schema:
        """The same with null allowed, or not."""
        return self if self.optional == optional else replace(self, optional=optional)

    @property
    def items(self) -> Schema:
        """Of an ARRAY's elements or a MAP's values."""
        if self.value_schema is None:
            raise TypeError(f"a schema of type {self.type.value} has no items")
        return self.value_schema

    @property
    def keys(self) -> Schema:
        """Of a MAP's keys."""
        if self.key_schema is None:
            raise TypeError(f"a schema of type {self.type.value} has no keys")
        return self.key_schema

    @property
    def scale(self) -> int:
        """Of a Decimal: digits behind the point."""
        return int(self.parameters.get("scale", "0"))


def decimal_schema(scale: int, optional: bool = False, precision: int | None = None) -> Schema:
    """A Decimal; `precision` is Confluent's parameter of it, for columns narrower than 38 digits."""
    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters[PRECISION] = str(precision)
    return Schema(Type.BYTES, optional, DECIMAL, 1, parameters=parameters)


def logical_schema(name: str, optional: bool = False) -> Schema:
    """DATE, TIME or TIMESTAMP."""
    return Schema(Type.INT64 if name == TIMESTAMP else Type.INT32, optional, name, 1)


def struct_schema(
    fields: Mapping[str, Schema], name: str | None = None, optional: bool = False, version: int | None = None
) -> Schema:
    """A STRUCT of these fields, in their order."""
    made = tuple(Field(each, schema) for each, schema in fields.items())
    return Schema(Type.STRUCT, optional, name, version, fields=made)


def map_schema(keys: Schema, items: Schema, optional: bool = False) -> Schema:
    """A MAP."""
    return Schema(Type.MAP, optional, key_schema=keys, value_schema=items)


def array_schema(items: Schema, optional: bool = False) -> Schema:
    """An ARRAY."""
    return Schema(Type.ARRAY, optional, value_schema=items)


def contains(schema: Schema, matches: Callable[[Schema], bool]) -> bool:
    """Whether the schema, or one within it, matches."""
    if matches(schema):
        return True
    below = [each.schema for each in schema.fields]
    below += [each for each in (schema.key_schema, schema.value_schema) if each is not None]
    return any(contains(each, matches) for each in below)
