"""One connection to a listener, as a client opens it, with the reason where it goes no further.

    resolve the name -> connect -> TLS handshake -> ApiVersions -> SaslHandshake, login -> Metadata

Each step that fails raises `Trouble` with the step's name, what was seen and what to do. The usual mix-ups
(a web server, a TLS listener, a listener that wants SASL) are told apart by the bytes that come back, or by
trying the listener the other way.

Sources: Kafka's protocol guide, KIP-35 (ApiVersions), KIP-43 (SaslHandshake).
"""

from __future__ import annotations

import errno
import socket
import ssl
import struct
from dataclasses import dataclass, field
from typing import Any

from moldau.client.connection import handshake_reason
from moldau.client.errors import error_words
from moldau.client.options import ClientOptions
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest
from moldau.common.protocol.messages.metadata import MetadataRequest
from moldau.common.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.common.protocol.wire import MalformedMessage
from moldau.tools.doctor.findings import Stopwatch
from moldau.tools.doctor.transport import Transport, explain_handshake

_METADATA_VERSION = 2
"""The first that names the cluster."""
_CORRELATION_ID = 7
_FRAME_BYTES_MAX = 64 * 1024 * 1024
_IS_IT_KAFKA = "is it a Kafka broker?"
_CLIENT_ID = b"moldau-doctor"
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16
_NEEDED_APIS = {0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 10: "FindCoordinator"}


Peer = tuple[str, int]
"""The numeric address and port of a connection."""


