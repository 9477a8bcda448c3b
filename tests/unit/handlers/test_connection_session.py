"""One session a connection: both kinds of handler get it, and a repeated Produce request goes the short way
only while it is what it was.
"""

import asyncio
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from data_plane_world import Client, on_a_node, partition_rows, produce_frame
from jumping_time import settled, until

from moldau.broker.handlers import load_all
from moldau.broker.handlers.apis.produce.produce_repeat import RepeatedProduce
from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.exchange import AnswerFrame, Exchange
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import ANONYMOUS, Session
from moldau.broker.node import Node
from moldau.broker.server.connection import Connection
from moldau.broker.server.dispatch import Dispatch
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest
from moldau.common.protocol.messages.metadata import MetadataRequest

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
NULL = struct.pack(">h", -1)


def field(client_id: str) -> bytes:
    return struct.pack(">h", len(client_id)) + client_id.encode()


def frame(api_key: int, version: int, client: bytes, body: bytes, *, flexible: bool) -> bytes:
    content = struct.pack(">hhi", api_key, version, 1) + client + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(content)) + content


def renamed(produce: bytes, client: bytes) -> bytes:
    """The same Produce request (of the client `load`) from another client id."""
    content = produce[4:12] + client + produce[12 + len(field("load")) :]
    return struct.pack(">i", len(content)) + content


