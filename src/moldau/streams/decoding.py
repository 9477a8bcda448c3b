"""Decodes records into rows.

    record   key value topic partition offset timestamp headers     as in the format "moldau"
    row      the key's columns, the value's columns, and `record` if requested

    json     the value's fields, by a schema; a missing or unsuitable field is null
    avro, json-schema, protobuf    the fields of the registry's schema; the source has decoded them already
    string   one column, `value`: the text
    raw      one column, `value`: the bytes

A record is bad if its value is not null but invalid: not JSON, a field of another type, not UTF-8. By default
its row has nulls for what could not be read, so that one record does not stop a stream. A tombstone (null
value) is not bad: it is a row of nulls beside its key.

A bad record of the registry's formats gives a row of nulls altogether: its bytes mean nothing.

Everything is a Spark expression, so there is no Python object a record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from moldau.streams.errors import AppError
from moldau.streams.topic import SCHEMA_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

    from moldau.streams.topic import TopicFormat

UNDECODED_KEY, UNDECODED_VALUE, UNDECODED_REASON = "undecodedKey", "undecodedValue", "undecodedReason"
"""Columns of the source with what it could not decode."""
BAD = "__moldau_bad"
PARSED = "__moldau_parsed"
RECORD_FIELDS = ("key", "topic", "partition", "offset", "timestamp")


def decoded(records: DataFrame, form: TopicFormat) -> DataFrame:
    """The rows of these records; bad ones are treated as the format says."""
    from pyspark.sql import functions as F

    form = with_columns(records, form)
    columns = [*_key_columns(records, form), *_value_columns(form), *_record_column(records, form)]
    judging = form.bad_records != "null" and (form.value != "raw" or form.key_format is not None)
    rows = records.withColumn(PARSED, parsed(form)) if form.value not in ("string", "raw") else records
    if judging:
        if form.bad_records == "fail":
            complaint = _complaint(form)
            rows = rows.filter(F.when(is_bad(form), F.raise_error(complaint)).otherwise(F.lit(True)))
        else:
            rows = rows.filter(~is_bad(form))
    return rows.select(*columns)


def with_columns(records: DataFrame, form: TopicFormat) -> TopicFormat:
    """The format with the fields that the source has found in the registry, if they are there."""
    from pyspark.sql.types import StructType

    if form.value not in SCHEMA_FORMATS:
        return form
    kind = records.schema["value"].dataType
    assert isinstance(kind, StructType)
    return replace(form, schema=kind)


def latest_by_key(records: DataFrame) -> DataFrame:
    """The record with the highest offset of every key, without tombstones. For batches."""
    from pyspark.sql import functions as F

    kept = [name for name in records.columns if name != "key"]
    newest = F.max_by(F.struct(*kept), F.col("offset")).alias("newest")
    latest = records.filter(F.col("key").isNotNull()).groupBy("key").agg(newest)
    is_there = "newest.value IS NOT NULL"
    if UNDECODED_REASON in kept:
        is_there += f" OR newest.{UNDECODED_REASON} IS NOT NULL"
    return latest.filter(is_there).select("key", "newest.*")


def parsed(form: TopicFormat) -> Column:
    """The value as a struct of the schema's fields; for JSON, one more is set if the record is bad."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructType

    if form.value in SCHEMA_FORMATS:
        return F.col("value")
    schema = StructType(own_fields(form))
    options = {"mode": "PERMISSIVE"}
    if form.bad_records != "null":
        schema = schema.add(BAD, StringType())
        options["columnNameOfCorruptRecord"] = BAD
    return F.from_json(F.col("value").cast("string"), schema, options)


def is_bad(form: TopicFormat) -> Column:
    """Whether a record is bad. Where values are JSON, the column PARSED must be there."""
    from pyspark.sql import functions as F

    value = F.col("value")
    if form.key_format is not None and form.value not in SCHEMA_FORMATS:
        bad_value = is_bad(replace(form, key_format=None))
        return F.col(UNDECODED_REASON).isNotNull() | bad_value
    if form.value in SCHEMA_FORMATS:
        return F.col(UNDECODED_REASON).isNotNull()
    if form.value == "string":
        return F.coalesce(~F.is_valid_utf8(value.cast("string")), F.lit(False))
    if form.value == "raw":
        return F.lit(False)
    return value.isNotNull() & (F.col(PARSED).isNull() | F.col(f"{PARSED}.{BAD}").isNotNull())


