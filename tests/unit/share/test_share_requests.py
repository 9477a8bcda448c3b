"""ShareFetch and ShareAcknowledge at a real broker: what strangers tried."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from share_requests import Member, acquired, until

from moldau.broker.share import log_parts
from moldau.common.protocol.errors import ErrorCode
from moldau.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        yield one


def test_a_group_without_state_is_told_so_at_once(broker: Broker) -> None:
    member = Member(broker, "m", "nobody-joined")
    topic_id = member.make_topic("stateless")
    began = time.monotonic()
    row = member.fetch(topic_id, max_wait_ms=20_000)
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert time.monotonic() - began < 15


def test_what_a_parked_member_holds_is_free_when_its_connection_ends(broker: Broker) -> None:
    first, second = Member(broker, "first", "parked"), Member(broker, "second", "parked")
    topic_id = first.make_topic("parked")
    first.read_from_the_start()
    first.write("parked", 10)
    first.join("parked")
    assert acquired(first.fetch(topic_id)) == [(0, 9, 1)]
    first.connection.send(first.request(topic_id, max_wait_ms=600_000))
    assert acquired(second.fetch(topic_id, max_wait_ms=0)) == []
    first.connection.close()
    assert until(lambda: acquired(second.fetch(topic_id)), "the records are free") == [(0, 9, 2)]


def test_a_refused_part_of_many_acknowledgements_is_told(broker: Broker) -> None:
    member = Member(broker, "m", "many")
    topic_id = member.make_topic("many")
    member.read_from_the_start()
    member.write("many", 10)
    member.join("many")
    assert acquired(member.fetch(topic_id)) == [(0, 9, 1)]
    ends_later = [(0, 0, [1]), (1, 1, [1])] + [(2, 2, [1])] * 5000
    row = member.fetch(topic_id, max_wait_ms=0, acks=ends_later)
    assert row.acknowledge_error_code == ErrorCode.INVALID_REQUEST
    twice = member.request(topic_id, max_wait_ms=0, acks=[(3, 3, [1])])
    wrong = member.request(topic_id, max_wait_ms=0, acks=[(4, 400, [1])])
    twice.topics += wrong.topics
    member.session_epoch -= 1
    row = member.connection.ask(twice).responses[0].partitions[0]
    assert row.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE


def test_what_aborted_transactions_left_is_passed_without_waiting(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_parts, "BATCHES_MAX", 1)
    first, second = Member(broker, "first", "passing"), Member(broker, "second", "passing")
    topic_id = first.make_topic("passing")
    first.read_from_the_start()
    first.set_group("share.isolation.level", "read_committed")
    first.write("passing", 10)
    first.join("passing")
    assert acquired(first.fetch(topic_id)) == [(0, 9, 1)]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "passing"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("passing", b"aborted")
    producer.flush(60)
    producer.abort_transaction(60)
    first.write("passing", 1)
    began = time.monotonic()
    assert acquired(second.fetch(topic_id, max_wait_ms=25_000)) == [(12, 12, 1)]
    assert time.monotonic() - began < 20
