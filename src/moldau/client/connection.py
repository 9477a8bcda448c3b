"""One blocking connection to one broker: TLS, SASL, version negotiation, requests and responses.

    connect -> TLS handshake -> ApiVersions -> login (login.py) -> requests

A session that the broker limits is authenticated again in time, between two requests (KIP-368): responses
that are still due are read first and kept for `receive`.

A request is sent in the highest version that both sides support. Responses come in the order of the requests,
so several may be in flight: `send` returns a ticket, `receive` reads the next response, which must be that of
the oldest ticket. Every transport failure is a ConnectionLost (an OSError) and closes the connection; there
are no retries here (cluster.py).
"""

from __future__ import annotations

import random
import socket
import ssl
import time
from collections import deque
from typing import Any, NamedTuple

from moldau.client.errors import ClientError, OptionError, RequestRefused, error_words
from moldau.client.options import ClientOptions
from moldau.common.credentials.client.exchange import LoginFailed
from moldau.common.credentials.errors import CredentialsError
from moldau.common.protocol.declare import Message
from moldau.common.protocol.frames import frame_request, has_tagged_response_header
from moldau.common.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.common.protocol.wire import MalformedMessage, read_uvarint, skip_tags

FRAME_BYTES_MAX = 1024 * 1024 * 1024
"""Above this it is no Kafka broker that answers ("HTTP" read as a length is 1.2 GiB)."""
_UNSUPPORTED_VERSION = 35
_API_VERSIONS_VERSION = 3
_CLOSED_IN_HANDSHAKE = "it closes the connection during the handshake: it may speak no TLS"
_REFUSED_CERTIFICATE = (
    "UNKNOWN_CA",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "UNSUPPORTED_CERTIFICATE",
)
_jitter = random.Random()


class ConnectionLost(OSError):
    """The broker cannot be reached, the connection broke, or a response timed out."""


class Ticket(NamedTuple):
    """A request in flight: its response's type, and its deadline."""

    correlation_id: int
    request: type[Message]
    version: int
    deadline: float


