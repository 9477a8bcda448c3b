"""Consumers read from an in-sync replica in their rack (KIP-392): where they are sent, and what they find."""

import asyncio
import time
from pathlib import Path

import pytest
from brokers_world import Brokers, answered, ask, client_of, send, until, with_brokers

from moldau.broker.log.log import Origin
from moldau.broker.metadata.changes import BrokerFenced, PartitionChanged
from moldau.broker.metadata.image import PartitionState
from moldau.broker.replication.partition import Partition
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record

SELECTOR = {"replica_selector_class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
LEADER, FOLLOWER = 1, 2
VERSION = 12
FOLLOWER_VERSION = 17  # with the follower's broker epoch
MANY = 300


def batch(size_bytes: int = 10, **named: object) -> memoryview:
    record = Record(0, int(time.time() * 1000), None, b"x" * size_bytes, ())
    return memoryview(build_batch([record], **named))  # type: ignore[arg-type]


def fetch(
    offset: int = 0,
    rack: str = "rack-2",
    leader_epoch: int = -1,
    wait_ms: int = 0,
    min_bytes: int = 1,
    count: int = 1,
    **named: object,
) -> FetchRequest:
    rows = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            current_leader_epoch=leader_epoch,
            partition_max_bytes=1 << 20,
        )
        for index in range(count)
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        rack_id=rack,
        topics=[FetchTopic(topic="t", partitions=rows)],
        **named,
    )


def row(answer: FetchResponse) -> tuple[int, int, int]:
    """Error code, high watermark and preferred replica of the first partition."""
    first = answer.responses[0].partitions[0]
    return first.error_code, first.high_watermark, first.preferred_read_replica


def copied(brokers: Brokers, follower: int = FOLLOWER, index: int = 0) -> None:
    """The follower fetches once from the leader: appends what is new, and hears its high watermark."""
    copy, leader = brokers.partition(follower, index=index), brokers.partition(LEADER, index=index)
    epoch = brokers.nodes[follower].controller.this_broker.broker_epoch
    read = leader.read(
        copy.log.log_end_offset,
        1 << 20,
        committed=False,
        first=True,
        leader_epoch=leader.leader_epoch,
        replica_id=follower,
        broker_epoch=epoch,
        replica_start_offset=copy.log.log_start_offset,
    )
    assert read.error_code == 0
    copy.append_as_follower(
        memoryview(read.records), copy.leader_epoch, read.high_watermark, int(time.time() * 1000)
    )


async def written(partition: Partition, data: memoryview) -> None:
    end_offset = partition.log.log_end_offset
    assert partition.append(data, int(time.time() * 1000), -1).error_code == 0
    await until(lambda: partition.log.written_end_offset > end_offset)


async def changed(brokers: Brokers, **named: object) -> PartitionState:
    node = brokers.nodes[LEADER]
    state = node.metadata.image.topics["t"].partitions[0]
    new = state._replace(partition_epoch=state.partition_epoch + 1, **named)  # type: ignore[arg-type]
    await brokers.decided(PartitionChanged("t", 0, new))
    return new


async def three_records(brokers: Brokers, *followers: int) -> None:
    """Records 0 to 2 are committed; the followers have them, and know that."""
    await brokers.topic("t", (LEADER, *followers))
    for _ in range(3):
        await written(brokers.partition(LEADER), batch())
    for _ in range(3):
        for follower in followers:
            copied(brokers, follower)
    assert {brokers.partition(each).high_watermark for each in (LEADER, *followers)} == {3}


@pytest.mark.parametrize("version", [10, 11, 12, 18])
def test_a_consumer_is_sent_to_the_replica_in_its_rack(tmp_path: Path, version: int) -> None:
    async def scene(brokers: Brokers) -> None:
        await three_records(brokers, FOLLOWER)
        node = brokers.nodes[LEADER]

        def request(rack: str, wait_ms: int = 0) -> FetchRequest:
            wanted = fetch(rack=rack, wait_ms=wait_ms, min_bytes=1 << 20)
            if version >= 13:
                wanted.topics[0].topic_id = node.metadata.image.topics["t"].topic_id
            return wanted

        sent_away = version >= 11
        answer = await ask(node, request("rack-2", 60_000 if sent_away else 0), version)
        assert row(answer) == (0, 3, FOLLOWER if sent_away else -1)
        assert bool(answer.responses[0].partitions[0].records) is not sent_away
        for rack in ("", "rack-1", "rack-9"):
            answer = await ask(node, request(rack), version)
            assert row(answer) == (0, 3, -1)
            assert answer.responses[0].partitions[0].records

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replicates=False, **SELECTOR)


