"""Transactional producers of five client libraries behind the same verbs, and their read_committed consumers.

`init`, `begin`, `send`, `flush` (wait for the acknowledgements), `send_offsets`, `commit`, `abort`. What a
client raises arrives as `Failed`, with the name of its own exception, and whether it says that a newer
producer has taken the transactional id (`fenced`). `read` gives what a consumer of that library sees up to a
last record that the test wrote; `transform` is the loop that transactions were made for, each library's own.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from client_agents import AgentClient, AgentError
from client_aiokafka import AiokafkaClient
from client_kafka_python import await_metadata
from client_model import Place

NAMES = ("confluent", "java", "kafka-python", "aiokafka", "kafkajs")
LAST = b"the last record"
READ_TIMEOUT_S = 20.0


class Failed(Exception):
    """The client's own error: `name` as the library calls it."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        # KafkaJS has no type for it and gives the protocol's sentence.
        said = f"{name} {text}".lower()
        self.fenced = (
            "fenced" in said or "operation with an old epoch" in said or "invalidproducerepoch" in said
        )


class Transactional(Protocol):
    """One transactional producer."""

    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, place: Place, *values: bytes) -> None: ...
    def flush(self) -> None: ...
    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...

    def transform(self, source: str, sink: str, group: str, count: int, **config: str) -> int:
        """Read `source` in a group, write each value with a `'` to `sink`; every third transaction aborts.

        Gives the number of transactions.
        """


class TransactionalClient(Protocol):
    """A library bound to a broker."""

    name: str

    def producer(
        self, transactional_id: str, timeout_ms: int = 60_000, codec: str = "none"
    ) -> Transactional: ...
    def read(self, places: Sequence[Place], *, committed: bool) -> dict[Place, list[bytes]]:
        """The values of each partition up to `LAST`, which the test has written to each."""


def until_last(
    places: Sequence[Place], poll: Callable[[], Sequence[tuple[str, int, bytes]]]
) -> dict[Place, list[bytes]]:
    """Poll until every partition has given its last record."""
    found: dict[Place, list[bytes]] = {place: [] for place in places}
    waiting = set(places)
    deadline = time.monotonic() + READ_TIMEOUT_S
    while waiting:
        assert time.monotonic() < deadline, f"{waiting} gave no last record, but {found}"
        for topic, partition, value in poll():
            if value == LAST:
                waiting.discard((topic, partition))
            else:
                found[topic, partition].append(value)
    return found


@contextlib.contextmanager
def failures(*kinds: type[BaseException]) -> Iterator[None]:
    """What the library raises, as `Failed`."""
    try:
        yield
    except kinds as error:
        raise Failed(type(error).__name__, str(error)) from error


class ConfluentTransactions:
    """librdkafka: transactions v1."""

    name = "confluent"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = 60_000, codec: str = "none") -> Transactional:
        return ConfluentTransactional(self, transactional_id, timeout_ms, codec)

    def consumer(self, group: str, **config: Any) -> confluent_kafka.Consumer:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
        return confluent_kafka.Consumer(settings | config)

    def read(self, places: Sequence[Place], *, committed: bool) -> dict[Place, list[bytes]]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = self.consumer("reader", **{"isolation.level": isolation})
        consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in places])

        def poll() -> list[tuple[str, int, bytes]]:
            records = consumer.consume(500, 0.1)
            assert all(one.error() is None for one in records), [one.error() for one in records]
            return [(one.topic(), one.partition(), one.value()) for one in records]

        try:
            return until_last(places, poll)
        finally:
            consumer.close()


