"""The data source as Spark calls it: from options to a schema, readers and writers.

Columns of a read are fixed, those of Spark's own Kafka connector:

    key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int
    headers array<struct<key: string, value: binary>>    with includeHeaders=true
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_moldau.errors import OptionError
from pyspark_moldau.options import BATCH, STREAM, SourceOptions, parse_options

if TYPE_CHECKING:
    from pyspark_moldau.sink_options import SinkOptions


class MoldauDataSource(DataSource):
    """Topics of a Kafka cluster."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "moldau"

    def schema(self) -> StructType:
        """The columns of a read. Spark's first call: wrong options are reported here."""
        return columns(parse_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch query."""
        from pyspark_moldau.batch_reader import MoldauBatchReader

        return MoldauBatchReader(self._checked(BATCH, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a streaming query."""
        from pyspark_moldau.stream_reader import MoldauStreamReader

        return MoldauStreamReader(self._checked(STREAM, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a batch query."""
        from pyspark_moldau.sink import MoldauWriter

        return MoldauWriter(self._checked_write(schema, overwrite, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of a streaming query."""
        from pyspark_moldau.sink import MoldauStreamWriter

        return MoldauStreamWriter(self._checked_write(schema, overwrite, streaming=True))

    def _checked_write(self, schema: StructType, overwrite: bool, *, streaming: bool) -> SinkOptions:
        from pyspark_moldau.sink_options import check_columns, parse_sink_options

        options = parse_sink_options(self.options, streaming=streaming)
        check_columns(schema, options)
        if overwrite and not streaming:
            raise OptionError("a topic cannot be overwritten; use mode append")
        return options

    def _checked(self, query: str, schema: StructType) -> SourceOptions:
        options = parse_options(self.options, query)
        fixed = columns(options)
        if schema != fixed:
            raise OptionError(
                f"the columns of the format moldau are fixed; leave out .schema(...): {fixed.simpleString()}"
            )
        return options


def columns(options: SourceOptions) -> StructType:
    """The columns of a read."""
    fixed = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if options.include_headers:
        header = StructType().add("key", StringType()).add("value", BinaryType())
        fixed.add("headers", ArrayType(header))
    return fixed