class Trouble(Exception):
    """A step failed: its name, what was seen, and what to do."""

    def __init__(self, step: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.step = step
        self.message = message
        self.remedy = remedy


@dataclass(slots=True)
class Reached:
    """What a listener told: `apis` maps an API's key to its lowest and highest version."""

    address: str
    connect_ms: float
    answer_ms: float
    apis: dict[int, tuple[int, int]]
    tls: str | None = None
    mechanisms: tuple[str, ...] = ()
    user: str | None = None
    """Who has logged in."""
    cluster_id: str | None = None
    brokers: tuple[tuple[int, str, int], ...] = ()
    """Number, host and port of each, as Metadata names them; none where a login comes first."""
    unreachable: list[str] = field(default_factory=list)
    """Addresses of the same name that refused, before one accepted."""


def resolve(host: str, port: int) -> tuple[list[Any], float]:
    """Return a name's socket addresses and how long the look-up took, in ms. Trouble if there are none."""
    watch = Stopwatch()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is no valid name"
        raise Trouble(
            "name",
            f"{host} cannot be resolved ({why})",
            "correct the name, or add it to the DNS or to /etc/hosts on this machine",
        ) from None
    return found, watch.ms


def reach(host: str, port: int, transport: Transport, timeout_seconds: float) -> Reached:
    """Go through the steps of a connection. Trouble names the step that failed."""
    found, _ = resolve(host, port)
    watch = Stopwatch()
    connection, address, refused = _connect(host, port, found, timeout_seconds)
    connect_ms = watch.ms
    try:
        tls = None
        if transport.tls is not None:
            connection = _handshake(connection, host, transport.tls, (address, port))
            tls = connection.version()
        watch = Stopwatch()
        apis = _api_versions(connection, host, (address, port), transport)
        reached = Reached(address, connect_ms, watch.ms, apis, tls, unreachable=refused)
        if transport.mechanism is not None:
            reached.mechanisms = _mechanisms(connection, transport.mechanism)
            if transport.options is not None:
                reached.cluster_id, reached.brokers = _log_in(host, port, transport.options)
                sasl = transport.options.security.sasl
                reached.user = sasl.options.get("username", "the client") if sasl is not None else None
        else:
            reached.cluster_id, reached.brokers = _cluster(connection, apis)
        return reached
    finally:
        connection.close()


def lacking(apis: dict[int, tuple[int, int]]) -> list[str]:
    """Return the names of the APIs that any client needs and this broker does not serve."""
    return [name for key, name in _NEEDED_APIS.items() if key not in apis]


def _connect(
    host: str, port: int, found: list[Any], timeout_seconds: float
) -> tuple[socket.socket, str, list[str]]:
    refused: list[str] = []
    last: OSError | None = None
    for family, kind, protocol, _, address in found:
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(timeout_seconds)
        try:
            connection.connect(address)
        except OSError as problem:
            connection.close()
            last = problem
            refused.append(str(address[0]))
        else:
            return connection, str(address[0]), refused
    tried = ", ".join(dict.fromkeys(refused))
    raise _unreachable(f"{host}:{port}", tried, last)


def _unreachable(named: str, tried: str, problem: OSError | None) -> Trouble:
    at = f"{named} ({tried})" if tried not in named else named
    if isinstance(problem, ConnectionRefusedError):
        return Trouble(
            "connection",
            f"{at} refuses the connection: nothing listens there",
            "start the broker, or correct the port; see its `listeners` setting",
        )
    if isinstance(problem, TimeoutError):
        return Trouble(
            "connection",
            f"{at} does not answer",
            "a firewall, a security group or a wrong address: packets are lost without a word; "
            "try from the broker's own machine",
        )
    if problem is not None and problem.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return Trouble(
            "connection",
            f"there is no route to {at}",
            "the address is of a network that this machine is not in (a container's, a VPN's): the broker "
            "must advertise an address that clients reach, by advertised.listeners",
        )
    return Trouble("connection", f"{at} is not reached: {problem}", "check the address and the network")


def _handshake(connection: socket.socket, host: str, context: ssl.SSLContext, peer: Peer) -> ssl.SSLSocket:
    timeout_seconds = connection.gettimeout()
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except OSError as problem:
        connection.close()
        if not isinstance(problem, ssl.SSLCertVerificationError) and _answers_plainly(peer, timeout_seconds):
            raise Trouble(
                "TLS",
                "this listener does not speak TLS: it answers without it",
                "use the port of a TLS listener, or drop ssl from -X security.protocol",
            ) from None
        raise Trouble("TLS", *explain_handshake(problem, host)) from None


def _answers_plainly(peer: Peer, timeout_seconds: float | None) -> bool:
    try:
        with socket.create_connection(peer, timeout=timeout_seconds) as connection:
            _ask(connection, ApiVersionsRequest(), 0)
    except (_Alien, OSError):
        return False
    return True


def _answers_tls(peer: Peer, timeout_seconds: float | None) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(peer, timeout=timeout_seconds) as connection:
            context.wrap_socket(connection).close()
    except ssl.SSLError as problem:
        return "CERTIFICATE" in (problem.reason or "")  # it wants one, so it speaks TLS
    except OSError:
        return False
    return True


def _api_versions(
    connection: socket.socket, host: str, peer: Peer, transport: Transport
) -> dict[int, tuple[int, int]]:
    port = peer[1]
    plain, timeout_seconds = transport.tls is None, connection.gettimeout()
    try:
        answer = _ask(connection, ApiVersionsRequest(), 0)
    except _Alien as alien:
        raise _explain_alien(alien, host, port, plain=plain) from None
    except (ConnectionError, ssl.SSLError, TimeoutError) as problem:
        if plain and _answers_tls(peer, timeout_seconds):
            raise _speaks_tls(host, port) from None
        if isinstance(problem, TimeoutError):
            raise Trouble(
                "protocol",
                f"{host}:{port} accepts the connection and does not answer",
                "is it a Kafka broker? One that is starting or overloaded answers late: raise --timeout",
            ) from None
        remedy = (
            "is it a Kafka broker? It may limit connections by address: see its log"
            if plain
            else "it may want a client certificate that it trusts: -X ssl.certificate.location=FILE "
            "-X ssl.key.location=FILE, or ssl.keystore.*"
        )
        why = handshake_reason(problem) if isinstance(problem, ssl.SSLError) else problem
        raise Trouble(
            "protocol" if plain else "TLS",
            f"{host}:{port} closed the connection at the first request ({why})",
            remedy,
        ) from None
    if answer.error_code:
        raise Trouble("protocol", f"ApiVersions failed with {error_words(answer.error_code)}", _IS_IT_KAFKA)
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def _mechanisms(connection: socket.socket, mechanism: str) -> tuple[str, ...]:
    try:
        answer = _ask(connection, SaslHandshakeRequest(mechanism=mechanism), 1)
    except (_Alien, OSError):
        raise Trouble(
            "SASL",
            "the listener closed the connection at SaslHandshake",
            "it does not use SASL: drop sasl_ from security.protocol, or use the port of a SASL listener",
        ) from None
    names = tuple(answer.mechanisms)
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise Trouble(
            "SASL",
            "the listener does not use SASL",
            "drop sasl_ from security.protocol, or use the port of a SASL listener",
        )
    if answer.error_code:
        raise Trouble(
            "SASL",
            f"the broker does not offer {mechanism}" + (f", only {', '.join(names)}" if names else ""),
            f"set -X sasl.mechanism={names[0]}" if names else "see sasl.enabled.mechanisms of the broker",
        )
    return names


def _log_in(
    host: str, port: int, options: ClientOptions
) -> tuple[str | None, tuple[tuple[int, str, int], ...]]:
    """Log in over a connection of its own, and ask for the cluster. Trouble says why the login fails."""
    from moldau.client.connection import Connection, ConnectionLost
    from moldau.client.errors import ClientError, OptionError
    from moldau.client.login import Denied

    try:
        connection = Connection(host, port, options)
    except OptionError as problem:
        raise Trouble("login", str(problem), "correct the sasl.* settings") from None
    except Denied as problem:
        raise Trouble(
            "login",
            str(problem),
            "compare user and password with the broker's: a wrong password and an unknown user look alike "
            "to a client; `moldau users list` shows who has SCRAM credentials",
        ) from None
    except ClientError as problem:
        raise Trouble(
            "login", str(problem), "is it the broker that you mean? Compare its sasl.* settings"
        ) from None
    except ConnectionLost as problem:
        raise Trouble(
            "login", f"the connection ended during the login: {problem}", "see the broker's log"
        ) from None
    try:
        answer = connection.ask(MetadataRequest(topics=[]))
    except (ClientError, OSError) as problem:
        raise Trouble("protocol", f"Metadata was not answered: {problem}", "see the broker's log") from None
    finally:
        connection.close()
    return answer.cluster_id, tuple(sorted((each.node_id, each.host, each.port) for each in answer.brokers))


def _cluster(
    connection: socket.socket, apis: dict[int, tuple[int, int]]
) -> tuple[str | None, tuple[tuple[int, str, int], ...]]:
    """Ask Metadata without topics for the cluster's id and its brokers."""
    if apis.get(MetadataRequest.KEY, (0, 0))[1] < _METADATA_VERSION:
        return None, ()
    try:
        answer = _ask(connection, MetadataRequest(topics=[]), _METADATA_VERSION)
    except (ConnectionError, ssl.SSLError):
        raise Trouble(
            "SASL",
            "the broker closed the connection at the first request after ApiVersions",
            "its listener probably wants a login: -X security.protocol=sasl_plaintext (or sasl_ssl), "
            "-X sasl.mechanism=..., -X sasl.username=..., -X sasl.password=...",
        ) from None
    except (_Alien, TimeoutError):
        raise Trouble("protocol", "Metadata was not answered", "see the broker's log") from None
    return answer.cluster_id, tuple(sorted((each.node_id, each.host, each.port) for each in answer.brokers))


class _Alien(Exception):
    """The answer is no Kafka frame; `start` are its first bytes."""

    def __init__(self, start: bytes) -> None:
        super().__init__(start)
        self.start = start


def _speaks_tls(host: str, port: int) -> Trouble:
    return Trouble(
        "TLS", f"{host}:{port} speaks TLS", "add -X security.protocol=ssl (or sasl_ssl for a login)"
    )


def _explain_alien(alien: _Alien, host: str, port: int, *, plain: bool) -> Trouble:
    if plain and alien.start[:1] in (bytes([_TLS_ALERT]), bytes([_TLS_HANDSHAKE])):
        return _speaks_tls(host, port)
    if alien.start.startswith(b"HTTP") or alien.start.lstrip()[:1] == b"<":
        return Trouble(
            "protocol", f"{host}:{port} is a web server", "use the port of a Kafka listener, often 9092"
        )
    return Trouble(
        "protocol",
        f"{host}:{port} does not speak Kafka's protocol (it answers {alien.start[:16]!r})",
        "use the port of a Kafka listener, often 9092",
    )


def _ask(connection: socket.socket, request: Message, version: int) -> Any:
    """Send one request in a version with a plain header, and return its response."""
    body = request.encode(version)
    header = struct.pack(">hhih", type(request).KEY, version, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    prefix = _read(connection, 8)
    size, correlation_id = struct.unpack(">ii", prefix)
    if not 4 <= size <= _FRAME_BYTES_MAX or correlation_id != _CORRELATION_ID:
        raise _Alien(prefix)
    try:
        return type(request).RESPONSE.decode(_read(connection, size - 4), version)
    except MalformedMessage:
        raise _Alien(prefix) from None


def _read(connection: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = connection.recv(min(count - len(parts), 65536))
        if not part:
            if parts:
                raise _Alien(parts)
            raise ConnectionResetError("closed by the broker")
        parts += part
    return parts
