"""A broker with Kafka's authorizer, clients with a name, and ACLs that come and go.

`Person` is one connection of a principal. `world.allow` and `world.deny` make an ACL, `world.withdraw`
removes what `allow` made; all of them hold when they return.
"""

import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from data_plane_world import Client, on_a_node
from rights_world import until

from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.node import Node
from moldau.common.protocol.acls import Acl, AclFilter
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.protocol.operations import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

ROOT = "User:root"


class Person:
    """One connection of a principal."""

    def __init__(self, node: Node, principal: str) -> None:
        self.client = Client(node)
        self.client.connection.session.principal = principal

    @property
    def shortcut(self) -> object:
        """The connection's shortcut for repeated Produce requests."""
        return self.client.connection.shortcut

    @property
    def closed(self) -> bool:
        return self.client.transport.closed

    def send(self, request: Any, version: int | None = None) -> int:
        entry = TABLE[type(request).KEY]
        version = entry.max_version if version is None else version
        self.client.feed(frame_request(entry.api_key, version, 7, "test", request.encode(version)))
        return version

    async def answer(self, kind: Any, version: int) -> Any:
        """The next answer, to a request of this type."""
        sent = self.client.transport.sent
        await until(lambda: sent or self.closed)
        (size,) = struct.unpack_from(">i", sent)
        flexible = kind.FLEXIBLE_FROM is not None and version >= kind.FLEXIBLE_FROM
        message = kind.RESPONSE.decode(bytes(sent[9 if flexible else 8 : 4 + size]), version)
        del sent[: 4 + size]
        return message

    async def ask(self, request: Any, version: int | None = None) -> Any:
        return await self.answer(type(request), self.send(request, version))


class AclWorld:
    """One node."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def person(self, principal: str) -> Person:
        """A new connection."""
        return Person(self.node, principal)

    async def allow(self, principal: str, operation: Operation, kind: ResourceType, name: str) -> None:
        await self._create(principal, operation, kind, name, Permission.ALLOW)

    async def deny(self, principal: str, operation: Operation, kind: ResourceType, name: str) -> None:
        await self._create(principal, operation, kind, name, Permission.DENY)

    async def _create(
        self, principal: str, operation: Operation, kind: ResourceType, name: str, permission: Permission
    ) -> None:
        acl = Acl(kind, name, PatternType.LITERAL, principal, "*", operation, permission)
        (outcome,) = await self.node.controller.create_acls([acl])
        assert not outcome.failed, outcome

    async def withdraw(self, principal: str, operation: Operation, kind: ResourceType, name: str) -> None:
        acl = (kind, name, PatternType.LITERAL, principal, "*", operation, Permission.ALLOW)
        ((outcome, deleted),) = await self.node.controller.delete_acls([AclFilter(*acl)])
        assert not outcome.failed
        assert len(deleted) == 1

    def id_of(self, topic: str) -> bytes:
        return self.node.metadata.image.topics[topic].topic_id

    def end_offset(self, topic: str) -> int:
        partition = self.node.replicas.partition(topic, 0)
        assert partition is not None
        return partition.log.log_end_offset

    async def done(self, person: Person, request: Any, version: int | None = None) -> Any:
        """Ask until a coordinator is there."""
        while True:
            answer = await person.ask(request, version)
            if answer.error_code not in (14, 15, 16):
                return answer


def with_acls(scene: Callable[[AclWorld], Awaitable[None]], folder: Path, **texts: str) -> None:
    """Run the scene with a node that has the topics `a` and `b`; User:root may do everything."""

    async def on_node(node: Node) -> None:
        await scene(AclWorld(node))

    on_a_node(
        on_node,
        folder,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users=ROOT,
        group_initial_rebalance_delay_ms="0",
        offsets_topic_num_partitions="1",
        transaction_state_log_num_partitions="1",
        **texts,
    )


def batch(node: Node, value: bytes = b"v", **producer: Any) -> bytes:
    """A batch of one record."""
    now_ms = node.broker.clock.now_ms()
    return bytes(build_batch([Record(0, now_ms, None, value, ())], **producer))


def produces(
    *topics: tuple[str, bytes], acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    """A batch for partition 0 of each topic, by name (version 12 and older)."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=records)])
            for name, records in topics
        ],
    )


def commits(group_id: str, *topics: str) -> OffsetCommitRequest:
    """An offset for partition 0 of each topic (version 9 and older)."""
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=[row]) for name in topics],
    )


__all__ = ["CLUSTER_NAME", "AclWorld", "Person", "batch", "commits", "produces", "with_acls"]
