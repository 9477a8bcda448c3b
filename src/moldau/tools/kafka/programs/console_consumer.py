"""kafka-console-consumer: prints the records of a topic.

Without --group it joins a group of a made-up name that commits nothing, as Kafka's does (which is why such
groups are seen in lists); with --partition it is no member of any group. What is committed is what was
printed.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from moldau.tools.kafka.formats.message_formatters import DEFAULT, Format, formatter
from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.options import Given, Long, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries import reaching
from moldau.tools.kafka.queries.topic_subscription import TopicSubscription

OLD = {
    "property": "formatter-property",
    "consumer-property": "command-property",
    "consumer.config": "command-config",
}
POLL_SECONDS = 0.1
RECORDS_UNWRITTEN_MAX = 100

PARSER = Parser(
    "kafka-console-consumer",
    "Prints the records of topics.",
    (
        Option("bootstrap-server", "server to connect to", "The brokers.", required=True),
        reaching.BROKER_LIST,
        reaching.ZOOKEEPER,
        flag("new-consumer", "No effect: there is only the new one."),
        Option("topic", "topic", "The topic."),
        Option("include", "Java regex (String)", "Topics by a regular expression.", aliases=("whitelist",)),
        Option("partition", "partition", "Only this partition, and no group.", int),
        Option(
            "offset", "consume offset", "Where to begin: a number, earliest or latest (needs --partition)."
        ),
        flag("from-beginning", "Begin with the first record, where the group has committed nothing."),
        Option("max-messages", "num_messages", "Stop after so many.", int),
        Option("timeout-ms", "timeout_ms", "Stop when no record came for so long.", Long),
        Option("group", "consumer group id", "The group."),
        Option("isolation-level", "level", "read_committed hides what is not.", default="read_uncommitted"),
        flag("skip-message-on-error", "Go on where a record cannot be formatted."),
        flag("enable-systest-events", "No effect."),
        Option("formatter", "class", "Kafka's formatters by their names.", default=DEFAULT),
        Option("formatter-property", "prop", "print.key=true and the like; see docs/kafka-home.md."),
        Option("formatter-config", "config file", "A file of formatter properties."),
        Option("property", "prop", "The old name of --formatter-property."),
        Option("key-deserializer", "deserializer for keys", "Kafka's deserializers by their names."),
        Option("value-deserializer", "deserializer for values", "Kafka's deserializers by their names."),
        Option("command-property", "consumer_prop", "A setting of the consumer, name=value."),
        Option("command-config", "config file", "A file of settings of the consumer."),
        Option("consumer-property", "consumer_prop", "The old name of --command-property."),
        Option("consumer.config", "config file", "The old name of --command-config."),
    ),
)


class Wanted(NamedTuple):
    """What to read: a topic by its name or (None) those that match --include, or one partition from an offset
    (None: no such).
    """

    topic: str | None
    partition: int | None
    offset: int | None
    max_messages: int
    timeout_seconds: float
    skip_errors: bool


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    given = PARSER.parse(words)
    for old, new in OLD.items():
        if given.flag(old):
            print(
                f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.",
                flush=True,  # before the records, which are written below this layer
            )
    wanted = _wanted(given)
    if not any(map(given.flag, ("bootstrap-server", "broker-list", "zookeeper"))):
        PARSER.require(given, "bootstrap-server")
    form = formatter(given.text("formatter") or DEFAULT, _formatter_properties(given))
    settings = _settings(given, reaching.client_settings(given))
    typed = {"isolation.level": settings["isolation_level"]} if given.flag("isolation-level") else {}
    pattern = given.text("include")
    matching = None if pattern is None else TopicSubscription(pattern, reaching.client_settings(given))
    whole = reaching.librdkafka(given, **settings) | _group(given) | typed
    if str(whole.get("group.protocol", "")).lower() == "consumer":
        del whole["partition.assignment.strategy"]  # the broker assigns: librdkafka refuses to be told how
    _consume(whole, wanted, matching, form)
    return 0


def _wanted(given: Given) -> Wanted:
    """Check the options; CommandLineError in Kafka's words and order."""
    if given.flag("topic") == given.flag("include"):
        raise CommandLineError("Exactly one of the following arguments is required: [topic], [include]")
    partition = given.number("partition")
    if given.flag("partition"):
        PARSER.require(given, "topic")
        if given.flag("group"):
            raise CommandLineError("Options group and partition cannot be specified together.")
    if given.flag("offset"):
        if partition is None:
            raise CommandLineError("The partition is required when offset is specified.")
        if given.flag("from-beginning"):
            raise CommandLineError("Options from-beginning and offset cannot be specified together.")
    timeout_ms = given.number("timeout-ms")
    return Wanted(
        given.text("topic"),
        partition,
        _offset(given) if partition is not None else None,
        -1 if (count := given.number("max-messages")) is None else count,
        -1 if timeout_ms is None else timeout_ms / 1000,
        given.flag("skip-message-on-error"),
    )


def _offset(given: Given) -> int:
    """Return the first offset, -1 for the end and -2 for the beginning."""
    text = (given.text("offset") or ("earliest" if given.flag("from-beginning") else "latest")).lower()
    words = {"earliest": -2, "latest": -1}
    if text in words:
        return words[text]
    if text.isascii() and text.isdigit() and int(text) < 2**63:
        return int(text)
    raise CommandLineError(
        f"The provided offset value '{given.text('offset')}' is incorrect. Valid values are 'earliest', "
        "'latest', or a non-negative long."
    )


