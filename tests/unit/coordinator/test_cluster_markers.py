"""Markers for partitions that other brokers lead: who gets which request, and what becomes of every answer,
of none, and of a leader that changes meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from fake_peers import FakePeers, Sent, turns

from moldau.broker.coordinator import cluster_markers
from moldau.broker.coordinator.cluster_markers import ClusterMarkers
from moldau.broker.coordinator.markers import Marker, TopicPartition
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, TopicState
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

HERE = 1
FIRST, SECOND = Marker(7, 0, 3, True, 2), Marker(8, 4, 3, False, 1)
NOBODY = -1


def image_of(*leaders: int, fenced: Sequence[int] = ()) -> Image:
    """A topic "beer" whose partitions have these leaders."""
    states = tuple(PartitionState(each, 0, 0, (1, 2, 3), (1, 2, 3)) for each in leaders)
    brokers = {node: BrokerState(node, 1, {}, fenced=node in fenced) for node in (1, 2, 3)}
    return Image(brokers=brokers, topics={"beer": TopicState("beer", bytes(16), states)})


class Here:
    """This broker's own partitions."""

    def __init__(self) -> None:
        self.wrote: list[tuple[Marker, list[TopicPartition]]] = []

    async def write(
        self, marker: Marker, partitions: Sequence[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        assert timeout_ms is not None, "partitions elsewhere would wait for one here that cannot commit"
        self.wrote.append((marker, list(partitions)))
        return dict.fromkeys(partitions, 0)


class World:
    def __init__(self, *leaders: int) -> None:
        self.image = image_of(*leaders)
        self.peers, self.here = FakePeers(), Here()
        self.markers = ClusterMarkers(HERE, lambda: self.image, self.here, self.peers)

    def write(self, marker: Marker, *indexes: int) -> "asyncio.Task[dict[TopicPartition, int]]":
        return asyncio.ensure_future(self.markers.write(marker, [("beer", each) for each in indexes]))

    def become(self, image: Image) -> None:
        self.image = image
        self.markers.image_changed(image)


def rows(sent: Sent) -> list[tuple[int, int, bool, int, int, list[int]]]:
    return [
        (
            row.producer_id,
            row.producer_epoch,
            row.transaction_result,
            row.coordinator_epoch,
            row.transaction_version,
            [index for topic in row.topics for index in topic.partition_indexes],
        )
        for row in sent.request.markers
    ]


def response(codes: dict[tuple[int, int], int]) -> WriteTxnMarkersResponse:
    """Error codes by producer id and partition."""
    producers: dict[int, list[WritableTxnMarkerPartitionResult]] = {}
    for (producer_id, index), code in codes.items():
        producers.setdefault(producer_id, []).append(
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
        )
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=each, topics=[WritableTxnMarkerTopicResult(name="beer", partitions=partitions)]
            )
            for each, partitions in producers.items()
        ]
    )


def codes(task: "asyncio.Task[dict[TopicPartition, int]]") -> dict[int, ErrorCode] | None:
    return {index: ErrorCode(code) for (_, index), code in task.result().items()} if task.done() else None


Scene = Callable[[], Coroutine[Any, Any, None]]


