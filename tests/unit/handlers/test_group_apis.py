"""The group APIs through their bytes, in every version, on a coordinator whose log is a list."""

import asyncio
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from admin_world import ask as ask_controller
from admin_world import every_version, start

from moldau.broker.handlers import load_all
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.common.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest
from moldau.common.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.common.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.common.protocol.messages.list_groups import ListGroupsRequest
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
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

sys.path.insert(0, str(Path(__file__).parents[1] / "coordinator"))
from group_world import GROUP, Call, World

BEER = bytes([1] * 16)

load_all()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


class Answer:
    """One request that went through its bytes; `get` gives the answer the same way, once it is there."""

    def __init__(self, world: World, request: Any, version: int) -> None:
        entry = TABLE[type(request).KEY]
        self.version, self.type = version, type(request).RESPONSE
        decoded = type(request).decode(request.encode(version), version)
        context = RequestContext(version, 1, Session("PLAINTEXT", client_host="10.0.0.7", client_id="app"))
        broker: Any = SimpleNamespace(groups=world.coordinator, slow_lane=SlowLane(), authorizer=None)

        async def send() -> Any:
            return (entry.handler(broker, context, decoded),)

        (outcome,) = world.loop.run_until_complete(send())
        if inspect.isawaitable(outcome):
            outcome = asyncio.ensure_future(outcome, loop=world.loop)
        self.call = Call(world.loop, outcome)
        world.settle()

    def get(self) -> Any:
        response = self.call.response
        assert response is not None, "still waiting"
        return self.type.decode(response.encode(self.version), self.version)


def ask(world: World, request: Any, version: int) -> Any:
    return Answer(world, request, version).get()


def join_request(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


@pytest.mark.parametrize("version", every_version(JoinGroupRequest))
def test_join_sync_heartbeat_leave(world: World, version: int) -> None:
    first = Answer(world, join_request(), version)
    if version >= 4:
        assert first.get().error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.get().protocol_name == (None if version >= 7 else "")
        first = Answer(world, join_request(first.get().member_id), version)
    world.gather()
    joined = first.get()
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assert joined.protocol_name == "range"
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    member = {"group_id": GROUP, "generation_id": 1, "member_id": joined.member_id}
    rows = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
    names = {"protocol_type": "consumer", "protocol_name": "range"}
    synced = ask(world, SyncGroupRequest(**member, **names, assignments=rows), min(version, 5))
    if version >= 5:
        unnamed = ask(world, SyncGroupRequest(**member), 5)
        assert unnamed.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (synced.error_code, synced.assignment) == (0, b"all")
    assert ask(world, HeartbeatRequest(**member), min(version, 4)).error_code == 0
    described = ask(world, DescribeGroupsRequest(groups=[GROUP]), min(version, 6)).groups[0]
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert described.members[0].client_host == "/10.0.0.7"
    assert (described.members[0].member_metadata, described.members[0].member_assignment) == (b"m", b"all")
    version = min(version, 5)
    if version >= 3:
        left = ask(
            world,
            LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=joined.member_id)]),
            version,
        )
        assert [row.error_code for row in left.members] == [0]
    else:
        leave = LeaveGroupRequest(group_id=GROUP, member_id=joined.member_id)
        assert ask(world, leave, version).error_code == 0
        assert ask(world, leave, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", every_version(OffsetCommitRequest))
def test_commit_and_fetch(world: World, version: int) -> None:
    rows = [OffsetCommitRequestPartition(partition_index=1, committed_offset=7, committed_metadata="note")]
    by_id = version >= 10
    topics = [OffsetCommitRequestTopic(name="" if by_id else "beer", topic_id=BEER, partitions=rows)]
    answer = ask(world, OffsetCommitRequest(group_id=GROUP, topics=topics), version)
    assert [row.error_code for row in answer.topics[0].partitions] == [0]
    if version < 8:
        wanted = [OffsetFetchRequestTopic(name="beer", partition_indexes=[1, 2])]
        found = ask(world, OffsetFetchRequest(group_id=GROUP, topics=wanted), version)
    else:
        named = [
            OffsetFetchRequestTopics(name="" if by_id else "beer", topic_id=BEER, partition_indexes=[1, 2])
        ]
        groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=named)]
        found = ask(world, OffsetFetchRequest(groups=groups), version).groups[0]
    partitions = found.topics[0].partitions
    assert [(row.committed_offset, row.metadata) for row in partitions] == [(7, "note"), (-1, "")]
    assert found.error_code == 0


