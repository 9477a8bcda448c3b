"""Consumer groups: listed, described with members and assignments, and how far behind they are.

A group is of the new protocol (KIP-848) or a classic one; the first is asked for first. The lag is that of
committed offsets to the last stable offset, as Confluent's proxy computes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from moldau.client.cluster import Cluster
from moldau.client.errors import RequestRefused
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages import consumer_group_describe, describe_groups
from moldau.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.metadata import MetadataRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.wire import MalformedMessage
from moldau.rest.kafka.admin.asking import ask_coordinator, refresh
from moldau.rest.kafka.problem import KafkaProblem, check

CONSUMER = "consumer"
_CLASSIC_MEMBER = 0
_BY_NAME = 9
"""From version 10 on OffsetFetch names topics by id."""
_OLD_VERSIONS_OF_OFFSET_FETCH = 8

Place = tuple[str, int]
"""A topic and a partition."""


class Member(NamedTuple):
    """A member with its current assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    assignment: tuple[Place, ...]


class Group(NamedTuple):
    """A group; a simple one has committed offsets and never had members."""

    group_id: str
    state: str
    assignor: str
    is_simple: bool
    coordinator_id: int
    members: tuple[Member, ...]
    type: str = "CLASSIC"
    is_mixed: bool = False
    """A group of the new protocol that has members of the classic one."""


class Lag(NamedTuple):
    """How far a group is behind in one partition; no member where nobody is assigned it."""

    topic: str
    partition: int
    current_offset: int
    end_offset: int
    member: Member | None

    @property
    def lag(self) -> int:
        """Records that are not consumed; 0 where the group has committed beyond the end (a deleted topic)."""
        return max(0, self.end_offset - self.current_offset)


def list_groups(cluster: Cluster) -> list[str]:
    """The ids of all consumer groups, of every coordinator, in order."""
    found: set[str] = set()
    for broker in refresh(cluster, topics=[]).brokers:
        asked = partial(_ask_broker, cluster, broker.node_id)
        answer = cluster.persist("list the groups", asked)
        check(answer.error_code)
        for each in answer.groups:
            kind = (each.group_type or "classic").lower()
            if each.protocol_type in ("", CONSUMER) and kind in ("classic", CONSUMER):
                found.add(each.group_id)
    return sorted(found)


def _ask_broker(cluster: Cluster, broker_id: int) -> Any:
    return cluster.broker(broker_id).ask(ListGroupsRequest())


def describe_group(cluster: Cluster, group_id: str) -> Group:
    """One group. KafkaProblem GROUP_ID_NOT_FOUND if there is none of the name."""
    coordinator_id = _coordinator_id(cluster, group_id)
    found = _describe_new(cluster, group_id, coordinator_id)
    found = found or _describe_classic(cluster, group_id, coordinator_id)
    if found is None:
        raise KafkaProblem(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {group_id}.")
    return found


def describe_all_groups(cluster: Cluster) -> list[Group]:
    """All groups; one that ends meanwhile is left out."""
    found = []
    for group_id in list_groups(cluster):
        try:
            found.append(describe_group(cluster, group_id))
        except KafkaProblem as gone:
            if gone.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED):
                raise
    return found


def _coordinator_id(cluster: Cluster, group_id: str) -> int:
    def attempt() -> int:
        connection = cluster.coordinator(group_id)
        for broker in refresh(cluster, topics=[]).brokers:
            if (broker.host, broker.port) == (connection.host, connection.port):
                return int(broker.node_id)
        return -1

    return cluster.persist(f"find the coordinator of group {group_id}", attempt)


