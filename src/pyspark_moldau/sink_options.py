"""The options of a write, and its columns: checked before anything is computed or sent.

Options are those of Spark's own Kafka connector (`topic`, `includeHeaders`, `kafka.*`) and ours; TABLE has
them all, for the checks here and for the documentation. Other options of a query (checkpointLocation, path,
queryName) are ignored.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from moldau.client.errors import ClientError
from moldau.client.options import parse_options as parse_client_options
from moldau.client.options import warn_without_effect
from moldau.common.records.compression import CODEC_NUMBERS
from pyspark_moldau.errors import OptionError
from pyspark_moldau.option_rows import BATCH, BOTH, Row
from pyspark_moldau.options import stripped
from pyspark_moldau.schema_options import (
    WRITE_ROWS,
    RecordFormats,
    is_pinned_option,
    is_registry_option,
    parse_formats,
)

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
KAFKA_PREFIX = "kafka."
BATCH_BYTES_DEFAULT = 500_000
"""Two of them fit a topic's max.message.bytes; the encoder makes no batch larger than that."""
TABLE = (
    Row("kafka.bootstrap.servers", "", BOTH, "Where the cluster is: host:port, several with commas."),
    Row("topic", "", BOTH, "The topic of all rows; without it, the column `topic` of each row."),
    Row(
        "delivery",
        "exactly-once; at-least-once in a batch",
        BOTH,
        "exactly-once: a micro-batch is one transaction, and is written once however often Spark repeats it. "
        "at-least-once: tasks write as they go; cheaper, and a repeated task writes its rows again.",
    ),
    Row(
        "transactionalId",
        "the query's own",
        BOTH,
        "The transactional id. Two queries, and two writes of one foreachBatch, need two of them. "
        "kafka.transactional.id means the same.",
    ),
    Row(
        "batchId",
        "",
        (BATCH,),
        "With delivery=exactly-once and a transactionalId: the batch's number. The last number that was "
        "written is not written again, and one below it is an error.",
    ),
    Row("includeHeaders", "false", BOTH, "Taken and ignored: headers are written where the column is there."),
    Row("kafka.compression.type", "none", BOTH, "none, gzip, snappy, lz4 or zstd."),
    Row("kafka.compression.level", "the codec's", BOTH, "How hard to compress, as the codec counts."),
    Row(
        "kafka.batch.size",
        str(BATCH_BYTES_DEFAULT),
        BOTH,
        "Bytes of a record batch before compression; more than the topic's max.message.bytes are refused.",
    ),
    Row("kafka.delivery.timeout.ms", "120000", BOTH, "How long to wait for a broker that does not respond."),
    Row(
        "kafka.transaction.timeout.ms",
        "60000",
        BOTH,
        "How long the driver may take to send a micro-batch before the cluster aborts its transaction.",
    ),
    *WRITE_ROWS,
)
NO_SINK_OPTIONS = ("checkpointLocation", "path", "queryName")
"""They stand among those of a sink, and are for Spark."""
OWN_OPTIONS = (*(row.name for row in TABLE if not row.name.startswith(KAFKA_PREFIX)), *NO_SINK_OPTIONS)
PRODUCER_SETTINGS = frozenset({
    "acks", "batch.size", "buffer.memory", "compression.type", "compression.codec", "compression.gzip.level",
    "compression.lz4.level", "compression.zstd.level", "compression.level", "delivery.timeout.ms",
    "enable.idempotence", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection",
    "max.request.size", "message.timeout.ms", "partitioner", "partitioner.class", "retries",
    "transaction.timeout.ms", "transactional.id", "metadata.max.age.ms", "queue.buffering.max.ms",
})  # fmt: skip
WITHOUT_EFFECT = frozenset({
    "buffer.memory", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection", "max.request.size",
    "metadata.max.age.ms", "queue.buffering.max.ms", "retries",
})  # fmt: skip
"""Producer settings without an effect here."""
CONSUMER_SETTINGS = frozenset({
    "auto.commit.interval.ms", "check.crcs", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes",
    "fetch.wait.max.ms", "group.id", "group.instance.id", "heartbeat.interval.ms", "isolation.level",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy",
    "session.timeout.ms",
})  # fmt: skip


