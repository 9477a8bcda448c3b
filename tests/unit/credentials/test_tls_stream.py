"""TLS between a wire and an application: what each is told, in which order, and how much waits."""

import os
import ssl

import pytest
from tls_world import End, carry, shaken

from moldau.common.credentials.tls.failures import failure_of
from moldau.common.credentials.tls.stream import TURN_BYTES, State

LARGE = os.urandom(3_000_000)


def test_a_server_is_known_at_once_and_a_client_after_its_handshake(pki) -> None:
    server = End(pki.server(), is_server=True)
    client = End(pki.client(), is_server=False)
    assert server.application.calls == ["made"]
    assert client.application.calls == []
    assert server.steps.waiting == [], "nothing is computed before bytes come"
    carry(server, client)
    assert client.application.calls == ["made"]
    assert (server.watched.secured_count, client.watched.secured_count) == (1, 1)
    assert server.stream.get_extra_info("peername") == ("10.0.0.9", 5000)


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("piece_bytes", [1, 7, 1000, 1 << 20])
def test_bytes_arrive_as_they_were_sent_however_they_are_cut(pki, protocol: str, piece_bytes: int) -> None:
    ends = (
        End(pki.server(enabled_protocols=(protocol,), client_auth="required"), is_server=True),
        End(pki.client(pki.alice, enabled_protocols=(protocol,)), is_server=False),
    )
    carry(*ends, piece_bytes)
    data = LARGE[:20_000]
    for sender, receiver in (ends, ends[::-1]):
        sender.stream.writelines([data[:10], b"", data[10:5000], memoryview(data)[5000:]])
        carry(*ends, piece_bytes)
        assert receiver.application.got == data
        assert sender.stream.get_write_buffer_size() == 0


def test_bytes_with_the_last_step_of_the_handshake_are_not_lost(pki) -> None:
    server, client = End(pki.server(), is_server=True), End(pki.client(), is_server=False)
    client.stream.write(b"first")  # waits for the handshake
    carry(server, client)
    assert server.application.got == b"first"


def test_a_step_is_computed_for_whole_records_only(pki) -> None:
    server, client = End(pki.server(), is_server=True), End(pki.client(), is_server=False)
    client.steps.run()
    hello = client.take()
    for at in range(len(hello) - 1):
        server.receive(hello[at : at + 1])
        assert server.steps.waiting == []
    server.receive(hello[-1:])
    assert len(server.steps.waiting) == 1
    assert not server.wire.reading, "OpenSSL has the wire's bytes to itself"


def test_large_answers_are_encrypted_as_the_socket_takes_them(pki) -> None:
    server, client = shaken(pki.server(), pki.client())
    server.take()
    server.stream.set_write_buffer_limits(high=64 * 1024)
    server.stream.write(LARGE)
    first = len(server.wire.sent)
    assert TURN_BYTES <= first < 1.2 * TURN_BYTES, "no more in one turn of the loop"
    assert server.application.calls[-1] == "pause"
    assert server.stream.get_write_buffer_size() == len(LARGE) - TURN_BYTES
    server.stream.pause_writing()
    server.timers.advance(0)
    assert len(server.wire.sent) == first, "the socket is full: nothing is encrypted"
    server.wire.full = True
    assert server.stream.get_write_buffer_size() == len(LARGE) - TURN_BYTES + first
    server.wire.full = False
    server.stream.resume_writing()
    while server.stream.get_write_buffer_size():
        server.timers.advance(0)
    assert server.application.calls[-1] == "resume"
    carry(server, client)
    assert client.application.got == LARGE


def test_an_application_that_paused_goes_on_when_the_wire_does(pki) -> None:
    server, _ = shaken(pki.server(), pki.client())
    server.take()
    server.stream.set_write_buffer_limits(high=64 * 1024)
    assert (server.wire.high_bytes, server.wire.low_bytes) == (64 * 1024, 16 * 1024)
    server.stream.write(LARGE[:100_000])
    server.wire.full = True
    server.stream.pause_writing()  # all is encrypted, and the socket takes no more
    assert server.application.calls[-1] == "pause"
    server.take()
    server.wire.sent += bytes(16 * 1024)  # as much is left when the wire goes on
    server.stream.resume_writing()
    assert server.application.calls[-1] == "resume"


def test_answers_keep_their_order_while_some_wait(pki) -> None:
    server, client = shaken(pki.server(), pki.client())
    server.stream.write(LARGE)
    server.stream.write(b"behind it")
    server.stream.writelines([b"and ", b"behind that"])
    carry(server, client)
    assert client.application.got == LARGE + b"behind itand behind that"


def test_an_application_that_does_not_read_stops_the_wire(pki) -> None:
    server, client = shaken(pki.server(), pki.client(), buffer_bytes=1000)
    application = server.application

    def pause_once() -> None:
        if len(application.got) == 1000:
            server.stream.pause_reading()

    application.on_data = pause_once
    client.stream.write(LARGE[:40_000])
    client.steps.run()
    server.receive(client.take())
    assert len(application.got) == 1000
    assert not server.wire.reading
    server.timers.advance(0)
    assert len(application.got) == 1000
    server.stream.resume_reading()
    assert server.wire.reading
    assert len(application.got) == 1000, "not inside the call"
    server.timers.advance(0)
    assert application.got == LARGE[:40_000]


