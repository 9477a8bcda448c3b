"""What monitoring says of a cluster: which broker is missing, since when, and what it costs."""

import random

import pytest
from monitor_world import FakeFetcher, FakePartition, World, topic_of
from prometheus_client.parser import text_string_to_metric_families

from moldau.broker.metadata.image import NO_LEADER, BrokerState, Image, PartitionState, TopicState
from moldau.broker.metadata.store import StoreStatus
from moldau.broker.monitor import cluster_watch
from moldau.broker.monitor.cluster_watch import BEHIND, GONE, OFFLINE, SHUTTING_DOWN, ClusterWatch
from moldau.common.core.clock import ManualClock

STARTED = "since 2023-11-14 22:13:20 UTC"
LATER = "since 2023-11-14 22:14:20 UTC"


@pytest.fixture
def world() -> World:
    return World()


def broker(node_id: int, **named: object) -> BrokerState:
    return BrokerState(node_id, node_id, {"PLAINTEXT": ("host", 9092)}, **named)  # type: ignore[arg-type]


def state(isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3), **named: object) -> PartitionState:
    leader = named.pop("leader", isr[0] if isr else NO_LEADER)
    return PartitionState(leader, 0, 0, replicas, isr, **named)  # type: ignore[arg-type]


def image(*topics: TopicState, version: int = 1, controller_id: int = 1, **brokers: BrokerState) -> Image:
    members = {node_id: broker(node_id) for node_id in (1, 2, 3)}
    members.update({one.node_id: one for one in brokers.values()})
    return Image(
        version=version,
        cluster_id="cluster",
        controller_id=controller_id,
        brokers=members,
        topics={topic.name: topic for topic in topics},
    )


def messages(world: World) -> list[tuple[str, str]]:
    return [(cause.name, cause.message) for cause in world.health.verdict().causes]


def test_a_dead_broker_is_one_condition_with_a_count(world: World) -> None:
    whole = topic_of("a", *[state((1, 2, 3))] * 1000)
    world.image = image(whole)
    assert messages(world) == []
    world.clock.advance(60_000)
    world.image = image(topic_of("a", *[state((1, 3))] * 1000), two=broker(2, fenced=True))
    told = f"broker 2 is gone {LATER}: 1000 partitions lack its in-sync replica (a-0, a-1, a-2 and 997 more)"
    assert messages(world) == [("under-replicated", told)]
    world.clock.advance(60_000)
    assert messages(world) == [("under-replicated", told)], "since then, and not since the last look"
    world.image = image(topic_of("a", *[state((1, 3))] * 1000))
    ((name, message),) = messages(world)
    assert name == "under-replicated"
    assert f"broker 2 does not keep up, or is catching up {LATER}: 1000 partitions" in message
    world.image = image(whole)
    assert messages(world) == []


def test_each_broker_is_named_with_its_own_cause(world: World) -> None:
    topic = topic_of("a", state((1, 2)), state((1, 3), (1, 3, 4)), state((2,), (2, 5)))
    topic = topic._replace(topic_id=b"t" * 16)
    world.image = image(
        topic,
        four=broker(4, offline={topic.topic_id: (1,)}),
        five=broker(5, shutting_down=True),
    )
    behind = f"does not keep up, or is catching up {STARTED}"
    assert [message for _, message in messages(world)] == [
        f"broker 3 {behind}: 1 partition lacks its in-sync replica (a-0)",
        f"broker 4 has an offline log directory {STARTED}: 1 partition lacks its in-sync replica (a-1)",
        f"broker 5 is shutting down {STARTED}: 1 partition lacks its in-sync replica (a-2)",
    ]


def test_a_replica_that_a_reassignment_adds_is_not_missed(world: World) -> None:
    moving = state((1, 2), (1, 2, 3), original=(1, 2), target=(1, 3))
    world.image = image(topic_of("a", moving))
    assert messages(world) == []
    text = world.metrics()
    assert "moldau_reassigning_partitions 1" in text
    assert "kafka_server_replicamanager_reassigningpartitions 1" in text
    assert "kafka_server_replicamanager_underreplicatedpartitions 0" in text
    world.image = image(topic_of("a", state((1,), (1, 2, 3), original=(1, 2), target=(1, 3))))
    ((name, message),) = messages(world)
    assert name == "under-replicated"
    assert message.startswith("broker 2")


def test_a_broker_that_is_gone_and_holds_nothing(world: World) -> None:
    world.image = image(topic_of("a", state((1,), (1,))), three=broker(3, fenced=True))
    assert messages(world) == [("broker-gone", f"broker 3 is gone {STARTED}")]


