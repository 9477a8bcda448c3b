"""Answers requests from a topic, as a member of a group.

    Responder("prices.requests", group="pricing", bootstrap_servers="localhost:9092").run(price_of)

A request is answered at least once: replies are on the brokers before its offset is committed. If a
responder dies in between, another answers again; the requester takes the first answer. A handler that must
not act twice on one request needs its own protection (the record's headers hold correlation-id). Within one
responder the last `remember` answers are kept: a request that comes again, because the group has moved or its
sender retried, gets the same answer, marked `duplicate`, without asking the handler.

A request behind its deadline is dropped; a record that is no request is dropped with a warning; a handler
that raises is answered with its error. None of them ends the loop. Not here: the loop (delivery.py).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from moldau.kit.client_config import Config, client_config, client_log, kafka_error, log, positive, sentence
from moldau.kit.delivery import ConsumerLoop
from moldau.kit.errors import BadCall, KitError
from moldau.kit.requests.headers import CORRELATION, DUPLICATE, ERROR, Address, address_of

Content = bytes | str | None
_ERROR_TEXT_MAX = 1000
_FLUSH_SECONDS = 10.0
_GONE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,  # the topic is compacted, and replies have no key
        KafkaError.INVALID_MSG,
    }
)
_CONSUMERS = ("max.poll", "session.", "heartbeat.", "group.", "fetch.", "partition.assignment", "isolation.")


class Answer(NamedTuple):
    """What a handler gave."""

    content: Content
    error: str | None


class Responder:
    """Calls a handler for each request, and sends what it returns. `stop` ends it.

    `remember`: how many answers are kept for requests that come again. `concurrency`: how many requests of a
    batch an asynchronous handler works on at once. Raises BadCall, KitError.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        *,
        group: str,
        bootstrap_servers: str | None = None,
        config: Config | None = None,
        batch: int = 100,
        remember: int = 10_000,
        concurrency: int = 100,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        given = dict(config or {})
        self._loop = ConsumerLoop(
            topics,
            group=group,
            delivery="at_least_once",
            bootstrap_servers=bootstrap_servers,
            config=given,
            batch=batch,
            commit_seconds=0.2,
        )
        settings = {name: value for name, value in given.items() if not name.startswith(_CONSUMERS)}
        settings.pop("auto.offset.reset", None)
        patience = {"message.timeout.ms": 120_000, "topic.metadata.propagation.max.ms": 5_000}
        self._settings = client_config(
            bootstrap_servers, {**patience, **settings}, {}, enable_idempotence=True
        )
        self._remember = int(remember)
        self._concurrency = int(positive(concurrency, "concurrency"))
        self._wall_clock = wall_clock
        self._answered: OrderedDict[bytes, Answer] = OrderedDict()
        self._producer: Producer | None = None
        self._failure: KafkaError | None = None
        self.answered_count = 0
        self.expired_count = 0
        self.malformed_count = 0
        self.duplicate_count = 0

    def stop(self) -> None:
        """End after the batch in hand."""
        self._loop.stop()

    def stop_on_signals(self) -> None:
        """Stop at SIGINT and SIGTERM; call it in the main thread."""
        self._loop.stop_on_signals()

    def run(self, handler: Callable[[Message], Content]) -> None:
        """Answer until `stop`: handler(record) returns the reply's value."""
        if inspect.iscoroutinefunction(handler):
            raise BadCall("the handler is a coroutine function: await responder.run_async(handler)")

        def answer(records: list[Message]) -> None:
            for record, address in self._wanted(records):
                known = self._answered.get(address.correlation)
                given = self._call(handler, record) if known is None else known
                self._send(address, given, known is not None)
            self._send_all()

        self._start()
        self._loop.run_batches(answer)

    async def run_async(self, handler: Callable[[Message], Awaitable[Content]]) -> None:
        """As `run` in an event loop; requests of a batch are answered at the same time."""
        room = asyncio.Semaphore(self._concurrency)

        async def one(record: Message, address: Address) -> None:
            known = self._answered.get(address.correlation)
            if known is not None:
                self._send(address, known, True)
                return
            async with room:
                try:
                    answer = _given(await handler(record))
                except Exception as error:
                    answer = _failed(error)
            self._send(address, answer, False)

        async def answer_all(records: list[Message]) -> None:
            wanted = list(self._wanted(records))
            first = {address.correlation: record for record, address in reversed(wanted)}
            fresh = [both for both in wanted if first[both[1].correlation] is both[0]]
            await asyncio.gather(*(one(*both) for both in fresh))
            for both in wanted:  # the same request twice in a batch
                if first[both[1].correlation] is not both[0]:
                    await one(*both)
            await asyncio.to_thread(self._send_all)

        self._start()
        await self._loop.run_batches_async(answer_all)

    def _start(self) -> None:
        try:
            self._producer = Producer(self._settings, logger=client_log)
        except KafkaException as error:
            raise KitError(f"the responder's settings are refused: {sentence(error)}") from error

    def _wanted(self, records: list[Message]) -> Iterable[tuple[Message, Address]]:
        """The requests that somebody waits for."""
        for record in records:
            address = address_of(record)
            if address is None:
                self.malformed_count += 1
                log.warning(
                    "%s[%s]@%s is no request (no correlation-id, reply-topic, reply-partition): dropped",
                    record.topic(), record.partition(), record.offset(),
                )  # fmt: skip
            elif address.deadline_ms is not None and address.deadline_ms < self._wall_clock() * 1000:
                self.expired_count += 1
            else:
                yield record, address

    @staticmethod
    def _call(handler: Callable[[Message], Content], record: Message) -> Answer:
        try:
            return _given(handler(record))
        except Exception as error:
            return _failed(error)

    def _send(self, address: Address, answer: Answer, again: bool) -> None:
        producer = self._producer
        assert producer is not None
        headers: list[tuple[str, bytes | str | None]] = [(CORRELATION, address.correlation)]
        if answer.error is not None:
            headers.append((ERROR, answer.error.encode(errors="replace")))
        if again:
            headers.append((DUPLICATE, b"1"))
            self.duplicate_count += 1
        else:
            self.answered_count += 1
            if self._remember:
                self._answered[address.correlation] = answer
                if len(self._answered) > self._remember:
                    self._answered.popitem(last=False)
        while True:
            try:
                producer.produce(
                    address.topic,
                    answer.content,
                    partition=address.partition,
                    headers=headers,
                    on_delivery=self._delivered,
                )
                return
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                self._judge(address.topic, kafka_error(error))
                return

    def _delivered(self, error: KafkaError | None, record: Message) -> None:
        if error is not None:
            self._judge(record.topic() or "", error)

    def _judge(self, topic: str, error: KafkaError | None) -> None:
        """A reply cannot be sent: drop it if that is its requester's fault, else remember to end."""
        if error is None or error.code() not in _GONE:
            self._failure = error
        else:
            log.warning("a reply to %s was dropped: %s", topic, sentence(error))

    def _send_all(self) -> None:
        """Wait until the replies are on the brokers: then the requests may be committed."""
        producer = self._producer
        assert producer is not None
        while producer.flush(_FLUSH_SECONDS):
            pass  # message.timeout.ms ends it
        failure, self._failure = self._failure, None
        if failure is not None:
            what = f"replies could not be sent: {sentence(failure)}. Their requests come again"
            raise KitError(what)


def _given(content: object) -> Answer:
    """What a handler returned; raises TypeError, ValueError for what is no reply."""
    if isinstance(content, str):
        content = content.encode()
    if content is not None and not isinstance(content, bytes):
        raise TypeError(f"the handler returned {type(content).__name__}, not bytes, a string or None")
    return Answer(content, None)


def _failed(error: Exception) -> Answer:
    text = str(error).encode(errors="backslashreplace").decode()  # half a surrogate pair breaks log files
    log.warning("a request failed: %s: %s", type(error).__name__, text)
    return Answer(None, f"{type(error).__name__}: {error}"[:_ERROR_TEXT_MAX])
