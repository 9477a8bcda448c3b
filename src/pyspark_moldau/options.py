"""The options of a query that reads topics: one table, read by the checks, the error messages and the reader.

Names and meanings are those of Spark's own Kafka connector; names are compared without regard to case, as
Spark does. Three things differ, each on purpose:

* An unknown option is an error here, which names the most similar one; there it is ignored, and a stream with
  `startingOffset` reads from the latest.
* `kafka.isolation.level` is read_committed by default. Spark's sink here writes in transactions: with
  read_uncommitted a reader would see what an aborted micro-batch wrote, and then the same records again.
* `kafka.group.id` (or `groupId`) names the group for which the query's offsets are committed, so that every
  tool shows its lag. The group assigns no partitions: two queries may not share one, but neither would take
  records from the other.

Not here: what the choices come to on a cluster (cluster_view.py), the sink's options.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.client.options import parse_options as check_client_options
from moldau.common.core.patterns import PatternError, compile_pattern
from pyspark_moldau.errors import OptionError
from pyspark_moldau.offsets import EARLIEST, LATEST, parse_numbers, parse_partitions
from pyspark_moldau.option_rows import BATCH, BOTH, STREAM, Row
from pyspark_moldau.schema_options import (
    READ_ROWS,
    RecordFormats,
    is_pinned_option,
    is_registry_option,
    parse_formats,
)
from pyspark_moldau.topic_selection import (
    Assigned,
    AtOffsets,
    AtTime,
    AtTimes,
    Everywhere,
    Matching,
    Named,
    Position,
    Topics,
)

TABLE = (
    Row("kafka.bootstrap.servers", "", BOTH, "Where the cluster is: host:port, several with commas."),
    Row("subscribe", "", BOTH, "The topics to read, with commas."),
    Row(
        "subscribePattern", "", BOTH, "Topics whose whole name matches this regular expression, new ones too."
    ),
    Row("assign", "", BOTH, 'The partitions to read: {"topic": [0, 1]}.'),
    Row(
        "startingOffsets",
        "latest; earliest in a batch",
        BOTH,
        'Where a new query begins: earliest, latest or {"topic": {"0": 23, "1": -2}} with -2 for earliest '
        "and -1 for latest. Partitions that come later begin at the earliest; a restarted query goes on "
        "where it was.",
    ),
    Row(
        "startingTimestamp", "", BOTH, "Begin with the first record of this time or newer, in ms since 1970."
    ),
    Row(
        "startingOffsetsByTimestamp",
        "",
        BOTH,
        'The same for each partition: {"topic": {"0": 1700000000000}}.',
    ),
    Row(
        "startingOffsetsByTimestampStrategy",
        "error",
        BOTH,
        "Where a partition has no record so new: error, or latest to wait for newer ones.",
    ),
    Row("endingOffsets", "latest", (BATCH,), 'Where a batch ends: latest or {"topic": {"0": 50, "1": -1}}.'),
    Row(
        "endingTimestamp",
        "",
        (BATCH,),
        "End before the first record of this time or newer, in ms since 1970.",
    ),
    Row("endingOffsetsByTimestamp", "", (BATCH,), "The same for each partition."),
    Row(
        "failOnDataLoss",
        "true",
        BOTH,
        "Stop when records are gone before they were read (retention, a deleted topic); false: say so and go "
        "on.",
    ),
    Row("includeHeaders", "false", BOTH, "Add the column `headers`."),
    Row(
        "minPartitions",
        "",
        BOTH,
        "Read with about so many tasks: large partitions are divided. Without it, a task a partition, and "
        "partitions of few new records share one.",
    ),
    Row(
        "maxRecordsPerPartition", "", BOTH, "Divide partitions so that no task reads more offsets than this."
    ),
    Row("maxOffsetsPerTrigger", "", (STREAM,), "Read at most about so many offsets in a micro-batch."),
    Row("minOffsetsPerTrigger", "", (STREAM,), "Wait with a micro-batch for so many offsets."),
    Row("maxTriggerDelay", "15m", (STREAM,), "But no longer than this."),
    Row(
        "groupId",
        "",
        (STREAM,),
        "The consumer group that is given the query's offsets after each micro-batch, so that tools show its "
        "lag; kafka.group.id means the same.",
    ),
    Row("groupIdPrefix", "", BOTH, "Taken and ignored: no group is made up."),
    Row(
        "kafkaConsumer.pollTimeoutMs",
        "120000",
        BOTH,
        "How long to wait for a broker that does not respond, before the query fails; a query that "
        "begins waits 30 s at most. kafka.default.api.timeout.ms is the same option.",
    ),
    Row("fetchOffset.numRetries", "3", BOTH, "How often to ask again when a partition seems to have shrunk."),
    Row("fetchOffset.retryIntervalMs", "1000", BOTH, "How long to wait before asking again."),
    *READ_ROWS,
)
ROWS: Mapping[str, Row] = {row.name.lower(): row for row in TABLE}
CHOICES_OF_TOPICS = ("subscribe", "subscribePattern", "assign")
# In the order of precedence, which is that of Spark's connector: one time, times by partition, offsets.
STARTING_OPTIONS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDING_OPTIONS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
KAFKA_PREFIX = "kafka."
UNWANTED_KAFKA_OPTIONS: Mapping[str, str] = {
    "auto.offset.reset": "use startingOffsets",
    "key.deserializer": "keys come as bytes, or decoded as key.format says",
    "value.deserializer": "values come as bytes, or decoded as value.format says",
    "enable.auto.commit": "offsets are committed after each micro-batch to the group that groupId names",
    "interceptor.classes": "Java classes cannot run here",
}
DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
SECONDS_OF_UNIT: Mapping[str | None, float] = {
    "ms": 0.001, None: 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400,
}  # fmt: skip


@dataclass(frozen=True)
class SourceOptions:
    """The checked options of a query. Small: the only thing that is sent to executors."""

    bootstrap_servers: str
    topics: Topics
    starting: Position
    ending: Position
    starting_option: str = "startingOffsets"
    ending_option: str = "endingOffsets"
    latest_where_no_match: bool = False
    client_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_committed: bool = True
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_seconds: float = 900.0
    group_id: str | None = None
    retries: int = 3
    retry_interval_seconds: float = 1.0
    formats: RecordFormats = field(default_factory=RecordFormats)


def parse_options(given: Mapping[str, str], query: str | None = None) -> SourceOptions:
    """Check the options of a query; `query` is BATCH or STREAM, or None if it is not known yet.

    Raises OptionError for the first error.
    """
    texts = stripped(given)
    _refuse_unknown(texts, query)
    client = {
        name.removeprefix(KAFKA_PREFIX): value
        for name, value in texts.items()
        if name.startswith(KAFKA_PREFIX) and name != "kafka.bootstrap.servers"
    }
    read_committed, group_id = _isolation(client) == "read_committed", _group(texts, client)
    timeout_ms = _count(texts, "kafkaConsumer.pollTimeoutMs") or 120_000
    client.setdefault("default.api.timeout.ms", str(timeout_ms))
    check_client_options(client)  # which warns of those that have no effect
    most, least = _count(texts, "maxOffsetsPerTrigger"), _count(texts, "minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger ({least}) is greater than maxOffsetsPerTrigger ({most})")
    return SourceOptions(
        bootstrap_servers=_bootstrap_servers(texts),
        topics=_topics(texts),
        starting=_starting(texts, query),
        ending=_ending(texts),
        starting_option=_given_first(texts, *STARTING_OPTIONS),
        ending_option=_given_first(texts, *ENDING_OPTIONS),
        latest_where_no_match=_one_of(texts, "startingOffsetsByTimestampStrategy", "error", "latest")
        == "latest",
        read_committed=read_committed,
        fail_on_data_loss=_truth(texts, "failOnDataLoss", default=True),
        include_headers=_truth(texts, "includeHeaders", default=False),
        min_partitions=_count(texts, "minPartitions"),
        max_records_per_partition=_count(texts, "maxRecordsPerPartition"),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_seconds=_seconds(texts, "maxTriggerDelay", 900.0),
        group_id=group_id,
        retries=_count(texts, "fetchOffset.numRetries") or 3,
        retry_interval_seconds=(_count(texts, "fetchOffset.retryIntervalMs") or 1000) / 1000,
        client_options=client,
        formats=parse_formats(texts, writing=False),
    )


def stripped(given: Mapping[str, str]) -> dict[str, str]:
    """Options by lower-case name, with stripped values (passwords excepted)."""
    return {
        name.lower(): value if name.lower().endswith("password") else value.strip()
        for name, value in given.items()
    }


def _refuse_unknown(texts: Mapping[str, str], query: str | None) -> None:
    for name in texts:
        row = ROWS.get(name)
        if is_registry_option(name) or is_pinned_option(name):
            continue
        if row is None and not name.startswith(KAFKA_PREFIX):
            near = difflib.get_close_matches(name, ROWS, n=1)
            hint = f"; did you mean {ROWS[near[0]].name}?" if near else ""
            if not hint and f"{KAFKA_PREFIX}{name}" in ROWS:
                hint = f"; did you mean {KAFKA_PREFIX}{name}?"
            raise OptionError(f"the format moldau has no option {name!r} for reading{hint}")
        # The other way round, a batch may keep a stream's limits: it is one micro-batch without any.
        if row is not None and row.queries == (BATCH,) and query == STREAM:
            raise OptionError(f"{row.name} has no meaning in a streaming query, which has no end")
        unwanted = UNWANTED_KAFKA_OPTIONS.get(name.removeprefix(KAFKA_PREFIX)) if row is None else None
        if unwanted is not None:
            raise OptionError(f"{name} is not supported: {unwanted}")


def _bootstrap_servers(texts: Mapping[str, str]) -> str:
    servers = texts.get("kafka.bootstrap.servers", "")
    if not servers:
        raise OptionError(
            "the option kafka.bootstrap.servers is missing: host:port of a broker of the cluster"
        )
    return servers


def _topics(texts: Mapping[str, str]) -> Topics:
    given = [name for name in CHOICES_OF_TOPICS if name.lower() in texts]
    if not given:
        raise OptionError(f"which topics? Give one of the options {', '.join(CHOICES_OF_TOPICS)}")
    if len(given) > 1:
        raise OptionError(f"give only one of the options {' and '.join(given)}")
    text = texts[given[0].lower()]
    if given == ["assign"]:
        return Assigned(parse_partitions(text, "assign"))
    if given == ["subscribe"]:
        topics = tuple(sorted({topic.strip() for topic in text.split(",")} - {""}))
        if not topics:
            raise OptionError("subscribe names no topic")
        return Named(topics)
    if not text:
        raise OptionError("subscribePattern is empty")
    try:
        compile_pattern(text)
        return Matching(text)
    except PatternError as failure:
        raise OptionError(f"subscribePattern {text!r} is no regular expression: {failure}") from None


def _given_first(texts: Mapping[str, str], *names: str) -> str:
    """The first of these options that is set, else the last: it has a default."""
    return next((name for name in names if name.lower() in texts), names[-1])


def _starting(texts: Mapping[str, str], query: str | None) -> Position:
    at_time = _at_time(texts, *STARTING_OPTIONS[:2])
    if at_time is not None:
        return at_time
    text = texts.get("startingoffsets")
    if text is None:
        return Everywhere(LATEST if query == STREAM else EARLIEST)
    if text.lower() == "earliest":
        return Everywhere(EARLIEST)
    if text.lower() == "latest":
        if query == BATCH:
            raise OptionError(
                "startingOffsets can not be latest in a batch query: there would be nothing to read"
            )
        return Everywhere(LATEST)
    offsets = parse_numbers(
        _as_object(text, "startingOffsets", "earliest, latest"), "startingOffsets", EARLIEST
    )
    if query == BATCH and LATEST in offsets.values():
        raise OptionError(
            "startingOffsets can not be -1 (latest) in a batch query: there would be nothing to read"
        )
    return AtOffsets(offsets)


def _ending(texts: Mapping[str, str]) -> Position:
    at_time = _at_time(texts, *ENDING_OPTIONS[:2])
    if at_time is not None:
        return at_time
    text = texts.get("endingoffsets", "latest")
    if text.lower() == "latest":
        return Everywhere(LATEST)
    offsets = parse_numbers(_as_object(text, "endingOffsets", "latest"), "endingOffsets", EARLIEST)
    if EARLIEST in offsets.values():
        raise OptionError("endingOffsets can not be -2 (earliest): there would be nothing to read")
    return AtOffsets(offsets)


def _at_time(texts: Mapping[str, str], everywhere: str, by_partition: str) -> Position | None:
    text = texts.get(everywhere.lower())
    if text is not None:
        if not text.isdigit():
            raise OptionError(f"{everywhere} must be a time in ms since 1970, not {text!r}")
        return AtTime(int(text))
    text = texts.get(by_partition.lower())
    return AtTimes(parse_numbers(text, by_partition, 0)) if text is not None else None


def _as_object(text: str, name: str, words: str) -> str:
    if not text.startswith("{"):
        raise OptionError(f"{name} must be {words} or JSON with an offset for each partition, not {text!r}")
    return text


def _isolation(client: dict[str, str]) -> str:
    level = client.pop("isolation.level", "read_committed").lower()
    if level not in ("read_committed", "read_uncommitted"):
        raise OptionError(f"kafka.isolation.level must be read_committed or read_uncommitted, not {level!r}")
    return level


def _group(texts: Mapping[str, str], client: dict[str, str]) -> str | None:
    kafka_name, name = client.pop("group.id", ""), texts.get("groupid", "")
    if kafka_name and name and kafka_name != name:
        raise OptionError(
            f"groupId ({name}) and kafka.group.id ({kafka_name}) mean the same: give one of them"
        )
    return kafka_name or name or None


def _count(texts: Mapping[str, str], name: str) -> int | None:
    text = texts.get(name.lower())
    if text is None:
        return None
    if not text.isdigit() or int(text) == 0:
        raise OptionError(f"{name} must be a whole number from 1 up, not {text!r}")
    return int(text)


def _truth(texts: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = texts.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name} must be true or false, not {text!r}")
    return text == "true"


def _one_of(texts: Mapping[str, str], name: str, default: str, other: str) -> str:
    text = texts.get(name.lower(), default).lower()
    if text not in (default, other):
        raise OptionError(f"{name} must be {default} or {other}, not {text!r}")
    return text


def _seconds(texts: Mapping[str, str], name: str, default: float) -> float:
    text = texts.get(name.lower())
    if text is None:
        return default
    found = DURATION.fullmatch(text.lower())
    if not found:
        raise OptionError(f"{name} must be a time like 500ms, 30s or 15m, not {text!r}")
    return int(found[1]) * SECONDS_OF_UNIT[found[2]]
