"""kafka-console-producer: a record for each line of standard input.

Keys go to the partitions that Java's clients choose (murmur2), and the producer is idempotent, as Java's.
A record that is refused is a line on standard error, and no failure of the tool, as in Kafka. Not here: line
readers other than Kafka's own and Confluent's (Java classes).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from moldau.tools.kafka.formats.line_reader import PROPERTIES, Line, LineReader
from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries import reaching


class Reads(Protocol):
    """Takes lines apart."""

    def parse(self, line: bytes) -> Line: ...


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("all", "-1", "0", "1")
READERS = ("org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader")
OLD = {
    "property": "reader-property",
    "producer-property": "command-property",
    "producer.config": "command-config",
    "max-partition-memory-bytes": "batch-size",
}
"""Deprecated option -> the new one."""
_BEARS_ON_IDEMPOTENCE = frozenset(
    {"acks", "request.required.acks", "retries", "message.send.max.retries", "enable.idempotence"}
    | {"max.in.flight", "max.in.flight.requests.per.connection", "transactional.id"}
)
_SETTING_OF = {
    "request-required-acks": "acks",
    "compression-codec": "compression.type",
    "timeout": "linger.ms",
    "sync": "linger.ms",
    "message-send-max-retries": "message.send.max.retries",
    "retry-backoff-ms": "retry.backoff.ms",
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "max-memory-bytes": "queue.buffering.max.kbytes",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "max-block-ms": "message.timeout.ms",
}
"""Option -> the setting that it is."""

PARSER = Parser(
    "kafka-console-producer",
    "Sends the lines of standard input as records.",
    (
        Option("bootstrap-server", "server to connect to", "The brokers.", required=True),
        reaching.BROKER_LIST,
        Option("topic", "topic", "The topic.", required=True),
        flag("sync", "Wait for each record's acknowledgement before the next is sent."),
        Option(
            "compression-codec",
            "compression-codec",
            f"One of {', '.join(CODECS)}; gzip without a value.",
            may_lack_value=True,
        ),
        Option("reader-property", "prop", "How lines are read: " + ", ".join(PROPERTIES) + "."),
        Option("reader-config", "config file", "A file of reader properties."),
        Option("property", "prop", "The old name of --reader-property."),
        Option("command-property", "producer_prop", "A setting of the producer, name=value."),
        Option("command-config", "config file", "A file of settings of the producer."),
        Option("producer-property", "producer_prop", "The old name of --command-property."),
        Option("producer.config", "config file", "The old name of --command-config."),
        Option("request-required-acks", "request required acks", "acks of the producer.", default="-1"),
        Option("batch-size", "size", "batch.size of the producer.", int, default=16384),
        Option(
            "max-partition-memory-bytes",
            "memory in bytes per partition",
            "The old name of --batch-size.",
            int,
        ),
        Option(
            "max-memory-bytes", "total memory in bytes", "How much is queued at most.", int, default=33554432
        ),
        Option("message-send-max-retries", "retries", "retries of the producer.", int, default=3),
        Option("retry-backoff-ms", "milliseconds", "retry.backoff.ms of the producer.", int, default=100),
        Option("timeout", "timeout_ms", "linger.ms of the producer.", int, default=1000),
        Option("request-timeout-ms", "request timeout ms", "request.timeout.ms.", int, default=1500),
        Option(
            "metadata-expiry-ms", "metadata expiration interval", "metadata.max.age.ms.", int, default=300000
        ),
        Option("max-block-ms", "max block on send", "How long sending waits.", int, default=60000),
        Option("socket-buffer-size", "size", "No effect.", int, default=102400),
        Option("line-reader", "reader_class", "Only Kafka's own, and Confluent's.", default=READERS[0]),
    ),
)


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    given = PARSER.parse(words)
    PARSER.require(given, "topic")
    if not given.flag("bootstrap-server") and not given.flag("broker-list"):
        line = PARSER.line([*given.typed, "--bootstrap-server", reaching.DEFAULT_SERVER])
        raise CommandLineError("Error while validating the bootstrap address", line)
    for old, new in OLD.items():
        if given.flag(old):
            when = "Apache Kafka 5.0" if new == "batch-size" else "a future version"
            print(f"Warning: --{old} is deprecated and will be removed in {when}. Use --{new} instead.")
    lines = _line_reader(given)
    ours = _settings(given, reaching.client_settings(given))
    settings = reaching.librdkafka(given, **ours)
    for option, name in _SETTING_OF.items():
        if given.flag(option):  # what was typed goes before what a file says, under whatever name
            settings.pop(name, None)
            settings[name] = ours[name.replace(".", "_")]
    _send(settings, given.text("topic") or "", lines, sync=given.flag("sync"))
    return 0


def _line_reader(given: Given) -> Reads:
    name = given.text("line-reader") or READERS[0]
    if name in READERS:
        return LineReader(_reader_properties(given))
    if name.startswith("io.confluent."):
        from moldau.tools.kafka.formats import schema_formatters

        language = schema_formatters.language_of(name, "Reader")
        if language is not None:
            return schema_formatters.SchemaLineReader(
                language, given.text("topic") or "", _reader_properties(given)
            )
    raise ToolError(
        f"{name}: Java classes cannot be loaded here; only Kafka's own reader and Confluent's are known"
    )


def _reader_properties(given: Given) -> dict[str, str]:
    path = given.text("reader-config")
    found = read_properties(path) if path else {}
    for word in [*given.texts("property"), *given.texts("reader-property")]:
        name, _, value = word.partition("=")
        found[name] = value
    return found


def _settings(given: Given, theirs: Mapping[str, str]) -> dict[str, Any]:
    """Return the producer's settings, with underscores for dots. ToolError in Kafka's words."""
    codec = given.text("compression-codec") or ("gzip" if given.flag("compression-codec") else "none")
    if codec not in CODECS:
        raise ToolError(
            f"Invalid value {codec} for configuration compression.type: String must be one of: "
            f"{', '.join(CODECS)}"
        )
    acks = given.text("request-required-acks")
    if not given.flag("request-required-acks"):
        acks = theirs.get("acks", acks)
    if acks not in ACKS:
        raise ToolError(
            f"Invalid value {acks} for configuration acks: String must be one of: {', '.join(ACKS)}"
        )
    old_size = given.number("max-partition-memory-bytes")
    at_once = given.flag("sync") or (not given.flag("timeout") and sys.stdin.isatty())
    linger_ms = 0 if at_once else given.number("timeout")
    retries = given.number("message-send-max-retries") or 0
    return {
        "partitioner": "murmur2_random",
        "enable_idempotence": acks in ("all", "-1") and retries > 0 and not _BEARS_ON_IDEMPOTENCE & {*theirs},
        "compression_type": codec,
        "acks": acks,
        "batch_size": given.number("batch-size") if given.flag("batch-size") or not old_size else old_size,
        "queue_buffering_max_kbytes": max(1, (given.number("max-memory-bytes") or 0) // 1024),
        "message_send_max_retries": retries,
        "retry_backoff_ms": given.number("retry-backoff-ms"),
        "linger_ms": linger_ms,
        "metadata_max_age_ms": given.number("metadata-expiry-ms"),
        "message_timeout_ms": max(given.number("max-block-ms") or 0, 1000),
        "topic_metadata_propagation_max_ms": 5000,
    }


def _send(settings: dict[str, Any], topic: str, lines: Reads, *, sync: bool) -> None:
    from confluent_kafka import KafkaException, Producer

    producer = Producer(settings)
    failed: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(_refusal(topic, message.key(), message.value(), error))

    try:
        for line in _lines():
            key, value, headers = lines.parse(line)
            while True:
                try:
                    producer.produce(topic, value=value, key=key, headers=headers, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
                except KafkaException as problem:  # too large, say: the lines after it are sent all the same
                    if problem.args[0].fatal() or problem.args[0].name() == "_FATAL":
                        raise
                    failed.append(_refusal(topic, key, value, problem.args[0]))
                    break
            while producer.poll(0.1 if sync else 0) and not sync:
                pass
            while sync and len(producer):
                producer.poll(0.1)
            _tell(failed)
    finally:
        while len(producer):
            producer.flush(1)
            _tell(failed)
        _tell(failed)


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input, with a prompt on a terminal."""
    prompts = sys.stdin.isatty() and sys.stdout.isatty()
    while True:
        if prompts:
            print(">", end="", flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _refusal(topic: str, key: bytes | None, value: bytes | None, error: Any) -> str:
    from moldau.tools.shared.errors import explain_kafka_error

    sizes = ["null" if data is None else f"{len(data)} bytes" for data in (key, value)]
    return (
        f"Error when sending message to topic {topic} with key: {sizes[0]}, value: {sizes[1]} with error: "
        f"{explain_kafka_error(error)}"
    )


def _tell(failed: list[str]) -> None:
    for text in failed:
        print(text, file=sys.stderr)
    failed.clear()