@dataclass(frozen=True)
class SinkOptions:
    """The checked options of a write; plain values, sent to every task."""

    bootstrap_servers: str
    topic: str | None
    delivery: str
    transactional_id: str | None = None
    batch_id: int | None = None
    compression: str = "none"
    compression_level: int | None = None
    batch_bytes: int = BATCH_BYTES_DEFAULT
    transaction_timeout_ms: int = 60_000
    client_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    formats: RecordFormats = field(default_factory=RecordFormats)

    @property
    def is_exactly_once(self) -> bool:
        """Whether everything is written in one transaction."""
        return self.delivery == EXACTLY_ONCE


def parse_sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Check the options of a write. OptionError for the first error."""
    texts = stripped(given)
    for name in texts:
        _refuse_unknown(name)
    kafka = {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in texts.items()
        if name.startswith(KAFKA_PREFIX) and name != "kafka.bootstrap.servers"
    }
    servers = texts.get("kafka.bootstrap.servers", "")
    if not servers:
        raise OptionError(
            "the option kafka.bootstrap.servers is missing: host:port of a broker of the cluster"
        )
    delivery = texts.get("delivery", EXACTLY_ONCE if streaming else AT_LEAST_ONCE).lower()
    if delivery not in (EXACTLY_ONCE, AT_LEAST_ONCE):
        raise OptionError(f"delivery must be {EXACTLY_ONCE} or {AT_LEAST_ONCE}, not {delivery!r}")
    compression, level = _compression(kafka)
    _check_acks(kafka)
    _check_partitioner(kafka)
    transactional_id, batch_id = _identity(texts, kafka, delivery, streaming)
    client = {name: value for name, value in kafka.items() if name not in PRODUCER_SETTINGS}
    timeout_ms = kafka.get("delivery.timeout.ms", kafka.get("message.timeout.ms", "120000"))
    client.setdefault("default.api.timeout.ms", timeout_ms)
    _warn_without_effect(kafka)
    client = {name: value for name, value in client.items() if name not in CONSUMER_SETTINGS}
    try:
        parse_client_options(client)
    except ClientError as error:
        raise OptionError(str(error)) from None
    return SinkOptions(
        bootstrap_servers=servers,
        topic=texts.get("topic") or None,
        delivery=delivery,
        transactional_id=transactional_id,
        batch_id=batch_id,
        compression=compression,
        compression_level=level,
        batch_bytes=_number(kafka, "batch.size", BATCH_BYTES_DEFAULT, least=1),
        transaction_timeout_ms=_number(kafka, "transaction.timeout.ms", 60_000, least=1000),
        client_options=client,
        formats=parse_formats(texts, writing=True),
    )


def _refuse_unknown(name: str) -> None:
    if name.startswith(KAFKA_PREFIX):
        if name in ("kafka.key.serializer", "kafka.value.serializer"):
            raise OptionError(
                f"{name} is not supported: columns are written as they are, or as value.format says"
            )
        return
    if is_registry_option(name) or is_pinned_option(name):
        return
    known = {one.lower(): one for one in OWN_OPTIONS}
    if name not in known:
        near = difflib.get_close_matches(name, [*known, "kafka.bootstrap.servers"], n=1)
        hint = f"; did you mean {known.get(near[0], near[0])}?" if near else ""
        raise OptionError(f"the format moldau has no option {name!r} for writing{hint}")


def _compression(kafka: Mapping[str, str]) -> tuple[str, int | None]:
    codec = kafka.get("compression.type", kafka.get("compression.codec", "none")).lower()
    if codec not in CODEC_NUMBERS:
        raise OptionError(f"kafka.compression.type may be {', '.join(CODEC_NUMBERS)}, not {codec!r}")
    name = next((n for n in (f"compression.{codec}.level", "compression.level") if n in kafka), None)
    if name is None:
        return codec, None
    try:
        return codec, int(kafka[name])
    except ValueError:
        raise OptionError(f"kafka.{name} must be a whole number, not {kafka[name]!r}") from None


def _warn_without_effect(kafka: Mapping[str, str]) -> None:
    warn_without_effect(kafka.keys() & (WITHOUT_EFFECT | CONSUMER_SETTINGS), "when the format moldau writes")
    if kafka.get("enable.idempotence", "true").lower() != "true":
        warn_without_effect(["enable.idempotence"], "when the format moldau writes: it is on always")


def _check_acks(kafka: Mapping[str, str]) -> None:
    if kafka.get("acks", "all").lower() not in ("all", "-1"):
        raise OptionError(
            f"kafka.acks is {kafka['acks']}, which may lose records; the format moldau writes with "
            "acks=all only"
        )


def _check_partitioner(kafka: Mapping[str, str]) -> None:
    """Refuse another partitioner: keys would be in other partitions."""
    for name in ("partitioner", "partitioner.class"):
        value = kafka.get(name, "")
        if value.rpartition(".")[2] not in ("", "murmur2", "murmur2_random", "DefaultPartitioner"):
            raise OptionError(
                f"kafka.{name} is {value}, and the format moldau knows only the default one of Kafka's own "
                "clients (murmur2); to choose otherwise, give a column named partition"
            )


def _identity(
    texts: Mapping[str, str], kafka: Mapping[str, str], delivery: str, streaming: bool
) -> tuple[str | None, int | None]:
    transactional_id = texts.get("transactionalid") or kafka.get("transactional.id") or None
    batch_id = texts.get("batchid")
    if delivery == AT_LEAST_ONCE and (transactional_id or batch_id):
        raise OptionError(f"transactionalId and batchId have a meaning with delivery={EXACTLY_ONCE} only")
    if batch_id is None:
        return transactional_id, None
    if streaming:
        raise OptionError("batchId is not for streams: they know the numbers of their micro-batches")
    if not batch_id.isdigit():
        raise OptionError(f"batchId must be a whole number from 0 up, not {batch_id!r}")
    return transactional_id, int(batch_id)


def _number(kafka: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = kafka.get(name, str(default))
    if not text.isdigit() or int(text) < least:
        raise OptionError(f"kafka.{name} must be a whole number from {least} up, not {text!r}")
    return int(text)


_TEXT = (BinaryType, StringType)
_NEEDED: Mapping[str, tuple[tuple[type[DataType], ...], str]] = {
    "key": (_TEXT, "a binary or a string"),
    "value": (_TEXT, "a binary or a string"),
    "topic": ((StringType,), "a string"),
    "partition": ((IntegerType, ShortType, LongType), "an int"),
}


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """OptionError for a missing column, or one of an unsuitable type."""
    columns = {one.name.lower(): one.dataType for one in schema.fields}
    if len(columns) < len(schema.fields):
        raise OptionError(
            f"two columns have the same name but for its case: {', '.join(schema.fieldNames())}"
        )
    if "value" not in columns:
        raise OptionError(
            "a column named value is needed, binary or string: what a record holds. "
            f"The columns are {', '.join(schema.fieldNames()) or 'none'}"
        )
    if options.topic is None and "topic" not in columns:
        raise OptionError("where to? Give the option topic, or a column named topic")
    coded = {each.side for each in options.formats.choices}
    for side in coded - columns.keys():
        raise OptionError(f"{side}.format needs a column named {side}, a struct of the {side}'s fields")
    for name, (kinds, words) in _NEEDED.items():
        if name in coded:
            continue  # its type is the schema's business
        if name in columns and not isinstance(columns[name], kinds):
            raise OptionError(f"the column {name} must be {words}, and is {columns[name].simpleString()}")
    if "headers" in columns and not _are_headers(columns["headers"]):
        raise OptionError(
            "the column headers must be array<struct<key:string,value:binary>>, and is "
            f"{columns['headers'].simpleString()}"
        )


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [one.name for one in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, _TEXT)
    )