def test_all_topics_of_a_group_from_version_2(world: World) -> None:
    world.commit(3)
    found = ask(world, OffsetFetchRequest(group_id=GROUP, topics=None), 2)
    assert [(topic.name, topic.partitions[0].committed_offset) for topic in found.topics] == [("beer", 3)]


def test_errors_of_a_whole_group_in_old_versions(world: World) -> None:
    world.coordinator.resigned(0)
    topics = [OffsetFetchRequestTopic(name="beer", partition_indexes=[0])]
    request = OffsetFetchRequest(group_id=GROUP, topics=topics)
    assert ask(world, request, 1).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert ask(world, request, 2).error_code == ErrorCode.NOT_COORDINATOR
    for number in every_version(HeartbeatRequest):
        assert ask(world, HeartbeatRequest(group_id=GROUP), number).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", every_version(ListGroupsRequest))
def test_list(world: World, version: int) -> None:
    world.form(1)
    world.commit(1, group="simple")
    listed = {row.group_id: row for row in ask(world, ListGroupsRequest(), version).groups}
    assert {key: row.protocol_type for key, row in listed.items()} == {GROUP: "consumer", "simple": ""}
    if version >= 4:
        assert listed[GROUP].group_state == "Stable"
        only = ask(world, ListGroupsRequest(states_filter=["stable"]), version).groups
        assert [row.group_id for row in only] == [GROUP]
    if version >= 5:
        assert listed[GROUP].group_type == "classic"
        assert ask(world, ListGroupsRequest(types_filter=["Consumer"]), version).groups == []
        assert len(ask(world, ListGroupsRequest(types_filter=["Classic"]), version).groups) == 2


@pytest.mark.parametrize("version", every_version(DescribeGroupsRequest))
def test_describing_nobody(world: World, version: int) -> None:
    (group,) = ask(world, DescribeGroupsRequest(groups=["ghosts"]), version).groups
    assert group.group_state == "Dead"
    assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert bool(group.error_message) == (version >= 6)


def test_permitted_operations(world: World) -> None:
    world.commit(1)
    request = DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)
    assert ask(world, request, 3).groups[0].authorized_operations == 0b110101001000
    assert ask(world, DescribeGroupsRequest(groups=[GROUP]), 3).groups[0].authorized_operations == -(2**31)


@pytest.mark.parametrize("version", every_version(DeleteGroupsRequest))
def test_delete(world: World, version: int) -> None:
    world.commit(1)
    answer = ask(world, DeleteGroupsRequest(groups_names=[GROUP, "ghosts"]), version)
    assert [row.error_code for row in answer.results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]


def test_offset_delete(world: World) -> None:
    world.commit(1)
    rows = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name="beer", partitions=rows)]
    answer = ask(world, OffsetDeleteRequest(group_id=GROUP, topics=topics), 0)
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert world.offsets() == {}


@pytest.mark.parametrize("version", every_version(FindCoordinatorRequest))
def test_find_coordinator_creates_the_topic(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        broker = await start(
            tmp_path, offsets_topic_num_partitions="5", offsets_topic_segment_bytes="12345678"
        )
        broker.groups = SimpleNamespace(partition_for=lambda group_id: 3)
        several = version >= 4
        request = FindCoordinatorRequest(
            key="" if several else GROUP, coordinator_keys=[GROUP] if several else []
        )
        for listener, host, port in (("OUTSIDE", "kafka.example", 19092), ("PLAINTEXT", "127.0.0.1", 9092)):
            answer = await ask_controller(broker, request, version, listener)
            found = answer.coordinators[0] if several else answer
            assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, host, port)
        image = broker.metadata.image
        assert len(image.topics[GROUP_OFFSETS_TOPIC].partitions) == 5
        (configs,) = [values for (_, name), values in image.configs.items() if name == GROUP_OFFSETS_TOPIC]
        assert configs["cleanup.policy"] == "compact"
        assert configs["segment.bytes"] == "12345678"
        await broker.controller.this_broker.close()

    asyncio.run(story())


@pytest.mark.parametrize(("key_type", "word"), [(2, "group:topicId:partition"), (9, "no such")])
def test_other_coordinators_are_refused_with_a_sentence(tmp_path: Path, key_type: int, word: str) -> None:
    async def story() -> None:
        broker = await start(tmp_path)
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
        (found,) = (await ask_controller(broker, request, 6)).coordinators
        assert found.error_code == ErrorCode.INVALID_REQUEST
        assert word.lower() in found.error_message.lower()
        assert GROUP_OFFSETS_TOPIC not in broker.metadata.image.topics
        await broker.controller.this_broker.close()

    asyncio.run(story())
