"""Avro types -> Arrow types, as Spark's from_avro maps them (its SchemaConverters, Spark 4.3).

    null boolean int long float double bytes string      null bool int32 int64 float double binary string
    enum                                                 string
    fixed                                                binary
    decimal (bytes, fixed)                               decimal128(precision, scale)
    date                                                 date32
    timestamp-millis, timestamp-micros                   timestamp[us, UTC]
    local-timestamp-millis, -micros                      timestamp[us]
    record array map                                     struct list map<string, ...>
    [null, T]                                            T, nullable
    [int, long]  [float, double]                         int64  double
    other unions                                         struct<member0, member1, ...>, one of them set

Other logical types (time-millis, uuid, duration, nanoseconds) are columns of their base type. Spark has no
recursive types, so a recursive record is refused.
"""

from __future__ import annotations

import pyarrow as pa

from moldau.schemas.columns.avro_tree import AvroType
from moldau.schemas.columns.errors import NoColumns
from moldau.schemas.columns.program import COLUMNS_MAX

DECIMAL_PRECISION_MAX = 38
_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def arrow_fields(root: AvroType) -> list[pa.Field]:
    """The columns of a schema: the record's fields, or one named `value` where it is no record."""
    shape = not_null(root)[0]
    if _column_count(root, {}) > COLUMNS_MAX:
        raise NoColumns(f"the schema has more than {COLUMNS_MAX} columns")
    if shape.kind == "record":
        kind = arrow_type(shape, ())
        return [kind.field(index) for index in range(kind.num_fields)]
    return [arrow_field("value", root, ())]


def _column_count(type_: AvroType, known: dict[int, int]) -> int:
    """How many columns there will be, without making them: records that use records twice double it."""
    found = known.get(id(type_))
    if found is not None:
        return found
    known[id(type_)] = 1  # a recursive use: refused when its turn comes
    below = [each.type for each in type_.fields] + type_.branches
    if type_.items is not None:
        below.append(type_.items)
    count = known[id(type_)] = 1 + sum(_column_count(each, known) for each in below)
    return count


def arrow_field(name: str, type_: AvroType, inside: tuple[AvroType, ...]) -> pa.Field:
    """A column of this type."""
    bare, nullable = not_null(type_)
    return pa.field(name, arrow_type(bare, inside), nullable or bare.kind == "null")


def arrow_type(type_: AvroType, inside: tuple[AvroType, ...]) -> pa.DataType:
    """The Arrow type of one that `not_null` returned; `inside` are the records around it."""
    if type_.kind == "record":
        if type_ in inside:
            raise NoColumns(f"{type_.name} contains itself, and Spark has no recursive types")
        inside = (*inside, type_)
        return pa.struct([arrow_field(each.name, each.type, inside) for each in type_.fields])
    if type_.kind == "union":
        return pa.struct(
            [
                pa.field(f"member{index}", arrow_type(not_null(each)[0], inside))
                for index, each in enumerate(type_.branches)
            ]
        )
    if type_.kind == "array":
        assert type_.items is not None
        return pa.list_(arrow_field("element", type_.items, inside))
    if type_.kind == "map":
        assert type_.items is not None
        return pa.map_(pa.string(), arrow_field("value", type_.items, inside))
    if type_.logical is None:
        return _PRIMITIVES[type_.kind]
    if type_.logical.name == "decimal":
        if type_.logical.precision > DECIMAL_PRECISION_MAX:
            raise NoColumns(f"a decimal of {type_.logical.precision} digits: Spark has at most 38")
        return pa.decimal128(type_.logical.precision, type_.logical.scale)
    return _LOGICAL[type_.logical.name]


def not_null(type_: AvroType) -> tuple[AvroType, bool]:
    """The type without null and unions that are no choice, and whether null was one of its branches."""
    if type_.kind != "union":
        return type_, False
    rest = [branch for branch in type_.branches if branch.kind != "null"]
    nullable = len(rest) < len(type_.branches)
    if not rest:
        return AvroType("null"), True
    if len(rest) == 1:
        return rest[0], nullable
    kinds = {branch.kind for branch in rest}
    if len(rest) == 2 and kinds == {"int", "long"}:
        return AvroType("long"), nullable
    if len(rest) == 2 and kinds == {"float", "double"}:
        return AvroType("double"), nullable
    return AvroType("union", branches=rest), nullable
