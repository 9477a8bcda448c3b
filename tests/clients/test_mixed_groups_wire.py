"""Rolling changes between the classic and the KIP-848 protocol, with members of both in one group.

transcripts   the conversations of mixed_transcripts.py, line by line. With MOLDAU_TEST_BROKER=kafka they
              show what Apache Kafka answers; where ours differs, both answers stand in the transcript
schedules     random ones (mixed_schedule.py) against the broker and against the coordinator in memory,
              side by side: MOLDAU_TEST_BROKER=kafka pytest tests/clients/test_mixed_groups_wire.py -k
              schedule (MOLDAU_TEST_SEEDS: how many)
applications  real clients that are restarted one after the other with the other `group.protocol`: nobody
              gets a fatal error, and every record is counted once, in the order of the accepted commits
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from client_confluent import ConfluentClient, create_topic
from client_mixed import WirePort, compare_schedules
from client_model import Client, Member, Message, eventually
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from conftest import KIND, start_broker
from mixed_schedule import masked
from mixed_script import MemoryPort, Script
from mixed_transcripts import TRANSCRIPTS, Transcript

from bench.brokers import BrokerProcess

TOPICS = {"a": 12, "b": 4}
SEEDS = int(os.environ.get("MOLDAU_TEST_SEEDS", "3"))
PARTITIONS = 6
SETTLE_S = 40.0
COORDINATOR = {"group.consumer.assignment.interval.ms": "0", "group.consumer.min.session.timeout.ms": "6000"}


def slow(transcript: Transcript) -> bool:
    """It waits for timeouts, or needs a broker of its own: worth it against Kafka, whose answers are the
    question."""
    return "wait" in transcript.lines or bool(transcript.settings) or "restart" in transcript.lines


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that computes each assignment at once, as the scripts expect it."""
    broker = start_broker(tmp_path_factory.mktemp("coordinator"), **COORDINATOR)
    yield broker.address
    broker.kill()


@pytest.mark.parametrize(
    "transcript", [row for row in TRANSCRIPTS if not slow(row)], ids=lambda row: row.name
)
def test_a_conversation_goes_as_written(transcript: Transcript, coordinator: str, group: str) -> None:
    converse(transcript, WirePort(coordinator, group, TOPICS))


@pytest.mark.timeout(600)
@pytest.mark.skipif(KIND != "kafka", reason="test_mixed_transcripts.py runs these in memory")
@pytest.mark.parametrize("transcript", [row for row in TRANSCRIPTS if slow(row)], ids=lambda row: row.name)
def test_a_long_conversation_goes_as_written(
    transcript: Transcript, private_broker: Callable[..., BrokerProcess], group: str
) -> None:
    settings = {name: str(value) for name, value in transcript.settings.items()}
    common = {name.replace(".", "_"): value for name, value in COORDINATOR.items()}
    broker = private_broker(**{**common, **settings})

    def restart() -> None:
        broker.kill()
        broker.start()

    converse(transcript, WirePort(broker.address, group, TOPICS, restart))


def converse(transcript: Transcript, port: WirePort) -> None:
    """Run all lines, then say which answers are not as written."""
    script = Script(port)
    differences = []
    for line in transcript.lines.strip().splitlines():
        said, _, answers = (part.strip() for part in line.partition("->"))
        ours, _, kafkas = (part.strip() for part in answers.partition("|"))
        expected = kafkas.removeprefix("kafka: ") if KIND == "kafka" and kafkas else ours
        got = script.run(said, expected)
        if masked(got) != masked(expected):
            differences.append(f"{said} -> {got}, not {expected}")
    port.close()
    assert not differences, "\n".join(differences)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_schedule_is_answered_as_in_memory(seed: int, coordinator: str, group: str) -> None:
    memory = MemoryPort(TOPICS)
    wire = WirePort(coordinator, group, TOPICS)
    steps, difference = compare_schedules(seed, memory, wire, same_assignor=KIND == "moldau")
    print(f"seed {seed}: {steps} steps compared")
    memory.close()
    wire.close()
    assert not difference, f"seed {seed}, step {steps}:\n{difference}"


