"""A request sent on to another instance of the service, and its response brought back.

One connection a request: such requests are rare, and an instance that was replaced is noticed at once.
Method,
path, query and body are the caller's; of the headers only those that are named. A login by certificate
cannot be passed on: the other instance sees this one's, or asks for a password.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import h11
from starlette.responses import Response

from moldau.common.credentials.errors import CredentialsError

_READ_BYTES = 64 * 1024
NOT_WHOLE = "it closed the connection before the end of its response"


class Unreached(Exception):
    """There is nobody at the address: nothing was sent. The cause is the exception's argument."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class Lost(Exception):
    """The connection was lost: whether the request was carried out is not known."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class Slow(Exception):
    """There was no response in time."""


class TooLong(Exception):
    """The response is longer than is taken."""


@dataclass(frozen=True, slots=True)
class Onward:
    """A request to send on."""

    method: str
    target: bytes
    """Path and query, as in a request line."""
    headers: Sequence[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reach:
    """How to reach another instance, and how long to wait for it."""

    connect_seconds: float
    read_seconds: float
    response_bytes_max: int
    tls: Callable[[], ssl.SSLContext]
    """For https addresses; may raise CredentialsError."""


async def send_on(url: str, request: Onward, reach: Reach) -> Response:
    """The other instance's response. Unreached, Lost, Slow, TooLong."""
    scheme, _, address = url.rstrip("/").partition("://")
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(reach.connect_seconds):
            reader, writer = await asyncio.open_connection(
                host.strip("[]"), int(port), ssl=reach.tls() if scheme == "https" else None
            )
    except (OSError, TimeoutError, ValueError, CredentialsError) as error:
        raise Unreached(error) from None
    try:
        async with asyncio.timeout(reach.read_seconds):
            return await _exchange(reader, writer, address, request, reach.response_bytes_max)
    except h11.ProtocolError:
        raise Lost(OSError(NOT_WHOLE)) from None
    except TimeoutError as error:
        raise Slow(error) from None
    except OSError as error:
        raise Lost(error) from None
    finally:
        with contextlib.suppress(OSError):
            writer.close()


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    address: str,
    request: Onward,
    response_bytes_max: int,
) -> Response:
    state = h11.Connection(h11.CLIENT)
    headers = [("Host", address), ("Connection", "close"), *request.headers]
    headers.append(("Content-Length", str(len(request.body))))
    head = h11.Request(method=request.method, target=request.target, headers=headers)
    writer.write(state.send(head) or b"")
    writer.write(state.send(h11.Data(data=request.body)) or b"")
    writer.write(state.send(h11.EndOfMessage()) or b"")
    await writer.drain()
    status, content_type, received = 0, None, bytearray()
    while True:
        event = state.next_event()
        if event is h11.NEED_DATA:
            state.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
            content_type = dict(event.headers).get(b"content-type", b"").decode("latin-1")
        elif isinstance(event, h11.Data):
            received += event.data
            if len(received) > response_bytes_max:
                raise TooLong
        elif isinstance(event, h11.EndOfMessage):
            return Response(bytes(received), status, media_type=content_type or None)
        else:
            raise OSError(NOT_WHOLE)
