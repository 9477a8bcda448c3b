"""A write that came to an instance which may not write, sent to the primary as it came.

Method, path, query, body, login and media types are the client's; the response is the primary's. The header
X-Forward marks it, as Confluent's instances do: a request that has it is never forwarded again, so that two
instances which take each other for the primary answer 50004, and no request goes in circles.
"""

import ssl

from starlette.requests import Request
from starlette.responses import Response

from moldau.common.credentials.tls.contexts import client_context
from moldau.common.credentials.tls.options import tls_options
from moldau.services.http.forwarding import Lost, Onward, Reach, Slow, TooLong, Unreached, send_on
from moldau.services.registry.problems import Code, RegistryProblem
from moldau.services.registry.settings import RegistrySettings

HEADER = "X-Forward"
_PASSED_ON = ("content-type", "accept", "authorization")


class NotReached(RegistryProblem):
    """There is nobody at the primary's address: nothing was sent."""


class Interrupted(RegistryProblem):
    """The connection to the primary was lost: whether it wrote is not known."""


class Forwarder:
    """Sends requests to the primary."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._reach = Reach(
            settings.leader_connect_timeout_ms / 1000,
            settings.leader_read_timeout_ms / 1000,
            settings.moldau_http_body_bytes_max,
            self._context,
        )
        self._tls: ssl.SSLContext | None = None

    async def __call__(self, url: str, request: Request, body: bytes) -> Response:
        """The primary's response. RegistryProblem 50003: there is none; 50004: it is not the primary."""
        if HEADER in request.headers:
            raise RegistryProblem(
                Code.NO_PRIMARY, "This instance is not the primary, and the sender took it for it"
            )
        raw_path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        query: bytes = request.scope["query_string"]
        headers = [(HEADER, "true")]
        headers += [(name, request.headers[name]) for name in _PASSED_ON if name in request.headers]
        onward = Onward(request.method, raw_path + (b"?" + query if query else b""), headers, body)
        try:
            return await send_on(url, onward, self._reach)
        except Unreached as error:
            raise NotReached(Code.FORWARDING, _failure(url, error.cause)) from None
        except Lost as error:
            raise Interrupted(Code.FORWARDING, _failure(url, error.cause)) from None
        except Slow:
            raise RegistryProblem(Code.FORWARDING, _failure(url, TimeoutError())) from None
        except TooLong:
            raise RegistryProblem(Code.FORWARDING, "The primary's response is too long") from None

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = client_context(tls_options(self._settings.get_or_none))
        return self._tls


def _failure(url: str, error: Exception) -> str:
    why = str(error) or (
        "it did not answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    )
    return f"Error while forwarding the request to the primary at {url}: {why}"