# Applications.


class CountingMember:
    """A consumer that counts a record once its commit is accepted. What it has not committed when it loses a
    partition, the next owner reads again and counts."""

    def __init__(self, bootstrap: str, group: str, topic: str, **config: Any) -> None:
        self.counted: list[tuple[int, int]] = []
        self.failure: BaseException | None = None
        self._pending: dict[int, list[int]] = defaultdict(list)
        self._topic = topic
        self._held: set[tuple[str, int]] = set()
        self._stopping = threading.Event()
        if config.get("group.protocol") != "consumer":
            config = {"heartbeat.interval.ms": 300, "session.timeout.ms": 6000, **config}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
                "error_cb": self._on_error,
                **config,
            }
        )
        self._consumer.subscribe([topic], on_revoke=self._revoked, on_lost=self._lost)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.failure = KafkaException(error)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                for message in self._consumer.consume(100, 0.05):
                    if message.error() is None:
                        self._pending[message.partition()].append(message.offset())
                    elif not message.error().retriable():
                        raise KafkaException(message.error())
                self._commit(list(self._pending))
                self._held = {(one.topic, one.partition) for one in self._consumer.assignment()}
        except BaseException as error:
            self.failure = error
        finally:
            self._consumer.close()

    def _commit(self, partitions: list[int]) -> None:
        offsets = [
            TopicPartition(self._topic, number, self._pending[number][-1] + 1)
            for number in partitions
            if self._pending[number]
        ]
        if not offsets:
            return
        try:
            committed = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return
        for one in committed:
            if one.error is None:
                self.counted += [(one.partition, offset) for offset in self._pending.pop(one.partition)]

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [one.partition for one in partitions]
        self._commit(numbers)
        for number in numbers:
            self._pending.pop(number, None)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._pending.pop(one.partition, None)

    def assignment(self) -> set[tuple[str, int]]:
        if self.failure is not None:
            raise AssertionError("the member failed") from self.failure
        return set(self._held)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the consumer does not close"
        if self.failure is not None:
            raise AssertionError("the member failed") from self.failure


def complete(members: list[Any]) -> bool:
    """Whether the members have all partitions, each one member's, and nobody has none."""
    held = [member.assignment() for member in members]
    return sum(map(len, held)) == PARTITIONS == len(set().union(*held)) and all(held)


