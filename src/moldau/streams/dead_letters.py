"""A topic's dead-letter flow: bad records, unchanged, with the reason.

A flow that reads a topic with dead letters leaves bad records out; a flow of its own reads the topic too,
keeps only the bad ones, and writes them to the dead-letter topic. So each is written exactly once however
many flows read the topic, and the flows' own queries stay as they are.

Key, value and headers are the original bytes. Added headers:

    moldau.error         what is wrong
    moldau.topic, moldau.partition, moldau.offset       the record's position
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from moldau.streams.decoding import (
    PARSED,
    UNDECODED_KEY,
    UNDECODED_REASON,
    UNDECODED_VALUE,
    is_bad,
    own_fields,
    parsed,
)
from moldau.streams.topic import SCHEMA_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from moldau.streams.topic import Topic, TopicFormat


def dead_letters_of(topic: Topic) -> DataFrame:
    """The topic's bad records: columns key, value, headers."""
    from pyspark.sql import functions as F

    form = topic.format
    records = topic.app.place.read_stream(topic, topic.app.reading(topic), headers=True)
    if form.value == "json":
        records = records.withColumn(PARSED, parsed(form))
    added = F.array(
        _header("moldau.error", reason(form)),
        _header("moldau.topic", F.col("topic")),
        _header("moldau.partition", F.col("partition")),
        _header("moldau.offset", F.col("offset")),
    )
    key = F.col(UNDECODED_KEY if form.key_format is not None else "key").alias("key")
    value = F.col(UNDECODED_VALUE if form.value in SCHEMA_FORMATS else "value").alias("value")
    headers = F.concat(F.coalesce(F.col("headers"), F.array().cast(added_type())), added.cast(added_type()))
    return records.filter(is_bad(form)).select(key, value, headers.alias("headers"))


def added_type() -> str:
    """The type of a column of headers."""
    return "array<struct<key:string,value:binary>>"


def reason(form: TopicFormat) -> Column:
    """The reason as text."""
    from pyspark.sql import functions as F

    if form.key_format is not None and form.value not in SCHEMA_FORMATS:
        return F.coalesce(F.col(UNDECODED_REASON), reason(replace(form, key_format=None)))
    if form.value in SCHEMA_FORMATS:
        return F.col(UNDECODED_REASON)
    if form.value == "string":
        return F.lit("the value is not UTF-8")
    text = F.col("value").cast("string")
    misfits = [
        F.when(
            F.col(PARSED)[each.name].isNull() & F.get_json_object(text, f"$['{each.name}']").isNotNull(),
            each.name,
        )
        for each in own_fields(form)
        if "'" not in each.name
    ]
    named = F.concat_ws(", ", *misfits) if misfits else F.lit("")
    return (
        F.when(F.expr("try_parse_json(cast(value as string)) IS NULL"), "the value is not JSON")
        .when(F.length(named) > 0, F.concat(F.lit("the value does not fit the schema: "), named))
        .otherwise("the value is JSON, but no object with the schema's fields")
    )


def _header(name: str, value: Column) -> Column:
    from pyspark.sql import functions as F

    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
