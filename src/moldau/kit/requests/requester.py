"""Asks over a topic and gets the answers from another.

    with Requester("prices.requests", replies="prices.replies", bootstrap_servers="localhost:9092") as ask:
        price = ask.request(b"EURUSD", timeout_seconds=5)

Each requester reads one partition of the reply topic from its end on, which is fixed before the first request
goes out, and takes what carries the id of a request that waits. Others may share the partition. A reply that
comes twice, too late, or for somebody else is dropped.

A request carries its deadline: responders drop what nobody waits for any more. Their clocks must agree to a
fraction of the time-outs. Not here: answering (responder.py).
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from moldau.kit.client_config import Config, client_config, client_log, log, positive, sentence
from moldau.kit.errors import BadCall, KitError, TimedOut
from moldau.kit.requests.headers import CORRELATION, ERROR, Address, RemoteError, headers_of
from moldau.kit.topics import Topics

_OWNED = {
    "group.id": "replies are read without a group",
    "auto.offset.reset": "replies are read from the moment of the start",
    "enable.auto.commit": "a requester commits nothing",
    "enable.idempotence": "it is always on, so that a retry is no second request",
}
_WAIT_SECONDS = 0.1
_BATCH = 500
_START_AGAIN = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class Requester:
    """Sends requests and hands out their replies. Any thread may use it.

    `partition`: the reply topic's partition that this requester reads; by default one by chance. Raises
    BadCall, KitError; of requests TimedOut and RemoteError.
    """

    def __init__(
        self,
        topic: str,
        *,
        replies: str,
        bootstrap_servers: str | None = None,
        config: Config | None = None,
        partition: int | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        for name, value in (("topic", topic), ("replies", replies)):
            if not isinstance(value, str) or not value:
                raise BadCall(f"{name}={value!r}: requests need a topic to ask on, and one for the replies")
        if topic == replies:
            raise BadCall(f"requests and replies cannot share {topic}: responders would read the replies")
        self._topic = topic
        self._replies = replies
        self._partition = partition
        self._timeout_seconds = positive(timeout_seconds, "timeout_seconds")
        self._config = client_config(bootstrap_servers, config, _OWNED)
        self._waiting: dict[bytes, Future[bytes | None]] = {}
        self._deadlines: dict[bytes, float] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"replies {replies}", daemon=True)
        self._failure: BaseException | None = None
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self.dropped_count = 0
        """Replies that nobody waited for: late, double, or of others on the same partition."""

    # --- life -------------------------------------------------------------------------------------

    def open(self) -> Requester:
        """Fix where replies begin."""
        topics = Topics(self._config)
        topics.describe(self._topic)
        _, count = topics.describe(self._replies)
        if self._partition is None:
            self._partition = int.from_bytes(os.urandom(4), "big") % count
        if not 0 <= self._partition < count:
            raise BadCall(f"{self._replies} has {count} partitions, none numbered {self._partition}")
        place = self._replies, self._partition
        end = topics.end_offsets([place])[place]
        self._consumer = Consumer(
            {
                "fetch.wait.max.ms": 100,
                **self._config,
                "group.id": "moldau-replies",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            },
            logger=client_log,
        )
        self._consumer.assign([TopicPartition(*place, end)])
        self._producer = Producer(
            {"linger.ms": 0, **self._config, "enable.idempotence": True}, logger=client_log
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """End; requests that wait raise KitError."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._fail_all(KitError(f"the requester of {self._topic} was closed"))
        self._producer = None

    def __enter__(self) -> Requester:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- asking -----------------------------------------------------------------------------------

    def request(
        self,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: list[tuple[str, Any]] | None = None,
        timeout_seconds: float | None = None,
    ) -> bytes | None:
        """Ask and wait for the reply's value. Raises TimedOut, RemoteError, KitError."""
        future = self.submit(value, key=key, headers=headers, timeout_seconds=timeout_seconds)
        return future.result()

    def submit(
        self,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: list[tuple[str, Any]] | None = None,
        timeout_seconds: float | None = None,
    ) -> Future[bytes | None]:
        """Ask; the future gets the reply's value, TimedOut, RemoteError or KitError."""
        limit = positive(timeout_seconds or self._timeout_seconds, "timeout_seconds")
        if self._failure is not None:
            raise self._failure
        if self._producer is None or self._partition is None:
            raise BadCall(f"the requester of {self._topic} is not open: open() it, or use a with block")
        correlation = os.urandom(16).hex().encode()
        deadline_ms = int((time.time() + limit) * 1000)
        address = Address(correlation, self._replies, self._partition, deadline_ms)
        future: Future[bytes | None] = Future()
        with self._lock:
            self._waiting[correlation] = future
            self._deadlines[correlation] = time.monotonic() + limit

        def delivered(error: KafkaError | None, record: Message) -> None:
            if error is not None:
                self._end(correlation, self._not_sent(error))

        try:
            self._producer.produce(
                self._topic, value, key, headers=[*(headers or []), *address.encode()], on_delivery=delivered
            )
        except (KafkaException, BufferError) as error:
            self._end(correlation, self._not_sent(error))
        if (
            self._failure is not None or self._stopping.is_set()
        ):  # it ended in this moment: nobody will answer
            self._end(correlation, self._failure or KitError(f"the requester of {self._topic} was closed"))
        return future

    def _not_sent(self, error: object) -> KitError:
        return KitError(f"the request was not sent to {self._topic}: {sentence(error)}")

    def _end(self, correlation: bytes, outcome: bytes | BaseException | None) -> bool:
        with self._lock:
            future = self._waiting.pop(correlation, None)
            self._deadlines.pop(correlation, None)
        if future is None or not future.set_running_or_notify_cancel():
            return False
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
        return True

    def _fail_all(self, error: BaseException) -> None:
        for correlation in list(self._waiting):
            self._end(correlation, error)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        assert self._consumer is not None
        assert self._producer is not None
        try:
            while not self._stopping.is_set():
                first = self._consumer.poll(_WAIT_SECONDS if not self._waiting else 0.01)
                records = [] if first is None else [first, *self._consumer.consume(_BATCH, 0.0)]
                for record in records:
                    self._take(record)
                self._producer.poll(0)
                self._drop_late()
        except BaseException as error:
            self._failure = error
            log.error("%s", error)
            self._fail_all(error)
        finally:
            self._consumer.close()

    def _take(self, record: Message) -> None:
        error = record.error()
        if error is not None:
            if error.code() in _START_AGAIN or error.fatal():
                raise KitError(f"replies of {self._replies}[{self._partition}] are lost: {sentence(error)}")
            if error.code() != KafkaError._PARTITION_EOF:
                log.warning("%s: %s; still trying", self._replies, sentence(error))
            return
        found = headers_of(record)
        correlation = found.get(CORRELATION, b"")
        outcome: bytes | BaseException | None = record.value()
        if ERROR in found:
            outcome = RemoteError(f"{self._topic}: {found[ERROR].decode(errors='replace')}")
        if not self._end(correlation, outcome):
            self.dropped_count += 1

    def _drop_late(self) -> None:
        now = time.monotonic()
        with self._lock:
            late = [correlation for correlation, deadline in self._deadlines.items() if deadline <= now]
        for correlation in late:
            self._end(correlation, TimedOut(f"{self._topic}: no reply in {self._replies} in the time given"))
