"""Consumer groups: listed, described with members and assignments, and how far behind they are.

A group is of the new protocol (KIP-848) or a classic one; the first is asked for first. The lag is that of
committed offsets to the last stable offset, as Confluent's proxy computes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from moldau.client.cluster import Cluster
from moldau.client.errors import RequestRefused
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import consumer_group_describe, describe_groups
from moldau.common.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from moldau.common.protocol.messages.list_groups import ListGroupsRequest
from moldau.common.protocol.messages.metadata import MetadataRequestTopic
from moldau.common.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.common.protocol.wire import MalformedMessage
from moldau.services.rest.kafka.admin.asking import ask_coordinator, refresh
from moldau.services.rest.kafka.problem import KafkaProblem, check

CONSUMER = "consumer"
_CLASSIC_MEMBER = 0
_DESCRIBED_AT_ONCE = 500
_GONE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED)
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
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
    type: str
    is_mixed: bool
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


class Listed(NamedTuple):
    """A group as its coordinator lists it."""

    group_id: str
    coordinator_id: int
    is_new: bool
    """Of the new protocol, which is described by another request."""


def list_groups(cluster: Cluster) -> list[Listed]:
    """All consumer groups, of every coordinator, in order."""
    found: dict[str, Listed] = {}
    for broker in refresh(cluster, topics=[]).brokers:
        answer = _ask_broker(cluster, broker.node_id, "list the groups", ListGroupsRequest())
        check(answer.error_code)
        for each in answer.groups:
            kind = (each.group_type or "classic").lower()
            if each.protocol_type in ("", CONSUMER) and kind in ("classic", CONSUMER):
                found[each.group_id] = Listed(each.group_id, broker.node_id, kind == CONSUMER)
    return [found[group_id] for group_id in sorted(found)]


def describe_group(cluster: Cluster, group_id: str) -> Group:
    """One group. KafkaProblem GROUP_ID_NOT_FOUND if there is none of the name."""
    coordinator_id = _coordinator_id(cluster, group_id)
    for request in (_new_request([group_id]), _classic_request([group_id])):
        try:
            answer = ask_coordinator(
                cluster,
                group_id,
                f"describe group {group_id}",
                request,
                lambda got: int(got.groups[0].error_code),
            )
        except RequestRefused:
            continue  # the brokers are older than KIP-848
        (described,) = answer.groups
        if described.error_code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            check(described.error_code, described.error_message)
            found = _group(described, coordinator_id)
            if found is not None:
                return found
    raise KafkaProblem(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {group_id}.")


def describe_all_groups(cluster: Cluster) -> list[Group]:
    """All groups, many in a request; one that ends meanwhile, or may not be seen, is left out."""
    found = []
    listed = list_groups(cluster)
    for coordinator_id, is_new in sorted({(each.coordinator_id, each.is_new) for each in listed}):
        names = [
            each.group_id for each in listed if (each.coordinator_id, each.is_new) == (coordinator_id, is_new)
        ]
        for start in range(0, len(names), _DESCRIBED_AT_ONCE):
            part = names[start : start + _DESCRIBED_AT_ONCE]
            request = _new_request(part) if is_new else _classic_request(part)
            for each in _ask_broker(cluster, coordinator_id, "describe the groups", request).groups:
                if each.error_code in _GONE:
                    continue
                if each.error_code in _MOVED:
                    found.append(describe_group(cluster, each.group_id))
                    continue
                check(each.error_code, each.error_message)
                group = _group(each, coordinator_id)
                found += [group] if group is not None else []
    return sorted(found, key=lambda each: each.group_id)


def _ask_broker(cluster: Cluster, broker_id: int, wanted: str, request: Any) -> Any:
    return cluster.persist(wanted, lambda: cluster.broker(broker_id).ask(request))


def _coordinator_id(cluster: Cluster, group_id: str) -> int:
    def attempt() -> int:
        connection = cluster.coordinator(group_id)
        for broker in refresh(cluster, topics=[]).brokers:
            if (broker.host, broker.port) == (connection.host, connection.port):
                return int(broker.node_id)
        return -1

    return cluster.persist(f"find the coordinator of group {group_id}", attempt)


def _new_request(group_ids: Sequence[str]) -> consumer_group_describe.ConsumerGroupDescribeRequest:
    return consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=list(group_ids))


def _classic_request(group_ids: Sequence[str]) -> describe_groups.DescribeGroupsRequest:
    return describe_groups.DescribeGroupsRequest(groups=list(group_ids))


def _group(described: Any, coordinator_id: int) -> Group | None:
    """A group as either request describes it; None if it is no consumers' group, or has ended."""
    if isinstance(described, consumer_group_describe.DescribedGroup):
        members = (
            Member(each.member_id, each.instance_id, each.client_id, _places(each.assignment))
            for each in described.members
        )
        is_mixed = any(each.member_type == _CLASSIC_MEMBER for each in described.members)
        assignor, is_simple, kind = described.assignor_name, False, "CONSUMER"
    elif described.group_state == "Dead" or described.protocol_type not in ("", CONSUMER):
        return None
    else:
        members = (
            Member(each.member_id, each.group_instance_id, each.client_id, _assigned(each.member_assignment))
            for each in described.members
        )
        is_mixed, assignor = False, described.protocol_data
        is_simple, kind = not described.protocol_type, "CLASSIC"
    return Group(
        described.group_id,
        described.group_state,
        assignor,
        is_simple,
        coordinator_id,
        tuple(sorted(members, key=lambda each: each.member_id)),
        kind,
        is_mixed,
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
