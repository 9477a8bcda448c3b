"""The data source as Spark calls it: from options to a schema, readers and writers.

Columns of a read are fixed, those of Spark's own Kafka connector:

    key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int
    headers array<struct<key: string, value: binary>>    with includeHeaders=true

With value.format (or key.format) avro and the like, that column is a struct of the schema's fields, and
includeUndecoded=true adds undecodedKey binary, undecodedValue binary, undecodedReason string.
"""

from __future__ import annotations

from dataclasses import replace
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
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_moldau.errors import OptionError
from pyspark_moldau.option_rows import BATCH, STREAM
from pyspark_moldau.options import SourceOptions, parse_options
from pyspark_moldau.schema_options import RecordFormats, SchemaChoice

if TYPE_CHECKING:
    from pyspark_moldau.sink_options import SinkOptions


class MoldauDataSource(DataSource):
    """Topics of a Kafka cluster."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "moldau"

    _formats: RecordFormats | None = None
    """With the schemas, once the registry was asked; Spark keeps this object from here to the readers."""

    def schema(self) -> StructType:
        """The columns of a read. Spark's first call: wrong options are reported here."""
        options = with_schemas(parse_options(self.options))
        self._formats = options.formats
        return columns(options)

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
        if options.formats.choices:
            from pyspark_moldau.encoding import with_writers_schemas

            options = with_writers_schemas(options, schema)
        if overwrite and not streaming:
            raise OptionError("a topic cannot be overwritten; use mode append")
        return options

    def _checked(self, query: str, schema: StructType) -> SourceOptions:
        options = parse_options(self.options, query)
        if self._formats is not None:
            options = replace(options, formats=self._formats)
        options = with_schemas(options)
        fixed = columns(options)
        if schema != fixed:
            raise OptionError(
                f"the columns of the format moldau are fixed; leave out .schema(...): {fixed.simpleString()}"
            )
        return options


def with_schemas(options: SourceOptions) -> SourceOptions:
    """The options with the schemas that they mean now. OptionError, RegistryError."""
    if not options.formats.choices:
        return options
    from pyspark_moldau.pinned_schemas import pinned_for_reading

    return replace(options, formats=pinned_for_reading(options.formats, options.topics.only_topic))


def columns(options: SourceOptions) -> StructType:
    """The columns of a read; formats that need schemas must have them."""
    return columns_of(options.formats, include_headers=options.include_headers)


def columns_of(formats: RecordFormats, *, include_headers: bool) -> StructType:
    """The columns of records with these formats."""
    fixed = (
        StructType()
        .add("key", _column_type(formats.key))
        .add("value", _column_type(formats.value))
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if include_headers:
        header = StructType().add("key", StringType()).add("value", BinaryType())
        fixed.add("headers", ArrayType(header))
    if formats.include_undecoded:
        fixed.add("undecodedKey", BinaryType()).add("undecodedValue", BinaryType())
        fixed.add("undecodedReason", StringType())
    return fixed


def _column_type(choice: SchemaChoice | None) -> DataType:
    if choice is None:
        return BinaryType()
    from pyspark_moldau.decoding import column_type

    return column_type(choice)