def test_a_close_sends_what_waits_then_close_notify(pki) -> None:
    server, client = shaken(pki.server(), pki.client())
    server.stream.write(LARGE)
    server.stream.close()
    assert server.stream.is_closing()
    assert not server.wire.closed
    server.stream.write(b"too late")
    while not server.wire.closed:
        server.timers.advance(0)
    client.receive(server.take())
    client.timers.advance(0)
    assert client.application.got == LARGE
    assert "eof" in client.application.calls
    assert client.wire.closed


def test_an_end_of_the_wire_without_close_notify_is_an_end(pki) -> None:
    server, _ = shaken(pki.server(), pki.client())
    assert server.stream.eof_received() is False
    server.stream.connection_lost(None)
    assert server.application.calls == ["made", "eof", "lost"]


def test_changed_bytes_end_the_connection(pki) -> None:
    server, client = shaken(pki.server(), pki.client())
    client.stream.write(b"secret")
    record = bytearray(client.take())
    record[-1] ^= 1
    server.receive(bytes(record))
    assert server.wire.aborted
    assert server.application.got == b""


def test_a_handshake_that_does_not_end_is_ended(pki) -> None:
    server, client = End(pki.server(), is_server=True), End(pki.client(), is_server=False)
    client.steps.run()
    server.receive(client.take()[:20])
    server.timers.advance(30_000)
    (error,) = server.watched.failures
    assert failure_of(error).sentence == "the handshake took more than 30 s"
    assert server.wire.aborted


def test_a_client_without_tls_is_recognised(pki) -> None:
    server = End(pki.server(), is_server=True)
    server.receive(b"GET / HTTP/1.1\r\n")
    assert server.watched.foreign_bytes == b"GET / HTTP/1.1\r\n"
    assert server.wire.sent == b"no TLS"
    assert server.wire.closed
    server.timers.advance(60_000)
    server.stream.connection_lost(None)
    assert server.watched.failures == []


def test_a_connection_closed_while_a_step_is_computed_stays_closed(pki) -> None:
    server, client = End(pki.server(), is_server=True), End(pki.client(), is_server=False)
    client.steps.run()
    server.receive(client.take())
    (step,) = server.steps.waiting
    step.compute()
    server.stream.abort()
    server.stream.connection_lost(None)
    step.computed()
    assert server.stream.state is State.CLOSED
    assert server.watched.secured_count == 0
    assert server.application.calls == ["made", "lost"]


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("server_more", "own", "host", "said"),
    [
        ({"client_auth": "required"}, None, "localhost", "it shows no certificate"),
        ({}, None, "elsewhere.example", "it does not trust this end's certificate"),
    ],
)
def test_why_a_handshake_fails_is_said_at_the_server(
    pki, protocol: str, server_more: dict[str, str], own: None, host: str, said: str
) -> None:
    server = End(pki.server(enabled_protocols=(protocol,), **server_more), is_server=True)
    client = End(pki.client(enabled_protocols=(protocol,)), is_server=False, host=host)
    carry(server, client)
    (error,) = server.watched.failures
    assert said in failure_of(error).sentence
    assert server.wire.closed
    assert "lost" not in server.application.calls  # the wire says when
    server.stream.connection_lost(None)
    assert server.application.calls == ["made", "lost"]


def test_older_versions_of_tls_are_refused_with_a_word(pki) -> None:
    server = End(pki.server(enabled_protocols=("TLSv1.3",)), is_server=True)
    client = End(pki.client(enabled_protocols=("TLSv1.2",)), is_server=False)
    carry(server, client)
    assert failure_of(server.watched.failures[0]).kind == "version"
    assert failure_of(client.watched.failures[0]).kind in ("tls", "version")


def test_renegotiation_is_not_taken_up(pki) -> None:
    context = pki.server(enabled_protocols=("TLSv1.2",))
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.num_tickets == 0


@pytest.mark.parametrize("seed", range(20))
def test_mutated_handshakes_end_in_a_failure_or_a_timeout(pki, seed: int) -> None:
    """Any one byte of either flight changed: never an error elsewhere, never an open connection with it."""
    import random

    source = random.Random(seed)
    server = End(pki.server(client_auth="required"), is_server=True)
    client = End(pki.client(pki.alice), is_server=False)
    client.steps.run()
    hello = bytearray(client.take())
    target = source.choice(("hello", "finish"))
    if target == "hello":
        hello[source.randrange(len(hello))] ^= 1 << source.randrange(8)
    server.receive(bytes(hello))
    server.steps.run()
    if server.stream.state is State.SHAKING and target == "finish":
        client.receive(server.take())
        client.steps.run()
        flight = bytearray(client.take())
        flight[source.randrange(len(flight))] ^= 1 << source.randrange(8)
        server.receive(bytes(flight))
        server.steps.run()
    else:
        carry_on(server, client)
    server.timers.advance(30_000)
    assert server.watched.failures or server.watched.foreign_bytes or _agreed(server, client)


def carry_on(server: End, client: End) -> None:
    data = server.take()
    if client.wire.reading:
        client.receive(data)
        client.steps.run()
        if server.wire.reading:
            server.receive(client.take())
            server.steps.run()


def _agreed(server: End, client: End) -> bool:
    """Both ends came to the same keys: the changed byte meant nothing (a version field that is not read)."""
    client.stream.write(b"x")
    server.application.on_data = lambda: None
    server.receive(client.take())
    return bytes(server.application.got) == b"x"