class ConfluentTransactional:
    def __init__(
        self, client: ConfluentTransactions, transactional_id: str, timeout_ms: int, codec: str
    ) -> None:
        self._client = client
        self._errors: list[Any] = []
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": client.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": min(timeout_ms, 20_000),
                "compression.type": codec,
                "linger.ms": 5,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )

    def init(self) -> None:
        with self._failures():
            self._producer.init_transactions(20)

    def begin(self) -> None:
        with self._failures():
            self._producer.begin_transaction()

    def send(self, place: Place, *values: bytes) -> None:
        with self._failures():
            for value in values:
                self._producer.produce(place[0], value, partition=place[1], on_delivery=self._delivered)

    def _delivered(self, error: Any, _: object) -> None:
        if error is not None:
            self._errors.append(error)

    def flush(self) -> None:
        with self._failures():
            self._producer.flush(20)
        errors, self._errors = self._errors, []
        if errors:
            raise Failed(errors[0].name(), errors[0].str())

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        consumer = self._client.consumer(group)
        rows = [confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]
        with self._failures():
            self._producer.send_offsets_to_transaction(rows, consumer.consumer_group_metadata(), 20)
        consumer.close()

    def commit(self) -> None:
        with self._failures():
            self._producer.commit_transaction(20)

    def abort(self) -> None:
        with self._failures():
            self._producer.abort_transaction(20)

    def close(self) -> None:
        with contextlib.suppress(Failed), self._failures():
            self._producer.purge()
            self._producer.flush(0)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (confluent_kafka.KafkaException, SystemError) as error:
            # A fatal error while callbacks run arrives as the cause of a SystemError.
            cause = (error.__cause__ or error).args[0]
            raise Failed(cause.name(), cause.str()) from error

    def transform(self, source: str, sink: str, group: str, count: int, **config: str) -> int:
        consumer = self._client.consumer(group, **config)
        consumer.subscribe([source])
        transactions = 0
        deadline = time.monotonic() + READ_TIMEOUT_S
        while count > 0 and time.monotonic() < deadline:
            records = [one for one in consumer.consume(10, 0.1) if one.error() is None]
            if not records:
                continue
            self.begin()
            for one in records:
                self.send((sink, one.partition()), one.value() + b"'")
            rows = consumer.position(consumer.assignment())
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([one for one in rows if one.offset >= 0], metadata, 20)
            transactions += 1
            if transactions % 3 == 2:
                self.abort()
                for one in consumer.committed(rows, timeout=10):
                    consumer.seek(
                        confluent_kafka.TopicPartition(one.topic, one.partition, max(one.offset, 0))
                    )
            else:
                self.commit()
                count -= len(records)
        consumer.close()
        return transactions


class KafkaPythonTransactions:
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def producer(self, transactional_id: str, timeout_ms: int = 60_000, codec: str = "none") -> Transactional:
        return KafkaPythonTransactional(self, transactional_id, timeout_ms, codec)

    def read(self, places: Sequence[Place], *, committed: bool) -> dict[Place, list[bytes]]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level=isolation, fetch_max_wait_ms=100
        )
        assigned = [kafka.TopicPartition(*place) for place in places]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)

        def poll() -> list[tuple[str, int, bytes]]:
            polled = consumer.poll(100).values()
            return [(one.topic, one.partition, one.value) for records in polled for one in records]

        try:
            return until_last(places, poll)
        finally:
            consumer.close()


