"""Writes a sink's dead letters and commits its offsets in one transaction.

With the offsets goes the note which rows are left out (sink_notes.py); so a run that comes again knows
them, and writes no letter a second time. The group's generation fences a member that has lost its
partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from moldau.connect.errors import ConnectError, Retriable
from moldau.services.connect.runtime.dead_letters import Letter
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.sink_member import RebalanceUnderWay, SessionLost

_TIMEOUT_SECONDS = 30.0
_STALE = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID}


class SinkLetters:
    """The producer is made with the first letter."""

    def __init__(self, setup: TaskSetup, topic: str) -> None:
        self._setup = setup
        self._topic = topic
        self._producer: Producer | None = None

    def commit(
        self, letters: Sequence[Letter], offsets: Sequence[KafkaPartition], group_metadata: Any
    ) -> None:
        """Both, or neither. SessionLost, RebalanceUnderWay, Retriable, ConnectError."""
        producer = self._opened()
        try:
            producer.begin_transaction()
            for each in letters:
                self._produce(producer, each)
            producer.send_offsets_to_transaction(list(offsets), group_metadata, _TIMEOUT_SECONDS)
        except KafkaException as failed:
            raise self._ended(producer, failed.args[0]) from failed
        try:
            _commit(producer)
        except KafkaException as failed:
            if failed.args[0].txn_requires_abort():
                raise self._ended(producer, failed.args[0]) from failed
            self._producer = None  # what became of it is not known: what the group has tells it
            raise SessionLost(failed.args[0].str()) from failed

    def close(self) -> None:
        """Let go of the producer."""
        self._producer = None

    def _opened(self) -> Producer:
        if self._producer is None:
            transactional_id = f"{self._setup.transactional_id}-dead-letters"
            producer = self._setup.producer("dead-letter-producer", transactional_id=transactional_id)
            try:
                producer.init_transactions(_TIMEOUT_SECONDS)
            except KafkaException as failed:
                error = failed.args[0]
                kind = Retriable if error.retriable() else ConnectError
                raise kind(f"dead letters cannot be written: {error.str()}") from failed
            self._producer = producer
        return self._producer

    def _produce(self, producer: Producer, letter: Letter) -> None:
        headers: Any = letter.headers or None
        while True:
            try:
                more: dict[str, Any] = (
                    {} if letter.timestamp_ms is None else {"timestamp": letter.timestamp_ms}
                )
                producer.produce(self._topic, letter.value, letter.key, headers=headers, **more)
                return
            except BufferError:
                producer.poll(0.1)

    def _ended(self, producer: Producer, error: KafkaError) -> Exception:
        """After a failure: the transaction is undone, and the exception says what to do."""
        if not error.fatal():
            try:
                producer.abort_transaction(_TIMEOUT_SECONDS)
            except KafkaException:
                self._producer = None
        else:
            self._producer = None
        if error.fatal() or error.code() in _STALE:
            return SessionLost(error.str())
        if error.code() == KafkaError.REBALANCE_IN_PROGRESS:
            return RebalanceUnderWay(error.str())
        sentence = f"dead letters cannot be written to {self._topic}: {error.str()}"
        return (
            Retriable(sentence) if error.retriable() or error.txn_requires_abort() else ConnectError(sentence)
        )


def _commit(producer: Producer) -> None:
    for attempt in range(5):
        try:
            producer.commit_transaction(_TIMEOUT_SECONDS)
            return
        except KafkaException as failed:
            if not failed.args[0].retriable() or attempt == 4:
                raise
