"""One blocking connection to one broker: TLS, SASL/PLAIN, version negotiation, requests and responses.

    connect -> TLS handshake -> ApiVersions -> SaslHandshake, SaslAuthenticate -> requests

A request is sent in the highest version that both sides support. Responses come in the order of the requests,
so several may be in flight: `send` returns a ticket, `receive` reads the next response, which must be that of
the oldest ticket. Every transport failure is a ConnectionLost (an OSError) and closes the connection; there
are no retries here (cluster.py).
"""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any, NamedTuple

from moldau.client.errors import ClientError, OptionError, RequestRefused, error_words
from moldau.client.options import ClientOptions
from moldau.protocol.declare import Message
from moldau.protocol.frames import frame_request, has_tagged_response_header
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.protocol.wire import MalformedMessage, read_uvarint, skip_tags

FRAME_BYTES_MAX = 1024 * 1024 * 1024
"""Above this it is no Kafka broker that answers ("HTTP" read as a length is 1.2 GiB)."""
_UNSUPPORTED_VERSION = 35
_API_VERSIONS_VERSION = 3


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
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = self._connect()
        except ssl.SSLCertVerificationError as error:
            raise ClientError(f"the certificate of {self.address} is not trusted: {error}") from error
        except OSError as error:
            raise ConnectionLost(f"{self.address} cannot be reached: {error}") from error
        self.is_open = True
        try:
            self._learn_versions()
            if options.sasl_username is not None:
                self._authenticate(options.sasl_username, options.sasl_password)
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
        if not options.tls:
            return plain
        try:
            return tls_context(options).wrap_socket(plain, server_hostname=self.host)
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
            raise ConnectionLost(f"the connection to {self.address} broke: {error}") from error
        self._tickets.append(ticket)
        return ticket

    def receive(self) -> Any:
        """Read the response to the oldest request in flight."""
        ticket = self._tickets.pop(0)
        frame = self._receive_frame(ticket.deadline)
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
            raise ConnectionLost(f"the connection to {self.address} broke: {error}") from error
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

    def _authenticate(self, username: str, password: str) -> None:
        """SASL/PLAIN (RFC 4616)."""
        answer = self.ask(SaslHandshakeRequest(mechanism="PLAIN"))
        if answer.error_code:
            raise OptionError(
                f"{self.address} does not offer SASL/PLAIN, but {', '.join(answer.mechanisms) or 'nothing'}"
            )
        token = b"\0" + username.encode() + b"\0" + password.encode()
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code:
            reason = answer.error_message or error_words(answer.error_code)
            raise RequestRefused(f"{self.address} refused the user {username}: {reason}", answer.error_code)

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self.is_open = False
        self._tickets.clear()
        self._socket.close()

    def __repr__(self) -> str:
        return f"Connection({self.address}{'' if self.is_open else ', closed'})"


def tls_context(options: ClientOptions) -> ssl.SSLContext:
    """The TLS context for the `ssl.*` options; system certificates if they name none."""
    try:
        context = ssl.create_default_context(cafile=options.tls_ca_file)
        context.check_hostname = options.tls_check_host_name
        if options.tls_certificate_file is not None:
            context.load_cert_chain(
                options.tls_certificate_file, options.tls_key_file, options.tls_key_password
            )
    except (OSError, ValueError) as error:
        raise OptionError(f"the certificates of the ssl.* options cannot be used: {error}") from error
    return context


def _software_version() -> str:
    import moldau

    return moldau.__version__