def scene(function: Scene) -> Callable[[], None]:
    """The test is a coroutine."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(function(), 60))

    run.__name__ = function.__name__
    return run


@scene
async def test_each_broker_gets_one_request_with_the_markers_of_a_turn() -> None:
    world = World(1, 2, 2, 3)
    first, second = world.write(FIRST, 0, 1, 2, 3), world.write(SECOND, 2)
    await turns()
    assert world.here.wrote == [(FIRST, [("beer", 0)])]
    (to_2,), (to_3,) = world.peers.to(2), world.peers.to(3)
    assert rows(to_2) == [(7, 0, True, 3, 2, [1, 2]), (8, 4, False, 3, 1, [2])]
    assert rows(to_3) == [(7, 0, True, 3, 2, [3])]
    assert codes(first) is codes(second) is None
    to_2.respond(response({(7, 1): 0, (7, 2): ErrorCode.NOT_LEADER_OR_FOLLOWER, (8, 2): 0}))
    await turns()
    assert codes(second) == {2: 0}
    assert codes(first) is None
    to_3.respond(response({(7, 3): 0}))
    await turns()
    assert codes(first) == {0: 0, 1: 0, 2: ErrorCode.NOT_LEADER_OR_FOLLOWER, 3: 0}


@scene
async def test_what_comes_while_a_request_is_under_way_shares_the_next() -> None:
    world = World(2, 2)
    tasks = [world.write(FIRST, 0)]
    await turns()
    tasks += [world.write(SECOND, 0), world.write(FIRST._replace(producer_id=9), 1)]
    await turns()
    assert len(world.peers.sent) == 1, "one in flight"
    world.peers.sent[0].respond(response({(7, 0): 0}))
    await turns()
    assert [rows(each) for each in world.peers.sent[1:]] == [
        [(8, 4, False, 3, 1, [0]), (9, 0, True, 3, 2, [1])]
    ]


@scene
async def test_two_markers_of_one_producer_do_not_share_a_request() -> None:
    """The response tells them apart by the producer's id alone."""
    world = World(2, 2)
    old, new = world.write(FIRST, 0), world.write(FIRST._replace(coordinator_epoch=5), 1)
    same = world.write(FIRST, 1)
    await turns()
    assert rows(world.peers.sent[0]) == [(7, 0, True, 3, 2, [0, 1])]
    world.peers.sent[0].respond(response({(7, 0): 0, (7, 1): ErrorCode.TRANSACTION_COORDINATOR_FENCED}))
    await turns()
    assert codes(old) == {0: 0}
    assert codes(same) == {1: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert codes(new) is None
    assert rows(world.peers.sent[1]) == [(7, 0, True, 5, 2, [1])]


@scene
async def test_a_partial_response_and_none_at_all_count_as_not_written() -> None:
    world = World(2, 2)
    partial = world.write(FIRST, 0, 1)
    await turns()
    world.peers.sent[0].respond(response({(7, 1): 0}))
    await turns()
    assert codes(partial) == {0: ErrorCode.NETWORK_EXCEPTION, 1: 0}
    lost = world.write(FIRST, 0)
    await turns()
    world.peers.sent[1].fail()
    await turns()
    assert codes(lost) == {0: ErrorCode.NETWORK_EXCEPTION}
    again = world.write(FIRST, 0)
    await turns()
    world.peers.sent[2].respond(response({(7, 0): 0}))
    await turns()
    assert codes(again) == {0: 0}


@scene
async def test_nobody_waits_for_a_broker_that_leads_no_longer() -> None:
    """Sent or only queued: broker 2 hangs, and broker 3 leads from now on. What 2 says later is nothing to
    anybody; what is for a partition that it still leads waits on."""
    world = World(2, 2, 2)
    sent = world.write(FIRST, 0, 1)
    await turns()
    queued = world.write(SECOND, 0)
    await turns()
    world.become(image_of(3, 2, 2))
    await turns()
    assert codes(queued) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert codes(sent) is None
    again = world.write(SECOND, 0)
    await turns()
    (to_3,) = world.peers.to(3)
    to_3.respond(response({(8, 0): 0}))
    await turns()
    assert codes(again) == {0: 0}
    world.peers.sent[0].respond(response({(7, 0): 0, (7, 1): 0}))
    await turns()
    assert codes(sent) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER, 1: 0}, "the answer of the old leader is late"
    assert len(world.peers.to(2)) == 1, "what was queued has been taken back"


@scene
async def test_without_a_leader_or_a_topic_it_is_said_at_once_and_when_it_happens() -> None:
    world = World(NOBODY, 2)
    task = world.write(FIRST, 0, 5)
    await turns()
    assert codes(task) == {0: ErrorCode.LEADER_NOT_AVAILABLE, 5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    world.become(image_of(2, 2, fenced=[2]))
    task = world.write(FIRST, 0)
    await turns()
    assert codes(task) == {0: ErrorCode.LEADER_NOT_AVAILABLE}
    assert not world.peers.sent

    world.become(image_of(2, 2))
    task = world.write(FIRST, 0, 1)
    await turns()
    world.become(image_of(NOBODY, 2))
    world.become(world.image._replace(topics={}))
    await turns()
    assert codes(task) == {0: ErrorCode.LEADER_NOT_AVAILABLE, 1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@scene
async def test_a_coordinator_that_gives_up_takes_back_what_is_queued() -> None:
    world = World(2, 2)
    keep = world.write(FIRST, 0)
    await turns()
    given_up = world.write(SECOND, 1)
    await turns()
    given_up.cancel()
    world.peers.sent[0].respond(response({(7, 0): 0}))
    await turns()
    assert codes(keep) == {0: 0}
    assert len(world.peers.sent) == 1


@scene
async def test_a_stop_answers_what_is_under_way_and_sends_nothing_more() -> None:
    world = World(2, 2)
    sent = world.write(FIRST, 0)
    await turns()
    queued = world.write(SECOND, 1)
    await turns()
    world.markers.close()
    late = world.write(SECOND, 0)
    await turns()
    assert codes(sent) == {0: ErrorCode.NETWORK_EXCEPTION}
    assert codes(queued) == {1: ErrorCode.NETWORK_EXCEPTION}
    assert codes(late) == {0: ErrorCode.NETWORK_EXCEPTION}
    assert len(world.peers.sent) == 1


def test_many_markers_are_cut_into_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_markers, "REQUEST_PARTITIONS_MAX", 10)

    async def main() -> None:
        world = World(*[2] * 25)
        task = world.write(FIRST, *range(25))
        for number in range(3):
            await turns()
            assert len(world.peers.sent) == number + 1
            indexes = rows(world.peers.sent[-1])[0][-1]
            assert len(indexes) == (10, 10, 5)[number]
            world.peers.sent[-1].respond(response({(7, index): 0 for index in indexes}))
        await turns()
        assert codes(task) == dict.fromkeys(range(25), 0)

    asyncio.run(main())
