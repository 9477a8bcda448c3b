"""Consumer groups as kafka-consumer-groups shows them: listed, described, with their committed offsets.

A group of the new protocol (KIP-848) is described by ConsumerGroupDescribe, any other by DescribeGroups.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.common.core.sink_ledger import is_sink_ledger
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages import consumer_group_describe, describe_groups, offset_fetch
from moldau.common.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from moldau.common.protocol.messages.list_groups import ListGroupsRequest
from moldau.common.protocol.wire import MalformedMessage
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.queries.asking import ask_broker, ask_coordinator, metadata, require

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

Place = tuple[str, int]
STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
NOT_FOUND = "org.apache.kafka.common.errors.GroupIdNotFoundException: Group {} not found."
_CONSUMER = "consumer"


class Listed(NamedTuple):
    """A line of --list."""

    name: str
    state: str
    kind: str


@dataclass(frozen=True)
class Member:
    """A member of a group. Epochs and the target are of the new protocol (None: a classic member)."""

    member_id: str
    instance_id: str | None
    host: str
    client_id: str
    assigned: tuple[Place, ...]
    epoch: int | None = None
    target: tuple[Place, ...] | None = None


@dataclass(frozen=True)
class Group:
    """A group as its coordinator describes it."""

    name: str
    state: str
    assignor: str
    coordinator: str
    members: tuple[Member, ...] = ()
    epoch: int | None = None
    target_epoch: int | None = None


@dataclass
class Committed:
    """What a group has committed for a partition. `ledger`: a sink's micro-batch number, no position."""

    offset: int
    leader_epoch: int | None = None
    ledger: bool = field(default=False)


def list_groups(cluster: Cluster) -> list[Listed]:
    """Return the consumer groups of all coordinators, by name."""
    found: dict[str, Listed] = {}
    for broker in metadata(cluster, []).brokers:
        answer = ask_broker(cluster, broker.node_id, ListGroupsRequest())
        require(answer.error_code)
        for each in answer.groups:
            kind = each.group_type or "classic"
            if each.protocol_type in ("", _CONSUMER) and kind.lower() in ("classic", _CONSUMER):
                found[each.group_id] = Listed(each.group_id, each.group_state, kind.capitalize())
    return [found[name] for name in sorted(found)]


def describe(cluster: Cluster, name: str) -> Group | None:
    """Return a group; None if there is none of the name."""
    cluster.persist("find the coordinator", lambda: cluster.coordinator(name))
    found = _describe_new(cluster, name)
    return _describe_classic(cluster, name) if found is None else found


def describe_existing(cluster: Cluster, name: str) -> Group:
    """Return a group. ToolError in Kafka's words if there is none."""
    found = describe(cluster, name)
    if found is None:
        raise ToolError(NOT_FOUND.format(name))
    return found


def _coordinator(cluster: Cluster, name: str) -> str:
    connection = cluster.coordinator(name)
    for broker in metadata(cluster, []).brokers:
        if (broker.host, broker.port) == (connection.host, connection.port):
            return f"{broker.host}:{broker.port}  ({broker.node_id})"
    return connection.address


def _describe_new(cluster: Cluster, name: str) -> Group | None:
    request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[name])
    answer = ask_coordinator(
        cluster, name, request, lambda response: [each.error_code for each in response.groups]
    )
    (group,) = answer.groups
    if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    require(group.error_code, group.error_message)
    members = tuple(
        Member(
            each.member_id,
            each.instance_id,
            each.client_host,
            each.client_id,
            _places(each.assignment),
            each.member_epoch,
            _places(each.target_assignment),
        )
        for each in group.members
    )
    where = _coordinator(cluster, name)
    return Group(
        name,
        group.group_state,
        group.assignor_name,
        where,
        members,
        group.group_epoch,
        group.assignment_epoch,
    )


def _places(assignment: Any) -> tuple[Place, ...]:
    return tuple(
        sorted(
            (topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
        )
    )


def _describe_classic(cluster: Cluster, name: str) -> Group | None:
    request = describe_groups.DescribeGroupsRequest(groups=[name])
    answer = ask_coordinator(
        cluster, name, request, lambda response: [each.error_code for each in response.groups]
    )
    (group,) = answer.groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (
        not group.error_code and group.group_state == "Dead"
    ):
        return None
    require(group.error_code, group.error_message)
    members = tuple(
        Member(each.member_id, each.group_instance_id, each.client_host, each.client_id, _assigned(each))
        for each in group.members
    )
    return Group(name, group.group_state, group.protocol_data, _coordinator(cluster, name), members)


def _assigned(member: Any) -> tuple[Place, ...]:
    """Return the partitions in a classic member's assignment, which only its clients understand."""
    data = bytes(member.member_assignment)
    if len(data) < 2:
        return ()
    try:
        (version,) = struct.unpack_from(">h", data)
        decoded = ConsumerProtocolAssignment.decode(data, max(0, min(version, 3)), 2)
    except (MalformedMessage, ValueError):
        return ()
    return tuple(
        sorted((topic.topic, index) for topic in decoded.assigned_partitions for index in topic.partitions)
    )


def committed(cluster: Cluster, name: str) -> dict[Place, Committed]:
    """Return what a group has committed, by topic and partition; nothing for a group that does not exist."""
    request = offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None)], require_stable=False
    )

    def attempt() -> Any:
        connection = cluster.coordinator(name)
        return connection.ask(request, at_most=_BY_NAME)

    answer = cluster.persist(f"read the offsets of group {name!r}", attempt)
    (group,) = answer.groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    require(group.error_code)
    return {
        (topic.name, each.partition_index): Committed(
            each.committed_offset,
            each.committed_leader_epoch if each.committed_leader_epoch >= 0 else None,
            is_sink_ledger(each.metadata),
        )
        for topic in sorted(group.topics, key=lambda one: str(one.name))
        for each in sorted(topic.partitions, key=lambda one: int(one.partition_index))
        if each.committed_offset >= 0
    }


_BY_NAME = 9
"""From version 10 on, OffsetFetch names topics by id."""


def end_offsets(cluster: Cluster, places: Iterable[Place]) -> dict[Place, int]:
    """Return the log end offsets of the partitions that exist and have a leader."""
    wanted = dict.fromkeys(places, -1)
    known = leaders(cluster, {topic for topic, _ in wanted})
    return cluster.offsets({place: -1 for place in wanted if known.get(place, -1) >= 0})


def leaders(cluster: Cluster, topics: Iterable[str]) -> Mapping[Place, int]:
    """Return the leader (-1: none) of every partition of these topics, as far as they exist."""
    names: Sequence[str] = sorted(set(topics))
    if not names:
        return {}
    return {
        (topic.name, each.partition_index): each.leader_id
        for topic in metadata(cluster, names).topics
        if not topic.error_code
        for each in sorted(topic.partitions, key=lambda one: int(one.partition_index))
    }
