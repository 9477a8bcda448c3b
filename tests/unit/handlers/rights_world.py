"""A broker with something of everything in it, and an authorizer that grants what a test says.

`Granting` stands for the authorizer: it allows a set of rights, and notes what it is asked. What the broker
has, requests name (rights_requests.py).
"""

import asyncio
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from data_plane_world import Client
from jumping_time import until
from rights_requests import CG, REQUESTS, SG, SHARE_MEMBER, A, B, G, T, find_coordinator

from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.node import Node
from moldau.broker.share.sessions import MemberKey
from moldau.common.protocol.declare import Struct
from moldau.common.protocol.frames import frame_request
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest
from moldau.common.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from moldau.common.protocol.operations import OPERATIONS_OF, Operation, ResourceType
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

ALICE = "User:alice"
Right = tuple[Operation, ResourceType]
EVERY_RIGHT = frozenset(
    (operation, kind) for kind, all_of in OPERATIONS_OF.items() for operation in all_of
) | {(Operation.DELETE, ResourceType.CLUSTER)}


class Granting:
    """Allows exactly these rights, on every resource, and on none of `hidden`."""

    def __init__(self, granted: frozenset[Right], hidden: frozenset[str] = frozenset()) -> None:
        self.granted = granted
        self.hidden = hidden
        self.asked: dict[Right, set[str]] = {}

    def allows(
        self,
        session: Any,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        assert session.principal == ALICE
        self.asked.setdefault((operation, resource_type), set()).add(name)
        return (operation, resource_type) in self.granted and name not in self.hidden

    def allows_any_resource(
        self, session: Any, operation: Operation, resource_type: ResourceType, *, quiet: bool = False
    ) -> bool:
        return self.allows(session, operation, resource_type, "any", quiet=quiet)

    def authorized_operations(self, session: Any, resource_type: ResourceType, name: str) -> int:
        return sum(
            1 << each
            for each in OPERATIONS_OF[resource_type]
            if self.allows(session, each, resource_type, name, quiet=True)
        )


class Answer(NamedTuple):
    """An answer, and its bytes."""

    message: Any
    raw: bytes
    errors: set[int]


async def ask(
    node: Node,
    request: Any,
    version: int | None = None,
    principal: str = ALICE,
    security_protocol: str = "PLAINTEXT",
) -> Answer | None:
    """Send the request, through its bytes, on a connection of this principal; None: it was closed."""
    entry = TABLE[type(request).KEY]
    version = entry.max_version if version is None else version
    client = Client(node)
    session = client.connection.session
    session.principal, session.security_protocol = principal, security_protocol
    client.feed(frame_request(entry.api_key, version, 7, "test", request.encode(version)))
    await until(lambda: client.transport.sent or client.transport.closed)
    data = bytes(client.transport.sent)
    if not data:
        return None
    (size,) = struct.unpack_from(">i", data)
    flexible = version >= entry.flexible_from and entry.api_key != ApiVersionsRequest.KEY
    raw = data[9 if flexible else 8 : 4 + size]
    message = type(request).RESPONSE.decode(raw, version)
    return Answer(message, raw, errors_in(message))


def fields_of(answer: Any, suffix: str) -> Iterator[Any]:
    """The values of all fields of an answer, however deep, whose names end so."""
    if isinstance(answer, list):
        for each in answer:
            yield from fields_of(each, suffix)
    elif isinstance(answer, Struct):
        for name in answer.FIELDS:
            value = getattr(answer, name)
            if name.endswith(suffix) and not isinstance(value, list | Struct):
                yield value
            else:
                yield from fields_of(value, suffix)


def errors_in(answer: Any) -> set[int]:
    """All error codes of an answer but NONE."""
    return set(fields_of(answer, "error_code")) - {0}


class World:
    """The node with what the requests name."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.producer_id = self.producer_epoch = -1
        self.member_id = "m" * 22
        self.fresh = self.groups = 0

    async def fill(self) -> None:
        """Make what requests name; without an authorizer."""
        make = self.node.controller.auto_create_topics
        await make([A, B])
        for kind in (0, 1):
            await self._done(find_coordinator(self, 3, kind=kind), 3)
        await self._done(REQUESTS["OffsetCommit"](self, 9), 9)
        given = await self._done(REQUESTS["InitProducerId"](self, 4), 4)
        self.producer_id, self.producer_epoch = given.producer_id, given.producer_epoch
        await self._done(REQUESTS["AddPartitionsToTxn"](self, 3), 3)
        await self._done(REQUESTS["ConsumerGroupHeartbeat"](self, 1), 1)
        share = await self._done(REQUESTS["ShareGroupHeartbeat"](self, 1), 1)
        while not share.assignment.topic_partitions:
            share = await self._done(REQUESTS["ShareGroupHeartbeat"](self, 1), 1)
        token = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        made = await ask(self.node, token, None, "User:bob", "SASL_SSL")
        assert made is not None
        assert not made.errors

    def open_share_session(self) -> None:
        """A share session whose next epoch is 1."""
        key = MemberKey(SG, SHARE_MEMBER)
        self.node.broker.share.sessions.open(key, Session("PLAINTEXT"))

    async def _done(self, request: Any, version: int) -> Any:
        """Ask until it is done: a coordinator loads after its topic was made."""
        while True:
            answer = await ask(self.node, request, version)
            assert answer is not None
            if not answer.errors:
                return answer.message
            assert answer.errors <= {14, 15, 16}, (request, answer.message)
            await asyncio.sleep(0.005)

    def secrets(self) -> dict[bytes, str]:
        """What a client without rights must not learn, unless it said it itself."""
        names = {name.encode(): name for name in (A, B, G, CG, SG, T, "bob", self.member_id)}
        return names | {self.id_of(A): "the id of A", self.id_of(B): "the id of B"}

    def fresh_group(self) -> str:
        """A group that does not exist."""
        self.groups += 1
        return f"new-{self.groups}"

    def id_of(self, topic: str) -> bytes:
        known = self.node.metadata.image.topics.get(topic)
        return known.topic_id if known is not None else b"?" * 16

    def fresh_topic(self) -> str:
        """The name of a topic that does not exist."""
        topics = self.node.metadata.image.topics
        while f"fresh{self.fresh}" in topics:
            self.fresh += 1
        return f"fresh{self.fresh}"

    def batch(self, producer_id: int = -1, producer_epoch: int = -1) -> bytes:
        now_ms = self.node.broker.clock.now_ms()
        if producer_id < 0:
            return bytes(build_batch([Record(0, now_ms, None, b"v", ())]))
        return bytes(
            build_batch(
                [Record(0, now_ms, None, b"v", ())],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=0,
                transactional=True,
            )
        )

    def state(self) -> object:
        """Everything that a request could change."""
        node = self.node
        logs = {
            (each.topic, each.index): (each.log.log_end_offset, each.log.log_start_offset)
            for each in node.replicas.partitions()
        }
        return node.metadata.image.version, logs
