"""What holds back read_committed readers: who is named, for how long, and when nothing may be said."""

import pytest
from monitor_world import (
    FakePartition,
    FakePendingMarkers,
    FakeProducerState,
    FakeTransaction,
    World,
)

from moldau.broker.monitor.open_transactions import HANGING_SEEN_MS
from moldau.broker.monitor.transaction_probe import MARKERS_MS_MAX, OVERDUE_MS_MAX

PRODUCER = 7


@pytest.fixture
def world() -> World:
    return World()


def open_in_log(world: World, offset: int = 120, producer_id: int = PRODUCER) -> FakePartition:
    """orders-0 has a transaction open from `offset` on."""
    (partition,) = world.replicas.all
    partition.high_watermark = 200
    partition.log.producers.ongoing[offset] = producer_id
    partition.log.producers.states[producer_id] = FakeProducerState(world.clock.now_ms())
    return partition


def coordinate(world: World, *places: tuple[str, int], timeout_ms: int = 60_000) -> FakeTransaction:
    """The coordinator has the producer's transaction, in these partitions, since now."""
    transaction = FakeTransaction("billing", PRODUCER, frozenset(places), world.clock.now_ms(), timeout_ms)
    world.transactions.all.append(transaction)
    return transaction


def causes(world: World) -> dict[str, str]:
    return {cause.name: cause.message for cause in world.health.verdict().causes}


def figure(world: World, name: str) -> str:
    (line,) = [line for line in world.metrics().splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return line.rpartition(" ")[2]


def test_a_transaction_that_no_coordinator_knows_is_hanging_and_its_remedy_is_said(world: World) -> None:
    open_in_log(world)
    assert causes(world) == {}
    world.clock.advance(HANGING_SEEN_MS - 1)
    assert causes(world) == {}
    world.clock.advance(1)
    message = causes(world)["transaction-hanging"]
    assert "producer 7 holds back read_committed readers of orders-0 at offset 120 since 10 s" in message
    assert "moldau transactions abort --topic orders --partition 0 --start-offset 120" in message
    assert figure(world, "moldau_partitions_held_back_hanging") == "1"


def test_it_is_as_old_as_its_producers_last_record_where_the_broker_was_restarted(world: World) -> None:
    partition = open_in_log(world)
    partition.log.producers.states[PRODUCER] = FakeProducerState(world.clock.now_ms() - 500_000)
    causes(world)
    world.clock.advance(HANGING_SEEN_MS)
    assert "since 510 s" in causes(world)["transaction-hanging"]


def test_a_producer_whose_transaction_is_elsewhere_leaves_it_hanging(world: World) -> None:
    open_in_log(world)
    coordinate(world, ("orders", 1))
    causes(world)
    world.clock.advance(HANGING_SEEN_MS)
    assert "transaction-hanging" in causes(world)


@pytest.mark.parametrize("why", ["loading", "another leads", "no coordinator yet", "offline"])
def test_what_another_coordinator_may_know_is_not_called_hanging(world: World, why: str) -> None:
    partition = open_in_log(world)
    if why == "loading":
        world.transactions.whole = False
    elif why == "another leads":
        partition.leader = 2
    elif why == "offline":
        partition.online = False
    else:
        world.sources.transactions = None
    causes(world)
    world.clock.advance(10 * HANGING_SEEN_MS)
    assert "transaction-hanging" not in causes(world)


def test_a_transaction_that_ends_is_forgotten_and_the_next_is_seen_anew(world: World) -> None:
    partition = open_in_log(world)
    causes(world)
    world.clock.advance(HANGING_SEEN_MS - 1)
    partition.log.producers.ongoing = {150: PRODUCER}
    assert causes(world) == {}
    world.clock.advance(1)
    assert causes(world) == {}


def test_an_ordinary_transaction_is_no_condition_but_counted(world: World) -> None:
    open_in_log(world)
    coordinate(world, ("orders", 0))
    world.clock.advance(50_000)
    assert causes(world) == {}
    assert figure(world, "moldau_partitions_held_back") == "1"
    assert figure(world, "moldau_partitions_held_back_hanging") == "0"
    assert figure(world, "moldau_partitions_held_back_oldest_seconds") == "50.0"
    assert figure(world, "kafka_cluster_partition_laststableoffsetlag") == "80"


def test_a_long_one_is_named_with_its_places_and_its_timeout(world: World) -> None:
    open_in_log(world)
    other = FakePartition("orders", 1)
    other.log.producers.ongoing[3] = PRODUCER
    world.replicas.all.append(other)
    coordinate(world, ("orders", 0), ("orders", 1), timeout_ms=900_000)
    world.clock.advance(300_000)
    assert causes(world) == {}
    world.clock.advance(1_000)
    assert causes(world) == {
        "transaction-open-long": "transaction 'billing' of producer 7 holds back read_committed readers of "
        "orders-0, orders-1 since 301 s (its timeout is 900 s); end it with "
        "`moldau transactions terminate billing`"
    }
    world.transaction_age_ms_max = 600_000
    assert causes(world) == {}


def test_one_that_outlives_its_timeout_is_named_whatever_is_allowed(world: World) -> None:
    open_in_log(world)
    coordinate(world, ("orders", 0), timeout_ms=10_000)
    world.clock.advance(10_000 + OVERDUE_MS_MAX)
    assert causes(world) == {}
    world.clock.advance(1)
    assert "transaction-open-long" in causes(world)


def test_many_hanging_ones_are_counted_not_listed(world: World) -> None:
    world.replicas.all = [FakePartition("orders", index) for index in range(5)]
    for partition in world.replicas.all:
        partition.log.producers.ongoing[0] = PRODUCER
    causes(world)
    world.clock.advance(HANGING_SEEN_MS)
    messages = [each.message for each in world.health.verdict().causes]
    assert len(messages) == 4
    assert "2 more partitions" in " ".join(messages)


@pytest.mark.parametrize(
    "pending",
    [FakePendingMarkers(2, 3, MARKERS_MS_MAX + 1), FakePendingMarkers(2, 3, 5, stopped=1)],
)
def test_late_markers_are_said(world: World, pending: FakePendingMarkers) -> None:
    world.transactions.pending = FakePendingMarkers(2, 3, MARKERS_MS_MAX)
    assert causes(world) == {}
    world.transactions.pending = pending
    assert (
        "2 decided transactions have no marker yet in 3 partitions"
        in causes(world)["transaction-markers-late"]
    )
    assert figure(world, "moldau_transaction_markers_pending") == "3"


def test_every_kind_of_end_is_shown_from_the_beginning(world: World) -> None:
    world.transactions.ended = {"committed": 5, "timed-out": 1}
    lines = [
        line for line in world.metrics().splitlines() if line.startswith("moldau_transactions_ended_total{")
    ]
    assert lines == [
        'moldau_transactions_ended_total{how="committed"} 5',
        'moldau_transactions_ended_total{how="aborted"} 0',
        'moldau_transactions_ended_total{how="fenced"} 0',
        'moldau_transactions_ended_total{how="timed-out"} 1',
    ]
