"""librdkafka's share consumer on a queue: every record is accepted once, counts are right, and what was
confirmed never comes again, also after kill -9 and when leaders and coordinators die."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from conftest import KIND
from share_queue import ACCEPT, REJECT, RELEASE, Worker, lag, make_topic, set_group, until, write

from moldau.testing import Broker, Cluster
from moldau.tools.kafka.programs import share_groups

pytest.importorskip("confluent_kafka", minversion="2.15")
pytestmark = [
    pytest.mark.skipif(KIND != "moldau", reason="starts its own brokers"),
    pytest.mark.timeout(400),
]
SHORT_LOCKS = {"group.share.min.record.lock.duration.ms": "1000"}


@pytest.fixture
def queue() -> Iterator[Broker]:
    with Broker(SHORT_LOCKS) as one:
        yield one


def test_more_members_than_partitions_share_the_records(queue: Broker) -> None:
    servers = queue.bootstrap_servers
    make_topic(servers, "jobs", 1)
    set_group(servers, "workers", share_auto_offset_reset="earliest")
    values = [f"v{n}" for n in range(600)]
    write(servers, "jobs", values)
    workers = [Worker(servers, "workers", "jobs", lambda value, count: ACCEPT) for _ in range(3)]
    until(lambda: sum(len(each.accepted) for each in workers) >= len(values), "all records are accepted")
    for value in (f"w{n}" for n in range(30)):
        write(servers, "jobs", [value])
        values.append(value)
    until(lambda: sum(len(each.accepted) for each in workers) >= len(values), "the new ones too")
    for each in workers:
        each.close()
    accepted = sum((each.accepted for each in workers), Counter())
    assert accepted == Counter(values)
    assert all(count == 1 for each in workers for _, count in each.seen)


def test_released_records_come_again_as_often_as_the_group_allows(queue: Broker) -> None:
    servers = queue.bootstrap_servers
    make_topic(servers, "jobs", 2)
    set_group(servers, "workers", share_auto_offset_reset="earliest", share_delivery_count_limit="4")
    values = [
        *(f"third-{n}" for n in range(5)),
        *(f"never-{n}" for n in range(5)),
        *(f"bad-{n}" for n in range(5)),
    ]
    write(servers, "jobs", values)

    def decide(value: str, count: int) -> int:
        if value.startswith("bad"):
            return REJECT
        return ACCEPT if value.startswith("third") and count == 3 else RELEASE

    worker = Worker(servers, "workers", "jobs", decide)
    until(lambda: len(worker.seen) >= 5 * 3 + 5 * 4 + 5, "all deliveries")
    write(servers, "jobs", ["third-last"])
    until(lambda: worker.accepted["third-last"], "the record behind them")
    worker.close()
    counts = {value: [count for each, count in worker.seen if each == value] for value in values}
    assert {value: seen for value, seen in counts.items() if value.startswith("third")} == {
        f"third-{n}": [1, 2, 3] for n in range(5)
    }
    assert {value: seen for value, seen in counts.items() if value.startswith("never")} == {
        f"never-{n}": [1, 2, 3, 4] for n in range(5)
    }
    assert {value: seen for value, seen in counts.items() if value.startswith("bad")} == {
        f"bad-{n}": [1] for n in range(5)
    }


def test_what_a_member_held_when_it_died_or_slept_comes_again(queue: Broker) -> None:
    from confluent_kafka import ShareConsumer

    servers = queue.bootstrap_servers
    make_topic(servers, "jobs", 1)
    set_group(servers, "workers", share_auto_offset_reset="earliest", share_record_lock_duration_ms="1000")
    write(servers, "jobs", ["a", "b"])
    sleeper = ShareConsumer(
        {"bootstrap.servers": servers, "group.id": "workers", "share.acknowledgement.mode": "explicit"}
    )
    sleeper.subscribe(["jobs"])
    held: list[str] = []
    until(
        lambda: held.extend(each.value().decode() for each in sleeper.poll(0.5) or ()) or len(held) == 2,
        "both",
    )
    worker = Worker(servers, "workers", "jobs", lambda value, count: ACCEPT)
    until(lambda: set(worker.accepted) == {"a", "b"}, "their locks have ended")
    assert [count for _, count in worker.seen] == [2, 2]
    worker.close()
    sleeper.close()


def test_nothing_that_was_confirmed_comes_again_after_kill_9() -> None:
    with Broker(SHORT_LOCKS, process=True) as broker:
        servers = broker.bootstrap_servers
        make_topic(servers, "jobs", 2)
        set_group(servers, "workers", share_auto_offset_reset="earliest")
        values = [f"v{n}" for n in range(400)]
        write(servers, "jobs", values)
        workers = [
            Worker(servers, "workers", "jobs", lambda value, count: ACCEPT, **{"max.poll.records": 20})
            for _ in range(2)
        ]
        until(lambda: sum(len(each.accepted) for each in workers) >= 60, "some are accepted")
        broker.kill()
        confirmed = set().union(*(each.accepted for each in workers))
        seen_before = [len(each.seen) for each in workers]
        broker.restart()
        until(lambda: lag(servers, "workers") == 0, "the rest", 150)
        for each in workers:
            each.close()
        again = {value for each, n in zip(workers, seen_before, strict=True) for value, _ in each.seen[n:]}
        assert not again & confirmed


@pytest.mark.slow
def test_leaders_and_coordinators_die() -> None:
    settings = {
        **SHORT_LOCKS,
        "share.coordinator.state.topic.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
    }
    with Cluster(3, settings) as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("jobs", partitions=3)
        set_group(
            servers, "workers", share_auto_offset_reset="earliest", share_record_lock_duration_ms="5000"
        )
        values = [f"v{n}" for n in range(900)]
        write(servers, "jobs", values[:300])
        workers = [
            Worker(servers, "workers", "jobs", lambda value, count: ACCEPT, **{"max.poll.records": 10})
            for _ in range(4)
        ]

        def accepted() -> set[str]:
            return set().union(*(set(each.accepted) for each in workers))

        def doubtful() -> set[str]:
            return set().union(*(each.doubtful for each in workers))

        for number, node_id in enumerate((1, 2, 3)):
            batch = set(values[number * 300 : (number + 1) * 300])
            if number:
                write(servers, "jobs", sorted(batch))
            until(lambda batch=batch: len(accepted() & batch) >= 60, "some of this round", 150)
            cluster.kill(node_id)
            confirmed, marks = accepted(), [len(each.seen) for each in workers]
            until(lambda: lag(servers, "workers") == 0, f"all of round {number}", 200)
            until(lambda batch=batch: accepted() | doubtful() >= batch, f"every record of round {number}")
            again = {value for each, n in zip(workers, marks, strict=True) for value, _ in each.seen[n:]}
            assert not again & confirmed
            cluster.restart(node_id)
            cluster.wait_until_in_sync()
        for each in workers:
            each.close()
        assert accepted() | doubtful() == set(values)
        assert len(accepted()) > len(values) / 2


def test_the_commands_show_and_move_a_group(queue: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    servers = queue.bootstrap_servers

    def said(*words: str) -> str:
        share_groups.main(["--bootstrap-server", servers, *words])
        return capsys.readouterr().out

    make_topic(servers, "jobs", 2)
    set_group(servers, "workers", share_auto_offset_reset="earliest")
    write(servers, "jobs", [f"v{n}" for n in range(20)])
    worker = Worker(servers, "workers", "jobs", lambda value, count: ACCEPT)
    until(lambda: lag(servers, "workers") == 0, "all are accepted")
    assert re.search(r"workers\s+Stable", said("--list", "--state"))
    members = said("--describe", "--group", "workers", "--members", "--verbose")
    assert re.search(r"workers\s+\S+\s+/127.0.0.1\s+rdkafka\s+2\s+\d+\s+jobs:0,1\n", members)
    reset = ("--reset-offsets", "--group", "workers", "--to-earliest", "--execute")
    assert "is not empty" in said(*reset)
    worker.close()
    rows = re.findall(r"workers\s+jobs\s+(\d)\s+(\d+)\s+(\d+)", said("--describe", "--group", "workers"))
    assert [(row[0], row[2]) for row in rows] == [("0", "0"), ("1", "0")]
    assert sum(int(row[1]) for row in rows) == 20
    assert re.search(r"workers\s+jobs\s+1\s+0\n", said(*reset))
    assert lag(servers, "workers") == 20
    worker = Worker(servers, "workers", "jobs", lambda value, count: ACCEPT)
    until(lambda: len(worker.accepted) == 20, "all again")
    worker.close()
    assert re.search(r"jobs\s+Successful", said("--delete-offsets", "--group", "workers", "--topic", "jobs"))
    assert "successful" in said("--delete", "--group", "workers")
    assert said("--list") == ""
    assert "GroupIdNotFoundException" in said("--describe", "--group", "workers")


def test_transactions_deleted_records_and_a_topic_made_anew(queue: Broker) -> None:
    servers = queue.bootstrap_servers
    make_topic(servers, "jobs", 1)
    set_group(
        servers, "committed", share_auto_offset_reset="earliest", share_isolation_level="read_committed"
    )
    set_group(servers, "all", share_auto_offset_reset="earliest")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "x"})
    producer.init_transactions(60)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for n in range(5):
            producer.produce("jobs", f"{number}-{n}".encode())
        producer.flush(60)
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
    producer.begin_transaction()
    producer.produce("jobs", b"open")
    producer.flush(60)
    workers = {
        group: Worker(servers, group, "jobs", lambda value, count: ACCEPT) for group in ("committed", "all")
    }
    until(
        lambda: len(workers["committed"].accepted) >= 10 and len(workers["all"].accepted) >= 16, "both groups"
    )
    assert set(workers["committed"].accepted) == {f"{number}-{n}" for number in (0, 2) for n in range(5)}
    producer.commit_transaction(60)
    until(lambda: workers["committed"].accepted["open"], "the last transaction")
    until(lambda: lag(servers, "committed") == lag(servers, "all") == 0, "markers hold back no start")
    for each in workers.values():
        each.close()
    write(servers, "jobs", [f"d{n}" for n in range(20)])
    admin = AdminClient({"bootstrap.servers": servers})
    for deleted in admin.delete_records([TopicPartition("jobs", 0, 30)]).values():
        deleted.result(60)
    worker = Worker(servers, "committed", "jobs", lambda value, count: ACCEPT)
    until(lambda: worker.accepted["d19"], "what is left")
    assert set(worker.accepted) == {f"d{n}" for n in range(10, 20)}
    admin.delete_topics(["jobs"])["jobs"].result(60)
    until(lambda: "jobs" not in admin.list_topics(timeout=30).topics, "the topic is gone")
    make_topic(servers, "jobs", 2)
    write(servers, "jobs", ["again-1", "again-2"])
    until(lambda: worker.accepted["again-1"] and worker.accepted["again-2"], "the topic made anew")
    worker.close()
