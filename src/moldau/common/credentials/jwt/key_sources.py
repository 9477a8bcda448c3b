"""The keys of all token issuers that a broker's listeners trust: one `KeySource` for equal settings.

They outlive a change of other settings, so that nobody waits for keys that are known. Loading has a worker
thread of its own: a key server that hangs holds up no fsync.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Protocol
from urllib.parse import unquote, urlsplit

from moldau.common.core.clock import Clock
from moldau.common.core.files import Files, read_file
from moldau.common.core.timers import Timers
from moldau.common.core.workers import Pool
from moldau.common.credentials.jwt.key_set import KeySet
from moldau.common.credentials.jwt.key_source import DOCUMENT_BYTES_MAX, KeySource
from moldau.common.settings.broker import BrokerSettings

FETCH_SECONDS = 10.0

MakeContext = Callable[[], ssl.SSLContext] | None
"""Makes the TLS context for a key server, blocking; None: the system's certificates."""


class _Response(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def body(self) -> bytes: ...


class Fetch(Protocol):
    """Gets a URL, blocking (credentials/http_fetch.py). OSError."""

    def __call__(
        self, url: str, *, timeout_seconds: float, bytes_max: int, tls: ssl.SSLContext | None = None
    ) -> _Response: ...


class KeySources:
    """Makes key sources, and closes them with the broker."""

    def __init__(
        self,
        fetch: Fetch,
        files: Files,
        pool: Pool,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._fetch = fetch
        self._files = files
        self._pool = pool
        self._loop = loop
        self._clock = clock
        self._timers = timers
        self._worker: Executor | None = None
        self._made: dict[tuple[object, ...], KeySource] = {}

    def of(self, url: str, settings: BrokerSettings, tls: MakeContext, tls_key: object = None) -> KeySource:
        """The keys at a URL (https, http or file), loading from now on. `tls_key` tells contexts apart."""
        times = (
            settings.sasl_oauthbearer_jwks_endpoint_refresh_ms,
            settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
            settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
        )
        key = (url, *times, tls_key)
        found = self._made.get(key)
        if found is None:
            refresh_ms, backoff_ms, backoff_max_ms = times
            found = self._made[key] = KeySource(
                url,
                lambda: self._load(url, tls),
                self._run,
                self._clock,
                self._timers,
                refresh_ms=refresh_ms,
                retry_backoff_ms=backoff_ms,
                retry_backoff_max_ms=backoff_max_ms,
            )
            found.start()
        return found

    def all(self) -> list[KeySource]:
        """All that there are."""
        return list(self._made.values())

    def close(self) -> None:
        """Stop loading. A load under way ends by its deadline, and nobody waits for it."""
        for each in self._made.values():
            each.close()
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)

    def _run(self, blocking: Callable[[], KeySet]) -> Awaitable[KeySet]:
        if self._worker is None:
            self._worker = self._pool(1)
        return self._loop.run_in_executor(self._worker, blocking)

    def _load(self, url: str, tls: MakeContext) -> bytes:
        parts = urlsplit(url)
        if parts.scheme == "file":
            path = unquote(parts.path)
            if self._files.file_size_bytes(path) > DOCUMENT_BYTES_MAX:
                raise OSError(f"it is longer than {DOCUMENT_BYTES_MAX} bytes")
            return read_file(self._files, path)
        response = self._fetch(
            url,
            timeout_seconds=FETCH_SECONDS,
            bytes_max=DOCUMENT_BYTES_MAX,
            tls=None if tls is None else tls(),
        )
        if response.status != 200:
            raise OSError(f"HTTP status {response.status}")
        return response.body
