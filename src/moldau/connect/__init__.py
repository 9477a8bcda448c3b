"""Connectors in Python: what a program imports that reads from another system into topics, or writes topics
to one.

    schema.py      the schema of a record's key or value, as Kafka Connect has it
    batch.py       records as columns: what connectors, converters and transforms pass on
    building.py    batches of Python values or Arrow tables, and back: batch_of(...), rows(batch)
    inference.py   the schema of Python values that have none
    arrow_types.py schemas <-> Arrow's types        values.py  Python values <-> columns
    source.py      Source: partitions(), read(partition, offset)
    sink.py        Sink: write(batch, number), flush()
    functions.py   @source and @sink make connectors of functions
    testing/       a kit to test them without a worker
    settings.py    a connector's settings: types, defaults, checks; what a form in a user interface is made of
    errors.py      what a connector raises, and what becomes of it

A connector knows no worker: which engine runs it, in which process, on how many tasks is not its business
(`moldau.services.connect`). Nothing here needs Spark.
"""

from moldau.connect.batch import Batch, Column, Header, TopicPartition
from moldau.connect.building import Row, batch_of, rows
from moldau.connect.errors import BadRecord, BadRecords, ConnectError, Retriable
from moldau.connect.inference import infer_schema
from moldau.connect.schema import Field, Schema, Type
from moldau.connect.settings import Importance, Setting, SettingType, Width
from moldau.connect.sink import Sink, SinkContext
from moldau.connect.source import Read, Refused, Source, SourceContext

__all__ = [
    "BadRecord",
    "BadRecords",
    "Batch",
    "Column",
    "ConnectError",
    "Field",
    "Header",
    "Importance",
    "Read",
    "Refused",
    "Retriable",
    "Row",
    "Schema",
    "Setting",
    "SettingType",
    "Sink",
    "SinkContext",
    "Source",
    "SourceContext",
    "TopicPartition",
    "Type",
    "Width",
    "batch_of",
    "infer_schema",
    "rows",
]