class KafkaPythonTransactional:
    def __init__(
        self, client: KafkaPythonTransactions, transactional_id: str, timeout_ms: int, codec: str
    ) -> None:
        self._client = client
        self._sent: list[Any] = []
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=client.bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            retry_backoff_ms=20,
            acks="all",
        )

    def init(self) -> None:
        with failures(kafka.errors.KafkaError):
            self._producer.init_transactions()

    def begin(self) -> None:
        with failures(kafka.errors.KafkaError):
            self._producer.begin_transaction()

    def send(self, place: Place, *values: bytes) -> None:
        with failures(kafka.errors.KafkaError):
            self._sent += [self._producer.send(place[0], value, partition=place[1]) for value in values]

    def flush(self) -> None:
        sent, self._sent = self._sent, []
        with failures(kafka.errors.KafkaError):
            self._producer.flush(20)
            for one in sent:
                one.get(10)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        rows = {
            kafka.TopicPartition(*place): kafka.OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        with failures(kafka.errors.KafkaError):
            self._producer.send_offsets_to_transaction(rows, group)

    def commit(self) -> None:
        with failures(kafka.errors.KafkaError):
            self._producer.commit_transaction()

    def abort(self) -> None:
        with failures(kafka.errors.KafkaError):
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(0)

    def transform(self, source: str, sink: str, group: str, count: int, **config: str) -> int:
        consumer = kafka.KafkaConsumer(
            source,
            bootstrap_servers=self._client.bootstrap,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
            fetch_max_wait_ms=100,
            max_poll_records=10,
        )
        await_metadata(consumer, [source])
        transactions = 0
        deadline = time.monotonic() + READ_TIMEOUT_S
        while count > 0 and time.monotonic() < deadline:
            polled = consumer.poll(100)
            if not polled:
                continue
            self.begin()
            for place, records in polled.items():
                self.send((sink, place.partition), *(one.value + b"'" for one in records))
            rows = {
                place: kafka.OffsetAndMetadata(records[-1].offset + 1, "", -1)
                for place, records in polled.items()
            }
            with failures(kafka.errors.KafkaError):
                self._producer.send_offsets_to_transaction(rows, consumer.group_metadata())
            transactions += 1
            if transactions % 3 == 2:
                self.abort()
                for place in polled:
                    consumer.seek(place, consumer.committed(place) or 0)
            else:
                self.commit()
                count -= sum(map(len, polled.values()))
        consumer.close()
        return transactions


class AiokafkaTransactions:
    name = "aiokafka"

    def __init__(self, client: AiokafkaClient) -> None:
        self.client = client

    def producer(self, transactional_id: str, timeout_ms: int = 60_000, codec: str = "none") -> Transactional:
        return AiokafkaTransactional(self.client, transactional_id, timeout_ms, codec)

    def read(self, places: Sequence[Place], *, committed: bool) -> dict[Place, list[bytes]]:
        isolation = "read_committed" if committed else "read_uncommitted"
        assigned = [aiokafka.TopicPartition(*place) for place in places]

        async def start() -> aiokafka.AIOKafkaConsumer:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self.client.bootstrap, isolation_level=isolation, fetch_max_wait_ms=100
            )
            await consumer.start()
            await consumer._client.set_topics({topic for topic, _ in places})
            consumer.assign(assigned)
            await consumer.seek_to_beginning(*assigned)
            return consumer

        consumer = self.client.run(start())

        def poll() -> list[tuple[str, int, bytes]]:
            polled = self.client.run(consumer.getmany(timeout_ms=100)).values()
            return [(one.topic, one.partition, one.value) for records in polled for one in records]

        try:
            return until_last(places, poll)
        finally:
            self.client.run(consumer.stop())


