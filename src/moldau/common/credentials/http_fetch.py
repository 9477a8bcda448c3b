"""One HTTP request with a deadline for all of it: keys of a token issuer, tokens from an identity provider.

The standard library's clients bound the time of each read, so that a server which sends a byte now and then
holds the caller for hours. Here every read gets what is left of the one deadline, the body is bounded by what
was received, and a redirect is an error: who answers for an issuer is a setting.

Blocking, so never on an event loop. A failure is an OSError whose text holds nothing of the request's body.
"""

import socket
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

_RECEIVE_BYTES = 64 * 1024
_PORTS = {"http": 80, "https": 443}


class Response(NamedTuple):
    """A response with its whole body."""

    status: int
    body: bytes


def fetch(
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float,
    bytes_max: int,
    tls: ssl.SSLContext | None = None,
) -> Response:
    """GET a URL, or POST `body` to it. OSError: it cannot be reached, takes too long, sends more than
    `bytes_max`, or is no HTTP server. `tls` None: the system's certificates."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise OSError(f"{shown(url)} is not an http or https URL")
    port = parts.port or _PORTS[parts.scheme]
    deadline = time.monotonic() + timeout_seconds
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = [
        ("Host", parts.netloc.rpartition("@")[2]),
        ("Accept", "application/json"),
        ("Connection", "close"),
    ]
    sent += (headers or {}).items()
    if body is not None:
        sent.append(("Content-Length", str(len(body))))
    request = h11.Request(method="GET" if body is None else "POST", target=target, headers=sent)
    try:
        with _connect(parts.scheme, parts.hostname, port, deadline, tls) as connection:
            return _exchange(connection, request, body, deadline, bytes_max)
    except ssl.SSLCertVerificationError:
        raise  # it is a ValueError too
    except (h11.ProtocolError, ValueError) as error:
        raise OSError(f"{shown(url)} sent what is no HTTP response: {error}") from None
    except TimeoutError:
        raise TimeoutError(f"{shown(url)} did not answer within {timeout_seconds:g} s") from None


def shown(url: str) -> str:
    """The URL without user, password and query, for messages."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _connect(scheme: str, host: str, port: int, deadline: float, tls: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection((host, port), timeout=_left(deadline))
    if scheme == "http":
        return plain
    try:
        plain.settimeout(_left(deadline))
        context = tls or ssl.create_default_context()
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _exchange(
    connection: socket.socket, request: h11.Request, body: bytes | None, deadline: float, bytes_max: int
) -> Response:
    state = h11.Connection(h11.CLIENT)
    outgoing = state.send(request) or b""
    if body:
        outgoing += state.send(h11.Data(data=body)) or b""
    outgoing += state.send(h11.EndOfMessage()) or b""
    connection.settimeout(_left(deadline))
    connection.sendall(outgoing)
    status, received = 0, bytearray()
    while True:
        event = state.next_event()
        if event is h11.NEED_DATA:
            connection.settimeout(_left(deadline))
            state.receive_data(connection.recv(_RECEIVE_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            received += event.data
            if len(received) > bytes_max:
                raise OSError(f"the response is longer than {bytes_max} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return Response(status, bytes(received))
        elif isinstance(event, h11.ConnectionClosed):
            raise OSError("the connection was closed before the response")
