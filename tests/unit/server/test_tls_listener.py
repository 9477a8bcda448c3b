"""Listeners with TLS on a real event loop: who gets in, as whom, what is logged, what a renewal changes."""

import asyncio
import logging
import os
import ssl
import struct
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uvloop
from server_world import Script

from moldau.broker.handlers.parts.broker import ResponseRoom
from moldau.broker.server.connection import Connection, Dispatcher
from moldau.broker.server.holds import UNREAD
from moldau.broker.server.listener import Listener
from moldau.broker.server.listener_tls import ListenerTls
from moldau.broker.server.listeners import Listeners
from moldau.common.core.client_state import ClientState
from moldau.common.core.clock import SystemClock
from moldau.common.core.files import OsFiles
from moldau.common.core.network import SystemNetwork
from moldau.common.core.timers import LoopTimers
from moldau.common.core.workers import thread_pool
from moldau.common.credentials.certificates.authority import Authority, Issued
from moldau.common.credentials.tls.contexts import client_context
from moldau.common.credentials.tls.handshakes import Handshakes, HandshakeStep
from moldau.common.credentials.tls.options import TlsOptions
from moldau.common.settings.listeners import listeners as planned
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import from_texts

NOW_MS, DAYS = 1_700_000_000_000, 20_000


class Serving(Script):
    """The script of test_connection.py for every connection; knows the connections."""

    def __init__(self) -> None:
        super().__init__()
        self.connections: list[Connection] = []

    def connected(self, connection: Connection) -> Dispatcher:
        self.connections.append(connection)
        return self  # type: ignore[return-value]


class Counting(Handshakes):
    """Counts the steps."""

    def __init__(self, world: "World", loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, thread_pool)
        self._world = world

    def take_step(self, step: HandshakeStep) -> None:
        self._world.handshakes_begun += 1
        super().take_step(step)


