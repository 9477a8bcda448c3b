"""Sends records with a confluent-kafka producer, waits for the delivery reports, classifies the failures.

A record's own fault (too large, invalid) stays however often it is sent. Everything else (an unknown topic,
no permission, a broker that is away) may be mended by somebody, so the sender tries again later.

Not here: when to send, and what to do with what failed (batched/, agent/).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

POLL_SECONDS = 0.1
OWN_FAULTS = frozenset(
    {
        "MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_RECORD",
        "INVALID_MSG",
        "INVALID_TIMESTAMP",
        "INVALID_MSG_SIZE",
        "_UNKNOWN_PARTITION",
        "_INVALID_ARG",
    }
)
"""librdkafka's names of errors that the same record will get again."""
ABORTED = frozenset({"_STATE", "_PURGE_QUEUE", "_PURGE_INFLIGHT"})
"""Its names for records of a transaction that has failed, for another one's fault."""


class Outgoing(NamedTuple):
    """A record to send. `timestamp_ms` 0: now. `partition` -1: by the key."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int = 0
    partition: int = -1


class Failure(NamedTuple):
    """What happened to one record: its place, librdkafka's name of the error, its text."""

    at: int
    name: str
    text: str

    @property
    def own_fault(self) -> bool:
        """Whether the record can never be sent."""
        return self.name in OWN_FAULTS


class Interrupted(Exception):
    """`stop` said so before every report was there; some of the records may have been written."""


def send_all(
    producer: Any,
    records: Sequence[Outgoing],
    stop: Callable[[], bool] = lambda: False,
    *,
    in_transaction: bool = False,
) -> list[Failure]:
    """Send records and wait for their reports; returns the failures in the records' order.

    `in_transaction`: after the first failure nothing more is sent: librdkafka would keep the rest for ever.
    The rest fails with names of ABORTED, the others say why. Raises Interrupted, and KafkaException for a
    producer that cannot go on.
    """
    from confluent_kafka import KafkaException

    failures: list[Failure] = []
    left = len(records)
    ended: KafkaException | None = None

    def report(index: int, error: Any, message: Any) -> None:
        nonlocal left
        left -= 1
        if error is not None:
            failures.append(Failure(index, error.name(), error.str()))

    for index, record in enumerate(records):
        named: dict[str, Any] = {"on_delivery": functools.partial(report, index)}
        if record.headers:
            named["headers"] = list(record.headers)
        if record.timestamp_ms:
            named["timestamp"] = record.timestamp_ms
        if record.partition >= 0:
            named["partition"] = record.partition
        while True:
            try:
                producer.produce(record.topic, record.value, record.key, **named)
                break
            except BufferError:  # librdkafka's queue is full
                if stop():
                    raise Interrupted from None
                producer.poll(POLL_SECONDS)
            except KafkaException as problem:
                error = problem.args[0]
                if error.name() == "_STATE" and in_transaction:
                    ended = problem
                    break
                if error.name() not in OWN_FAULTS:
                    raise
                left -= 1
                failures.append(Failure(index, error.name(), error.str()))
                break
            except (TypeError, ValueError, OverflowError) as problem:  # a key that is no bytes ...
                left -= 1
                failures.append(Failure(index, "_INVALID_ARG", str(problem)))
                break
        if ended is not None:
            left -= len(records) - index
            break
        if not index & 255:
            producer.poll(0)
    while left:
        if stop():
            raise Interrupted
        if in_transaction and failures:
            producer.purge(in_queue=True, in_flight=False)
        producer.flush(POLL_SECONDS)
    if ended is not None:
        if not failures:
            raise ended
        text = ended.args[0].str()
        failures += [Failure(at, "_STATE", text) for at in range(index, len(records))]
    return sorted(failures)