def test_a_seat_that_stays_vacant(world: World) -> None:
    world.image = image(controller_id=3)
    assert messages(world) == []
    world.clock.advance(60_000)
    world.image = image(controller_id=3, three=broker(3, fenced=True))
    assert [name for name, _ in messages(world)] == ["broker-gone"], "another one takes it in a moment"
    world.clock.advance(11_000)
    assert ("no-controller", f"no live broker is the controller {LATER}; the last was broker 3") in messages(
        world
    )
    world.image = image(controller_id=2, three=broker(3, fenced=True))
    assert [name for name, _ in messages(world)] == ["broker-gone"]


def test_the_metadata_store(world: World) -> None:
    name = "ZooKeeper at zoo:2181"
    for status, expected in (
        (StoreStatus(name, True, 9.0, 12.0), []),
        (StoreStatus(name, True, 9.0, 1700.0), [("metadata-store-slow", "took 1.7 s for its last answer")]),
        (StoreStatus(name, False, 0.5, 12.0), []),
        (StoreStatus(name, False, 75.0, 1700.0), [("metadata-store-lost", "is not reached for 75 s")]),
    ):
        world.store_status = status
        assert messages(world) == [(found, f"{name} {message}") for found, message in expected]
    assert "moldau_metadata_store_up 0" in world.metrics()
    assert world.health.verdict().word == "degraded", "what is led here is served"


def test_fetches_from_leaders_that_fail(world: World) -> None:
    world.image = image(three=broker(3, fenced=True))
    now_ms = world.clock.monotonic_ms()
    world.fetcher = FakeFetcher(failed=[(2, now_ms, "connection refused"), (3, now_ms, "timed out")])
    assert [name for name, _ in messages(world)] == ["broker-gone"], "not at once"
    world.clock.advance(5_000)
    unreachable = [message for name, message in messages(world) if name == "leader-unreachable"]
    assert unreachable == [
        f"fetches from broker 2, which is registered, fail {STARTED}: connection refused"
    ], "of a broker that is gone the other conditions tell"


def test_in_sync_sets_that_flap(world: World) -> None:
    whole, shrunk = [topic_of("a", *[state(isr)] * 50) for isr in ((1, 2, 3), (1, 2))]
    for _ in range(2):
        for each in (whole, shrunk):
            world.clock.advance(5_000)
            world.image = image(each)
            assert "in-sync-flapping" not in world.names()
    world.image = image(whole)
    world.names()
    world.clock.advance(5_000)
    world.image = image(shrunk)
    found = dict(messages(world))
    assert found["in-sync-flapping"] == "broker 3 left in-sync sets 3 times in 10 minutes, while it lived"
    world.clock.advance(600_000)
    assert "in-sync-flapping" not in world.names()


def test_a_broker_that_dies_again_and_again_does_not_flap(world: World) -> None:
    for _ in range(5):
        world.image = image(topic_of("a", state((1, 2, 3))))
        world.names()
        world.clock.advance(5_000)
        world.image = image(topic_of("a", state((1, 2))), three=broker(3, fenced=True))
        assert world.names() == ["under-replicated"]


def test_leaders_that_are_uneven_for_long(world: World) -> None:
    uneven = [state((1, 2, 3))] * 60 + [state((2, 1, 3), (2, 1, 3))] * 20 + [state((3, 1, 2), (3, 1, 2))] * 10
    world.image = image(topic_of("a", *uneven))
    assert world.names() == []
    world.clock.advance(600_000)
    assert messages(world) == [
        ("leaders-uneven", "broker 1 leads 60 of 90 partitions; evenly spread over 3 brokers it would be 30")
    ]
    found = {
        sample.labels["broker"]: sample.value
        for family in text_string_to_metric_families(world.metrics())
        for sample in family.samples
        if sample.name == "moldau_broker_leaders"
    }
    assert found == {"1": 60, "2": 20, "3": 10}
    world.image = image(topic_of("a", *[state((1, 2, 3))] * 10))
    assert world.names() == [], "a few are no load"


def test_the_health_page_has_every_broker(world: World) -> None:
    world.image = image(topic_of("a", state((1, 2))), three=broker(3, fenced=True, rack="r3"))
    world.store_status = StoreStatus("ZooKeeper at zoo:2181", True, 5.04, 1.26)
    facts = world.health.facts()
    assert facts["members"] == [
        {"id": 1, "rack": None, "state": "live", "since": None, "leaders": 1, "replicas": 1},
        {"id": 2, "rack": None, "state": "live", "since": None, "leaders": 0, "replicas": 1},
        {
            "id": 3,
            "rack": "r3",
            "state": "gone",
            "since": "2023-11-14 22:13:20 UTC",
            "leaders": 0,
            "replicas": 1,
        },
    ]
    assert facts["metadata_store"] == {
        "name": "ZooKeeper at zoo:2181",
        "up": True,
        "since_seconds": 5.0,
        "latency_ms": 1.3,
    }


