"""Records that are refused: on the wire in every version of Produce, and what a client makes of it (KIP-467).

The codes and places are Apache Kafka 4.3.1's (`MOLDAU_TEST_BROKER=kafka` checks them); sentences are ours.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka.errors import InvalidRecordError, KafkaError
from raw_client import RawClient

from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

PRODUCE, LIST_OFFSETS = 0, 2
INVALID_TIMESTAMP, INVALID_REQUEST, INVALID_RECORD = 32, 42, 87
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """A compacted topic that takes records of the last hour and the next."""
    name = f"refused-{os.urandom(3).hex()}"
    limits = {
        "cleanup.policy": "compact",
        "message.timestamp.before.max.ms": str(HOUR_MS),
        "message.timestamp.after.max.ms": str(HOUR_MS),
    }
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=limits)])[name].result(20)
    return name


def batch(codec: str, rows: list[tuple[bytes | None, int]]) -> bytes:
    """A batch of these (key, milliseconds from now)."""
    now_ms = int(time.time() * 1000)
    records = [Record(index, now_ms + delta, key, b"v", ()) for index, (key, delta) in enumerate(rows)]
    return build_batch(records, compression=codec)


GOOD, KEYLESS, OLD, NEW = (b"k", 0), (None, 0), (b"k", -2 * HOUR_MS), (b"k", 2 * HOUR_MS)
CASES: list[tuple[list[Any], int, list[int]]] = [
    ([GOOD, GOOD, GOOD, KEYLESS, GOOD, GOOD, GOOD, KEYLESS, GOOD, GOOD], INVALID_RECORD, [3, 7]),
    ([KEYLESS] * 5, INVALID_RECORD, [0, 1, 2, 3, 4]),
    ([GOOD, GOOD, OLD, GOOD, NEW], INVALID_TIMESTAMP, [2, 4]),
    ([GOOD, KEYLESS, OLD, (None, -2 * HOUR_MS)], INVALID_TIMESTAMP, [1, 2, 3]),
]


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
@pytest.mark.parametrize(("rows", "code", "places"), CASES)
def test_the_answer_names_the_records_at_fault_in_every_version(
    bootstrap: str, topic: str, codec: str, rows: list[Any], code: int, places: list[int]
) -> None:
    with RawClient(bootstrap) as client:
        for version in range(7, 13):
            asked = {"name": topic, "partition_data": [{"index": 0, "records": batch(codec, rows)}]}
            answer = client.call(
                PRODUCE, version, transactional_id=None, acks=-1, timeout_ms=5000, topic_data=[asked]
            )
            (row,) = answer.responses[0].partition_responses
            assert (int(row.error_code), int(row.base_offset)) == (code, -1)
            if version >= 8:
                assert [int(each.batch_index) for each in row.record_errors] == places
                assert all(each.batch_index_error_message for each in row.record_errors)
                assert row.error_message


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_a_client_tells_the_culprit_from_its_neighbours(
    bootstrap: str, topic: str, codec: str | None, idempotent: bool
) -> None:
    """(librdkafka 2.16 gives all records of the batch INVALID_RECORD, from Kafka's answer too.)"""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        linger_ms=300,
        compression_type=codec,
        enable_idempotence=idempotent,
    )
    try:
        futures = [
            producer.send(topic, b"value", None if number == 6 else b"key", partition=0)
            for number in range(10)
        ]
        producer.flush(30)
        errors = [type(future.exception) for future in futures]
    finally:
        producer.close(5)
    assert errors.pop(6) is InvalidRecordError
    assert InvalidRecordError not in errors
    assert all(issubclass(error, KafkaError) for error in errors)


def test_a_partition_that_list_offsets_names_twice_has_one_row(bootstrap: str, topic: str) -> None:
    def row(index: int, timestamp: int) -> dict[str, int]:
        return {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}

    with RawClient(bootstrap) as client:
        low, high = client.advertised()[LIST_OFFSETS]
        for version in range(low, high + 1):
            asked = [{"name": topic, "partitions": [row(0, -1), row(0, 5), row(0, -1), row(7, -1)]}]
            answer = client.call(
                LIST_OFFSETS, version, replica_id=-1, isolation_level=0, topics=asked, timeout_ms=1000
            )
            rows = [each for topic in answer.topics for each in topic.partitions]
            found = {int(each.partition_index): int(each.error_code) for each in rows}
            assert len(rows) == 2
            assert found == {0: INVALID_REQUEST, 7: 3}