class World:
    """A broker's listeners, and clients of them."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder = folder
        self.authority = authority
        self.dispatcher = Serving()
        self.broker = authority.issue("broker-1", ["localhost", "127.0.0.1"], NOW_MS, DAYS)
        self.store = folder / "broker.pem"
        self.store.write_text(self.broker.keystore)
        (folder / "ca.pem").write_text(authority.certificate)
        self.workers = ThreadPoolExecutor(1)
        self.handshakes_begun = 0

    def settings(self, listeners: str = "SSL://127.0.0.1:0", **texts: str):
        named = {name.replace("__", "-").replace("_", "."): text for name, text in texts.items()}
        return from_texts(
            {
                "listeners": listeners,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.store),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.folder / "ca.pem"),
                "moldau.ssl.files.check.interval.ms": "0",
                **named,
            }
        ).broker

    async def serve(self, settings) -> Listener:
        loop = asyncio.get_running_loop()

        def offload(blocking: Callable[[], object]) -> asyncio.Future[object]:
            return loop.run_in_executor(self.workers, blocking)

        self.listeners = Listeners(
            settings,
            network=SystemNetwork(loop),
            clock=SystemClock(),
            timers=LoopTimers(loop),
            seconds=lambda: 0.0,
            response_room=ResponseRoom(),
            client_state=ClientState(0, SystemClock()),
            http_address=lambda: None,
            make_tls=lambda name, protocol: ListenerTls(name, protocol, OsFiles(), offload),
            make_handshakes=lambda: Counting(self, loop),
        )
        await self.listeners.bind(planned(settings))
        await self.listeners.serve(settings, self.dispatcher)  # type: ignore[arg-type]
        return self.listeners.all[0]

    def client(self, own: Issued | None = None) -> ssl.SSLContext:
        keys = {} if own is None else {"keystore_key": own.key, "keystore_certificate_chain": own.chain}
        return client_context(
            TlsOptions(
                keystore_type="PEM",
                truststore_type="PEM",
                truststore_certificates=self.authority.certificate,
                **keys,  # type: ignore[arg-type]
            )
        )

    async def ask(self, port: int, context: ssl.SSLContext | None, question: bytes = b"e hello") -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            writer.write(struct.pack(">i", len(question)) + question)
            return await reader.readexactly(len(question))
        finally:
            writer.close()


Scene = Callable[[World], Awaitable[None]]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make("Test authority", NOW_MS, DAYS + 100)


@pytest.fixture
def run(tmp_path: Path, authority: Authority) -> Callable[[Scene], None]:
    def play(scene: Scene) -> None:
        async def main() -> None:
            world = World(tmp_path, authority)
            async with asyncio.timeout(100):
                await scene(world)
                await world.listeners.close()
            world.workers.shutdown()

        uvloop.run(main())

    return play


def test_the_certificate_names_the_client(run, authority: Authority) -> None:
    async def scene(world: World) -> None:
        settings = world.settings(
            ssl_client_auth="requested", ssl_principal_mapping_rules="RULE:^CN=([^,]+).*$/$1/L,DEFAULT"
        )
        listener = await world.serve(settings)
        alice = world.authority.issue("CN=Alice,O=Shop", [], NOW_MS, DAYS)
        assert await world.ask(listener.port, world.client(alice)) == b"e hello"
        assert await world.ask(listener.port, world.client()) == b"e hello"
        principals = [each.session.principal for each in world.dispatcher.connections]
        assert principals == ["User:alice", "User:ANONYMOUS"]

    run(scene)


def test_a_name_that_no_rule_takes_is_refused(run, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(world: World) -> None:
        settings = world.settings(ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^OU=.*$/x/")
        listener = await world.serve(settings)
        alice = world.authority.issue("alice", [], NOW_MS, DAYS)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await world.ask(listener.port, world.client(alice))
        assert world.dispatcher.seen == []

    run(scene)
    assert "no rule of ssl.principal.mapping.rules takes the name CN=alice" in caplog.text


def test_a_sasl_listener_asks_for_certificates_only_by_its_own_setting(run) -> None:
    async def scene(world: World) -> None:
        names = {"listener_security_protocol_map": "ONE:SASL_SSL,TWO:SASL_SSL"}
        settings = world.settings(
            "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
            ssl_client_auth="required",
            listener_name_two_ssl_client_auth="required",
            inter_broker_listener_name="ONE",
            **names,
        )
        await world.serve(settings)
        one, two = world.listeners.all
        assert one.tls is not None
        assert two.tls is not None
        assert one.tls.context.verify_mode is ssl.CERT_NONE
        assert two.tls.context.verify_mode is ssl.CERT_REQUIRED
        alice = world.authority.issue("alice", [], NOW_MS, DAYS)
        assert await world.ask(two.port, world.client(alice)) == b"e hello"
        (connection,) = world.dispatcher.connections
        assert connection.session.principal == "User:ANONYMOUS", "the login names the client, not this"

    run(scene)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (struct.pack(">ihhih", 20, 18, 3, 1, -1), "it speaks the Kafka protocol without TLS"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "it speaks HTTP (GET)"),
        (b"\x99" * 20, "what it sent is no TLS"),
    ],
)
def test_a_client_without_tls_is_told_in_the_log(
    run, caplog: pytest.LogCaptureFixture, first: bytes, said: str
) -> None:
    async def scene(world: World) -> None:
        listener = await world.serve(world.settings())
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(first)
        answer = await reader.read()
        assert (b"HTTP/1.1 400" in answer) == first.startswith(b"GET")
        writer.close()
        assert listener.handshake_failures == 1

    run(scene)
    assert said in caplog.text


def test_half_a_handshake_counts_against_limits_and_ends(run, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(world: World) -> None:
        settings = world.settings(moldau_ssl_handshake_timeout_ms="200", max_connections_per_ip="2")
        listener = await world.serve(settings)
        silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(2)]
        silent[0][1].write(b"\x16\x03\x01\x02\x00\x01")
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await world.ask(listener.port, world.client())  # two are there, if without a word
        for reader, writer in silent:
            assert await reader.read() == b""
            writer.close()
        while listener.connections:  # noqa: ASYNC110 - no event is set for it
            await asyncio.sleep(0.01)
        assert await world.ask(listener.port, world.client()) == b"e hello"

    run(scene)
    assert "the handshake took more than 0.2 s" in caplog.text


def test_renewed_stores_are_for_new_connections(run, caplog: pytest.LogCaptureFixture) -> None:
    async def shown(world: World, port: int) -> bytes:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=world.client())
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(True)
        writer.close()
        return certificate

    async def scene(world: World) -> None:
        caplog.set_level(logging.INFO)
        settings = world.settings()
        listener = await world.serve(settings)
        tls = listener.tls
        assert tls is not None
        first = await shown(world, listener.port)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=world.client())

        def write(text: str) -> None:
            world.store.write_text(text)
            os.utime(world.store, ns=(tls.renewed_count, world.store.stat().st_mtime_ns + 10**9))

        write("nothing")
        await tls.renew(settings)
        assert tls.problem is not None
        assert "keeps its old certificate" in tls.problem
        assert await shown(world, listener.port) == first

        write(world.authority.issue("broker-2", ["localhost", "127.0.0.1"], NOW_MS, DAYS).keystore)
        await tls.renew(settings)
        assert "the new one is of CN=broker-2" in str(tls.problem)
        write(world.authority.issue("broker-1", ["localhost"], NOW_MS, DAYS).keystore)
        await tls.renew(settings)
        assert "lacks IP:127.0.0.1" in str(tls.problem)

        write(world.authority.issue("broker-1", ["localhost", "127.0.0.1"], NOW_MS, DAYS).keystore)
        await tls.renew(settings)
        assert world.store.read_text().splitlines()[1] not in caplog.text, "a line of the key"
        assert tls.problem is None
        assert tls.renewed_count == 1
        assert await shown(world, listener.port) != first
        question = b"e still here"
        writer.write(struct.pack(">i", len(question)) + question)
        assert await reader.readexactly(len(question)) == question
        writer.close()

    run(scene)
    assert "has renewed its TLS stores" in caplog.text


def test_changed_settings_renew_a_listeners_stores(run) -> None:
    async def scene(world: World) -> None:
        settings = world.settings()
        listener = await world.serve(settings)
        assert listener.tls is not None
        other = world.folder / "other.pem"
        other.write_text(world.authority.issue("broker-1", ["localhost", "127.0.0.1"], NOW_MS, DAYS).keystore)
        world.listeners.change_limits(
            settings.replace(prefixed={"listener.name.ssl.ssl.keystore.location": str(other)})
        )
        while not listener.tls.renewed_count:  # noqa: ASYNC110 - a worker reads the file
            await asyncio.sleep(0.01)
        assert await world.ask(listener.port, world.client()) == b"e hello"

    run(scene)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"ssl_keystore_location": "/nowhere.pem"}, "the listener SSL: .*cannot be read"),
        ({"ssl_principal_mapping_rules": "RULE:(/x/"}, "cannot be read"),
        ({"ssl_truststore_type": "JKS", "ssl_client_auth": "required"}, "set ssl.truststore.type=PEM"),
    ],
)
def test_a_broker_with_unusable_stores_does_not_start(
    tmp_path: Path, authority: Authority, texts: dict[str, str], said: str
) -> None:
    async def main() -> None:
        world = World(tmp_path, authority)
        with pytest.raises(SettingError, match=said):
            await world.serve(world.settings(**texts))
        world.workers.shutdown()

    asyncio.run(main())


def test_many_that_come_together_are_all_served(run) -> None:
    async def scene(world: World) -> None:
        listener = await world.serve(world.settings(socket_listen_backlog_size="500"))
        context = world.client()
        answers = await asyncio.gather(*[world.ask(listener.port, context) for _ in range(100)])
        assert set(answers) == {b"e hello"}

    run(scene)


def test_large_requests_and_answers_pass_in_both_directions(run) -> None:
    async def scene(world: World) -> None:
        listener = await world.serve(world.settings())
        question = b"e" + os.urandom(5_000_000)
        assert await world.ask(listener.port, world.client(), question) == question

    run(scene)


def test_a_client_that_reads_late_gets_all_its_answers(run) -> None:
    async def scene(world: World) -> None:
        listener = await world.serve(world.settings())
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=world.client())
        question = b"e" + os.urandom(1_000_000)
        for _ in range(20):
            writer.write(struct.pack(">i", len(question)) + question)
        while not world.dispatcher.connections:  # noqa: ASYNC110 - the client is done with its handshake first
            await asyncio.sleep(0.01)
        (connection,) = world.dispatcher.connections
        while not connection.held & UNREAD:  # noqa: ASYNC110 - until neither end takes more
            await asyncio.sleep(0.01)
        held_bytes = connection.unsent_bytes()
        assert 0 < held_bytes <= 2 * len(question)
        # What is counted is noted before the last TLS records get their headers.
        assert world.listeners.responses.used_bytes >= held_bytes - 4096
        for _ in range(20):
            assert await reader.readexactly(len(question)) == question
        while connection.held & UNREAD or world.listeners.responses.used_bytes:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        writer.close()

    run(scene)


def test_a_client_that_never_reads_is_closed_when_memory_runs_out(run) -> None:
    async def scene(world: World) -> None:
        settings = world.settings(moldau_queued_max_response_bytes="500000")
        listener = await world.serve(settings)
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=world.client())
        writer.transport.pause_reading()
        question = b"e" + bytes(30_000_000)  # more than the kernel's buffers hold, whatever their size
        writer.write(struct.pack(">i", len(question)) + question)
        while not world.listeners.responses.closed_count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while listener.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert world.listeners.responses.closed_count == 1
        writer.close()

    run(scene)


def test_a_connection_over_its_addresss_rate_gets_no_handshake(run) -> None:
    class Rates:
        def delay_ms(self, host: str) -> int:
            return 300

    async def scene(world: World) -> None:
        listener = await world.serve(world.settings())
        listener.connection_rates = Rates()  # type: ignore[assignment]
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await world.ask(listener.port, world.client())
        assert world.dispatcher.connections == []
        assert listener.refused_count == 1
        assert world.handshakes_begun == 0
        assert listener.handshake_failures == 0
        assert not listener.delayed

    run(scene)