def test_without_a_selector_nobody_is_sent_away(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await three_records(brokers, FOLLOWER)
        answer = await ask(brokers.nodes[LEADER], fetch(), VERSION)
        assert row(answer) == (0, 3, -1)
        assert answer.responses[0].partitions[0].records

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replicates=False)


def test_only_replicas_that_have_the_offset_are_in_sync_and_can_be_reached_are_chosen(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await three_records(brokers, 2, 3)
        node, leader = brokers.nodes[LEADER], brokers.partition(LEADER)

        async def chosen(offset: int = 0, listener: str = "PLAINTEXT") -> int:
            answer = await ask(node, fetch(offset, "shared"), VERSION, listener)
            assert answer.responses[0].partitions[0].error_code == 0
            return int(answer.responses[0].partitions[0].preferred_read_replica)

        assert await chosen() == 3, "of equals the highest id"
        await written(leader, batch())
        copied(brokers, 2)
        copied(brokers, 2)
        assert await chosen() == 2, "its log reaches furthest"
        assert await chosen(4) == 2, "the other does not have the offset"
        assert await chosen(4, "OTHER") == 2
        await brokers.decided(BrokerFenced(2, True))
        assert await chosen() == 3
        assert await chosen(4) == -1
        await changed(brokers, isr=(1, 2))
        assert await chosen() == -1
        # A follower that begins later than the offset would answer OFFSET_OUT_OF_RANGE.
        await brokers.decided(BrokerFenced(2, False))
        assert await chosen() == 2
        copy = brokers.partition(2)
        copy.log.increment_log_start_offset(2)
        copied(brokers, 2)
        assert await chosen(1) == -1
        assert await chosen(2) == 2

    async def with_racks(brokers: Brokers) -> None:
        await brokers.start(1, broker_rack="alone")
        await brokers.start(2, 3, broker_rack="shared")
        await scene(brokers)

    with_brokers(tmp_path, (), with_racks, replicates=False, **SELECTOR)


@pytest.mark.parametrize("count", [1, MANY])
def test_a_session_tells_the_replica_though_nothing_else_is_new(tmp_path: Path, count: int) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", *[(LEADER, FOLLOWER)] * count)
        client = client_of(brokers.nodes[LEADER])
        request = fetch(rack="", session_epoch=0, count=count)
        opened = await answered(client, request, send(client, request, VERSION))
        copied(brokers)
        request = fetch(session_id=opened.session_id, session_epoch=1, count=0, wait_ms=60_000)
        answer = await answered(client, request, send(client, request, VERSION))
        assert row(answer) == (0, 0, FOLLOWER)
        assert sum(len(topic.partitions) for topic in answer.responses) == 1

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replicates=False, **SELECTOR)


@pytest.mark.parametrize(("version", "served"), [(10, False), (11, True), (18, True)])
def test_a_follower_serves_consumers(tmp_path: Path, version: int, served: bool) -> None:
    async def scene(brokers: Brokers) -> None:
        await three_records(brokers, FOLLOWER)
        node = brokers.nodes[FOLLOWER]
        wanted = fetch()
        if version >= 13:
            wanted.topics[0].topic_id = node.metadata.image.topics["t"].topic_id
        answer = await ask(node, wanted, version)
        data = answer.responses[0].partitions[0]
        if served:
            assert (data.error_code, data.high_watermark, data.preferred_read_replica) == (0, 3, -1)
            assert data.records == bytes(brokers.partition(LEADER).log.reader.read(0, 1 << 20, end_offset=3))
        else:
            assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replicates=False)


