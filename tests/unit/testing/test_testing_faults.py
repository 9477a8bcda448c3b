"""Faults of a test's broker, met by real clients."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from moldau.broker.handlers.parts.registry import TABLE
from moldau.common.protocol.errors import ErrorCode
from moldau.testing import Broker
from moldau.testing.error_answers import refusal

WAIT_S = 60.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as found:
        found.create_topic("orders")
        yield found


def producer(broker: Broker, **settings: Any) -> Producer:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "retry.backoff.ms": 20, **given}
    )


def send(client: Producer, value: str, topic: str = "orders") -> KafkaError | None:
    """The error of a delivery."""
    outcome: list[KafkaError | None] = []
    client.produce(topic, value, on_delivery=lambda error, message: outcome.append(error))
    client.flush(WAIT_S)
    assert outcome, "no outcome"
    return outcome[0]


def values(broker: Broker, count: int, topic: str = "orders") -> list[str]:
    """The first records of a topic, and one more if there is one."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        | {"enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            if message.error().code() == KafkaError._PARTITION_EOF and len(found) >= count:
                break
            continue
        found.append((message.value() or b"").decode())
    consumer.close()
    return found


def test_a_refused_produce_is_sent_again(broker: Broker) -> None:
    broker.faults.refuse("Produce", "NOT_LEADER_OR_FOLLOWER", times=2, topic="orders")
    assert send(producer(broker), "a") is None
    assert broker.faults.left == 0
    assert values(broker, 1) == ["a"]


def test_an_error_for_good_reaches_the_program_and_other_topics_are_spared(broker: Broker) -> None:
    broker.create_topic("others")
    broker.faults.refuse("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="orders")
    client = producer(broker)
    assert send(client, "b", "others") is None
    error = send(client, "a")
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert send(producer(broker), "c") is None


@pytest.mark.parametrize(("idempotent", "wanted"), [(True, ["a"]), (False, ["a", "a"])])
def test_a_lost_answer_doubles_what_is_not_idempotent(
    broker: Broker, idempotent: bool, wanted: list[str]
) -> None:
    broker.faults.lose_answer("Produce")
    assert send(producer(broker, enable_idempotence=idempotent), "a") is None
    assert values(broker, len(wanted)) == wanted


def test_a_full_disk_is_over_by_itself(broker: Broker) -> None:
    client = producer(broker, message_timeout_ms=60_000)
    assert send(client, "a") is None
    outcome: list[Any] = []
    with broker.faults.disk_full():
        client.produce("orders", "b", on_delivery=lambda error, message: outcome.append(error))
        assert client.flush(2) == 1
        assert values(broker, 1) == ["a"]  # reading goes on
    client.flush(WAIT_S)
    assert outcome == [None]
    assert set(values(broker, 1)) <= {"a", "b"}


def test_a_broker_that_stands_still_answers_afterwards(broker: Broker) -> None:
    client = producer(broker)
    assert send(client, "a") is None
    with broker.stall():
        client.produce("orders", "b")
        assert client.flush(1) == 1
    assert client.flush(WAIT_S) == 0


def test_a_delayed_request_holds_up_what_is_behind_it(broker: Broker) -> None:
    broker.faults.delay("Produce", 1.0)
    client = producer(broker, enable_idempotence=True)
    began = time.monotonic()
    client.produce("orders", "a")
    client.produce("orders", "b")
    assert client.flush(WAIT_S) == 0
    assert time.monotonic() - began >= 1.0
    assert values(broker, 2) == ["a", "b"]


def test_coordinators_and_admins_are_refused_in_their_rows(broker: Broker) -> None:
    broker.faults.refuse("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    assert broker.faults.left == 0
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    broker.faults.refuse("DeleteTopics", "TOPIC_DELETION_DISABLED")
    with pytest.raises(KafkaException, match=r"DELETION_DISABLED|disabled"):
        admin.delete_topics(["orders"])["orders"].result(WAIT_S)


def test_what_is_wrong_is_said_at_once(broker: Broker) -> None:
    wrong: list[tuple[Callable[[], None], str]] = [
        (lambda: broker.faults.refuse("Prodce", 6), "there is no API 'Prodce'"),
        (lambda: broker.faults.refuse("Produce", "NO_SUCH"), "there is no error 'NO_SUCH'"),
        (lambda: broker.faults.refuse("Produce", 6, times=0), "at least one"),
    ]
    for call, why in wrong:
        with pytest.raises(ValueError, match=why):
            call()
    with pytest.raises(RuntimeError, match="without process=True"):
        _ = Broker(process=True).faults


def test_faults_that_are_called_off_do_not_happen(broker: Broker) -> None:
    broker.faults.refuse("Produce", "TOPIC_AUTHORIZATION_FAILED", times=1000)
    broker.faults.clear()
    assert send(producer(broker), "a") is None


@pytest.mark.parametrize("api_key", [0, 1, 2, 3, 8, 9, 10, 11, 13, 19, 20, 22, 24, 26, 28, 68])
def test_a_refusal_is_a_response_in_every_version(broker: Broker, api_key: int) -> None:
    entry = TABLE[api_key]
    for version in range(entry.min_version, entry.max_version + 1):
        request = filled(entry.request_type(), version)
        frame = refusal(request, version, ErrorCode.NOT_COORDINATOR).encode(version)
        response = entry.request_type.RESPONSE.decode(bytes(frame), version)
        assert error_codes(response), f"{entry.name} v{version}: {response}"
        assert set(error_codes(response)) <= {0, ErrorCode.NOT_COORDINATOR}
        assert ErrorCode.NOT_COORDINATOR in error_codes(response)


def filled(row: Any, version: int) -> Any:
    """A row in each list that the version has."""
    from moldau.common.protocol.schema import columns
    from moldau.testing.error_answers import _row_type

    for column in columns(type(row)):
        annotation = row.FIELDS[column.name][0]
        if not column.present(version) or not annotation.startswith("list["):
            continue
        row_type = _row_type(type(row), column.name)
        single: Any = 7 if "Int" in annotation else "x"
        setattr(row, column.name, [filled(row_type(), version) if row_type else single])
    return row


def error_codes(row: Any) -> list[int]:
    found = []
    for name in row.FIELDS:
        value = getattr(row, name)
        if name.endswith("error_code"):
            found.append(value)
        elif isinstance(value, list):
            for each in value:
                with contextlib.suppress(AttributeError):
                    found += error_codes(each)
    return found
