"""`moldau transactions` against a live broker: what producers do is seen, and what a lost one left is freed.

A hanging transaction is made as it came about before KIP-890: a batch of a transaction reaches a partition
that its coordinator was never told of. Brokers only take it with the verification switched off.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client_confluent import create_topic
from client_model import eventually
from confluent_kafka import KafkaException, Producer
from raw_client import RawClient

from bench.brokers import BrokerProcess
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

PRODUCE, PRODUCE_VERSION = 0, 9
LOST_PRODUCER_ID = 4711
Run = Callable[..., subprocess.CompletedProcess[bytes]]


def runner(bootstrap: str) -> Run:
    """Runs `moldau WORDS...` against a broker; `code` is the exit code that is expected."""

    def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
        finished = subprocess.run(
            [sys.executable, "-m", "moldau", *words, "-b", bootstrap],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert finished.returncode == code, finished.stderr.decode()
        return finished

    return run


@pytest.fixture
def moldau(bootstrap: str) -> Run:
    return runner(bootstrap)


def as_json(finished: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(finished.stdout)


def open_transaction(bootstrap: str, topic: str, transactional_id: str, partition: int = 0) -> Producer:
    """A producer with an open transaction of three records."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 50_000,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for index in range(3):
        producer.produce(topic, b"%d" % index, partition=partition)
    assert producer.flush(30) == 0
    return producer


def test_a_transaction_is_seen_from_its_beginning_to_its_end(moldau: Run, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, partitions=2)
    producer = open_transaction(bootstrap, topic, topic, partition=1)

    (listed,) = as_json(moldau("transactions", "list", "--pattern", topic, "--json"))
    assert (listed["transactional_id"], listed["state"]) == (topic, "Ongoing")
    assert as_json(moldau("status", "--json", "--http", "127.0.0.1:1"))["cluster"]["open_transactions"] >= 1
    number = str(listed["producer_id"])
    assert as_json(moldau("transactions", "list", "-s", "Ongoing", "--producer-id", number, "--json")) == [
        listed
    ]
    assert as_json(moldau("transactions", "list", "-s", "Empty", "--producer-id", number, "--json")) == []
    long_ones = moldau("transactions", "list", "--pattern", topic, "--duration-filter", "1h", "--json")
    assert as_json(long_ones) == []

    (described,) = as_json(moldau("transactions", "describe", topic, "--json"))
    assert described["partitions"] == [f"{topic}-1"]
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 50_000)
    assert 0 <= described["duration_ms"] < 60_000

    where = ("--topic", topic, "--partition", "1")
    (known,) = as_json(moldau("transactions", "describe-producers", *where, "--json"))
    assert known["producer_id"] == described["producer_id"]
    assert (known["start_offset"], known["last_sequence"]) == (0, 2)
    assert as_json(moldau("transactions", "find-hanging", *where, "--json")) == []

    producer.commit_transaction(30)
    eventually(
        lambda: as_json(moldau("transactions", "describe", topic, "--json"))[0]["state"] == "CompleteCommit"
    )
    (known,) = as_json(moldau("transactions", "describe-producers", *where, "--json"))
    assert known["start_offset"] is None
    text = moldau("transactions", "describe", topic).stdout.decode()
    assert text.split("\n")[0].split() == [
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    ]


