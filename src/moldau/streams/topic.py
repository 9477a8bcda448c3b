"""`Topic`: a topic that an app reads, with what its keys and values look like.

    flights = app.topic("flights", key="carrier", schema="carrier string, dep_delay double")

    flights.stream()    every record, from the beginning on and for ever: a streaming DataFrame
    flights.table()     the latest row of every key, tombstones left out: a DataFrame for joins
    flights.read()      every record that is there now: a batch DataFrame

A table in a streaming join is looked up anew in every micro-batch, so that a stream always meets the rows of
now (table_cache.py says at what cost): it suits a compacted topic of up to some hundred thousand keys.

Not here: where rows come from (places.py), what bytes mean (decoding.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from moldau.streams.errors import AppError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from moldau.streams.app import App

ValueFormat = Literal["json", "string", "raw"]
BadRecords = Literal["null", "drop", "dead-letter", "fail"]
VALUE_FORMATS = ("json", "string", "raw")
BAD_RECORDS = ("null", "drop", "dead-letter", "fail")


@dataclass(frozen=True)
class TopicFormat:
    """What the records of a topic look like, and what is done with those that do not."""

    value: ValueFormat = "json"
    schema: str | StructType | None = None
    key: tuple[str, ...] = ()
    """Columns of the record key: one is the key's text, several are fields of a JSON object."""
    bad_records: BadRecords = "null"
    record: bool = False
    """Whether rows have the column `record`: key, topic, partition, offset, timestamp and headers as they
    came.
    """


@dataclass(frozen=True)
class Topic:
    """A topic as an app reads it. Made by `App.topic`."""

    app: App = field(repr=False, compare=False)
    name: str
    format: TopicFormat
    starting: str = "earliest"
    dead_letters: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    watermark: tuple[str, str] | None = None

    def stream(self) -> DataFrame:
        """Every record as a row, now and for ever."""
        from moldau.streams.decoding import decoded

        rows = decoded(self.app.place.read_stream(self, self.app.reading(self)), self.format)
        return rows.withWatermark(*self.watermark) if self.watermark else rows

    def table(self) -> DataFrame:
        """The latest row of every key; a key whose latest record is a tombstone (no value) is not there."""
        from moldau.streams.decoding import decoded, latest_by_key

        if not self.format.key:
            raise AppError(
                f"topic {self.name} has no key that its rows could be told apart by: "
                f"app.topic({self.name!r}, key=...)"
            )
        self.app.reading(self, as_table=True)
        return decoded(latest_by_key(self.app.place.read_table(self)), self.format)

    def read(self) -> DataFrame:
        """Every record that is there now as a row."""
        from moldau.streams.decoding import decoded

        self.app.reading(self, as_table=True)
        return decoded(self.app.place.read_batch(self), self.format)


def topic_format(
    name: str,
    *,
    key: str | Sequence[str] | None,
    value: str,
    schema: str | StructType | None,
    bad_records: str,
    record: bool,
) -> TopicFormat:
    """Check what a topic is said to look like; raises AppError with the sentence that says what is wrong."""
    if value not in VALUE_FORMATS:
        raise AppError(f"topic {name}: value={value!r} is no format; there are {', '.join(VALUE_FORMATS)}")
    if bad_records not in BAD_RECORDS:
        raise AppError(f"topic {name}: bad_records={bad_records!r} is not one of {', '.join(BAD_RECORDS)}")
    if value == "json" and schema is None:
        raise AppError(
            f"topic {name}: JSON needs a schema, such as schema='carrier string, delay double'; "
            "value='string' gives the text as it is"
        )
    if value != "json" and schema is not None:
        raise AppError(
            f"topic {name}: a schema is for value='json'; value={value!r} has the one column value"
        )
    return TopicFormat(value, schema, key_columns(key), bad_records, record)  # type: ignore[arg-type]


def key_columns(key: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns that `key=` names: one as a text, several as a list."""
    if key is None:
        return ()
    columns = (key,) if isinstance(key, str) else tuple(key)
    if not all(isinstance(column, str) and column.strip() for column in columns):
        raise AppError(f"key={key!r} must name a column, or a list of columns")
    return tuple(column.strip() for column in columns)
