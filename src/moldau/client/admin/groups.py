"""Groups: listed, described with members and assignments; their committed offsets and lags.

A group is of the new protocol (KIP-848) or a classic one; the first is asked for first. What a broker is too
old for is left out. The lag is that of committed offsets to the last stable offset, as Confluent's proxy
computes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from moldau.client.admin.problem import KafkaProblem, check
from moldau.client.admin.routing import ask_broker, ask_coordinator, metadata, with_coordinator
from moldau.client.admin.topics import Broker, leaders
from moldau.client.cluster import Cluster
from moldau.client.connection import Connection
from moldau.client.errors import RequestRefused
from moldau.common.core.sink_ledger import is_sink_ledger
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from moldau.common.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from moldau.common.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.common.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.common.protocol.messages.list_groups import ListGroupsRequest
from moldau.common.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.common.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.common.protocol.wire import MalformedMessage

CONSUMER = "consumer"
_CLASSIC_MEMBER = 0
_DESCRIBED_AT_ONCE = 500
_GONE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED)
_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
_BY_NAME = 9
"""From version 10 on OffsetFetch names topics by id."""
_OLD_VERSIONS_OF_OFFSET_FETCH = 8

Place = tuple[str, int]
"""A topic and a partition."""


class Member(NamedTuple):
    """A member with its current assignment. Its epoch and target assignment are of the new protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[Place, ...]
    epoch: int | None = None
    target: tuple[Place, ...] | None = None


class Group(NamedTuple):
    """A group as its coordinator describes it. Its epochs are of the new protocol."""

    group_id: str
    state: str
    assignor: str
    coordinator: Broker
    """Of id -1 if the cluster's metadata does not name it."""
    members: tuple[Member, ...] = ()
    """In the coordinator's order."""
    protocol_type: str = CONSUMER
    type: str = "CLASSIC"
    epoch: int | None = None
    assignment_epoch: int | None = None
    is_mixed: bool = False
    """A group of the new protocol that has members of the classic one."""

    @property
    def is_simple(self) -> bool:
        """Whether the group has committed offsets and never had members."""
        return not self.protocol_type

    @property
    def is_consumers(self) -> bool:
        """Whether it is a group of consumers, and not of Kafka Connect, say."""
        return self.protocol_type in ("", CONSUMER)


