"""A write that came to an instance which may not write, sent to the primary as it came.

Method, path, query, body, login and media types are the client's; the response is the primary's. The header
X-Forward marks it, as Confluent's instances do: a request that has it is never forwarded again, so that two
instances which take each other for the primary answer 50004, and no request goes in circles.

One connection a request: writes are rare, and a primary that was replaced is noticed at once. A login by
certificate cannot be passed on: the primary sees this instance's, or asks for a password.
"""

import asyncio
import contextlib
import ssl

import h11
from starlette.requests import Request
from starlette.responses import Response

from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.tls.contexts import client_context
from moldau.common.credentials.tls.options import tls_options
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.settings import RegistrySettings

HEADER = "X-Forward"
_PASSED_ON = ("content-type", "accept", "authorization")
_READ_BYTES = 64 * 1024
_NOT_WHOLE = "it closed the connection before the end of its response"


class NotReached(RegistryProblem):
    """There is nobody at the primary's address: nothing was sent."""


class Interrupted(RegistryProblem):
    """The connection to the primary was lost: whether it wrote is not known."""


class Forwarder:
    """Sends requests to the primary."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._connect_seconds = settings.leader_connect_timeout_ms / 1000
        self._read_seconds = settings.leader_read_timeout_ms / 1000
        self._response_bytes_max = settings.moldau_http_body_bytes_max
        self._tls: ssl.SSLContext | None = None

    async def __call__(self, url: str, request: Request, body: bytes) -> Response:
        """The primary's response. RegistryProblem 50003: there is none; 50004: it is not the primary."""
        if HEADER in request.headers:
            raise RegistryProblem(
                Code.NO_PRIMARY, "This instance is not the primary, and the sender took it for it"
            )
        scheme, _, address = url.rstrip("/").partition("://")
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(self._connect_seconds):
                reader, writer = await asyncio.open_connection(
                    host.strip("[]"), int(port), ssl=self._context() if scheme == "https" else None
                )
        except (OSError, TimeoutError, CredentialsError) as error:
            raise NotReached(Code.FORWARDING, _failure(url, error)) from None
        try:
            async with asyncio.timeout(self._read_seconds):
                return await self._exchange(reader, writer, address, request, body)
        except h11.ProtocolError:
            raise Interrupted(Code.FORWARDING, _failure(url, OSError(_NOT_WHOLE))) from None
        except TimeoutError as error:
            raise RegistryProblem(Code.FORWARDING, _failure(url, error)) from None
        except OSError as error:
            raise Interrupted(Code.FORWARDING, _failure(url, error)) from None
        finally:
            with contextlib.suppress(OSError):
                writer.close()

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        address: str,
        request: Request,
        body: bytes,
    ) -> Response:
        state = h11.Connection(h11.CLIENT)
        headers = [("Host", address), ("Connection", "close"), (HEADER, "true")]
        headers += [(name, request.headers[name]) for name in _PASSED_ON if name in request.headers]
        headers.append(("Content-Length", str(len(body))))
        raw_path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        query: bytes = request.scope["query_string"]
        target = raw_path + (b"?" + query if query else b"")
        writer.write(state.send(h11.Request(method=request.method, target=target, headers=headers)) or b"")
        writer.write(state.send(h11.Data(data=body)) or b"")
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
                if len(received) > self._response_bytes_max:
                    raise RegistryProblem(Code.FORWARDING, "The primary's response is too long")
            elif isinstance(event, h11.EndOfMessage):
                return Response(bytes(received), status, media_type=content_type)
            else:
                raise OSError(_NOT_WHOLE)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = client_context(tls_options(self._settings.get_or_none))
        return self._tls


def _failure(url: str, error: Exception) -> str:
    why = str(error) or (
        "it did not answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    )
    return f"Error while forwarding the request to the primary at {url}: {why}"
