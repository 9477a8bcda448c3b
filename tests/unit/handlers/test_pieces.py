"""Large requests to the coordinators are decided on a few rows at a time, and answered as one."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest
from data_plane_world import on_a_node

from moldau.broker.controller.topics import NewTopic
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.pieces import ROWS_AT_ONCE, by_ids, by_rows, cut, has_many_rows
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.broker.node import Node
from moldau.broker.stages.coordination import Coordination
from moldau.common.core.slow_lane import SlowLane, all_steps
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from moldau.common.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.common.protocol.messages.list_groups import ListGroupsRequest
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.common.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.common.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

COUNT = 300


def topic_of(name: str, *indexes: int) -> OffsetCommitRequestTopic:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=place)
        for place, index in enumerate(indexes)
    ]
    return OffsetCommitRequestTopic(name=name, partitions=rows)


def test_pieces_hold_so_many_rows_and_all_of_them_in_order() -> None:
    topics = [topic_of("a", *range(100)), topic_of("none"), *(topic_of(f"t{i}", 1) for i in range(70))]
    pieces = list(cut(topics, "partitions"))
    assert all(sum(max(1, len(part.partitions)) for _, part in piece) <= ROWS_AT_ONCE for piece in pieces)
    rows: dict[int, list[int]] = {}
    for piece in pieces:
        for place, part in piece:
            assert part.name == topics[place].name
            rows.setdefault(place, []).extend(row.partition_index for row in part.partitions)
    assert list(rows) == list(range(len(topics)))
    assert [rows[place] for place in rows] == [
        [row.partition_index for row in topic.partitions] for topic in topics
    ]
    assert has_many_rows(topics, "partitions")
    assert not has_many_rows(topics[1:3], "partitions")


def test_each_slice_asks_for_one_piece() -> None:
    asked: list[int] = []
    turns = 0

    def ask(topics: list[Any]) -> Any:
        asked.append(turns)
        return [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=row.partition_index)
                    for row in topic.partitions
                ],
            )
            for topic in topics
        ]

    async def scene() -> list[Any]:
        nonlocal turns
        task = asyncio.ensure_future(by_rows(SlowLane(0.0), [topic_of("t", *range(1000))], "partitions", ask))
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        return task.result()

    (topic,) = asyncio.run(scene())
    assert [row.partition_index for row in topic.partitions] == list(range(1000))
    assert len(asked) == -(-1000 // ROWS_AT_ONCE)
    assert len(set(asked)) == len(asked)


def test_each_id_is_asked_for_once() -> None:
    async def scene() -> list[str]:
        return await by_ids(SlowLane(0.0), ["a", "b"] * 1000 + ["c"], list)

    assert asyncio.run(scene()) == ["a", "b", "c"]


async def ask(node: Node, request: Any, version: int | None = None) -> Any:
    entry = TABLE[type(request).KEY]
    version = entry.max_version if version is None else version
    context = RequestContext(version, 1, Session("PLAINTEXT", client_host="127.0.0.1", client_id="test"))
    answer = entry.handler(node.broker, context, request)
    if inspect.isgenerator(answer):
        return all_steps(answer)
    return await answer if inspect.isawaitable(answer) else answer


def commit(*indexes: int, group: str = "g", metadata: str = "") -> OffsetCommitRequest:
    topic = topic_of("wide", *indexes)
    for row in topic.partitions:
        row.committed_metadata = metadata
    return OffsetCommitRequest(group_id=group, topics=[topic])


async def with_groups(node: Node) -> None:
    node.broker.slow_lane = SlowLane(0.0)
    await node.controller.auto_create_topics([GROUP_OFFSETS_TOPIC])
    await node.controller.create_topics([NewTopic("wide", COUNT, 1)])
    assert not node.broker.groups.runtime.loading()  # there is nothing to load


def test_many_offsets_are_committed_fetched_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: Node) -> None:
        await with_groups(node)
        decided: list[int] = []
        append = node.reached(Coordination).coordinator_log.append_records
        monkeypatch.setattr(
            node.reached(Coordination).coordinator_log,
            "append_records",
            lambda *a: decided.append(len(a[3])) or append(*a),
        )
        # Every partition twice: the last one counts. One does not exist.
        answer = await ask(node, commit(*range(COUNT), *range(COUNT), COUNT), 9)
        codes = [row.error_code for row in answer.topics[0].partitions]
        assert codes == [0] * (2 * COUNT) + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert sum(decided) == 2 * COUNT
        assert max(decided) < COUNT
        # What a consumer of many partitions commits is written as a whole.
        decided.clear()
        answer = await ask(node, commit(*range(COUNT), group="other"), 9)
        assert {row.error_code for row in answer.topics[0].partitions} == {0}
        assert decided == [COUNT]

        wide = OffsetFetchRequestTopics(name="wide", partition_indexes=list(range(COUNT + 1)))
        for topics in ([wide], None):
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
            (group,) = (await ask(node, request, 9)).groups
            (topic,) = group.topics
            found = [(row.partition_index, row.committed_offset) for row in topic.partitions]
            expected = [(index, COUNT + index) for index in range(COUNT)]
            assert found == expected + ([(COUNT, -1)] if topics else [])
        old = OffsetFetchRequestTopic(name="wide", partition_indexes=list(range(COUNT)))
        answer = await ask(node, OffsetFetchRequest(group_id="g", topics=[old]), 7)
        assert [row.committed_offset for row in answer.topics[0].partitions] == [
            COUNT + index for index in range(COUNT)
        ]
        by_id = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        (group,) = (await ask(node, by_id, 10)).groups
        assert len(group.topics[0].partitions) == COUNT
        assert group.topics[0].topic_id == node.metadata.image.topics["wide"].topic_id

        rows = [OffsetDeleteRequestPartition(partition_index=index) for index in range(COUNT)]
        request = OffsetDeleteRequest(
            group_id="g", topics=[OffsetDeleteRequestTopic(name="wide", partitions=rows)]
        )
        deleted = await ask(node, request)
        assert [row.error_code for row in deleted.topics[0].partitions] == [0] * COUNT
        assert not (await ask(node, by_id, 10)).groups[0].topics

    on_a_node(scene, tmp_path)


def test_a_commit_that_cannot_fit_into_one_batch_is_refused_before_anything_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: Node) -> None:
        await with_groups(node)
        called: list[object] = []
        monkeypatch.setattr(node.broker.groups.runtime, "decide", lambda *a: called.append(a))
        answer = await ask(node, commit(*range(COUNT), metadata="m" * 4000), 9)  # 1.2 MB
        codes = {row.error_code for row in answer.topics[0].partitions}
        assert codes == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert len(answer.topics[0].partitions) == COUNT
        assert not called

    on_a_node(scene, tmp_path)


def test_an_error_of_the_group_is_told_once_for_all_pieces(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await with_groups(node)
        request = commit(*range(COUNT))
        request.generation_id_or_member_epoch = 3
        request.member_id = "nobody"
        answer = await ask(node, request, 8)
        assert {row.error_code for row in answer.topics[0].partitions} == {ErrorCode.ILLEGAL_GENERATION}
        wide = OffsetFetchRequestTopics(name="wide", partition_indexes=list(range(COUNT)))
        for partition in node.broker.groups.runtime.partitions():
            node.broker.groups.resigned(partition)
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[wide])])
        (group,) = (await ask(node, fetch, 9)).groups
        assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, [])

    on_a_node(scene, tmp_path)


def test_many_groups_are_listed_shard_by_shard_and_described_once(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        await with_groups(node)
        for number in range(600):
            await ask(node, commit(0, group=f"g{number}"), 9)
        listed = await ask(node, ListGroupsRequest())
        assert sorted(group.group_id for group in listed.groups) == sorted(f"g{n}" for n in range(600))
        described = await ask(node, DescribeGroupsRequest(groups=[f"g{n}" for n in range(600)] * 3))
        assert [group.group_id for group in described.groups] == [f"g{n}" for n in range(600)]

    on_a_node(scene, tmp_path)


def test_what_is_decided_at_once_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(node: Node) -> None:
        called: list[object] = []
        for name in ("join_group", "sync_group", "consumer_group_heartbeat"):
            monkeypatch.setattr(node.broker.groups, name, lambda *a: called.append(a))
        joins = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequestProtocol(name="p")] * 1001)
        assert (await ask(node, joins)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        syncs = SyncGroupRequest(group_id="g", assignments=[SyncGroupRequestAssignment()] * 20_001)
        assert (await ask(node, syncs)).error_code == ErrorCode.INVALID_REQUEST
        names = ConsumerGroupHeartbeatRequest(group_id="g", subscribed_topic_names=["t"] * 10_001)
        owned = ConsumerGroupHeartbeatRequest(
            group_id="g", topic_partitions=[TopicPartitions(partitions=[1] * 100_000)]
        )
        for request in (names, owned):
            answer = await ask(node, request)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert "at most" in answer.error_message
        assert not called

    on_a_node(scene, tmp_path)
