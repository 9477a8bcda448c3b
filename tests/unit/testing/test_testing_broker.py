"""moldau.testing: brokers in a thread and in a process, their settings, their end, and the fixtures."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.common.settings.rows import SettingError
from moldau.testing import Broker
from moldau.testing.in_process import BrokerDidNotStart


def produce(broker: Broker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 2})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def read(broker: Broker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "log_level": 2})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    deadline = time.monotonic() + 20
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() or b"" for message in consumer.consume(count, 0.1) if not message.error()]
    consumer.close()
    return values


def test_a_broker_in_a_thread_comes_and_goes() -> None:
    with Broker() as broker:
        data = broker.data
        broker.create_topic("t", partitions=2, retention_ms=1_000_000)
        produce(broker, "t", b"a")
        assert (data / "t-0").is_dir()
    assert not data.exists()
    assert broker.bootstrap_servers == ""


def test_restart_keeps_address_and_records() -> None:
    with Broker() as broker:
        broker.create_topic("t")
        produce(broker, "t", b"a", b"b")
        address = broker.bootstrap_servers
        broker.restart()
        assert broker.bootstrap_servers == address
        assert read(broker, "t", 2) == [b"a", b"b"]


def test_settings_are_keywords_or_names(tmp_path: Path) -> None:
    with Broker({"auto.create.topics.enable": False}, num_partitions=4, data=tmp_path / "kept") as broker:
        produce_to = Producer({"bootstrap.servers": broker.bootstrap_servers})
        assert "t" not in produce_to.list_topics(timeout=10).topics
    assert (tmp_path / "kept").is_dir()


def test_two_brokers_live_side_by_side() -> None:
    with Broker() as one, Broker() as two:
        assert one.bootstrap_servers != two.bootstrap_servers
        one.create_topic("t")
        client = Producer({"bootstrap.servers": two.bootstrap_servers})
        assert "t" not in client.list_topics(timeout=10).topics


def test_an_unknown_setting_warns_and_a_wrong_one_fails() -> None:
    with pytest.warns(UserWarning, match=r"num\.partitions"), Broker(num_partition=3):
        pass
    with pytest.raises(SettingError, match=r"num\.partitions"):
        Broker(num_partitions="many").start()


def test_a_broker_in_a_thread_cannot_be_killed() -> None:
    with Broker() as broker, pytest.raises(RuntimeError, match="process=True"):
        broker.kill()


async def start_and_stop() -> str:
    async with Broker() as broker:
        return broker.bootstrap_servers


def test_async_with() -> None:
    import asyncio

    assert asyncio.run(start_and_stop()).startswith("127.0.0.1:")


def test_a_killed_process_comes_back_with_what_it_acknowledged() -> None:
    with Broker(process=True) as broker:
        broker.create_topic("t")
        produce(broker, "t", b"a", b"b")
        address = broker.bootstrap_servers
        first = broker.pid
        broker.kill()
        broker.restart()
        assert broker.bootstrap_servers == address
        assert broker.pid != first
        assert read(broker, "t", 2) == [b"a", b"b"]


def test_a_process_that_cannot_start_says_why(tmp_path: Path) -> None:
    with Broker(process=True, data=tmp_path) as broker:
        second = Broker({"listeners": f"PLAINTEXT://{broker.bootstrap_servers}"}, process=True)
        with pytest.raises(BrokerDidNotStart, match=broker.bootstrap_servers.rpartition(":")[2]):
            second.start()
        second.stop()
        with pytest.raises(BrokerDidNotStart, match="moldau: "):
            Broker(process=True, data=tmp_path).start()


def test_the_fixture_gives_a_broker(moldau_broker: Broker) -> None:
    moldau_broker.create_topic("t")


def test_the_session_fixture_gives_one_broker(moldau_session_broker: Broker) -> None:
    assert moldau_session_broker.bootstrap_servers


def test_installing_moldau_imports_no_broker_into_other_test_suites() -> None:
    program = "import sys, moldau.testing.plugin; sys.exit('moldau.broker.node' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_one_that_is_not_ready_in_time_is_named_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho recovering 1 of 9 >&2\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr("moldau.testing.in_process.sys.executable", str(program))
    monkeypatch.setattr("moldau.testing.in_process.START_TIMEOUT_SECONDS", 1.0)
    with pytest.raises(BrokerDidNotStart, match=r"not ready after 1 s(:\nrecovering 1 of 9)?"):
        Broker(process=True).start()


def test_a_process_may_be_another_program() -> None:
    program = ["env", "KAFKA_NUM_PARTITIONS=5", sys.executable, "-m", "moldau"]
    with Broker(process=True, program=program) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("t", -1)])["t"].result(60)
        assert len(admin.list_topics("t", timeout=60).topics["t"].partitions) == 5
