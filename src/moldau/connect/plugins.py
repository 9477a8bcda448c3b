"""Which class a name in a configuration stands for: Kafka's, Confluent's and Debezium's names select ours.

    connector.class=FileStreamSource                                        short name
    connector.class=org.apache.kafka.connect.file.FileStreamSourceConnector Kafka's name
    connector.class=my_package.weather:Weather                              a class of one's own

Installed packages add theirs by entry points of the group `moldau.connect` (name = short name). Nothing is
imported
before it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a plugin is; the values are those of `GET /connector-plugins`."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORM = "transformation"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class Plugin:
    """One row: what it is called here, its class, and which other names select it."""

    kind: Kind
    name: str
    place: str
    """`module:Class`."""
    other_names: Sequence[str] = ()
    extra: str = ""
    """The extra of the package that it needs, e.g. `connect-jdbc`; empty: none."""


PLUGINS: list[Plugin] = [
    Plugin(
        Kind.SOURCE,
        "Datagen",
        "moldau.connect.connectors.files.datagen:Datagen",
        ("io.confluent.kafka.connect.datagen.DatagenConnector",),
    ),
    Plugin(
        Kind.SOURCE,
        "FileStreamSource",
        "moldau.connect.connectors.files.stream_source:FileStreamSource",
        ("org.apache.kafka.connect.file.FileStreamSourceConnector",),
    ),
    Plugin(
        Kind.SOURCE,
        "MysqlSource",
        "moldau.connect.connectors.cdc.mysql.source:MysqlSource",
        ("io.debezium.connector.mysql.MySqlConnector",),
        "connect-mysql",
    ),
    Plugin(
        Kind.SOURCE,
        "MariadbSource",
        "moldau.connect.connectors.cdc.mysql.source:MariadbSource",
        ("io.debezium.connector.mariadb.MariaDbConnector",),
        "connect-mysql",
    ),
    Plugin(
        Kind.SINK,
        "FileStreamSink",
        "moldau.connect.connectors.files.stream_sink:FileStreamSink",
        ("org.apache.kafka.connect.file.FileStreamSinkConnector",),
    ),
    Plugin(
        Kind.SOURCE,
        "FileSource",
        "moldau.connect.connectors.files.source:FileSource",
        (),
    ),
    Plugin(
        Kind.SINK,
        "FileSink",
        "moldau.connect.connectors.files.sink:FileSink",
        (),
    ),
    Plugin(
        Kind.SOURCE,
        "HttpSource",
        "moldau.connect.connectors.http.source:HttpSource",
        ("io.confluent.connect.http.HttpSourceConnector",),
        "connect-http",
    ),
    Plugin(
        Kind.SOURCE,
        "JdbcSource",
        "moldau.connect.connectors.jdbc.source:JdbcSource",
        ("io.confluent.connect.jdbc.JdbcSourceConnector", "io.aiven.connect.jdbc.JdbcSourceConnector"),
        "connect-jdbc",
    ),
    Plugin(
        Kind.SOURCE,
        "PostgresSource",
        "moldau.connect.connectors.cdc.postgres.source:PostgresSource",
        ("io.debezium.connector.postgresql.PostgresConnector",),
        "connect-postgres",
    ),
    Plugin(
        Kind.SINK,
        "HttpSink",
        "moldau.connect.connectors.http.sink:HttpSink",
        ("io.confluent.connect.http.HttpSinkConnector",),
        "connect-http",
    ),
    Plugin(Kind.SOURCE, "DltSource", "moldau.connect.connectors.dlt.source:DltSource", (), "connect-dlt"),
    Plugin(Kind.SINK, "DltSink", "moldau.connect.connectors.dlt.sink:DltSink", (), "connect-dlt"),
    Plugin(Kind.SOURCE, "SingerSource", "moldau.connect.connectors.singer.source:SingerSource", ("singer",)),
    Plugin(
        Kind.SOURCE,
        "MqttSource",
        "moldau.connect.connectors.mqtt.source:MqttSource",
        ("io.confluent.connect.mqtt.MqttSourceConnector",),
        "connect-mqtt",
    ),
    Plugin(
        Kind.SINK,
        "MqttSink",
        "moldau.connect.connectors.mqtt.sink:MqttSink",
        ("io.confluent.connect.mqtt.MqttSinkConnector",),
        "connect-mqtt",
    ),
    Plugin(
        Kind.SINK,
        "OpenSearch",
        "moldau.connect.connectors.opensearch.sink:OpenSearchSink",
        (
            "Elasticsearch",
            "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",
            "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        ),
        "connect-http",
    ),
    Plugin(
        Kind.SINK,
        "JdbcSink",
        "moldau.connect.connectors.jdbc.sink:JdbcSink",
        ("io.confluent.connect.jdbc.JdbcSinkConnector", "io.aiven.connect.jdbc.JdbcSinkConnector"),
        "connect-jdbc",
    ),
    Plugin(Kind.SINK, "Delta", "moldau.connect.connectors.lake.delta:DeltaSink", (), "connect-lake"),
    Plugin(
        Kind.SINK,
        "Iceberg",
        "moldau.connect.connectors.lake.iceberg:IcebergSink",
        (
            "org.apache.iceberg.connect.IcebergSinkConnector",
            "io.tabular.iceberg.connect.IcebergSinkConnector",
        ),
        "connect-lake",
    ),
]
"""Every plugin that comes with Moldau, a row each, sorted by kind and name."""

_KAFKA = "org.apache.kafka.connect."
_SINGLE = ("Boolean", "ByteArray", "Double", "Float", "Integer", "Long", "Short")
_CONVERTERS = {
    "JsonConverter": (f"{_KAFKA}json.JsonConverter", "json.converter"),
    "StringConverter": (f"{_KAFKA}storage.StringConverter", "primitive"),
    **{f"{each}Converter": (f"{_KAFKA}converters.{each}Converter", "primitive") for each in _SINGLE},
}
"""Name: Kafka's class, our module."""
PLUGINS += [
    Plugin(Kind.CONVERTER, name, f"moldau.connect.converters.{module}:{name}", (other,))
    for name, (other, module) in _CONVERTERS.items()
]
PLUGINS += [
    Plugin(
        Kind.HEADER_CONVERTER,
        name,
        f"moldau.connect.converters.headers:{name.removesuffix('Converter')}HeaderConverter",
        (other,),
    )
    for name, (other, _) in _CONVERTERS.items()
]
PLUGINS.append(
    Plugin(
        Kind.HEADER_CONVERTER,
        "SimpleHeaderConverter",
        "moldau.connect.converters.simple_header:SimpleHeaderConverter",
        (f"{_KAFKA}storage.SimpleHeaderConverter",),
    )
)
PLUGINS += [
    Plugin(
        Kind.CONVERTER,
        name,
        f"moldau.connect.converters.registry.converters:{name}",
        (f"io.confluent.connect.{package}.{name}",),
    )
    for name, package in (
        ("AvroConverter", "avro"),
        ("JsonSchemaConverter", "json"),
        ("ProtobufConverter", "protobuf"),
    )
]

