"""Workers that share connectors by Kafka's group protocol, on a real broker, with runtimes that run
nothing."""

from collections.abc import Iterator

import pytest
from confluent_kafka.cimpl import NewTopic
from worker.fakes import FakeRuntime, Peers, eventually, member

from moldau.client.cluster import Cluster
from moldau.connect import ConnectError, TopicPartition
from moldau.services.connect.herder.cluster import KafkaSide
from moldau.services.connect.herder.interface import HerderProblem, NotLeader
from moldau.services.connect.herder.worker import Worker
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.connect.runtime.setup import TaskSetup
from moldau.services.connect.runtime.spark_commits import SparkCommits
from moldau.services.connect.stores.shared import SharedStores
from moldau.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def everywhere(*runtimes: FakeRuntime) -> list[TaskId]:
    return sorted(task for runtime in runtimes for task in list(runtime.tasks))


def leader(*workers: Worker) -> Worker:
    eventually(lambda: any(each._membership.is_leader for each in workers))
    return next(each for each in workers if each._membership.is_leader)


def test_work_is_shared_and_moves_and_comes_back(broker: Broker) -> None:
    peers = Peers()
    one, first = member(broker.bootstrap_servers, "g", "http://one:1/", peers)
    other, second = member(broker.bootstrap_servers, "g", "http://other:2/", peers)
    try:
        chief = leader(one, other)
        follower = other if chief is one else one
        eventually(lambda: not chief._membership.is_rebalancing and not follower._membership.is_rebalancing)
        with pytest.raises(NotLeader) as sent_on:
            follower.put_config("c", {"tasks": "4", "tasks.max": "4"}, may_exist=False)
        assert sent_on.value.leader_url == chief._membership.leader_url.rstrip("/")
        chief.put_config("c", {"tasks": "4", "tasks.max": "4"}, may_exist=False)
        wanted = [TaskId("c", index) for index in range(4)]
        eventually(lambda: everywhere(first, second) == wanted)
        eventually(lambda: len(first.tasks) == len(second.tasks) == 2)
        before = dict(first.tasks), dict(second.tasks)
        first.started.clear()
        second.started.clear()
        chief.put_config("d", {"tasks": "1"}, may_exist=False)
        eventually(lambda: len(everywhere(first, second)) == 5)
        assert not {*first.started, *second.started} & {*before[0], *before[1]}
        eventually(lambda: len(follower.ask.status("c").tasks) == 4)
        follower.set_target("c", State.PAUSED)
        eventually(lambda: first.targets.get("c", State.PAUSED) is second.targets.get("c", State.PAUSED))
        other.close()
        eventually(lambda: len(first.tasks) == 5)
        third, again = member(broker.bootstrap_servers, "g", "http://other:2/", peers)
        try:
            eventually(lambda: len(again.tasks) in (2, 3) and len(everywhere(first, again)) == 5)
        finally:
            third.close()
    finally:
        one.close()


def test_a_leader_that_was_fenced_leads_again_when_its_group_says_so(broker: Broker) -> None:
    worker, runtime = member(broker.bootstrap_servers, "fenced", "http://one:1/", Peers())
    stores = worker._stores
    assert isinstance(stores, SharedStores)
    try:
        chief = leader(worker)
        chief.put_config("c", {"tasks": "1"}, may_exist=False)
        eventually(lambda: len(runtime.tasks) == 1)  # else its fencing would be what is refused
        other = SharedStores(stores._configuration, stores._connect)
        other.start(lambda changes: None)
        other.claim()
        other.close()
        generation = chief._membership.generation
        with pytest.raises(HerderProblem) as refused:
            chief.put_config("d", {"tasks": "1"}, may_exist=False)
        assert refused.value.status == 409

        def put() -> bool:
            try:
                chief.put_config("d", {"tasks": "1"}, may_exist=True)
            except HerderProblem as problem:
                return problem.status != 409
            return True

        eventually(put)
        assert chief._membership.generation != generation
    finally:
        worker.close()


def test_a_spark_driver_that_was_left_behind_does_not_undo_a_reset(broker: Broker) -> None:
    """Of a worker that slept, say: its connector was stopped, and its offsets reset, without it."""
    servers = broker.bootstrap_servers
    worker, _ = member(servers, "resets", "http://one:1/", Peers())
    setup = TaskSetup(TaskId("s", 0), {"topics": "t"}, {"bootstrap.servers": servers, "group.id": "resets"})
    consumer, admin = setup.consumer(), setup.admin()
    driver, place = SparkCommits(setup, consumer), TopicPartition("t", 0)
    try:
        admin.create_topics([NewTopic("t", 1)])["t"].result(30)
        leader(worker)
        worker.put_config("s", {"kind": "sink", "topics": "t"}, may_exist=False, target=State.STOPPED)
        driver.open([place])
        driver.commit({place: 5}, "", [])
        side = KafkaSide(lambda: Cluster(servers))
        assert side.group_offsets("connect-s") == {tuple(place): 5}
        worker.reset_offsets("s")
        with pytest.raises(ConnectError):
            driver.commit({place: 9}, "", [])
        assert side.group_offsets("connect-s") == {}
    finally:
        driver.close()
        consumer.close()
        worker.close()
