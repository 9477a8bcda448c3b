"""A producer that knows after any crash where its source stood: the position rides in the records' headers.

    with Resuming("events", source="app.log", bootstrap_servers="localhost:9092") as out:
        for line, position in lines_after(out.position):     # None: from the beginning
            out.send(line, position=position)

Nothing else is kept: no file, no offset to commit. At the start the newest record of the source in each
partition is read back (resuming_position.py). Records go out in batches, each a transaction, so that a batch
is there whole, in all partitions, or not at all: exactly once, for consumers that read committed. A second
process with the same source fences the first (Fenced); the transaction of one that was killed is aborted at
the next start.

A batch that the brokers abort is sent again from memory; the program does not see it. Without transactions
(`transactions=False`) a start goes back before the last batch, of which a part may be there twice, and
nothing fences.

Compacted topics: the newest record of a source may be removed when another source writes its key later; the
position found is then an older one, and records come twice. Give each source keys of its own there. Not here:
reading the source.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from moldau.kit.client_config import Config, client_config, client_log, kafka_error, log, positive, sentence
from moldau.kit.errors import BadCall, Fenced, KitError, TimedOut
from moldau.kit.resuming_position import HEADER, Mark, read_back

_OWNED = {
    "transactional.id": "it is made of the topic and the source",
    "enable.idempotence": "it is always on",
}
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_PAUSE_SECONDS = 0.1
_UNSET: Any = object()
Headers = list[tuple[str, bytes | str | None]]


class _Waiting(NamedTuple):
    value: bytes | str | None
    key: bytes | str | None
    headers: Headers
    partition: int
    position: Any


class Resuming:
    """Writes a source's records to a topic and goes on after a crash where it stood.

    `source`: its name in the topic. A batch goes out with `records` or after `seconds`. `start`: the position
    to begin at if the topic has nothing of the source, needed only where that may be due to retention.
    `timeout_seconds`: how long brokers may be away. Raises BadCall, KitError, Fenced, TimedOut.
    """

    def __init__(
        self,
        topic: str,
        *,
        source: str,
        bootstrap_servers: str | None = None,
        config: Config | None = None,
        records: int = 1000,
        seconds: float = 1.0,
        transactions: bool = True,
        start: Any = _UNSET,
        timeout_seconds: float = 120.0,
    ) -> None:
        for name, value in (("topic", topic), ("source", source)):
            if not isinstance(value, str) or not value:
                raise BadCall(
                    f"{name}={value!r}: a resuming producer needs a topic and the name of its source"
                )
        self._topic = topic
        self._source = source
        self._records = int(positive(records, "records"))
        self._seconds = positive(seconds, "seconds")
        self._timeout_seconds = positive(timeout_seconds, "timeout_seconds")
        self._transactions = transactions
        self._start = start
        self._config = client_config(bootstrap_servers, config, _OWNED)
        self._producer: Producer | None = None
        self._waiting: list[_Waiting] = []
        self._count = 0
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._timer = threading.Thread(target=self._send_in_time, name=f"resuming {source}", daemon=True)
        self.position: Any = None
        """The source's position up to which everything is in the topic; None: nothing is."""
        self.resumed = False
        """Whether a position was found in the topic."""

    # --- life -------------------------------------------------------------------------------------

    def open(self) -> Resuming:
        """Fence an older process of this source, and read its position back."""
        settings: dict[str, Any] = {"linger.ms": 5, **self._config, "enable.idempotence": True}
        if self._transactions:
            settings["transactional.id"] = f"moldau-resuming-{self._topic}-{self._source}"
        try:
            self._producer = Producer(settings, logger=client_log)
            if self._transactions:
                self._retried(lambda left: self._client().init_transactions(left), "the start")
        except KafkaException as error:
            raise KitError(f"{self._source} cannot write to {self._topic}: {sentence(error)}") from error
        reading = {name: value for name, value in self._config.items() if not _is_producers(name)}
        mark, removed = read_back(
            self._topic, self._source, reading, self._transactions, self._timeout_seconds
        )
        if mark is not None:
            self.resumed = True
            self._count = mark.number
            self.position = mark.position if self._transactions else mark.before
        elif self._start is not _UNSET:
            self.position = self._start
        elif removed:
            raise KitError(
                f"{self._topic} has no record of {self._source}, but retention has removed records: its "
                "position may have been among them. Pass start=POSITION (None: from the beginning)"
            )
        self._timer.start()
        return self

    def __enter__(self) -> Resuming:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._end()  # what is not sent is read from the source again

    def close(self) -> None:
        """Send what waits, and end."""
        try:
            self.flush()
        finally:
            self._end()

    def _end(self) -> None:
        self._closing.set()
        if self._timer.is_alive():
            self._timer.join()
        self._producer = None

    # --- writing ----------------------------------------------------------------------------------

    def send(
        self,
        value: bytes | str | None,
        *,
        position: Any,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int = -1,
    ) -> None:
        """Add a record; `position` (JSON) is where the source goes on behind it. Sends every full batch."""
        one = _Waiting(value, key, list(headers or []), partition, _checked(position))
        with self._lock:
            self._add(one)
            if len(self._waiting) >= self._records:
                self._send_batch()

    def send_at_once(self, value: bytes | str | None, *, position: Any, **more: Any) -> bool:
        """As `send`, unless it would have to wait for a batch: then it does nothing and answers False."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if len(self._waiting) + 1 >= self._records:
                return False
            key, partition = more.get("key"), more.get("partition", -1)
            self._add(_Waiting(value, key, list(more.get("headers") or []), partition, _checked(position)))
            return True
        finally:
            self._lock.release()

    def _add(self, one: _Waiting) -> None:
        self._raise_failure()
        self._client()
        self._waiting.append(one)

    def flush(self) -> None:
        """Send what waits; when it returns, `position` is that of the last record."""
        with self._lock:
            self._raise_failure()
            self._send_batch()

    def run(self, read: Callable[[Any], Iterable[tuple[Any, bytes | str | None]]]) -> None:
        """Send all of a source: `read(position)` gives pairs (position behind the record, value)."""
        for position, value in read(self.position):
            self.send(value, position=position)
        self.flush()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _client(self) -> Producer:
        if self._producer is None:
            raise BadCall(f"{self._source} is not open: open() it, or use it in a with block")
        return self._producer

    def _send_in_time(self) -> None:
        while not self._closing.wait(self._seconds):
            with self._lock:
                try:
                    if self._failure is None and not self._closing.is_set():
                        self._send_batch()
                except BaseException as error:  # the next call raises it
                    log.error("%s", error)
                    self._failure = error

    def _send_batch(self) -> None:
        """Write what waits as one batch; it waits no longer when it is in the topic."""
        if not self._waiting:
            return
        try:
            if self._transactions:
                self._in_transaction()
            else:
                self._plainly()
        except KafkaException as error:
            failure: KitError = KitError(
                f"{self._source} cannot write to {self._topic}: {sentence(error)}. "
                "Start it again: it goes on where the topic ends"
            )
            if (found := kafka_error(error)) is not None and found.code() in _FENCED:
                failure = Fenced(f"another process has taken over source {self._source} of {self._topic}")
            self._failure = failure
            raise failure from error
        except KitError as error:
            self._failure = error
            raise
        self._count += len(self._waiting)
        self.position = self._waiting[-1].position
        self._waiting = []

    def _in_transaction(self) -> None:
        producer = self._client()
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            producer.begin_transaction()
            try:
                self._produce(producer)
                self._retried(producer.commit_transaction, "the commit")
                return
            except KafkaException as error:
                found = kafka_error(error)
                if found is None or found.fatal() or found.code() in _FENCED or time.monotonic() > deadline:
                    raise
                if not found.txn_requires_abort():
                    raise
                log.warning("a batch of %s was aborted (%s): it is sent again", self._source, sentence(found))
                self._retried(producer.abort_transaction, "the abort")
                time.sleep(_PAUSE_SECONDS)

    def _plainly(self) -> None:
        producer = self._client()
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, record: Message) -> None:
            if error is not None:
                refused.append(error)

        self._produce(producer, delivered)
        left = producer.flush(self._timeout_seconds)
        if refused:
            raise KafkaException(refused[0])
        if left:
            raise TimedOut(
                f"{left} records of {self._source} were not acknowledged within {self._timeout_seconds:.0f} s"
            )

    def _produce(self, producer: Producer, delivered: Callable[..., None] | None = None) -> None:
        before = self.position
        for number, one in enumerate(self._waiting, self._count + 1):
            mark = Mark(self._source, number, one.position, before).encode()
            arguments: dict[str, Any] = {
                "headers": [*one.headers, (HEADER, mark)],
                "partition": one.partition,
            }
            if delivered is not None:
                arguments["on_delivery"] = delivered
            while True:
                try:
                    producer.produce(self._topic, one.value, one.key, **arguments)
                    break
                except BufferError:
                    producer.poll(_PAUSE_SECONDS)

    def _retried(self, call: Callable[[float], object], what: str) -> None:
        """A step of a transaction, again while the client says that it may be."""
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            try:
                call(max(0.1, deadline - time.monotonic()))
                return
            except KafkaException as error:
                found = kafka_error(error)
                if found is None or not found.retriable():
                    raise
                if time.monotonic() > deadline:
                    raise TimedOut(
                        f"{what} of {self._source} found no broker within {self._timeout_seconds:.0f} s: "
                        f"{sentence(found)}"
                    ) from error
                time.sleep(_PAUSE_SECONDS)


def _checked(position: Any) -> Any:
    """The position if a header can hold it."""
    if position is None:
        raise BadCall("position=None means the beginning: give the position behind the record")
    try:
        json.dumps(position)
    except (TypeError, ValueError) as error:
        raise BadCall(f"position={position!r} does not go into a header: {error}") from error
    return position


def _is_producers(name: str) -> bool:
    """Whether a setting is for producers alone, so that a consumer would warn about it."""
    return name.startswith(
        ("linger.", "acks", "batch.", "compression.", "message.timeout", "delivery.", "queue.buffering",
         "transaction.", "partitioner", "sticky.", "request.required", "max.in.flight", "retries", "retry.")
    )  # fmt: skip


class AsyncResuming:
    """Resuming for asyncio: opening, and every batch, wait in a thread."""

    def __init__(self, topic: str, **arguments: Any) -> None:
        self._inner = Resuming(topic, **arguments)
        self._turn = asyncio.Lock()

    @property
    def position(self) -> Any:
        """The source's position up to which everything is in the topic."""
        return self._inner.position

    @property
    def resumed(self) -> bool:
        """Whether a position was found in the topic."""
        return self._inner.resumed

    async def __aenter__(self) -> AsyncResuming:
        await asyncio.to_thread(self._inner.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._inner.__exit__, kind, value, trace)

    async def send(self, value: bytes | str | None, *, position: Any, **more: Any) -> None:
        """As Resuming.send; leaves the event loop only when a batch goes out or is on its way."""
        if self._turn.locked() or not self._inner.send_at_once(value, position=position, **more):
            async with self._turn:
                await asyncio.to_thread(self._inner.send, value, position=position, **more)

    async def flush(self) -> None:
        """Send what waits."""
        async with self._turn:
            await asyncio.to_thread(self._inner.flush)
