"""Resuming producers: whatever is killed or fenced, the source goes on where the topic ends."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kit_running import Program, wait_until
from torture.cluster_proxy import Cable

from moldau.kit.errors import BadCall, Fenced, KitError, TimedOut
from moldau.kit.resuming import AsyncResuming, Resuming
from moldau.kit.resuming_position import HEADER, Mark, mark_of
from moldau.testing import Broker

MakeTopic = Callable[..., str]


def open_source(broker: Broker, topic: str, source: str = "numbers", **more: Any) -> Resuming:
    return Resuming(topic, source=source, bootstrap_servers=broker.bootstrap_servers, **more)


def committed_values(broker: Broker, topic: str, partitions: int) -> list[list[str]]:
    """What a consumer that reads committed finds, by partition."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "look", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[list[str]] = [[] for _ in range(partitions)]
    left = partitions
    deadline = time.monotonic() + 60
    while left:
        assert time.monotonic() < deadline
        for record in consumer.consume(500, 0.2):
            error = record.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left -= 1
            else:
                found[record.partition() or 0].append((record.value() or b"").decode())
    consumer.close()
    return found


@pytest.mark.parametrize("transactions", ["yes", "no"])
def test_a_killed_source_goes_on_where_the_topic_ends(
    transactions: str, shared_broker: Broker, made_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, kills = made_topic(3), 3
    program = Program(tmp_path, "resuming", shared_broker.bootstrap_servers, topic, transactions)
    try:
        for turn in range(kills):
            program.start()
            program.wait_for(15 * (turn + 1))
            program.kill()  # in the middle of a batch, of a transaction, or of a commit
    finally:
        program.kill()
    with open_source(shared_broker, topic, transactions=transactions == "yes") as out:
        assert out.resumed
        for number in range(out.position + 1, out.position + 51):
            out.send(str(number), position=number, key=str(number))
    found = committed_values(shared_broker, topic, 3)
    numbers = sorted(int(value) for values in found for value in values)
    last = out.position
    assert last >= int(program.lines()[-1])
    assert sorted(set(numbers)) == list(range(1, last + 1)), "a record was lost"
    if transactions == "yes":
        assert len(numbers) == last, "a record came twice"
        assert all(values == sorted(values, key=int) for values in found)
    else:
        assert len(numbers) <= last + (kills + 1) * 40, "more came twice than a batch a start"


def test_several_sources_in_one_topic_and_empty_partitions(
    shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic(4)
    with open_source(shared_broker, topic, "one") as one, open_source(shared_broker, topic, "two") as two:
        assert (one.position, one.resumed) == (None, False)
        one.send("a", position={"file": "a.log", "byte": 17}, partition=1)
        one.flush()
        for number in range(1, 2000):  # far more than the first step backwards
            two.send("b", position=number, partition=number % 2 + 1, headers=[("mine", b"1")])
    with open_source(shared_broker, topic, "one") as one, open_source(shared_broker, topic, "two") as two:
        assert one.position == {"file": "a.log", "byte": 17}
        assert two.position == 1999
    with open_source(shared_broker, topic, "three") as three:
        assert (three.position, three.resumed) == (None, False)


def test_a_second_process_fences_the_first(shared_broker: Broker, made_topic: MakeTopic) -> None:
    topic = made_topic()
    old = open_source(shared_broker, topic, seconds=3600).open()
    old.send("1", position=1)
    old.flush()
    old.send("2", position=2)  # waits in memory
    with open_source(shared_broker, topic) as new:
        assert new.position == 1
        new.send("two", position=2)
    with pytest.raises(Fenced, match="another process has taken over source numbers"):
        old.flush()
    with pytest.raises(Fenced):
        old.send("3", position=3)
    with pytest.raises(Fenced):
        old.close()
    assert committed_values(shared_broker, topic, 1) == [["1", "two"]]


def test_an_open_transaction_of_another_is_waited_for_and_aborted_records_do_not_count(
    shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    other = Producer({"bootstrap.servers": shared_broker.bootstrap_servers, "transactional.id": topic})
    other.init_transactions(60)
    mark = (HEADER, Mark("numbers", 99, 99, 98).encode())
    other.begin_transaction()
    other.produce(topic, "aborted", headers=[mark])
    other.flush(60)
    other.abort_transaction(60)
    other.begin_transaction()
    other.produce(topic, "open")
    other.flush(60)
    writer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers})
    writer.produce(topic, "behind", headers=[(HEADER, Mark("numbers", 5, 50, 40).encode())])
    assert writer.flush(60) == 0
    with pytest.raises(TimedOut, match="open transaction stands in front"):
        open_source(shared_broker, topic, timeout_seconds=2.0).open()
    threading.Timer(1.0, other.commit_transaction, [60]).start()
    with open_source(shared_broker, topic) as out:
        assert out.position == 50


def test_a_killed_broker_and_a_stalled_network_delay_only(
    cable_and_broker: tuple[Cable, Broker], topic: str
) -> None:
    cable, broker = cable_and_broker
    broker.bootstrap_servers = cable.address
    broker.create_topic(topic, 2)
    config = {"socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 200, "transaction.timeout.ms": 10_000}
    with open_source(broker, topic, config=config, records=10) as out:
        for number in range(1, 16):
            out.send(str(number), position=number)
        broker.kill()
        restarted = threading.Thread(target=broker.restart)
        restarted.start()
        for number in range(16, 36):
            out.send(str(number), position=number)
        restarted.join()
        cable.cut()
        threading.Timer(2.0, cable.heal).start()
        for number in range(36, 61):
            out.send(str(number), position=number)
    assert out.position == 60
    found = sorted(int(value) for values in committed_values(broker, topic, 2) for value in values)
    assert found == list(range(1, 61))


def test_an_aborted_batch_is_sent_again_from_memory(
    shared_broker: Broker, made_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = made_topic()
    with open_source(
        shared_broker,
        topic,
        seconds=3600,
        config={"message.timeout.ms": 5000, "transaction.timeout.ms": 5000},
    ) as out:
        real, calls = out._produce, itertools.count()

        def purged(producer: Producer, delivered: Any = None) -> None:
            real(producer, delivered)
            if next(calls) == 0:
                producer.purge(in_queue=True, in_flight=True)  # the client gives the records up: abort is due

        monkeypatch.setattr(out, "_produce", purged)
        for number in range(1, 11):
            out.send(str(number), position=number)
        out.flush()
        assert next(calls) >= 2
    assert committed_values(shared_broker, topic, 1) == [[str(n) for n in range(1, 11)]]


def test_retention_that_may_have_removed_the_position_is_said(
    shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    with open_source(shared_broker, topic) as out:
        out.send("1", position=1)
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, -1)]).values():
        future.result(60)
    with pytest.raises(KitError, match="retention has removed records"):
        open_source(shared_broker, topic).open()
    with open_source(shared_broker, topic, start=5) as out:
        assert out.position == 5
        out.send("6", position=6)
    with open_source(shared_broker, topic) as out:
        assert out.position == 6


def test_asyncio_and_batches_in_time(shared_broker: Broker, made_topic: MakeTopic) -> None:
    topic = made_topic()

    async def main() -> None:
        async with AsyncResuming(
            topic, source="numbers", bootstrap_servers=shared_broker.bootstrap_servers, records=10
        ) as out:
            await asyncio.gather(*(out.send(str(number), position=number) for number in range(1, 26)))
            await out.flush()
            assert out.position == 25

    asyncio.run(main())
    assert [len(values) for values in committed_values(shared_broker, topic, 1)] == [25]
    with open_source(shared_broker, topic, seconds=0.05) as out:
        out.send("26", position=26)
        wait_until(lambda: out.position == 26, "the batch goes out by itself")
        out.run(lambda position: ((n, str(n)) for n in range(position + 1, 30)))
        assert out.position == 29


def test_bad_calls_of_a_resuming_producer_get_a_sentence(
    shared_broker: Broker, made_topic: MakeTopic
) -> None:
    topic = made_topic()
    with pytest.raises(BadCall, match="needs a topic and the name of its source"):
        open_source(shared_broker, topic, "")
    with pytest.raises(BadCall, match="made of the topic and the source"):
        open_source(shared_broker, topic, config={"transactional.id": "x"})
    with pytest.raises(BadCall, match="is not open"):
        open_source(shared_broker, topic).send("1", position=1)
    with open_source(shared_broker, topic) as out:
        with pytest.raises(BadCall, match="does not go into a header"):
            out.send("1", position=object())
        with pytest.raises(BadCall, match="means the beginning"):
            out.send("1", position=None)
    garbled = Message(topic=topic, partition=0, offset=0, headers=[(HEADER, b"{"), ("x", None)])
    assert mark_of(garbled) is None
