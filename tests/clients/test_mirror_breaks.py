"""Mirrors when something breaks or changes: kill -9, a source that is away or made anew, deletions,
transactions that are open at a failover."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from mirror_world import Pair, make_topic, produce, read, stored, wait_for

from moldau.testing import Broker

pytestmark = pytest.mark.client


@pytest.fixture
def pair() -> Iterator[Pair]:
    with Broker() as source, Broker() as target:
        yield Pair(source.bootstrap_servers, target)


def transactional(servers: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(30)
    return producer


def test_open_transactions_are_aborted_at_a_failover(pair: Pair) -> None:
    make_topic(pair.source, "orders")
    done, hanging = transactional(pair.source, "done"), transactional(pair.source, "hanging")
    done.begin_transaction()
    done.produce("orders", b"kept")
    done.commit_transaction(30)
    done.begin_transaction()
    done.produce("orders", b"dropped")
    done.flush(30)
    done.abort_transaction(30)
    hanging.begin_transaction()
    hanging.produce("orders", b"hangs")
    hanging.flush(30)
    produce(pair.source, "orders", ["plain"])
    pair.create("orders")
    pair.wait_level("orders", 6)
    (row,) = pair.topic("orders").partitions
    assert (row.open_transactions, row.stable_offset) == (1, 4)
    committed = {"isolation.level": "read_committed"}
    assert pair.act("failover") == {"orders": ""}
    topic = pair.wait_state("orders", "failed-over")
    assert (topic.partitions[0].open_transactions, topic.partitions[0].stable_offset) == (0, 7)
    produce(pair.target.bootstrap_servers, "orders", ["here"])
    values = [value for _, value in read(pair.target.bootstrap_servers, "orders", count=3, **committed)]
    assert values == ["kept", "plain", "here"]
    hanging.commit_transaction(30)  # at the source; here it changes nothing
    assert pair.act("reverse") == {"orders": ""}
    pair.wait_state("orders", "mirroring")
    pair.wait_level("orders", 7)
    values = [value for _, value in read(pair.target.bootstrap_servers, "orders", count=3, **committed)]
    assert values == ["kept", "hangs", "plain"]


def test_a_topic_made_anew_is_a_fault_and_what_is_here_stays(pair: Pair) -> None:
    make_topic(pair.source, "orders")
    produce(pair.source, "orders", ["1", "2"])
    pair.create("orders")
    pair.wait_level("orders", 2)
    admin = AdminClient({"bootstrap.servers": pair.source})
    admin.delete_topics(["orders"])["orders"].result(30)
    make_topic(pair.source, "orders")
    produce(pair.source, "orders", ["other"] * 5)
    topic = pair.wait_state("orders", "faulted")
    assert "made anew" in topic.reason
    assert [value for _, value in read(pair.target.bootstrap_servers, "orders", count=2)] == ["1", "2"]
    pair.act("failover")
    pair.wait_state("orders", "failed-over")


def test_deleted_records_go_here_too_and_a_mirror_begins_where_the_source_does(pair: Pair) -> None:
    make_topic(pair.source, "orders")
    produce(pair.source, "orders", [str(each) for each in range(10)])
    admin = AdminClient({"bootstrap.servers": pair.source})
    delete = lambda offset: admin.delete_records([TopicPartition("orders", 0, offset)])  # noqa: E731
    for future in delete(4).values():
        future.result(30)
    pair.create("orders")
    pair.wait_level("orders", 10)
    assert pair.topic("orders").partitions[0].start_offset == 4
    for future in delete(7).values():
        future.result(30)
    wait_for("the start follows", lambda: pair.topic("orders").partitions[0].start_offset == 7)
    here = AdminClient({"bootstrap.servers": pair.target.bootstrap_servers})
    (refused,) = here.delete_records([TopicPartition("orders", 0, 9)]).values()
    with pytest.raises(Exception, match="POLICY_VIOLATION"):
        refused.result(30)


def test_a_copy_that_is_here_is_adopted_and_another_topic_is_not(pair: Pair) -> None:
    make_topic(pair.source, "orders")
    make_topic(pair.source, "other")
    produce(pair.source, "orders", ["1", "2"])
    produce(pair.source, "other", ["1", "2"])
    pair.create("orders")
    pair.wait_level("orders", 2)
    pair.act("failover")
    pair.wait_state("orders", "failed-over")
    assert pair.act("delete") == {}
    make_topic(pair.target.bootstrap_servers, "other")
    produce(pair.target.bootstrap_servers, "other", ["a", "b"])
    produce(pair.source, "orders", ["3"])
    problems = pair.create("orders,other")
    assert "--adopt" in problems["orders"]
    assert pair.create("orders,other", adopt=True) == {"orders": "", "other": ""}
    pair.wait_level("orders", 3)
    assert "another batch" in pair.wait_state("other", "faulted").reason


def test_the_old_source_becomes_a_mirror_of_the_new_one_and_back(tmp_path: Path) -> None:
    """Fail over, write here, fail back: what only the old source had is cut off there, and counted."""
    folders = tmp_path / "one", tmp_path / "two"
    with Broker(data=folders[0]) as one, Broker(data=folders[1]) as two:
        there = Pair(one.bootstrap_servers, two)
        make_topic(there.source, "orders")
        produce(there.source, "orders", ["1", "2", "3"])
        there.create("orders")
        there.wait_level("orders", 3)
        there.act("failover")
        there.wait_state("orders", "failed-over")
        produce(one.bootstrap_servers, "orders", ["lost", "lost too"])  # a producer that was not told
        produce(two.bootstrap_servers, "orders", ["4", "5", "6"])
        back = Pair(two.bootstrap_servers, one)
        assert back.create("orders", adopt=True) == {"orders": ""}
        back.wait_state("orders", "mirroring")
        back.wait_level("orders", 6)
        assert back.topic("orders").partitions[0].lost_records == 2
        produce(two.bootstrap_servers, "orders", ["7"])
        back.wait_level("orders", 7)
        assert stored(folders[0], "orders") == stored(folders[1], "orders")
        back.act("failover")
        back.wait_state("orders", "failed-over")
        produce(one.bootstrap_servers, "orders", ["8"])
        assert there.act("reverse") == {"orders": ""}
        there.wait_level("orders", 8)
        values = [value for _, value in read(two.bootstrap_servers, "orders", count=8)]
        assert values == ["1", "2", "3", "4", "5", "6", "7", "8"]
        assert stored(folders[0], "orders") == stored(folders[1], "orders")


def test_it_is_killed_and_goes_on_without_loss_or_doubles(tmp_path: Path) -> None:
    with (
        Broker(data=tmp_path / "source") as source,
        Broker(process=True, data=tmp_path / "target") as target,
    ):
        pair = Pair(source.bootstrap_servers, target)
        make_topic(pair.source, "orders", 2, segment_bytes="1048576")
        pair.create("orders")
        stopped = threading.Event()

        def load() -> None:
            producer = Producer({"bootstrap.servers": pair.source, "linger.ms": 1})
            number = 0
            while not stopped.is_set():
                producer.produce("orders", b"%d " % number * 50, partition=number % 2)
                number += 1
                if number % 500 == 0:
                    producer.flush(30)
                    stopped.wait(0.02)
            producer.flush(30)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            for round_number in range(4):
                before = 1 if not round_number else 5000 * round_number
                wait_for(
                    "it pulls",
                    lambda before=before: (
                        sum(each.end_offset for each in pair.topic("orders").partitions) > before
                    ),
                )
                target.kill()
                target.restart()
        finally:
            stopped.set()
            thread.join()
        ends = [len(read(pair.source, "orders", partition)) for partition in (0, 1)]
        pair.wait_level("orders", *ends)
        for partition in (0, 1):
            assert stored(tmp_path / "target", "orders", partition) == stored(
                tmp_path / "source", "orders", partition
            )


def test_a_source_that_is_away_is_told_of_and_mirrored_on_when_it_is_back(tmp_path: Path) -> None:
    with Broker(process=True, data=tmp_path / "source") as source, Broker() as target:
        pair = Pair(source.bootstrap_servers, target)
        make_topic(pair.source, "orders")
        produce(pair.source, "orders", ["1"])
        pair.create("orders", refresh_topics_interval_seconds="1")
        pair.wait_level("orders", 1)
        source.kill()
        wait_for("it is told", lambda: pair.topic("orders").partitions[0].problem)
        wait_for("the loss grows", lambda: (pair.topic("orders").partitions[0].lost_seconds or 0) > 2)
        source.start()
        produce(pair.source, "orders", ["2"])
        pair.wait_level("orders", 2)
        wait_for("all is well", lambda: not pair.topic("orders").partitions[0].problem)