def test_lags_of_followers(world: World) -> None:
    one, other = FakePartition("a", 0), FakePartition("a", 1)
    world.fetcher = FakeFetcher([(one, 2, 7), (other, 3, 0)], [(3, 0.0, "refused")])
    world.fetcher.counts.bytes_fetched = 99
    world.replicas.in_sync_counts.shrinks = 4
    text = world.metrics()
    tag = 'clientId="ReplicaFetcherThread-0-2",topic="a",partition="0"'
    for line in (
        'kafka_server_replicafetchermanager_maxlag{clientId="Replica"} 7',
        'kafka_server_replicafetchermanager_failedpartitionscount{clientId="Replica"} 1',
        f"kafka_server_fetcherlagmetrics_consumerlag{{{tag}}} 7",
        "kafka_server_brokertopicmetrics_replicationbytesin_total 99",
        "kafka_server_replicamanager_isrshrinks_total 4",
    ):
        assert line in text.splitlines()


def test_partitions_that_may_not_lose_another_replica(world: World) -> None:
    """Of those that this broker leads; a partition that has all its replicas is as safe as it can be."""
    for isr, replicas, minimum, leader, expected in (
        ((1, 2), (1, 2, 3), 2, 1, ["at-min-isr"]),
        ((1, 2), (1, 2, 3), 2, 2, []),
        ((1, 2), (1, 2), 2, 1, []),
        ((1, 2), (1, 2, 3), 1, 1, []),
        ((1,), (1, 2, 3), 2, 1, ["under-min-isr"]),
    ):
        world.replicas.all = [FakePartition("a", 0, isr=isr, replicas=replicas, leader=leader)]
        world.replicas.all[0].log.settings.min_insync_replicas = minimum
        assert world.names() == expected, (isr, replicas, minimum, leader)


# The watch by itself


def recounted(of: Image) -> tuple[dict[int, int], dict[int, int], dict[int, int], int]:
    """Leaders, replicas and missing replicas by broker, and partitions without a leader, counted anew."""
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    missing: dict[int, int] = {}
    leaderless = 0
    for topic in of.topics.values():
        for each in topic.partitions:
            leaderless += each.leader == NO_LEADER
            if each.leader != NO_LEADER:
                leaders[each.leader] = leaders.get(each.leader, 0) + 1
            for node_id in each.replicas:
                replicas[node_id] = replicas.get(node_id, 0) + 1
                if node_id not in each.isr:
                    missing[node_id] = missing.get(node_id, 0) + 1
    return leaders, replicas, missing, leaderless


def seen(watch: ClusterWatch) -> tuple[dict[int, int], dict[int, int], dict[int, int], int]:
    def some(counts: dict[int, int]) -> dict[int, int]:
        return {node_id: count for node_id, count in counts.items() if count}

    missing = {trouble.node_id: trouble.partition_count for trouble in watch.troubles()}
    return some(watch.leaders), some(watch.replicas), missing, watch.leaderless()[0]


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_what_is_followed_is_what_is_counted_anew(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """Whatever changes, and however few partitions a look takes: topics grow, go, and come back as others."""
    monkeypatch.setattr(cluster_watch, "PARTITIONS_AT_ONCE", at_once)
    source, watch = random.Random(7), ClusterWatch(ManualClock())
    current = image()
    for version in range(2, 60):
        topics = dict(current.topics)
        name = source.choice("abc")
        if source.random() < 0.3:
            topics.pop(name, None)
        else:
            states = []
            for _ in range(source.randrange(1, 5)):
                replicas = tuple(source.sample(range(1, 6), 3))
                states.append(state(replicas[: source.randrange(4)], replicas))
            known = topics.get(name)
            topic = TopicState(name, source.randbytes(16), tuple(states))
            if known is not None and source.random() < 0.7:
                topic = TopicState(name, known.topic_id, known.partitions[:1] + topic.partitions)
            topics[name] = topic
        current = current._replace(version=version, topics=topics)
        watch.look(current)
        if source.random() < 0.3:
            for _ in range(100):
                watch.look(current)
            assert seen(watch) == recounted(current)


def test_a_look_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_watch, "PARTITIONS_AT_ONCE", 100)
    watch = ClusterWatch(ManualClock())
    whole = image(topic_of("a", *[state((1, 2))] * 250))
    counts = []
    for _ in range(4):
        watch.look(whole)
        counts.append(sum(trouble.partition_count for trouble in watch.troubles()))
    assert counts == [100, 200, 250, 250]


def test_causes() -> None:
    watch = ClusterWatch(ManualClock())
    topic = topic_of("a", state((), (1, 2, 3, 4), elr=(1,)))._replace(topic_id=b"t" * 16)
    watch.look(
        image(
            topic,
            one=broker(1, fenced=True),
            two=broker(2, shutting_down=True),
            three=broker(3, offline={b"t" * 16: (0,)}),
            four=broker(4),
        )
    )
    causes = [(trouble.node_id, trouble.cause) for trouble in watch.troubles()]
    assert causes == [(1, GONE), (2, SHUTTING_DOWN), (3, OFFLINE), (4, BEHIND)]
