"""kill -9 at any moment: what was acknowledged is there afterwards, and groups go on where they stood."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from client_confluent import ConfluentClient, create_topic
from client_model import Message, eventually
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from bench.brokers import BrokerProcess

StartBroker = Callable[..., BrokerProcess]


class SteadyWriter:
    """Writes numbered records until stopped and remembers which were acknowledged."""

    def __init__(self, bootstrap: str, topic: str, **config: object) -> None:
        self.acknowledged: dict[int, int] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "linger.ms": 1,
                "retry.backoff.ms": 50,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                **config,
            }
        )
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self._producer.produce(
                self._topic, value=str(number).encode(), on_delivery=self._delivered(number)
            )
            self._producer.poll(0)
            time.sleep(
                0.001
            )  # about a thousand a second: the client's queue must hold what a restart leaves waiting
            number += 1
        self._producer.flush(30)

    def _delivered(self, number: int) -> Callable[..., None]:
        def note(error: object, message: object) -> None:
            if error is None:
                self.acknowledged[number] = message.offset()  # type: ignore[attr-defined]

        return note

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more records were acknowledged."""
        wanted = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= wanted, 60.0)

    def stop(self) -> dict[int, int]:
        self._stopping.set()
        self._thread.join(40)
        return self.acknowledged


@pytest.mark.parametrize("durability", ["", "group"])
def test_acknowledged_records_survive_and_idempotence_leaves_no_double(
    durability: str, private_broker: StartBroker, topic: str
) -> None:
    settings = {"moldau_durability": durability} if durability else {}
    broker = private_broker(**settings)
    if durability and broker.name != "Moldau":
        pytest.skip("a setting of Moldau's own")
    create_topic(broker.address, topic)
    writer = SteadyWriter(broker.address, topic, **{"enable.idempotence": True})
    for _ in range(3):
        writer.wait_for_more(50)
        broker.kill()
        broker.start()
    writer.wait_for_more(50)
    acknowledged = writer.stop()
    last = max(acknowledged.values())
    found = ConfluentClient(broker.address).read({topic: last + 1})[topic]
    values = [one.value for one in found]
    assert len(set(values)) == len(values), "a record is there twice"
    by_offset = {one.offset: one.value for one in found}
    lost = [n for n, offset in acknowledged.items() if by_offset.get(offset) != str(n).encode()]
    assert lost == []
    assert values == sorted(values, key=lambda one: int(one or b"0")), "the order of one producer changed"


def test_a_stranger_on_the_port_is_not_taken_for_the_broker(
    private_broker: StartBroker, tmp_path: Path
) -> None:
    running = private_broker()
    second = type(running)(tmp_path / "second", port=running.port)
    with pytest.raises(RuntimeError, match="ended while starting"):
        second.start()


def test_committed_offsets_survive_and_the_group_goes_on(
    private_broker: StartBroker, topic: str, group: str
) -> None:
    broker = private_broker()
    create_topic(broker.address, topic, 2)
    client = ConfluentClient(broker.address)
    client.produce(topic, [Message(None, str(i).encode(), partition=i % 2) for i in range(40)])
    member = client.open_member(group, [topic])
    eventually(lambda: len(member.assignment()) == 2)
    read: list[bytes | None] = []
    eventually(lambda: read.extend(one.value for one in member.take()) or len(read) == 40)
    time.sleep(0.3)
    broker.kill()
    broker.start()
    # The member that lived through it goes on by itself, and nothing that was committed comes again.
    client.produce(topic, [Message(None, str(i).encode(), partition=i % 2) for i in range(40, 60)])
    eventually(lambda: read.extend(one.value for one in member.take()) or len(read) >= 60, 40.0)
    assert sorted(map(int, filter(None, read))) == list(range(60))
    member.close()
    client.produce(topic, [Message(None, b"60", partition=0)])
    broker.kill()
    broker.start()
    again = client.open_member(group, [topic])
    read.clear()
    eventually(lambda: read.extend(one.value for one in again.take()) or read)
    assert read == [b"60"]
    again.close()


def test_a_new_protocol_group_survives(private_broker: StartBroker, topic: str, group: str) -> None:
    broker = private_broker()
    create_topic(broker.address, topic, 2)
    client = ConfluentClient(broker.address)
    client.produce(topic, [Message(None, b"1", partition=0)])
    member = client.open_new_protocol_member(group, [topic])
    eventually(lambda: [one.value for one in member.take()] == [b"1"])
    time.sleep(0.3)
    broker.kill()
    broker.start()
    client.produce(topic, [Message(None, b"2", partition=1)])
    eventually(lambda: [one.value for one in member.take()] == [b"2"], 40.0)
    assert len(member.assignment()) == 2
    member.close()


def test_topics_and_settings_survive(private_broker: StartBroker, topic: str) -> None:
    broker = private_broker()
    create_topic(broker.address, topic, 3, retention_ms="7200000")
    broker.kill()
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.address})
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3
    (found,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    assert found.result(10)["retention.ms"].value == "7200000"


def test_a_clean_stop_and_start_keeps_all(private_broker: StartBroker, topic: str) -> None:
    broker = private_broker()
    create_topic(broker.address, topic)
    client = ConfluentClient(broker.address)
    client.produce(topic, [Message(b"k", str(i).encode()) for i in range(1000)], "zstd")
    broker.stop()
    broker.start()
    found = client.read({topic: 1000})[topic]
    assert [one.value for one in found] == [str(i).encode() for i in range(1000)]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_one_damaged_partition_costs_the_others_nothing(
    clean: bool, private_broker: StartBroker, topic: str
) -> None:
    broker = private_broker()
    if broker.name != "Moldau":
        pytest.skip("a broker of Apache Kafka's does not start then, or deletes the records")
    names = [f"{topic}-{what}" for what in ("sound", "tail", "id", "segment")]
    client = ConfluentClient(broker.address)
    for name in names:
        create_topic(broker.address, name)
        client.produce(name, [Message(None, str(i).encode(), partition=0) for i in range(50)])
    time.sleep(0.1)
    broker.stop() if clean else broker.kill()
    folders = [next(broker.data_dir.rglob(f"{name}-0")) for name in names]
    _, tail, identity, segment = folders
    with (tail / f"{0:020d}.log").open("ab") as file:
        file.write(b"\xa5" * 700)
    text = (identity / "partition.metadata").read_text()
    (identity / "partition.metadata").write_text(text[:-3] + ("A" if text[-3] != "A" else "B") + text[-2:])
    (segment / f"{0:020d}.log").unlink()
    (segment / f"{0:020d}.log").mkdir()
    broker.start()
    for name in names[:2]:
        client.produce(name, [Message(None, b"50", partition=0)])
        assert [one.value for one in client.read({name: 51})[name]] == [str(i).encode() for i in range(51)]
    client.produce(names[2], [Message(None, b"new", partition=0)])
    (new,) = client.read({names[2]: 1})[names[2]]
    assert (new.offset, new.value) == (50, b"new")
    assert list(identity.parent.glob(f"{names[2]}-0.*-stray"))
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": broker.address, "message.timeout.ms": 1500, "log_level": 0})
    producer.produce(names[3], b"x", on_delivery=lambda error, _: refused.append(error))
    producer.flush(10)
    assert refused[0] is not None