class Committed(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    leader_epoch: int | None = None
    is_ledger: bool = False
    """A Spark sink's micro-batch number, and not a position in the topic."""


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


class Listed(NamedTuple):
    """A group as its coordinator lists it."""

    group_id: str
    coordinator_id: int
    state: str
    type: str
    """As the broker spells it: Classic, Consumer; "" by one older than KIP-848."""
    protocol_type: str

    @property
    def is_new(self) -> bool:
        """Of the new protocol, which is described by another request."""
        return self.type.lower() == CONSUMER


def list_all_groups(cluster: Cluster) -> list[Listed]:
    """All groups of all kinds, coordinator by coordinator, in its order."""
    found = []
    for broker_id in sorted(each.node_id for each in metadata(cluster, []).brokers):
        answer = ask_broker(
            cluster, broker_id, ListGroupsRequest(), "list the groups", codes=lambda got: [got.error_code]
        )
        check(answer.error_code)
        found += [
            Listed(each.group_id, broker_id, each.group_state, each.group_type, each.protocol_type)
            for each in answer.groups
        ]
    return found


def list_groups(cluster: Cluster) -> list[Listed]:
    """All consumer groups, of every coordinator, by id."""
    found = {
        each.group_id: each
        for each in list_all_groups(cluster)
        if each.protocol_type in ("", CONSUMER) and each.type.lower() in ("", "classic", CONSUMER)
    }
    return [found[group_id] for group_id in sorted(found)]


def find_group(cluster: Cluster, group_id: str) -> Group | None:
    """One group; None if there is none of the id."""
    coordinator = coordinator_of(cluster, group_id)
    for request in (
        ConsumerGroupDescribeRequest(group_ids=[group_id]),
        DescribeGroupsRequest(groups=[group_id]),
    ):
        try:
            answer = ask_coordinator(
                cluster,
                group_id,
                request,
                lambda got: [each.error_code for each in got.groups],
                f"describe group {group_id}",
            )
        except RequestRefused as refusal:
            if refusal.error_code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            continue  # the brokers are older than KIP-848
        (described,) = answer.groups
        if described.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            check(described.error_code, described.error_message)
            return _group(described, coordinator)
    return None


def describe_group(cluster: Cluster, group_id: str) -> Group:
    """One consumer group. KafkaProblem GROUP_ID_NOT_FOUND if there is none of the id."""
    found = find_group(cluster, group_id)
    if found is None or not found.is_consumers:
        raise KafkaProblem(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {group_id}.")
    return found


def describe_all_groups(cluster: Cluster) -> list[Group]:
    """All consumer groups; one that ends meanwhile, or may not be seen, is left out."""
    return [each for each in describe_groups(cluster, list_groups(cluster)) if each.is_consumers]


def describe_groups(cluster: Cluster, listed: Sequence[Listed]) -> list[Group]:
    """These groups by id, many in a request; one that ends meanwhile, or may not be seen, is left out."""
    found: list[Group | None] = []
    brokers = _brokers(cluster)
    for coordinator_id, is_new in sorted({(each.coordinator_id, each.is_new) for each in listed}):
        names = [
            each.group_id for each in listed if (each.coordinator_id, each.is_new) == (coordinator_id, is_new)
        ]
        for start in range(0, len(names), _DESCRIBED_AT_ONCE):
            part = names[start : start + _DESCRIBED_AT_ONCE]
            request = (
                ConsumerGroupDescribeRequest(group_ids=part) if is_new else DescribeGroupsRequest(groups=part)
            )
            for each in ask_broker(cluster, coordinator_id, request, "describe the groups").groups:
                if each.error_code in _GONE:
                    continue
                if each.error_code in _MOVED:
                    found.append(find_group(cluster, each.group_id))
                    continue
                check(each.error_code, each.error_message)
                found.append(_group(each, brokers.get(coordinator_id, Broker(coordinator_id, "", -1, None))))
    return sorted((each for each in found if each is not None), key=lambda each: each.group_id)


def _brokers(cluster: Cluster) -> dict[int, Broker]:
    return {
        each.node_id: Broker(each.node_id, each.host, each.port, each.rack)
        for each in metadata(cluster, []).brokers
    }


def coordinator_of(cluster: Cluster, group_id: str) -> Broker:
    """The broker that coordinates a group."""

    def attempt() -> Broker:
        connection = cluster.coordinator(group_id)
        address = connection.host, connection.port
        for broker in _brokers(cluster).values():
            if (broker.host, broker.port) == address:
                return broker
        return Broker(-1, *address, None)

    return cluster.persist(f"find the coordinator of group {group_id}", attempt)


def _group(described: Any, coordinator: Broker) -> Group | None:
    """A group as either request describes it; None if it has ended."""
    if isinstance(described, DescribedGroup):
        return Group(
            described.group_id,
            described.group_state,
            described.assignor_name,
            coordinator,
            tuple(
                Member(
                    each.member_id,
                    each.instance_id,
                    each.client_id,
                    each.client_host,
                    _places(each.assignment),
                    each.member_epoch,
                    _places(each.target_assignment),
                )
                for each in described.members
            ),
            type="CONSUMER",
            epoch=described.group_epoch,
            assignment_epoch=described.assignment_epoch,
            is_mixed=any(each.member_type == _CLASSIC_MEMBER for each in described.members),
        )
    if described.group_state == "Dead":
        return None
    return Group(
        described.group_id,
        described.group_state,
        described.protocol_data,
        coordinator,
        tuple(
            Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                _assigned(each.member_assignment),
            )
            for each in described.members
        ),
        described.protocol_type,
    )


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


def committed_offsets(cluster: Cluster, group_id: str) -> dict[Place, Committed]:
    """What a group has committed, in order of the partitions; nothing for a group that does not exist."""
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    older = OffsetFetchRequest(group_id=group_id, topics=None)

    def ask(connection: Connection) -> Any:
        if connection.version_of(OffsetFetchRequest, _BY_NAME) >= _OLD_VERSIONS_OF_OFFSET_FETCH:
            (group,) = connection.ask(asked, at_most=_BY_NAME).groups
            return group
        return connection.ask(older, at_most=_OLD_VERSIONS_OF_OFFSET_FETCH - 1)

    answer = with_coordinator(
        cluster,
        group_id,
        ask,
        lambda got: [got.error_code],
        f"read the offsets of group {group_id}",
    )
    if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    check(answer.error_code)
    found = {
        (topic.name, each.partition_index): Committed(
            each.committed_offset,
            each.committed_leader_epoch if each.committed_leader_epoch >= 0 else None,
            is_sink_ledger(each.metadata),
        )
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }
    return {place: found[place] for place in sorted(found)}


def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> dict[str, int]:
    """Delete groups that have no members; the error code of each."""
    outcome: dict[str, int] = {}
    for group_id in group_ids:
        answer = ask_coordinator(
            cluster,
            group_id,
            DeleteGroupsRequest(groups_names=[group_id]),
            lambda got: [each.error_code for each in got.results],
        )
        outcome |= {each.group_id: each.error_code for each in answer.results}
    return outcome


def delete_committed_offsets(cluster: Cluster, group_id: str, places: Iterable[Place]) -> dict[Place, int]:
    """Delete committed offsets; the error code of each partition. KafkaProblem if the group refuses."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=index))
    if not topics:
        return {}
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    answer = ask_coordinator(cluster, group_id, request, lambda got: [got.error_code])
    check(answer.error_code)
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


def lags_of(cluster: Cluster, group_id: str) -> list[Lag]:
    """The lag in every partition for which the group has committed, by topic and partition.

    Partitions that do not exist any more are left out.
    """
    group = describe_group(cluster, group_id)
    owners = {place: member for member in group.members for place in member.assignment}
    committed = committed_offsets(cluster, group_id)
    ends = end_offsets(cluster, committed, read_committed=True)
    return [
        Lag(*place, each.offset, ends[place], owners.get(place))
        for place, each in committed.items()
        if place in ends
    ]


def end_offsets(
    cluster: Cluster, places: Iterable[Place], *, read_committed: bool = False
) -> dict[Place, int]:
    """The log end offsets, or the last stable ones; partitions that do not exist or have no leader are left
    out.
    """
    wanted = dict.fromkeys(places, -1)
    known = leaders(cluster, {topic for topic, _ in wanted})
    led = {place: -1 for place in wanted if known.get(place, -1) >= 0}
    return cluster.offsets(led, read_committed=read_committed)
