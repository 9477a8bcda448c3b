"""kafka-verifiable-consumer: reads as a member of a group, and prints JSON lines as Kafka's system tests
read them.

    startup_complete   partitions_assigned   partitions_revoked   records_consumed   record_data (--verbose)
    offsets_committed  shutdown_requested  shutdown_complete

Offsets are committed after each batch that was printed, unless --enable-autocommit.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

from moldau.tools.kafka.java.java_settings import ASSIGNORS
from moldau.tools.kafka.lines.subcommands import Subcommands, whole
from moldau.tools.kafka.problems import CommandLineError, Ended
from moldau.tools.kafka.programs.verifiable_producer import say, settings_of

RECORDS_AT_ONCE = 500
_WAIT_SECONDS = 0.1


def main(words: Sequence[str]) -> int:
    """Read until there is enough, or until SIGTERM or SIGINT. Returns the exit code."""
    try:
        given = _parser().parse_args(words or ["--help"])
    except Ended as help_:
        raise Ended(str(help_), 1 if words else 0, on_stdout=True) from None  # as Kafka's
    return _Run(given).run()


def _parser() -> Subcommands:
    parser = Subcommands(
        prog="verifiable-consumer", description="Reads in a group, and prints a JSON object for each event."
    )
    parser.add_argument("--topic", required=True, help="What to read.")
    parser.add_argument("--group-id", required=True, help="The group.")
    parser.add_argument("--group-protocol", default="classic", type=str.lower, help="classic or consumer.")
    parser.add_argument("--group-remote-assignor", help="The broker's assignor (group protocol consumer).")
    parser.add_argument("--group-instance-id", help="The member's name in a static membership.")
    parser.add_argument("--max-messages", type=whole(32), default=-1, help="How many; -1: until it is ended.")
    parser.add_argument("--session-timeout", type=whole(32), help="Milliseconds (group protocol classic).")
    parser.add_argument("--verbose", action="store_true", help="Print every record.")
    parser.add_argument("--enable-autocommit", action="store_true", help="Commit from time to time.")
    parser.add_argument(
        "--reset-policy", default="earliest", choices=("earliest", "latest", "none"), help="Where to begin."
    )
    parser.add_argument(
        "--assignment-strategy",
        default="org.apache.kafka.clients.consumer.RangeAssignor",
        help="A class of Kafka's.",
    )
    parser.add_argument("--consumer.config", dest="config", help="The old name of --command-config.")
    parser.add_argument("--command-config", help="A file of client settings.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--bootstrap-server", help="A broker, as HOST:PORT.")
    which.add_argument("--broker-list", help="The old name of --bootstrap-server.")
    return parser


class _Run:
    def __init__(self, given: Any) -> None:
        self._given = given
        self._stopping = False
        self._consumed = 0

    def run(self) -> int:
        from confluent_kafka import Consumer

        given = self._given
        consumer = Consumer(settings_of(given, **_settings(given)))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        say("startup_complete")
        consumer.subscribe([given.topic], on_assign=self._assigned, on_revoke=self._revoked)
        try:
            while not self._stopping and self._consumed != given.max_messages:
                left = RECORDS_AT_ONCE
                if given.max_messages >= 0:
                    left = min(left, given.max_messages - self._consumed)
                self._take(consumer, consumer.consume(left, _WAIT_SECONDS))
        finally:
            # Kafka's tells it when it is asked to end, and, if nobody asks, as its JVM ends.
            asked = self._stopping
            if asked:
                say("shutdown_requested")
            consumer.close()
            say("shutdown_complete")
            if not asked:
                say("shutdown_requested")
        return 0

    def _take(self, consumer: Any, records: list[Any]) -> None:
        from confluent_kafka import KafkaException

        for each in records:
            if each.error() is not None and not each.error().retriable():
                raise KafkaException(each.error())
        places: dict[tuple[str, int], list[Any]] = {}
        for each in records:
            if each.error() is None:
                places.setdefault((each.topic(), each.partition()), []).append(each)
        if not places:
            return
        if self._given.verbose:
            for mine in places.values():
                for each in mine:
                    say("record_data", **_record(each))
        count = sum(map(len, places.values()))
        self._consumed += count
        rows = [
            {
                "topic": topic,
                "partition": index,
                "count": len(mine),
                "minOffset": mine[0].offset(),
                "maxOffset": mine[-1].offset(),
            }
            for (topic, index), mine in places.items()
        ]
        say("records_consumed", count=count, partitions=rows)
        if not self._given.enable_autocommit:
            self._commit(consumer, {place: mine[-1].offset() + 1 for place, mine in places.items()})

    def _commit(self, consumer: Any, offsets: dict[tuple[str, int], int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        rows = [
            {"topic": topic, "partition": index, "offset": offset}
            for (topic, index), offset in offsets.items()
        ]
        wanted = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
        try:
            consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as problem:
            say("offsets_committed", offsets=rows, success=False, error=problem.args[0].str())
            return
        say("offsets_committed", offsets=rows, success=True)

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        say("partitions_assigned", partitions=_places(partitions))

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        say("partitions_revoked", partitions=_places(partitions))

    def _stop(self, number: int, frame: Any) -> None:
        self._stopping = True


def _settings(given: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "group_id": given.group_id,
        "group_protocol": given.group_protocol,
        "enable_auto_commit": given.enable_autocommit,
        "auto_offset_reset": "error" if given.reset_policy == "none" else given.reset_policy,
        "fetch_queue_backoff_ms": 10,
    }
    if given.group_instance_id:
        found["group_instance_id"] = given.group_instance_id
    if given.group_protocol == "consumer":
        if given.group_remote_assignor:
            found["group_remote_assignor"] = given.group_remote_assignor
        return found
    if given.group_protocol != "classic":
        raise CommandLineError(f"--group-protocol {given.group_protocol}: write classic or consumer")
    name = given.assignment_strategy.rpartition(".")[2]
    if name not in ASSIGNORS:
        raise CommandLineError(
            f"--assignment-strategy {given.assignment_strategy}: known are {', '.join(ASSIGNORS)}"
        )
    found["partition_assignment_strategy"] = ASSIGNORS[name]
    if given.session_timeout:
        found["session_timeout_ms"] = given.session_timeout
    return found


def _record(record: Any) -> dict[str, Any]:
    def text(value: bytes | None) -> str | None:
        return None if value is None else value.decode(errors="replace")

    return {
        "key": text(record.key()),
        "value": text(record.value()),
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
    }


def _places(partitions: list[Any]) -> list[dict[str, Any]]:
    return [{"topic": each.topic, "partition": each.partition} for each in partitions]