class AiokafkaTransactional:
    def __init__(self, client: AiokafkaClient, transactional_id: str, timeout_ms: int, codec: str) -> None:
        self._client = client
        self._sent: list[Any] = []
        self._settings = {
            "bootstrap_servers": client.bootstrap,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
            "compression_type": None if codec == "none" else codec,
            "linger_ms": 5,
            "retry_backoff_ms": 20,
        }
        self._producer: Any = None

    def _run(self, work: Callable[[], Any]) -> Any:
        async def on_the_loop() -> Any:
            return await work()

        # aiokafka asserts that nothing but a close follows a fatal error.
        with failures(aiokafka.errors.KafkaError, AssertionError):
            return self._client.run(on_the_loop())

    def init(self) -> None:
        async def start() -> None:
            self._producer = aiokafka.AIOKafkaProducer(**self._settings)
            await self._producer.start()

        self._run(start)

    def begin(self) -> None:
        self._run(self._producer.begin_transaction)

    def send(self, place: Place, *values: bytes) -> None:
        for value in values:
            self._sent.append(
                self._run(lambda value=value: self._producer.send(place[0], value, partition=place[1]))
            )

    def flush(self) -> None:
        sent, self._sent = self._sent, []
        for one in sent:
            self._run(lambda one=one: one)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        rows = {aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        self._run(lambda: self._producer.send_offsets_to_transaction(rows, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction)

    def abort(self) -> None:
        self._run(self._producer.abort_transaction)

    def close(self) -> None:
        if self._producer is not None:
            with contextlib.suppress(Failed):
                self._run(self._producer.stop)

    def transform(self, source: str, sink: str, group: str, count: int, **config: str) -> int:
        return int(self._client.run(self._transform(source, sink, group, count)))

    async def _transform(self, source: str, sink: str, group: str, count: int) -> int:
        consumer = aiokafka.AIOKafkaConsumer(
            source,
            bootstrap_servers=self._client.bootstrap,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
            fetch_max_wait_ms=100,
        )
        await consumer.start()
        transactions = 0
        deadline = time.monotonic() + READ_TIMEOUT_S
        while count > 0 and time.monotonic() < deadline:
            polled = await consumer.getmany(timeout_ms=100, max_records=10)
            if not polled:
                continue
            await self._producer.begin_transaction()
            for place, records in polled.items():
                for one in records:
                    await self._producer.send(sink, one.value + b"'", partition=place.partition)
            rows = {place: records[-1].offset + 1 for place, records in polled.items()}
            await self._producer.send_offsets_to_transaction(rows, group)
            transactions += 1
            if transactions % 3 == 2:
                await self._producer.abort_transaction()
                for place in polled:
                    consumer.seek(place, await consumer.committed(place) or 0)
            else:
                await self._producer.commit_transaction()
                count -= sum(map(len, polled.values()))
        await consumer.stop()
        return transactions


class AgentTransactions:
    """The Java client (transactions v2 where the broker has them) and KafkaJS (v1), each in its process."""

    def __init__(self, client: AgentClient) -> None:
        self.name = client.name
        self._client = client

    def producer(self, transactional_id: str, timeout_ms: int = 60_000, codec: str = "none") -> Transactional:
        config = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "delivery.timeout.ms": max(min(timeout_ms, 20_000), 5005),
            "request.timeout.ms": 5000,
            "compression.type": codec,
        }
        settings = {"transactional_id": transactional_id, "timeout_ms": timeout_ms, "codec": codec}
        return AgentTransactional(self._client, {"config": config, **settings})

    def read(self, places: Sequence[Place], *, committed: bool) -> dict[Place, list[bytes]]:
        isolation = "read_committed" if committed else "read_uncommitted"
        rows = self._client.call(
            "txn_read",
            places=list(places),
            committed=committed,
            last=base64.b64encode(LAST).decode(),
            config={"isolation.level": isolation},
        )
        return until_last(places, lambda: [(t, p, base64.b64decode(value)) for t, p, value in rows])


class AgentTransactional:
    _numbers = itertools.count(1)

    def __init__(self, client: AgentClient, settings: Mapping[str, Any]) -> None:
        self._client = client
        self._name = f"transactional-{next(self._numbers)}"
        self._call("open", **settings)

    def _call(self, step: str, **arguments: Any) -> Any:
        try:
            return self._client.call(f"txn_{step}", producer=self._name, **arguments)
        except AgentError as error:
            name, _, text = str(error).partition(": ")
            raise Failed(name, text) from error

    def init(self) -> None:
        self._call("init")

    def begin(self) -> None:
        self._call("begin")

    def send(self, place: Place, *values: bytes) -> None:
        encoded = [base64.b64encode(value).decode() for value in values]
        self._call("send", topic=place[0], partition=place[1], values=encoded)

    def flush(self) -> None:
        self._call("flush")

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        self._call("offsets", group=group, offsets=[[*place, offset] for place, offset in offsets.items()])

    def commit(self) -> None:
        self._call("commit")

    def abort(self) -> None:
        self._call("abort")

    def close(self) -> None:
        self._call("close")

    def transform(self, source: str, sink: str, group: str, count: int, **config: str) -> int:
        java = {"group.id": group, "isolation.level": "read_committed", "max.poll.records": "10"}
        if "group.protocol" not in config:
            java["heartbeat.interval.ms"] = "300"
        arguments = {"source": source, "sink": sink, "group": group, "count": count}
        return int(self._call("transform", **arguments, config=java | config))
