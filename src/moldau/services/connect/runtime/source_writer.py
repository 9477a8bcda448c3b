"""Writes a source's records and its offsets: in one Kafka transaction, or (at least once) one after the
other.

    transaction   begin ── records, dead letters, offset records ── commit        all of it or nothing
    otherwise     records, dead letters ── flush ── offset records ── flush       a crash may repeat records

Opening the transactional producer fences an older task of the same id, wherever it still runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from moldau.connect.errors import ConnectError, Retriable
from moldau.services.connect.runtime.dead_letters import Letter
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.writing import Outgoing, records

_TIMEOUT_SECONDS = 30.0
_END_SECONDS = 120.0
OffsetRecord = tuple[bytes, bytes | None]


class Undone(Exception):
    """The transaction was aborted: read again from what is committed."""


class Fenced(ConnectError):
    """Another task has taken this one's place."""


class TooLarge(ConnectError):
    """A record is larger than the producer or the topic takes."""


class SourceWriter(Protocol):
    """What a source's task writes through."""

    def open(self) -> None:
        """Ready to write; older tasks are fenced. Retriable, ConnectError."""

    def add(self, outgoing: Outgoing, first: int) -> None:
        """Hand over records from index `first` on. TooLarge (its `index`), Undone, Fenced, ConnectError."""

    def add_letters(self, topic: str, letters: Sequence[Letter]) -> None:
        """Hand over dead letters."""

    def commit(self, topic: str, offsets: Sequence[OffsetRecord]) -> None:
        """All that was handed over is lasting, and so are these offsets. Undone, Fenced, ConnectError."""

    def abort(self) -> None:
        """What was handed over since the last commit shall not be read by anyone."""

    def close(self) -> None:
        """Let go of the producer."""


class _Writer:
    producer: Producer

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._failure: KafkaError | None = None

    def _begin(self) -> None:
        """Before something is handed over."""

    def add(self, outgoing: Outgoing, first: int) -> None:
        """See SourceWriter."""
        self._begin()
        partition = -1 if outgoing.partition is None else outgoing.partition
        for index, (_, key, value, timestamp_ms, headers) in enumerate(records(outgoing)):
            if index >= first:
                try:
                    self._produce(outgoing.topic, key, value, partition, timestamp_ms, headers)
                except KafkaException as refused:
                    raise self._refused(refused.args[0], outgoing.topic, index) from refused

    def add_letters(self, topic: str, letters: Sequence[Letter]) -> None:
        """See SourceWriter."""
        self._begin()
        for each in letters:
            try:
                self._produce(topic, each.key, each.value, -1, each.timestamp_ms, each.headers or None)
            except KafkaException as refused:
                raise self._refused(refused.args[0], topic, 0) from refused

    def _produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        timestamp_ms: int | None,
        headers: Any,
    ) -> None:
        more: dict[str, Any] = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        while True:
            try:
                self.producer.produce(topic, value, key, partition, self._delivered, headers=headers, **more)
                return
            except BufferError:
                self.producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _refused(self, error: KafkaError, topic: str, index: int) -> Exception:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            found = TooLarge(
                f"a record for {topic} is larger than the producer takes: raise "
                "producer.override.max.request.size, and max.message.bytes of the topic"
            )
            found.index = index  # type: ignore[attr-defined]
            return found
        return self._ended(error)

    def _ended(self, error: KafkaError) -> Exception:
        raise NotImplementedError

    def close(self) -> None:
        """See SourceWriter."""
        producer = self.__dict__.pop("producer", None)
        if producer is not None:
            producer.purge()
            producer.poll(0)


class TransactionalWriter(_Writer):
    """Exactly once."""

    def __init__(self, setup: TaskSetup, interval_ms: float) -> None:
        """`interval_ms`: how long a transaction may stay open on purpose."""
        super().__init__(setup)
        self._timeout_ms = int(min(max(60_000, interval_ms * 2 + 30_000), 900_000))
        self._open = False

    def open(self) -> None:
        """See SourceWriter."""
        timeout_ms = self._setup.config.get("producer.override.transaction.timeout.ms", self._timeout_ms)
        self.producer = self._setup.producer(
            transactional_id=self._setup.transactional_id,
            transaction_timeout_ms=timeout_ms,
            delivery_report_only_error=True,
        )
        try:
            self.producer.init_transactions(_TIMEOUT_SECONDS)
        except KafkaException as failed:
            error = failed.args[0]
            kind = Retriable if error.retriable() else ConnectError
            raise kind(
                f"no transactions for the id {self._setup.transactional_id}: {error.str()}"
            ) from failed

    def _begin(self) -> None:
        if not self._open:
            try:
                self.producer.begin_transaction()
            except KafkaException as failed:
                raise self._ended(failed.args[0]) from failed
            self._open = True

    def commit(self, topic: str, offsets: Sequence[OffsetRecord]) -> None:
        """See SourceWriter."""
        self._begin()
        try:
            for key, value in offsets:
                self._produce(topic, key, value, -1, None, None)
            self._commit()
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        self._open = False
        self._failure = None

    def _commit(self) -> None:
        until = time.monotonic() + _END_SECONDS
        while True:
            try:
                self.producer.commit_transaction(_TIMEOUT_SECONDS)
                return
            except KafkaException as failed:
                if not failed.args[0].retriable() or time.monotonic() > until:
                    raise

    def _ended(self, error: KafkaError) -> Exception:
        """After a failure: the transaction is aborted if it can be, and the exception says what to do."""
        reason = self._failure if self._failure is not None else error
        self._failure = None
        fenced = error.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
        if error.fatal() or fenced:
            self._open = False
            if fenced or error.code() == KafkaError.INVALID_PRODUCER_EPOCH:
                return Fenced(
                    f"the transactional id {self._setup.transactional_id} is used by a newer task now, or a "
                    f"transaction took longer than its time-out: {error.str()}"
                )
            return ConnectError(f"the producer cannot go on: {reason.str()}")
        if not error.txn_requires_abort() and not self._open:
            return ConnectError(f"the producer cannot go on: {reason.str()}")
        try:
            self.producer.abort_transaction(_TIMEOUT_SECONDS)
        except KafkaException as failed:
            return ConnectError(f"a transaction can neither be committed nor aborted: {failed.args[0].str()}")
        finally:
            self._open = False
        return Undone(reason.str())

    def abort(self) -> None:
        """See SourceWriter."""
        if self._open and "producer" in self.__dict__:
            self._open = False
            try:
                self.producer.abort_transaction(_TIMEOUT_SECONDS)
            except KafkaException:
                return  # the coordinator does, when the id is opened again or the time is over


class PlainWriter(_Writer):
    """At least once: idempotent, without transactions."""

    def open(self) -> None:
        """See SourceWriter."""
        self.producer = self._setup.producer(delivery_report_only_error=True)

    def commit(self, topic: str, offsets: Sequence[OffsetRecord]) -> None:
        """See SourceWriter."""
        self._flush()
        try:
            for key, value in offsets:
                self._produce(topic, key, value, -1, None, None)
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        self._flush()

    def _flush(self) -> None:
        left = self.producer.flush(_END_SECONDS)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise self._ended(failure)
        if left:
            raise Retriable(f"{left} records were not acknowledged within {_END_SECONDS:.0f} s")

    def _ended(self, error: KafkaError) -> Exception:
        return ConnectError(f"records cannot be written: {error.str()}")

    def abort(self) -> None:
        """See SourceWriter. What went out cannot be called back."""
