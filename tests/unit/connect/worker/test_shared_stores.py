"""The topics of a group of workers on a real broker."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from moldau.client.cluster import Cluster
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.settings import worker_configuration
from moldau.services.connect.stores.configs import Change, ConnectorChanged, connector_record, task_records
from moldau.services.connect.stores.kafka_log import KafkaLog, LogFailed, NotWritten
from moldau.services.connect.stores.offsets import KnownOffset
from moldau.services.connect.stores.shared import SharedStores
from moldau.services.connect.stores.statuses import WorkerStatus
from moldau.services.connect.stores.topics import TopicRefused
from moldau.testing import Broker

Make = Callable[..., SharedStores]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def make(broker: Broker) -> Iterator[Make]:
    made: list[SharedStores] = []

    def stores(group: str, changes: list[Change] | None = None, **more: str) -> SharedStores:
        seen: list[Change] = [] if changes is None else changes

        def take(found: Sequence[Change]) -> None:
            seen.extend(found)

        texts = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "key.converter": "j",
            "value.converter": "j",
            **{f"{each}.storage.topic": f"{group}-{each}" for each in ("config", "offset", "status")},
            **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
            "offset.storage.partitions": "3",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        configuration = worker_configuration(texts)
        found = SharedStores(configuration, lambda: Cluster(broker.bootstrap_servers))
        made.append(found)
        found.start(take)
        return found

    yield make_closing(stores)
    for each in made:
        each.close()


def make_closing(stores: Make) -> Make:
    return stores


def test_what_one_worker_writes_another_reads(make: Make) -> None:
    changes: list[Change] = []
    one, other = make("a"), make("a", changes)
    one.write_configs([connector_record("c", {"x": "1"}), *task_records("c", [{"t": "0"}])], as_leader=True)
    other.read_configs(30)
    assert other.configs().connectors == {"c": {"x": "1"}}
    assert other.configs().tasks("c") == [TaskId("c", 0)]
    assert ConnectorChanged("c") in changes
    one.write_offsets("c", [KnownOffset({"f": 1}, {"p": 2})])
    assert other.offsets("c") == [KnownOffset({"f": 1}, {"p": 2})]
    late = make("a")
    assert late.configs().connectors == {"c": {"x": "1"}}
    assert late.offsets("c") == [KnownOffset({"f": 1}, {"p": 2})]


def test_a_leader_that_was_replaced_cannot_write(make: Make) -> None:
    old, new = make("b"), make("b")
    old.claim()
    old.write_configs([connector_record("c", {"by": "old"})], as_leader=True)
    new.claim()
    with pytest.raises(NotWritten) as refused:
        old.write_configs([connector_record("c", {"by": "zombie"})], as_leader=True)
    assert refused.value.fenced
    with pytest.raises(NotWritten) as again:  # it does not take the id back, and so fence who leads
        old.write_configs([connector_record("c", {"by": "zombie"})], as_leader=True)
    assert again.value.fenced
    new.write_configs([connector_record("d", {"by": "new"})], as_leader=True)
    assert {name: each["by"] for name, each in new.configs().connectors.items()} == {"c": "old", "d": "new"}
    old.claim()  # its group has made it the leader again
    old.write_configs([connector_record("e", {"by": "old"})], as_leader=True)


def test_a_record_that_is_too_large_costs_the_leader_nothing(make: Make) -> None:
    stores = make("h")
    stores.claim()
    with pytest.raises(NotWritten) as refused:
        stores.write_configs([connector_record("c", {"x": "y" * 2_000_000})], as_leader=True)
    assert not refused.value.fenced
    stores.write_configs([connector_record("c", {"x": "y"})], as_leader=True)
    assert stores.configs().connectors == {"c": {"x": "y"}}


def test_statuses_go_round(make: Make) -> None:
    stores = make("c")
    status = WorkerStatus(State.RUNNING, "w", 1)
    stores.put_task_status(TaskId("c", 0), status)
    stores._status_log.read_to_end(30)
    while stores.task_status(TaskId("c", 0)) is None:
        stores._status_log.read_to_end(30)
    assert stores.statuses_of_tasks("c") == {0: status}


def test_a_connector_may_have_a_topic_of_offsets_of_its_own(make: Make) -> None:
    stores = make("d")
    stores.write_offsets("c", [KnownOffset({"f": 1}, {"p": 1}), KnownOffset({"f": 2}, {"p": 1})])
    stores.write_offsets("c", [KnownOffset({"f": 1}, {"p": 5})], "own-offsets")
    assert sorted(str(each.offset) for each in stores.offsets("c", "own-offsets")) == ["{'p': 1}", "{'p': 5}"]
    stores.write_offsets("c", [KnownOffset({"f": 1}, None)], "own-offsets")
    assert stores.offsets("c", "own-offsets") == [KnownOffset({"f": 2}, {"p": 1})]


def test_a_topic_that_would_lose_connectors_is_refused(broker: Broker, make: Make) -> None:
    from moldau.client.admin.topics import create_topic

    with Cluster(broker.bootstrap_servers) as cluster:
        create_topic(cluster, "e-config", partitions=1, replication_factor=1)
        create_topic(
            cluster, "f-config", partitions=2, replication_factor=1, configs={"cleanup.policy": "compact"}
        )
    with pytest.raises(TopicRefused, match=r"cleanup\.policy=delete"):
        make("e")
    with pytest.raises(TopicRefused, match="single partition"):
        make("f")
    with pytest.raises(TopicRefused, match=r"config\.storage\.replication\.factor"):
        make("g", config_storage_replication_factor="3")


def test_a_topic_that_cannot_be_read_leaves_no_thread_behind(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connector's own topic of offsets, which is asked for again and again."""
    stores = make("own-fails")
    read_to_end = KafkaLog.read_to_end

    def never(log: KafkaLog, seconds: float) -> None:
        if log.topic == "own-of-c":
            raise TimeoutError("no answer")
        read_to_end(log, seconds)

    monkeypatch.setattr(KafkaLog, "read_to_end", never)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            stores.offsets("c", "own-of-c")
    assert "connect-own-of-c" not in [each.name for each in threading.enumerate()]
    monkeypatch.setattr(KafkaLog, "read_to_end", read_to_end)
    assert stores.offsets("c", "own-of-c") == []


def test_no_one_waits_for_a_cluster_that_is_away_longer_than_he_said() -> None:
    log = KafkaLog("t", lambda kind: {}, lambda: Cluster("127.0.0.1:1"), lambda *_: None, client_id="x")
    log._positions = {0: 0}
    began = time.monotonic()
    try:
        for _ in range(2):
            with pytest.raises((LogFailed, TimeoutError)):
                log.read_to_end(1.0)
        with log._asking_lock, pytest.raises(TimeoutError):
            log.read_to_end(0.1)
    finally:
        log.close()
    assert time.monotonic() - began < 60