def test_what_does_not_exist_is_named(moldau: Run, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    assert b"TRANSACTIONAL_ID_NOT_FOUND" in moldau("transactions", "describe", topic, code=1).stderr
    assert b"TRANSACTIONAL_ID_NOT_FOUND" in moldau("transactions", "terminate", topic, code=1).stderr
    assert b"is not a state" in moldau("transactions", "list", "-s", "Asleep", code=2).stderr
    assert b"not a regular expression" in moldau("transactions", "list", "--pattern", "[", code=2).stderr
    where = ("--topic", topic, "--partition")
    assert b"no partition 7" in moldau("transactions", "describe-producers", *where, "7", code=1).stderr
    refused = moldau("transactions", "abort", *where, "0", "--start-offset", "3", code=1)
    assert b"no transaction that begins at offset 3" in refused.stderr
    assert b"identify the transaction" in moldau("transactions", "abort", *where, "0", code=2).stderr


def test_a_known_transaction_is_ended_as_a_whole_and_its_producer_fenced(
    moldau: Run, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic)
    producer = open_transaction(bootstrap, topic, topic)
    refused = moldau(
        "transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0", code=1
    )
    assert b"terminate" in refused.stderr

    done = moldau("transactions", "terminate", topic).stdout.decode()
    assert done.startswith(f"Terminated {topic}: was Ongoing;")
    (described,) = as_json(moldau("transactions", "describe", topic, "--json"))
    assert (described["state"], described["partitions"]) == ("Empty", [])
    assert described["timeout_ms"] == 50_000
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(30)
    assert caught.value.args[0].name() in ("_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
    assert moldau("consume", topic, "-e", "--read-committed").stdout == b""


def test_a_file_is_produced_whole_or_not_at_all(
    moldau: Run, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, max_message_bytes="1000")
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("1\n2\n")
    bad.write_text("3\n" + "x" * 5_000 + "\n")
    name = ("--transactional-id", topic)
    assert b"needs --acks all" in moldau("produce", topic, str(good), *name, "-a", "1", code=2).stderr
    moldau("produce", topic, str(good), *name)
    refused = moldau("produce", topic, str(bad), *name, code=1).stderr
    assert b"MSG_SIZE_TOO_LARGE" in refused
    assert b"the transaction is aborted" in refused
    assert moldau("consume", topic, "-e", "--read-committed").stdout == b"1\n2\n"
    (described,) = as_json(moldau("transactions", "describe", topic, "--json"))
    assert described["state"] == "CompleteAbort"


@pytest.fixture
def unverified(private_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A broker that believes a producer that a transaction is open."""
    return private_broker(transaction_partition_verification_enable="false")


def leave_hanging(bootstrap: str, topic: str, age_ms: int) -> None:
    """Write a batch of a transaction of which no coordinator knows."""
    records = [Record(0, time.time_ns() // 1_000_000 - age_ms, None, b"lost", ())]
    batch = build_batch(
        records, producer_id=LOST_PRODUCER_ID, producer_epoch=3, base_sequence=0, transactional=True
    )
    with RawClient(bootstrap) as raw:
        answer = raw.call(
            PRODUCE,
            PRODUCE_VERSION,
            transactional_id="lost",
            acks=-1,
            timeout=10_000,
            topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": batch}]}],
        )
    assert int(answer.responses[0].partition_responses[0].error_code) == 0


def test_a_hanging_transaction_is_found_and_freed(unverified: BrokerProcess, topic: str) -> None:
    moldau, bootstrap = runner(unverified.address), unverified.address
    create_topic(bootstrap, topic)
    leave_hanging(bootstrap, topic, age_ms=20 * 60_000)
    young = moldau("transactions", "find-hanging", "--topic", topic, "--max-transaction-timeout", "30")
    assert young.stdout == b""

    moldau("produce", topic, "-q", "-k", "key", "--tombstone")
    assert moldau("consume", topic, "-e", "--read-committed", "-f", "%o").stdout == b""

    (found,) = as_json(moldau("transactions", "find-hanging", "--json"))
    assert (found["topic"], found["partition"], found["producer_id"]) == (topic, 0, LOST_PRODUCER_ID)
    assert (found["producer_epoch"], found["coordinator_epoch"], found["start_offset"]) == (3, -1, 0)
    assert found["duration_minutes"] == 20
    said = moldau("transactions", "find-hanging", "--broker-id", "1").stderr.decode()
    remedy = f"moldau transactions abort --topic {topic} --partition 0 --start-offset 0"
    assert f"abort it with: {remedy}" in said

    nowhere = ("--http", "127.0.0.1:1")
    judged = as_json(moldau("status", "--json", *nowhere, code=1))
    assert (judged["status"], judged["cluster"]["hanging_transactions"]) == ("degraded", [f"{topic}-0"])

    moldau(*remedy.split()[1:])
    assert as_json(moldau("transactions", "find-hanging", "--json")) == []
    assert as_json(moldau("status", "--json", *nowhere))["cluster"]["hanging_transactions"] == []
    offsets = moldau("consume", topic, "-e", "--read-committed", "-f", "%o:%k ").stdout
    assert offsets == b"1:key "


def test_a_hanging_transaction_is_freed_by_its_producers_numbers(
    unverified: BrokerProcess, topic: str
) -> None:
    moldau, bootstrap = runner(unverified.address), unverified.address
    create_topic(bootstrap, topic)
    leave_hanging(bootstrap, topic, age_ms=0)
    where = ("--topic", topic, "--partition", "0")
    outdated = (
        "--producer-id",
        str(LOST_PRODUCER_ID),
        "--producer-epoch",
        "2",
        "--coordinator-epoch",
        "-1",
    )
    assert b"INVALID_PRODUCER_EPOCH" in moldau("transactions", "abort", *where, *outdated, code=1).stderr
    current = tuple("3" if word == "2" else word for word in outdated)
    moldau("transactions", "abort", *where, *current)
    (known,) = as_json(moldau("transactions", "describe-producers", *where, "--json"))
    assert known["start_offset"] is None
