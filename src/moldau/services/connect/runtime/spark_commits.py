"""The offsets of a sink on Spark: they are the group's, and nothing else says where it stands.

    begin ── note: where the runs of a micro-batch end ── write them ── ends, dead letters in one transaction

All in transactions of one transactional id: the next one that opens it (another worker, or the local engine)
fences this one, so that a driver that was left behind moves nothing. A transaction's offsets are taken while
the group has members, too: so that there are none is seen to when the id is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from moldau.connect.batch import TopicPartition
from moldau.connect.errors import ConnectError, Retriable
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_notes import Notes, notes_from
from moldau.services.connect.runtime.spark_ranges import Range, run_ends

log = logging.getLogger("moldau.connect")
_TIMEOUT_SECONDS = 30.0


class NotAlone(Retriable):
    """Tasks of the local engine have not left the group yet: nothing that Spark is to blame for."""


def fence(setup: TaskSetup) -> None:
    """A driver of this connector that was left behind moves no offsets any more. Retriable, ConnectError."""
    _opened(setup).flush(0)


def _opened(setup: TaskSetup) -> Producer:
    producer = setup.producer("spark-producer", transactional_id=setup.driver_id)
    try:
        producer.init_transactions(_TIMEOUT_SECONDS)
    except KafkaException as failed:
        error = failed.args[0]
        kind = Retriable if error.retriable() else ConnectError
        raise kind(f"no transactions for the id {setup.driver_id}: {error.str()}") from failed
    return producer


class SparkCommits:
    """Of one run of the task."""

    def __init__(self, setup: TaskSetup, consumer: Consumer) -> None:
        self._setup, self._consumer = setup, consumer
        self._producer: Producer | None = None

    def open(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, Notes]:
        """Where the group stands, and which runs were noted behind that; older drivers are fenced, and the
        group has no members. NotAlone, Retriable, ConnectError."""
        self._producer = _opened(self._setup)
        try:
            self._see_that_it_is_alone()
        except KafkaException as failed:
            error = failed.args[0]
            raise Retriable(f"the group's members are not known: {error.str()}") from failed
        return self.known(places)

    def known(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, Notes]:
        """Where the group stands, and which runs were noted behind that. Retriable."""
        wanted = [KafkaPartition(*each) for each in places]
        try:
            found = self._consumer.committed(wanted, _TIMEOUT_SECONDS) if wanted else []
        except KafkaException as failed:
            error = failed.args[0]
            raise Retriable(f"the group's offsets cannot be read: {error.str()}") from failed
        return {
            TopicPartition(each.topic, each.partition): notes_from(
                each.offset if each.offset >= 0 else None, each.metadata
            )
            for each in found
        }

    def _see_that_it_is_alone(self) -> None:
        """The local engine's tasks, wherever they run, have left the group. NotAlone, Retriable."""
        group = self._setup.group
        admin = self._setup.admin()
        try:
            found = admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_SECONDS)[group]
            count = len(found.result(_TIMEOUT_SECONDS).members)
        except KafkaException as failed:
            if failed.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return
            raise
        if count:
            raise NotAlone(
                f"the group {group} has {count} members, tasks of the local engine: the query starts when "
                "they have left"
            )

    def note(self, ranges: Mapping[TopicPartition, Range]) -> None:
        """These are about to be written, in runs that end where `run_ends` says. Retriable, ConnectError."""
        self._commit(
            [_offset(place, Notes(each.start, run_ends(each))) for place, each in ranges.items()],
            lambda _: None,
        )

    def commit(self, ends: Mapping[TopicPartition, int], letters_topic: str, letters: Sequence[Any]) -> None:
        """All before these is written and lasting; and these dead letters (rows of spark_work.py). Retriable,
        ConnectError."""

        def produce(producer: Producer) -> None:
            for each in letters:
                headers = [(row["key"], row["value"]) for row in each["headers"] or ()]
                while True:
                    try:
                        producer.produce(letters_topic, each["value"], each["key"], headers=headers)
                        break
                    except BufferError:
                        producer.poll(0.1)

        self._commit([_offset(place, Notes(end)) for place, end in ends.items()], produce)

    def _commit(self, offsets: Sequence[KafkaPartition], produce: Callable[[Producer], None]) -> None:
        producer = self._producer
        assert producer is not None
        try:
            producer.begin_transaction()
            produce(producer)
            if offsets:
                producer.send_offsets_to_transaction(
                    list(offsets), self._consumer.consumer_group_metadata(), _TIMEOUT_SECONDS
                )
            producer.commit_transaction(_TIMEOUT_SECONDS)
        except KafkaException as failed:
            self._producer = None  # the run begins anew: opening the id ends what is left of the transaction
            error = failed.args[0]
            kind = ConnectError if error.fatal() and not error.retriable() else Retriable
            raise kind(f"the offsets of {self._setup.group} are not committed: {error.str()}") from failed

    def close(self) -> None:
        """Let go of the producer."""
        self._producer = None


def _offset(place: TopicPartition, notes: Notes) -> KafkaPartition:
    assert notes.committed is not None
    return KafkaPartition(*place, notes.committed, notes.text())