def kind_of(bootstrap: str, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups().result()
    (found,) = [one for one in listed.valid if one.group_id == group]
    return str(found.type.name).lower()


class Feed:
    """Writes records all the time; `stop` says how many each partition has."""

    def __init__(self, client: Client, topic: str) -> None:
        self.rounds = 0
        self._client, self._topic = client, topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            value = str(self.rounds).encode()
            rows = [Message(None, value, partition=number) for number in range(PARTITIONS)]
            self._client.produce(self._topic, rows)
            self.rounds += 1

    def stop(self) -> int:
        self._stopping.set()
        self._thread.join(60)
        return self.rounds


EAGER, COOPERATIVE = "range", "cooperative-sticky"


@pytest.mark.parametrize("strategy", [EAGER, COOPERATIVE])
@pytest.mark.parametrize("manner", ["dynamic", "static", "surge"])
def test_an_application_is_upgraded_and_downgraded_while_it_runs(
    strategy: str, manner: str, bootstrap: str, topic: str, group: str
) -> None:
    """One instance after the other is stopped and started again, dynamic or static members; with `surge` the
    new one is started first, and so joins a stable group."""
    if KIND == "kafka" and strategy == COOPERATIVE:
        pytest.skip(
            "Kafka refuses groups of librdkafka's cooperative-sticky, with an error that ends the client"
        )
    create_topic(bootstrap, topic, PARTITIONS)
    client = ConfluentClient(bootstrap)

    def opened(number: int, protocol: str) -> CountingMember:
        config: dict[str, Any] = {"group.protocol": protocol}
        if protocol == "classic":
            config["partition.assignment.strategy"] = strategy
        if manner == "static":
            config["group.instance.id"] = f"instance-{number}"
        return CountingMember(bootstrap, group, topic, **config)

    members = [opened(number, "classic") for number in range(3)]
    every = list(members)
    try:
        eventually(lambda: complete(members), SETTLE_S)
        assert kind_of(bootstrap, group) == "classic"
        feed = Feed(client, topic)
        for protocol in ("consumer", "classic"):
            for number in range(3):
                if manner == "surge":
                    every.append(opened(number, protocol))
                    eventually(lambda: complete([*members, every[-1]]), SETTLE_S)
                    members[number].close()
                else:
                    members[number].close()
                    every.append(opened(number, protocol))
                members[number] = every[-1]
                eventually(lambda: complete(members), SETTLE_S)
                mixed = number < 2 or protocol == "consumer"
                assert kind_of(bootstrap, group) == ("consumer" if mixed else "classic")
        rounds = feed.stop()
        eventually(lambda: sum(len(one.counted) for one in every) >= rounds * PARTITIONS, SETTLE_S)
    finally:
        for member in every:
            member.close()
    counted = sorted(row for member in every for row in member.counted)
    assert counted == [(number, offset) for number in range(PARTITIONS) for offset in range(rounds)]


def test_java_members_change_over(java: Client, bootstrap: str, topic: str, group: str) -> None:
    """As above with the Java client, whose members say what they read: each round is read before the next
    member is restarted, and nothing of it is read again, because all is committed."""
    create_topic(bootstrap, topic, PARTITIONS)

    def opened(protocol: str) -> Member:
        return java.open_member(group, [topic], **{"group.protocol": protocol})

    members = [opened("classic") for _ in range(2)]
    values: list[bytes | None] = []

    def read(number: int) -> bool:
        for member in members:
            values.extend(one.value for one in member.take())
        return values.count(str(number).encode()) >= PARTITIONS

    try:
        eventually(lambda: complete(members), SETTLE_S)
        for number, protocol in enumerate(("consumer", "consumer", "classic", "classic")):
            rows = [Message(None, str(number).encode(), partition=index) for index in range(PARTITIONS)]
            java.produce(topic, rows)
            eventually(lambda number=number: read(number), SETTLE_S)
            members.pop(0).close()
            members.append(opened(protocol))
            eventually(lambda: complete(members), SETTLE_S)
            assert kind_of(bootstrap, group) == ("classic" if number == 3 else "consumer")
    finally:
        for member in members:
            member.close()
    assert sorted(values) == sorted(str(number).encode() for number in range(4) for _ in range(PARTITIONS))


@pytest.mark.skipif(KIND == "kafka", reason="a Kafka takes long to come back")
def test_a_mixed_group_survives_the_death_of_its_broker(
    private_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> None:
    broker = private_broker()
    create_topic(broker.address, topic, PARTITIONS)
    client = ConfluentClient(broker.address)
    members = [
        CountingMember(broker.address, group, topic, **{"partition.assignment.strategy": COOPERATIVE}),
        CountingMember(broker.address, group, topic, **{"group.protocol": "consumer"}),
    ]
    try:
        eventually(lambda: complete(members), SETTLE_S)
        before = [member.assignment() for member in members]
        rows = [Message(None, b"x", partition=number) for number in range(PARTITIONS)]
        client.produce(topic, rows)
        eventually(lambda: sum(len(one.counted) for one in members) == PARTITIONS, SETTLE_S)
        broker.kill()
        broker.start()
        client.produce(topic, rows)
        eventually(lambda: sum(len(one.counted) for one in members) == 2 * PARTITIONS, SETTLE_S)
        assert [member.assignment() for member in members] == before
        assert kind_of(broker.address, group) == "consumer"
    finally:
        for member in members:
            member.close()
    counted = sorted(row for member in members for row in member.counted)
    assert counted == [(number, offset) for number in range(PARTITIONS) for offset in range(2)]