class Connection:
    """An open connection. The constructor raises ConnectionLost."""

    def __init__(self, host: str, port: int, options: ClientOptions) -> None:
        self.host, self.port, self.options = host, port, options
        self.is_open = False
        self._correlation_id = 0
        self._tickets: list[Ticket] = []
        self._early: deque[memoryview] = deque()  # responses to the first of them, read before their turn
        self._login_due_seconds: float | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = self._connect()
        except ssl.SSLCertVerificationError as error:
            reason = error.verify_message or error
            raise ClientError(f"the certificate of {self.address} is not trusted: {reason}") from error
        except ssl.SSLError as error:
            raise ConnectionLost(f"no TLS connection to {self.address}: {handshake_reason(error)}") from error
        except OSError as error:
            if isinstance(error, ConnectionResetError) and options.security.tls is not None:
                raise ConnectionLost(
                    f"no TLS connection to {self.address}: {_CLOSED_IN_HANDSHAKE}"
                ) from error
            raise ConnectionLost(f"{self.address} cannot be reached: {error}") from error
        self.is_open = True
        try:
            self._learn_versions()
            self._log_in()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """host:port, for messages."""
        return f"{self.host}:{self.port}"

    def _connect(self) -> socket.socket:
        options = self.options
        plain = socket.create_connection((self.host, self.port), timeout=options.connect_timeout_seconds)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            context = tls_context(options)
            return plain if context is None else context.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise

    def version_of(self, request: type[Message], at_most: int = 2**15) -> int:
        """The highest version of an API that broker and client support. RequestRefused if there is none."""
        low, high = request.VERSIONS
        broker_low, broker_high = self._versions.get(request.KEY, (0, -1))
        version = min(high, broker_high, at_most)
        if version < max(low, broker_low):
            api = request.__name__.removesuffix("Request")
            raise RequestRefused(
                f"the broker at {self.address} speaks {api} in versions {broker_low} to {broker_high}, and "
                f"Moldau's client in {low} to {min(high, at_most)}"
                if request.KEY in self._versions
                else f"the broker at {self.address} does not know {api}",
                _UNSUPPORTED_VERSION,
            )
        return version

    def ask(self, request: Message, *, at_most: int = 2**15, timeout_seconds: float | None = None) -> Any:
        """Send a request and wait for its response; no other may be in flight."""
        assert not self._tickets, "the next answer is that of another request"
        self.send(request, at_most=at_most, timeout_seconds=timeout_seconds)
        return self.receive()

    def send(self, request: Message, *, at_most: int = 2**15, timeout_seconds: float | None = None) -> Ticket:
        """Send a request, whose response `receive` will read; `at_most` bounds its version."""
        if self._login_due_seconds is not None and time.monotonic() >= self._login_due_seconds:
            self._log_in_again()
        return self._send(request, self.version_of(type(request), at_most), timeout_seconds)

    def _send(self, request: Message, version: int, timeout_seconds: float | None = None) -> Ticket:
        if not self.is_open:
            raise ConnectionLost(f"the connection to {self.address} is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        seconds = self.options.request_timeout_seconds if timeout_seconds is None else timeout_seconds
        kind = type(request)
        ticket = Ticket(self._correlation_id, kind, version, time.monotonic() + seconds)
        frame = frame_request(
            kind.KEY, version, ticket.correlation_id, self.options.client_id, request.encode(version)
        )
        try:
            self._socket.settimeout(max(seconds, 0.001))
            self._socket.sendall(frame)
        except OSError as error:
            self.close()
            raise ConnectionLost(f"the connection to {self.address} broke: {_why(error)}") from error
        self._tickets.append(ticket)
        return ticket

    def receive(self) -> Any:
        """Read the response to the oldest request in flight."""
        ticket = self._tickets.pop(0)
        frame = self._early.popleft() if self._early else self._receive_frame(ticket.deadline)
        try:
            return ticket.request.RESPONSE.decode(frame, ticket.version, self._body_offset(frame, ticket))
        except MalformedMessage as error:
            self.close()
            raise ConnectionLost(f"{self.address} sent what cannot be read: {error}") from error

    @property
    def unanswered(self) -> int:
        """The number of requests in flight."""
        return len(self._tickets)

    def _receive_frame(self, deadline: float) -> memoryview:
        size = int.from_bytes(self._read(4, deadline), "big", signed=True)
        if not 4 <= size <= FRAME_BYTES_MAX:
            self.close()
            raise ClientError(f"what answers at {self.address} is not a Kafka broker (or wants TLS)")
        return self._read(size, deadline)

    def _body_offset(self, frame: memoryview, ticket: Ticket) -> int:
        if int.from_bytes(frame[:4], "big", signed=True) != ticket.correlation_id:
            raise MalformedMessage("an answer to another request")
        if not has_tagged_response_header(ticket.request.KEY, ticket.version):
            return 4
        try:
            count, offset = read_uvarint(frame, 4)
            return skip_tags(frame, offset, count, len(frame)) if count else offset
        except IndexError as cause:
            raise MalformedMessage("the answer ends within its header") from cause

    def _read(self, size: int, deadline: float) -> memoryview:
        view = memoryview(bytearray(size))
        done = 0
        try:
            while done < size:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                count = self._socket.recv_into(view[done:])
                if not count:
                    raise ConnectionLost("closed by the broker")
                done += count
        except OSError as error:
            self.close()
            raise ConnectionLost(f"the connection to {self.address} broke: {_why(error)}") from error
        return view

    def _learn_versions(self) -> None:
        """ApiVersions (KIP-35, KIP-511). A broker that does not support our version responds in version 0."""
        hello = ApiVersionsRequest(client_software_name="moldau", client_software_version=_software_version())
        self._send(hello, _API_VERSIONS_VERSION)
        ticket = self._tickets.pop(0)
        frame = self._receive_frame(ticket.deadline)
        version = 0 if frame[4:6] == _UNSUPPORTED_VERSION.to_bytes(2, "big") else _API_VERSIONS_VERSION
        try:
            answer = ApiVersionsResponse.decode(frame, version, 4)
        except MalformedMessage as error:
            raise ClientError(f"what answers at {self.address} is not a Kafka broker: {error}") from error
        if answer.error_code not in (0, _UNSUPPORTED_VERSION):
            raise RequestRefused(
                f"cannot talk to {self.address}: {error_words(answer.error_code)}", answer.error_code
            )
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _log_in(self) -> None:
        """Authenticate, where the options ask for it."""
        sasl = self.options.security.sasl
        if sasl is None:
            return
        from moldau.client.login import LoggedIn, advance, login_steps

        steps = login_steps(sasl, self.host, self.address, self._versions)
        try:
            step = advance(steps, None)
            while not isinstance(step, LoggedIn):
                self._send(step.request, step.version)
                step = advance(steps, self.receive())
        except CredentialsError as error:
            raise OptionError(str(error)) from None
        except LoginFailed as error:
            raise ClientError(f"the login at {self.address} failed: {error}") from None
        again_ms = step.again_after_ms(_jitter)
        self._login_due_seconds = None if again_ms is None else time.monotonic() + again_ms / 1000

    def _log_in_again(self) -> None:
        """Authenticate anew (KIP-368). Between its requests the broker takes no others, so what is in flight
        is received before.
        """
        tickets = self._tickets
        try:
            for ticket in tickets[len(self._early) :]:
                self._early.append(self._receive_frame(ticket.deadline))
            early, self._tickets, self._early = self._early, [], deque()
            self._log_in()
        except BaseException:
            self.close()
            raise
        self._tickets, self._early = tickets, early

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self.is_open = False
        self._tickets.clear()
        self._early.clear()
        self._socket.close()

    def __repr__(self) -> str:
        return f"Connection({self.address}{'' if self.is_open else ', closed'})"


def tls_context(options: ClientOptions) -> ssl.SSLContext | None:
    """The TLS context for the options; None without TLS. OptionError."""
    if options.security.tls is None:
        return None
    from moldau.common.credentials.client.contexts import context_of

    try:
        return context_of(options.security)
    except CredentialsError as error:
        raise OptionError(str(error)) from None


def handshake_reason(error: ssl.SSLError) -> str:
    """Why a TLS handshake failed, in words."""
    reason = error.reason or ""
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "what answers there does not speak TLS"
    if "CERTIFICATE_REQUIRED" in reason:
        return "it wants a client certificate (ssl.keystore.*)"
    if "ALERT" in reason and reason.endswith(_REFUSED_CERTIFICATE):
        words = reason.partition("ALERT_")[2].replace("_", " ").lower()
        return f"it does not accept the client's certificate ({words}; ssl.keystore.*)"
    if reason.endswith("ALERT_HANDSHAKE_FAILURE"):
        return "it refuses the handshake: it may speak no TLS, or want a client certificate (ssl.keystore.*)"
    if isinstance(error, ssl.SSLEOFError) or reason == "UNEXPECTED_EOF_WHILE_READING":
        return _CLOSED_IN_HANDSHAKE
    return reason.replace("_", " ").lower() or str(error)


def _why(error: OSError) -> str:
    """Why a connection broke. In TLS 1.3 a client learns only then that its certificate is refused."""
    return handshake_reason(error) if isinstance(error, ssl.SSLError) else str(error)


def _software_version() -> str:
    import moldau

    return moldau.__version__