_TRANSFORMS = {
    "Cast": "cast",
    "ExtractField": "extract_field",
    "Flatten": "flatten",
    "HeaderFrom": "headers",
    "HoistField": "hoist_field",
    "InsertField": "insert_field",
    "MaskField": "mask_field",
    "ReplaceField": "replace_field",
    "SetSchemaMetadata": "set_schema_metadata",
    "TimestampConverter": "timestamp_converter",
}
"""Kafka's of a key or value: name, our module."""
_OF_RECORDS = {
    "DropHeaders": "headers",
    "Filter": "filter",
    "InsertHeader": "headers",
    "RegexRouter": "routers",
    "TimestampRouter": "routers",
    "ValueToKey": "value_to_key",
}
PLUGINS += [
    Plugin(
        Kind.TRANSFORM,
        f"{name}${side}",
        f"moldau.connect.transforms.{module}:{name}{side}",
        (f"{_KAFKA}transforms.{name}${side}",),
    )
    for name, module in _TRANSFORMS.items()
    for side in ("Key", "Value")
]
PLUGINS += [
    Plugin(
        Kind.TRANSFORM, name, f"moldau.connect.transforms.{module}:{name}", (f"{_KAFKA}transforms.{name}",)
    )
    for name, module in _OF_RECORDS.items()
]
PLUGINS += [
    Plugin(
        Kind.PREDICATE,
        name,
        f"moldau.connect.transforms.predicates:{name}",
        (f"{_KAFKA}transforms.predicates.{name}",),
    )
    for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
]

_CONFLUENT = {
    "Drop": ("records", ("Key", "Value")),
    "GzipDecompress": ("records", ("Key", "Value")),
    "ExtractTopic": ("routing", ("Key", "Value", "Header")),
}
"""Confluent's: name, our module, what they are about."""
PLUGINS += [
    Plugin(
        Kind.TRANSFORM,
        f"{name}${side}",
        f"moldau.connect.transforms.confluent.{module}:{name}{side}",
        (f"io.confluent.connect.transforms.{name}${side}",),
    )
    for name, (module, every) in _CONFLUENT.items()
    for side in every
]
PLUGINS += [
    Plugin(
        Kind.TRANSFORM,
        f"Filter${side}",
        f"moldau.connect.transforms.confluent.filter:Filter{side}",
        (f"io.confluent.connect.transforms.Filter${side}",),
    )
    for side in ("Key", "Value")
]
PLUGINS += [
    Plugin(
        Kind.TRANSFORM,
        name,
        f"moldau.connect.transforms.confluent.{module}:{name}",
        (f"io.confluent.connect.transforms.{name}",),
    )
    for name, module in (("MessageTimestampRouter", "routing"), ("TombstoneHandler", "records"))
]
PLUGINS += [
    Plugin(Kind.TRANSFORM, name, f"moldau.connect.transforms.debezium.{module}:{name}", (other,))
    for name, module, other in (
        ("ExtractNewRecordState", "new_state", "io.debezium.transforms.ExtractNewRecordState"),
        ("EventRouter", "outbox", "io.debezium.transforms.outbox.EventRouter"),
        ("ByLogicalTableRouter", "logical_table", "io.debezium.transforms.ByLogicalTableRouter"),
    )
]