def test_a_follower_gives_what_is_committed_as_far_as_it_knows(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await three_records(brokers, FOLLOWER)
        node, leader = brokers.nodes[FOLLOWER], brokers.partition(LEADER)
        await written(leader, batch())
        copied(brokers)
        assert brokers.partition(FOLLOWER).log.log_end_offset == 4
        answer = await ask(node, fetch(3), VERSION)
        assert row(answer) == (0, 3, -1)
        assert not answer.responses[0].partitions[0].records, "it does not know that this is committed"
        assert row(await ask(node, fetch(4), VERSION)) == (0, 3, -1)
        assert row(await ask(node, fetch(5), VERSION))[0] == ErrorCode.OFFSET_NOT_AVAILABLE
        # The leader finds out first whether it still leads.
        told = [row(await ask(brokers.nodes[LEADER], fetch(5), VERSION))[0]]
        assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        while told[-1] == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            await asyncio.sleep(0.001)
            told.append(row(await ask(brokers.nodes[LEADER], fetch(5), VERSION))[0])
        assert told[-1] == ErrorCode.OFFSET_OUT_OF_RANGE
        brokers.partition(FOLLOWER).log.increment_log_start_offset(2)
        assert row(await ask(node, fetch(1), VERSION))[0] == ErrorCode.OFFSET_OUT_OF_RANGE
        for leader_epoch, error_code in ((0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
            answer = await ask(node, fetch(2, leader_epoch=leader_epoch), VERSION)
            assert row(answer)[0] == error_code

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replicates=False)


@pytest.mark.parametrize("count", [1, MANY])
def test_a_fetch_that_waits_at_a_follower_is_woken_by_its_high_watermark(tmp_path: Path, count: int) -> None:
    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", *[(LEADER, FOLLOWER)] * count)
        client = client_of(brokers.nodes[FOLLOWER])
        request = fetch(wait_ms=60_000, min_bytes=600, count=count)
        version = send(client, request, VERSION)
        await until(lambda: brokers.partition(FOLLOWER).parked.consumers)
        for number in range(3):
            await written(brokers.partition(LEADER), batch(100))
            copied(brokers)
            copied(brokers)
            assert brokers.partition(FOLLOWER).high_watermark == number + 1
            assert not client.transport.sent, "fewer bytes than it waits for"
        await written(brokers.partition(LEADER), batch(100))
        copied(brokers)
        assert not client.transport.sent, "they are not committed yet"
        copied(brokers)
        answer = await answered(client, request, version)
        assert row(answer) == (0, 4, -1)
        assert len(answer.responses[0].partitions[0].records) > 600

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replicates=False)


def test_a_fetch_that_waits_at_a_follower_hears_of_a_new_leader(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await three_records(brokers, FOLLOWER, 3)
        clients = [client_of(brokers.nodes[3]) for _ in range(2)]
        requests = [fetch(3, wait_ms=60_000, leader_epoch=epoch) for epoch in (0, -1)]
        for client, request in zip(clients, requests, strict=True):
            send(client, request, VERSION)
        await changed(brokers, leader=FOLLOWER, leader_epoch=1)
        codes = [
            row(await answered(client, request, VERSION))[0]
            for client, request in zip(clients, requests, strict=True)
        ]
        assert codes == [ErrorCode.FENCED_LEADER_EPOCH, 0]

    with_brokers(tmp_path, (LEADER, FOLLOWER, 3), scene, replicates=False)


def test_a_follower_that_is_out_of_sync_sends_consumers_to_the_leader(tmp_path: Path) -> None:
    async def scene(brokers: Brokers) -> None:
        await three_records(brokers, FOLLOWER)
        await changed(brokers, isr=(LEADER,))
        request = fetch(3, wait_ms=60_000)
        request.topics[0].topic_id = brokers.nodes[LEADER].metadata.image.topics["t"].topic_id
        answer = await ask(brokers.nodes[FOLLOWER], request, 18)
        assert row(answer)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.responses[0].partitions[0].current_leader.leader_id == LEADER
        assert row(await ask(brokers.nodes[LEADER], fetch(), VERSION)) == (0, 3, -1)

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replicates=False, **SELECTOR)


def test_read_committed_at_a_follower(tmp_path: Path) -> None:
    """The last stable offset and the aborted transactions are those of the follower's own log."""

    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (LEADER, FOLLOWER))
        leader, node = brokers.partition(LEADER), brokers.nodes[FOLLOWER]
        await written(leader, batch())
        begin = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        leader.append(batch(**begin), int(time.time() * 1000), -1, Origin.COORDINATOR)
        await until(lambda: leader.log.written_end_offset == 2)
        for _ in range(2):
            copied(brokers)
        client = client_of(node)
        committed = fetch(1, isolation_level=1, wait_ms=60_000)
        version = send(client, committed, VERSION)
        stable = await ask(node, fetch(isolation_level=1), VERSION)
        data = stable.responses[0].partitions[0]
        assert (data.high_watermark, data.last_stable_offset) == (2, 1)
        assert data.records == bytes(leader.log.reader.read(0, 1 << 20, end_offset=1))
        assert not client.transport.sent
        marker = EndTransactionMarker(ControlType.ABORT, 0)
        assert leader.append_marker(marker, 7, 0, int(time.time() * 1000)).error_code == 0
        await until(lambda: leader.log.written_end_offset == 3)
        for _ in range(2):
            copied(brokers)
        answer = await answered(client, committed, version)
        data = answer.responses[0].partitions[0]
        assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 3, 3)
        assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions] == [(7, 1)]

    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replicates=False)