def _formatter_properties(given: Given) -> dict[str, str]:
    path = given.text("formatter-config")
    found = read_properties(path) if path else {}
    for part in ("key", "value"):
        if name := given.text(f"{part}-deserializer"):
            found[f"{part}.deserializer"] = name
    for word in [*given.texts("property"), *given.texts("formatter-property")]:
        name, _, value = word.partition("=")
        found[name] = value
    return found


def _settings(given: Given, theirs: dict[str, str]) -> dict[str, Any]:
    """Return the consumer's settings, with underscores for dots. CommandLineError in Kafka's words."""
    ids = list(
        dict.fromkeys(each for each in (given.text("group"), theirs.get("group.id")) if each is not None)
    )
    if len(ids) > 1:
        named = ", ".join(f"'{each}'" for each in ids)
        raise CommandLineError(
            "The group ids provided in different places (directly using '--group', via "
            f"'--consumer-property', or via '--consumer.config') do not match. Detected group ids: {named}"
        )
    if "" in ids:
        raise ToolError("The configured group.id should not be an empty string or whitespace.")
    reset = theirs.get("auto.offset.reset")
    if given.flag("from-beginning") and reset not in (None, "earliest"):
        raise CommandLineError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove "
            "one option"
        )
    level = given.text("isolation-level")
    if level not in ("read_committed", "read_uncommitted"):
        raise ToolError(
            f"Invalid value {level} for configuration isolation.level: String must be one of: "
            "read_committed, read_uncommitted"
        )
    return {
        "client_id": "console-consumer",
        "auto_offset_reset": "earliest" if given.flag("from-beginning") else "latest",
        "isolation_level": level,
        "fetch_queue_backoff_ms": 10,
        "partition_assignment_strategy": "range",
    }


def _group(given: Given) -> dict[str, Any]:
    """Return the settings of the group: the one that was named commits, one with a made-up name does not."""
    named = given.text("group") or reaching.client_settings(given).get("group.id")
    if named:
        return {"group.id": named, "enable.auto.offset.store": False}
    return {"group.id": f"console-consumer-{random.randrange(100_000)}", "enable.auto.commit": False}


def _consume(
    settings: dict[str, Any], wanted: Wanted, matching: TopicSubscription | None, form: Format
) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(settings)
    try:
        topic = wanted.topic or ""
        if wanted.partition is not None and wanted.offset is not None:
            consumer.assign([TopicPartition(topic, wanted.partition, wanted.offset)])
        elif matching is None:
            consumer.subscribe([topic])
        printing = Printing(consumer, stores=not settings.get("enable.auto.offset.store", True))
        follow = None if matching is None else partial(matching.follow, consumer)
        _print_all(consumer, wanted, form, printing, follow)
    finally:
        consumer.close()


def _print_all(
    consumer: Any, wanted: Wanted, form: Format, printing: Printing, follow: Callable[[], None] | None
) -> None:
    printed = 0
    last = time.monotonic()
    try:
        while wanted.max_messages == -1 or printed < wanted.max_messages:
            if follow is not None:
                follow()
            message = consumer.poll(0)
            if message is None:
                printing.settle()
                message = consumer.poll(POLL_SECONDS)
            if message is None:
                if 0 <= wanted.timeout_seconds < time.monotonic() - last:
                    break
                continue
            if (error := message.error()) is not None:
                _judge(error)
                continue
            last = time.monotonic()
            printed += 1
            try:
                printing.add(message, form(message))
            except ToolError as problem:
                if not wanted.skip_errors:
                    raise
                print(f"Error processing message, skipping this message: {problem}", file=sys.stderr)
                printing.add(message, b"")
    finally:
        try:
            printing.settle()
        finally:
            print(f"Processed a total of {printed} messages", file=sys.stderr)


class Printing:
    """Writes records, and lets the group commit them once they are written: `head` may have gone away."""

    def __init__(self, consumer: Any, *, stores: bool) -> None:
        self._consumer = consumer
        self._stores = stores
        self._output = sys.stdout.buffer
        self._last: dict[tuple[str, int], Any] = {}
        self._count = 0

    def add(self, message: Any, text: bytes) -> None:
        """Write a record, perhaps to the buffer only."""
        self._output.write(text)
        self._last[message.topic(), message.partition()] = message
        self._count += 1
        if self._count >= RECORDS_UNWRITTEN_MAX:
            self.settle()

    def settle(self) -> None:
        """Write out the buffer, and store the offsets of what was in it."""
        from confluent_kafka import KafkaException

        self._output.flush()
        messages, self._last, self._count = [*self._last.values()], {}, 0
        for message in messages if self._stores else ():
            try:
                self._consumer.store_offsets(message)
            except KafkaException as problem:
                if problem.args[0].name() != "_STATE":  # the partition is another member's by now
                    raise


def _judge(error: Any) -> None:
    """Return for errors that pass; ToolError for others. An unknown topic may appear yet."""
    from moldau.tools.shared.errors import explain_kafka_error

    if error.fatal() or not (
        error.retriable()
        or error.name() in ("_PARTITION_EOF", "UNKNOWN_TOPIC_OR_PART", "_TRANSPORT", "_ALL_BROKERS_DOWN")
    ):
        raise ToolError(explain_kafka_error(error))