def value_schema(form: TopicFormat) -> StructType:
    """The fields of a value."""
    from pyspark.sql.types import StructType

    if isinstance(form.schema, StructType):
        return form.schema
    return StructType(ddl_fields(form.schema or "", "schema"))


def own_fields(form: TopicFormat) -> list[StructField]:
    """The fields that a row takes from the value; the key's columns are not among them."""
    fields = value_schema(form).fields
    keys = {each.name for each in key_fields(form)}
    return [each for each in fields if each.name not in keys] or fields


def ddl_fields(text: str, what: str) -> list[StructField]:
    """The columns of a text such as "carrier string, delay double". AppError if there are none."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromDDL(text)
    except PySparkException as failure:
        reason = str(failure).strip().split("\n")[0]
        raise AppError(f"the {what} {text!r} cannot be read: {reason}") from None
    if not isinstance(schema, StructType):
        raise AppError(f"the {what} {text!r} names no columns: write 'carrier string, delay double'")
    return schema.fields


def key_fields(form: TopicFormat) -> list[StructField]:
    """Names and types of the key's columns: as given with the key, else as in the schema, else string."""
    from pyspark.sql.types import StringType, StructField

    known = {each.name: each for each in value_schema(form).fields} if form.schema is not None else {}
    fields = []
    for column in form.key:
        if " " in column:
            fields += ddl_fields(column, "key")
        else:
            fields.append(known.get(column) or StructField(column, StringType()))
    return fields


def _key_columns(records: DataFrame, form: TopicFormat) -> list[Column]:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StringType, StructType

    fields = key_fields(form)
    key = F.col("key")
    if form.key_format is not None:
        kind = records.schema["key"].dataType
        assert isinstance(kind, StructType)
        return _fields_of_key(key, kind.fieldNames(), form)
    if len(fields) > 1:
        several = F.from_json(key.cast("string"), StructType(fields), {"mode": "PERMISSIVE"})
        return [several[each.name].alias(each.name) for each in fields]
    columns = []
    for each in fields:
        if isinstance(each.dataType, BinaryType):
            columns.append(key.alias(each.name))
        elif isinstance(each.dataType, StringType):
            columns.append(key.cast("string").alias(each.name))
        else:
            columns.append(key.cast("string").try_cast(each.dataType).alias(each.name))
    return columns


def _fields_of_key(key: Column, there: list[str], form: TopicFormat) -> list[Column]:
    """The columns of a decoded key. A key that is no record has one field, whatever its column's name."""
    if len(there) == len(form.key) == 1:
        return [key[there[0]].alias(form.key[0])]
    missing = [name for name in form.key if name not in there]
    if missing:
        raise AppError(f"the key's schema has no field {missing[0]}; it has {', '.join(there)}")
    return [key[name].alias(name) for name in form.key]


def _value_columns(form: TopicFormat) -> list[Column]:
    from pyspark.sql import functions as F

    if form.value == "raw":
        return [F.col("value")]
    if form.value == "string":
        text = F.col("value").cast("string")
        return [F.when(F.is_valid_utf8(text), text).alias("value")]
    keys = {each.name for each in key_fields(form)}
    names = [each.name for each in own_fields(form) if each.name not in keys]
    return [F.col(PARSED)[name].alias(name) for name in names]


def _record_column(records: DataFrame, form: TopicFormat) -> list[Column]:
    from pyspark.sql import functions as F

    if not form.record:
        return []
    fields = [*RECORD_FIELDS, *(["headers"] if "headers" in records.columns else [])]
    return [F.struct(*fields).alias("record")]


def _complaint(form: TopicFormat) -> Column:
    from pyspark.sql import functions as F

    where = F.concat_ws("-", "topic", "partition")
    told = F.concat(F.lit("bad record at "), where, F.lit(" offset "), F.col("offset"))
    if not form.has_schemas:
        return told
    return F.concat(told, F.coalesce(F.concat(F.lit(": "), F.col(UNDECODED_REASON)), F.lit("")))