@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize("selects", [True, False])
def test_a_followers_fetch_is_answered_when_the_high_watermark_moves(
    tmp_path: Path, count: int, selects: bool
) -> None:
    """Its consumers wait for that. Without a selector there are none, and it hears of it later."""

    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", *[(LEADER, FOLLOWER, 3)] * count)
        node, leader = brokers.nodes[LEADER], brokers.partition(LEADER)
        await written(leader, batch())
        client = client_of(node)

        def request(session_id: int, session_epoch: int, offset: int = 0, rows: int = 1) -> FetchRequest:
            wanted = fetch(offset, "", 0, 60_000, count=rows, session_id=session_id)
            wanted.session_epoch = session_epoch
            epoch = brokers.nodes[FOLLOWER].controller.this_broker.broker_epoch
            wanted.replica_state = ReplicaState(replica_id=FOLLOWER, replica_epoch=epoch)
            wanted.topics[0].topic_id = node.metadata.image.topics["t"].topic_id
            return wanted

        opened = await answered(
            client, request(0, 0, rows=count), send(client, request(0, 0, rows=count), FOLLOWER_VERSION)
        )
        assert opened.responses[0].partitions[0].records
        version = send(client, request(opened.session_id, 1, offset=1), FOLLOWER_VERSION)
        await until(lambda: leader.parked.followers)
        assert leader.high_watermark == 0
        copied(brokers, 3)
        copied(brokers, 3)
        await until(lambda: leader.high_watermark == 1)
        if selects:
            answer = await answered(client, request(opened.session_id, 1), version)
            assert row(answer) == (0, 1, -1)
            version = send(client, request(opened.session_id, 2, offset=1), FOLLOWER_VERSION)
            await until(lambda: leader.parked.followers)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not client.transport.sent, "there is nothing new"

    settings = SELECTOR if selects else {}
    with_brokers(tmp_path, (LEADER, FOLLOWER, 3), scene, replicates=False, **settings)


def test_a_consumer_of_a_cluster_that_replicates(tmp_path: Path) -> None:
    """Sent away by the leader, it reads from the follower what is acknowledged."""

    async def scene(brokers: Brokers) -> None:
        await brokers.topic("t", (LEADER, FOLLOWER))
        leader = brokers.partition(LEADER)
        client, consumer = client_of(brokers.nodes[LEADER]), client_of(brokers.nodes[FOLLOWER])
        for offset in range(3):
            request = fetch(offset, wait_ms=60_000)
            send(consumer, request, VERSION)
            await written(leader, batch())
            await until(lambda: leader.high_watermark == leader.log.log_end_offset)
            answer = await answered(consumer, request, VERSION)
            assert row(answer)[0] == 0
            assert answer.responses[0].partitions[0].records
            request = fetch(offset + 1, wait_ms=60_000)
            assert row(await answered(client, request, send(client, request, VERSION)))[2] == FOLLOWER

    # A leader that did not tell followers of its high watermark would let the consumer wait for a minute.
    with_brokers(tmp_path, (LEADER, FOLLOWER), scene, replica_fetch_wait_max_ms="60000", **SELECTOR)