class Seen:
    """The sessions that handlers were called with, by API key, and the client id at that moment."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, Session, str]] = []

    def keys(self) -> list[int]:
        return [key for key, _, _ in self.calls]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    load_all()
    seen = Seen()
    produce, metadata = TABLE[PRODUCE], TABLE[METADATA]

    def raw(
        broker: Broker, exchange: Exchange, view: memoryview, body: int, version: int, correlation_id: int
    ) -> AnswerFrame | None:
        seen.calls.append((PRODUCE, exchange.session, exchange.session.client_id))
        answer: AnswerFrame | None = produce.raw(broker, exchange, view, body, version, correlation_id)
        return answer

    def declared(broker: Broker, context: RequestContext, request: object) -> object:
        seen.calls.append((METADATA, context.session, context.client_id))
        return metadata.handler(broker, context, request)

    monkeypatch.setitem(TABLE, PRODUCE, replace(produce, raw=raw))
    monkeypatch.setitem(TABLE, METADATA, replace(metadata, handler=declared))
    return seen


def test_both_kinds_of_handler_get_the_connection_s_own_session(tmp_path: Path, seen: Seen) -> None:
    async def scene(node: Node) -> None:
        one, other = Client(node), Client(node)
        metadata = frame(METADATA, 9, field("load"), MetadataRequest(topics=None).encode(9), flexible=True)
        for client in (one, other):
            client.feed(produce_frame("a", 100))
            await settled()
            client.feed(metadata)
        sessions = [session for _, session, _ in seen.calls]
        assert seen.keys() == [PRODUCE, METADATA] * 2
        assert sessions[0] is sessions[1] is one.connection.session
        assert sessions[2] is sessions[3] is other.connection.session
        assert sessions[0] is not sessions[2]
        assert {client_id for _, _, client_id in seen.calls} == {"load"}
        session = one.connection.session
        assert (session.listener, session.security_protocol) == ("PLAINTEXT", "PLAINTEXT")
        assert session.principal == ANONYMOUS == "User:ANONYMOUS"
        assert (session.client_host, session.client_port) == ("127.0.0.1", 1)

    on_a_node(scene, tmp_path)


def test_a_repeated_request_is_remembered_for_as_long_as_its_session_stays_the_same(
    tmp_path: Path, seen: Seen
) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        session = client.connection.session

        async def produce() -> bool:
            """Whether the request was decoded; its batch is appended in either case."""
            calls = len(seen.calls)
            client.feed(produce_frame("a", 100))
            await settled()
            return len(seen.calls) > calls

        assert [await produce() for _ in range(3)] == [True, False, False]
        session.rights_changed()
        assert [await produce() for _ in range(3)] == [True, False, False]
        session.authenticate("User:alice", now_ms=1000, expires_ms=2000)
        assert [await produce() for _ in range(3)] == [True, False, False]
        assert isinstance(client.connection.shortcut, RepeatedProduce)
        rows = [row for answer in client.answers() for row in partition_rows(answer)]
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, offset) for offset in range(9)]

    on_a_node(scene, tmp_path)


def test_every_request_passes_one_function_also_one_that_repeats(
    tmp_path: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: Node) -> None:
        passed: list[Session] = []
        request = Dispatch.request

        def counted(
            self: Dispatch, connection: Connection, view: memoryview, position: int, end: int
        ) -> AnswerFrame | None:
            passed.append(connection.session)
            return request(self, connection, view, position, end)

        monkeypatch.setattr(Dispatch, "request", counted)
        client = Client(node)
        metadata = frame(METADATA, 9, field("load"), MetadataRequest(topics=None).encode(9), flexible=True)
        large = produce_frame("a", *[100_000, 100_000])
        for each in (produce_frame("a", 100), produce_frame("a", 100), metadata, large):
            client.feed(each)
            await settled()
        assert seen.keys() == [PRODUCE, METADATA, PRODUCE]
        assert passed == [client.connection.session] * 4

    on_a_node(scene, tmp_path)


def test_a_connection_that_is_accepted_has_a_session_of_its_listener(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        listener = node.listeners.all[0]
        writers = [(await asyncio.open_connection("127.0.0.1", listener.port))[1] for _ in range(2)]
        await until(lambda: len(listener.connections) == 2)
        sessions = [connection.session for connection in listener.connections]
        for session, writer, index in zip(sessions, writers, range(2), strict=True):
            port = writer.get_extra_info("sockname")[1]
            assert (session.listener, session.security_protocol) == ("PLAINTEXT", "PLAINTEXT")
            assert (session.client_host, session.client_port) == ("127.0.0.1", port)
            assert session.connection_id == f"127.0.0.1:{listener.port}-127.0.0.1:{port}-0-{index}"
            assert (session.principal, session.authenticated_ms) == (ANONYMOUS, None)
            writer.close()

    on_a_node(scene, tmp_path, real_time=True)


def test_a_client_id_is_known_in_every_request_and_another_one_is_another_client(
    tmp_path: Path, seen: Seen
) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        session = client.connection.session
        usual = produce_frame("a", 100)
        renames = [
            usual,
            renamed(usual, field("other")),
            usual,
            renamed(usual, NULL),
            renamed(usual, field("")),
        ]
        for each in renames:
            client.feed(each)
            await settled()
        assert [client_id for _, _, client_id in seen.calls] == ["load", "other", "load", "", ""]
        client.feed(renamed(usual, field("")))  # the same again: the short way
        await settled()
        assert len(seen.calls) == len(renames)
        metadata = frame(METADATA, 8, field("löad"), MetadataRequest(topics=None).encode(8), flexible=False)
        umlaut = metadata.replace(field("löad"), struct.pack(">h", 5) + "löad".encode())
        client.feed(struct.pack(">i", len(umlaut) - 4) + umlaut[4:])
        assert seen.calls[-1] == (METADATA, session, "löad")
        # The former client's request is decoded again: its shortcut rested on another client id.
        await until(lambda: not client.connection.queue)
        client.transport.sent.clear()
        client.feed(renamed(usual, field("")))
        await until(lambda: client.transport.sent)
        assert (seen.calls[-1], len(seen.calls)) == ((PRODUCE, session, ""), len(renames) + 2)
        assert [row.base_offset for row in partition_rows(client.answers()[0])] == [6]

    on_a_node(scene, tmp_path)


@pytest.mark.parametrize("client", [struct.pack(">h", 300), struct.pack(">h", -7), b"\0\2\xff\xfe"])
def test_a_header_that_lies_ends_the_connection_and_names_nobody(tmp_path: Path, client: bytes) -> None:
    async def scene(node: Node) -> None:
        liar = Client(node)
        liar.feed(produce_frame("a", 100))
        await settled()
        content = struct.pack(">hhi", PRODUCE, 9, 1) + client + bytes(20)
        liar.feed(struct.pack(">i", len(content)) + content)
        assert liar.transport.closed
        assert liar.connection.session.client_id == "load"

    on_a_node(scene, tmp_path)


def test_header_tags_are_stepped_over_where_the_client_is_known(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        usual = produce_frame("a", 100)
        head = 12 + len(field("load"))
        tagged = usual[:head] + b"\1\7\2ab" + usual[head + 1 :]
        for each in (usual, tagged):
            client.feed(struct.pack(">i", len(each) - 4) + each[4:])
            await settled()
        assert [row.error_code for each in client.answers() for row in partition_rows(each)] == [0, 0]

    on_a_node(scene, tmp_path)


def test_the_client_s_software_is_noted_when_it_is_said_as_kip_511_wants_it(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        client = Client(node)
        session = client.connection.session
        for name, version in (("kcat", "1.7.0"), ("bad name", "1")):
            body = ApiVersionsRequest(client_software_name=name, client_software_version=version).encode(3)
            client.feed(frame(API_VERSIONS, 3, field("load"), body, flexible=True))
            assert (session.software_name, session.software_version) == ("kcat", "1.7.0")
        client.feed(frame(API_VERSIONS, 0, field("load"), b"", flexible=False))
        assert session.software_name == "kcat"

    on_a_node(scene, tmp_path)


def test_a_connection_has_a_name_as_kafka_makes_it() -> None:
    session = Session("PLAINTEXT")
    session.accepted(("10.0.0.7", 40_000), ("10.0.0.1", 9092), 3)
    assert session.connection_id == "10.0.0.1:9092-10.0.0.7:40000-0-3"
