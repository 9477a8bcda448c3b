"""One HTTP request after another: at a rate, with a login, answers of bounded size, the worker's errors.

2xx                          the answer
retry.on.status.codes        Retriable, after what Retry-After asks for
401, 403                     ConnectError: the login is wrong for every record
any other                    Rejected: this request is wrong
no connection, no answer     Retriable
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

import httpx

from moldau.connect.connectors.http.login import login_of
from moldau.connect.connectors.http.settings import codes_of
from moldau.connect.errors import ConnectError, Retriable

_WAIT_SECONDS_MAX = 60.0
_SHOWN_CHARACTERS = 200


class Rejected(Exception):
    """The other side will not take this request, however often it is sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful one."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Calls:
    """A client of one interface; used by one thread."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        wait: Callable[[float], bool],
        monotonic: Callable[[], float],
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`wait` sleeps, and says that the task stops. ConnectError about files of certificates."""
        verify: bool | ssl.SSLContext = settings["https.ssl.verify"]
        if verify and settings["https.ssl.ca.location"]:
            try:
                verify = ssl.create_default_context(cafile=settings["https.ssl.ca.location"])
            except (OSError, ssl.SSLError) as problem:
                raise ConnectError(f"https.ssl.ca.location: {problem}") from None
        usual: dict[str, Any] = {
            "timeout": httpx.Timeout(
                settings["http.request.timeout.ms"] / 1000, connect=settings["http.connect.timeout.ms"] / 1000
            ),
            "proxy": settings["http.proxy"],
            "verify": verify,
            "transport": transport,
            "follow_redirects": False,
        }
        self._tokens = httpx.Client(**usual)
        self._client = httpx.Client(auth=login_of(settings, self._tokens.send, monotonic), **usual)
        self._again = codes_of(settings["retry.on.status.codes"])
        self._bytes_max: int = settings["http.response.bytes.max"]
        rate: float = settings["requests.per.second"]
        self._between_seconds = 1 / rate if rate > 0 else 0.0
        self._next_at = 0.0
        self._wait = wait
        self._monotonic = monotonic

    def send(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send and read the answer. Rejected, Retriable, ConnectError."""
        self._keep_rate()
        try:
            with self._client.stream(
                method, url, content=body, headers=headers or {}, params=params or None
            ) as response:
                text = self._read(response)
        except httpx.InvalidURL as problem:
            raise ConnectError(f"{shown(url)} is no address: {problem}") from None
        except httpx.UnsupportedProtocol as problem:
            raise ConnectError(f"{shown(url)}: {problem}") from None
        except httpx.HTTPError as problem:
            why = str(problem) or type(problem).__name__
            raise Retriable(f"{method} {shown(url)}: {why}") from problem
        if not response.is_success:
            self._refuse(method, url, response, text)
        return Answer(response.status_code, dict(response.headers), text)

    def close(self) -> None:
        """End the connections."""
        self._client.close()
        self._tokens.close()

    def _keep_rate(self) -> None:
        if not self._between_seconds:
            return
        now = self._monotonic()
        if now < self._next_at:
            self._wait(self._next_at - now)
        self._next_at = max(now, self._next_at) + self._between_seconds

    def _read(self, response: httpx.Response) -> bytes:
        parts, size = [], 0
        for part in response.iter_bytes():
            size += len(part)
            if size > self._bytes_max:
                raise ConnectError(
                    f"{shown(str(response.url))}: the answer is longer than http.response.bytes.max "
                    f"({self._bytes_max})"
                )
            parts.append(part)
        return b"".join(parts)

    def _refuse(self, method: str, url: str, response: httpx.Response, text: bytes) -> NoReturn:
        status = response.status_code
        said = text[:_SHOWN_CHARACTERS].decode("utf-8", "replace").strip()
        sentence = f"{method} {shown(url)} was answered {status}{': ' + said if said else ''}"
        if any(status in codes for codes in self._again):
            self._wait(
                min(_seconds(response.headers.get("Retry-After"), datetime.now(UTC)), _WAIT_SECONDS_MAX)
            )
            raise Retriable(sentence)
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise ConnectError(f"{sentence}; look at auth.type and what belongs to it")
        if response.is_redirect:
            raise ConnectError(f"{sentence}: it has moved to {response.headers.get('Location')}; name that")
        raise Rejected(sentence)


def _seconds(retry_after: str | None, now: datetime) -> float:
    """Retry-After in either of its forms (RFC 9110, section 10.2.3); 0 for none and for nonsense."""
    if not retry_after:
        return 0.0
    if retry_after.strip().isdigit():
        return float(retry_after.strip()[:9])
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now.timestamp())


def shown(url: str) -> str:
    """An address without its query and user, which may hold secrets."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url.partition("?")[0].rpartition("@")[2]
    return str(parsed.copy_with(query=None, userinfo=b""))