def _describe_new(cluster: Cluster, group_id: str, coordinator_id: int) -> Group | None:
    request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[group_id])
    try:
        answer = _described(cluster, group_id, request)
    except RequestRefused:
        return None  # the brokers are older than KIP-848
    (group,) = answer.groups
    if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check(group.error_code, group.error_message)
    members = (
        Member(each.member_id, each.instance_id, each.client_id, _places(each.assignment))
        for each in group.members
    )
    return Group(
        group_id,
        group.group_state,
        group.assignor_name,
        False,
        coordinator_id,
        tuple(sorted(members, key=lambda each: each.member_id)),
        "CONSUMER",
        any(each.member_type == _CLASSIC_MEMBER for each in group.members),
    )


def _describe_classic(cluster: Cluster, group_id: str, coordinator_id: int) -> Group | None:
    request = describe_groups.DescribeGroupsRequest(groups=[group_id])
    answer = _described(cluster, group_id, request)
    (group,) = answer.groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(group.error_code, group.error_message)
    if group.group_state == "Dead" or group.protocol_type not in ("", CONSUMER):
        return None
    members = (
        Member(each.member_id, each.group_instance_id, each.client_id, _assigned(each.member_assignment))
        for each in group.members
    )
    return Group(
        group_id,
        group.group_state,
        group.protocol_data,
        not group.protocol_type,
        coordinator_id,
        tuple(sorted(members, key=lambda each: each.member_id)),
    )


def _described(cluster: Cluster, group_id: str, request: Any) -> Any:
    wanted = f"describe group {group_id}"
    return ask_coordinator(cluster, group_id, wanted, request, lambda got: int(got.groups[0].error_code))


def _places(assignment: Any) -> tuple[Place, ...]:
    return tuple(
        sorted(
            (topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
        )
    )


def _assigned(data: bytes | memoryview) -> tuple[Place, ...]:
    """The partitions in a classic member's assignment, which clients write: anything may stand there."""
    if len(data) < 2:
        return ()
    data = bytes(data)
    try:
        (version,) = struct.unpack_from(">h", data)
        decoded = ConsumerProtocolAssignment.decode(data, max(0, min(version, 3)), 2)
    except (MalformedMessage, ValueError):
        return ()
    return tuple(
        sorted((topic.topic, index) for topic in decoded.assigned_partitions for index in topic.partitions)
    )


def committed_offsets(cluster: Cluster, group_id: str) -> dict[Place, int]:
    """What a group has committed, by topic and partition."""
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    older = OffsetFetchRequest(group_id=group_id, topics=None)

    def attempt() -> Any:
        connection = cluster.coordinator(group_id)
        if connection.version_of(OffsetFetchRequest, _BY_NAME) >= _OLD_VERSIONS_OF_OFFSET_FETCH:
            (group,) = connection.ask(asked, at_most=_BY_NAME).groups
            return group
        return connection.ask(older, at_most=_OLD_VERSIONS_OF_OFFSET_FETCH - 1)

    answer = cluster.persist(f"read the offsets of group {group_id}", attempt)
    check(answer.error_code)
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


def lags_of(cluster: Cluster, group_id: str) -> list[Lag]:
    """The lag in every partition for which the group has committed, by topic and partition.

    Partitions that do not exist any more are left out.
    """
    group = describe_group(cluster, group_id)
    owners = {place: member for member in group.members for place in member.assignment}
    committed = committed_offsets(cluster, group_id)
    ends = end_offsets(cluster, committed)
    return [
        Lag(*place, committed[place], ends[place], owners.get(place))
        for place in sorted(committed)
        if place in ends
    ]


def end_offsets(cluster: Cluster, places: Iterable[Place]) -> dict[Place, int]:
    """The last stable offsets; partitions that do not exist or have no leader are left out."""
    wanted = set(places)
    named = [MetadataRequestTopic(name=name) for name in sorted({topic for topic, _ in wanted})]
    known = {
        (topic.name, part.partition_index)
        for topic in refresh(cluster, topics=named).topics
        if not topic.error_code
        for part in topic.partitions
        if part.leader_id >= 0
    }
    return cluster.offsets(dict.fromkeys(sorted(wanted & known), -1), read_committed=True)
