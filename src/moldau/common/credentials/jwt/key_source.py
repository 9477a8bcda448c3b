"""Keeps an issuer's keys fresh: from a URL or a file, on a worker, never on the event loop.

    start         the keys are loaded; the broker starts without them if that fails, and tries again
    refresh_ms    they are loaded again (a file: every `FILE_REFRESH_MS_MAX` at least)
    a failure     is tried again after retry_backoff_ms, twice as long each time, to retry_backoff_max_ms;
                  the keys that are there stay in use
    unknown key   a token names a key that is not there: the issuer may have a new one. They are loaded once,
                  for all tokens that wait, but not again within `UNKNOWN_KEY_PAUSE_MS`: else anyone could
                  have this broker ask the issuer as often as they like

Invariant: one load at a time. Not here: what a load is (credentials/http_fetch.py, a file).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.credentials.jwt.key_set import KeySet, UnreadableKeys, read_key_set

log = logging.getLogger("moldau.security")

T = TypeVar("T")

DOCUMENT_BYTES_MAX = 1024 * 1024
FILE_REFRESH_MS_MAX = 10_000
UNKNOWN_KEY_PAUSE_MS = 10_000
_PAUSE_MS_MIN = 50

Run = Callable[[Callable[[], KeySet]], Awaitable[KeySet]]


class KeySource:
    """The keys of one issuer."""

    def __init__(
        self,
        url: str,
        load: Callable[[], bytes],
        run: Run,
        clock: Clock,
        timers: Timers,
        *,
        refresh_ms: int,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
    ) -> None:
        """`load` blocks, and raises OSError; `run` calls a blocking function on a worker."""
        self.url = url
        self.keys = KeySet()
        self.error: str | None = None
        """Why the last load failed; None if it did not."""
        self._load = load
        self._run = run
        self._clock = clock
        self._timers = timers
        self._is_file = url.startswith("file:")
        self._refresh_ms = max(
            min(refresh_ms, FILE_REFRESH_MS_MAX) if self._is_file else refresh_ms, _PAUSE_MS_MIN
        )
        self._first_backoff_ms = retry_backoff_ms
        self._backoff_max_ms = retry_backoff_max_ms
        self._failures = 0
        self._timer: TimerHandle | None = None
        self._loading: asyncio.Task[None] | None = None
        self._asked_ms: float | None = None  # when a token last named an unknown key
        self._closed = False

    def start(self) -> None:
        """Load the keys soon, and again from time to time."""
        if self._loading is None and not self._closed:
            self._loading = asyncio.get_running_loop().create_task(self._load_once())

    def close(self) -> None:
        """Load no more; a load under way is let go."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._loading is not None:
            self._loading.cancel()

    async def newer(self) -> bool:
        """Whether the keys are newer than a moment ago: for a token whose key is unknown. Waits for a load,
        as long as that takes."""
        before = self.keys
        if self._loading is None:
            now_ms = self._clock.monotonic_ms()
            if self._asked_ms is not None and now_ms - self._asked_ms < UNKNOWN_KEY_PAUSE_MS:
                return False
            self._asked_ms = now_ms
            self.start()
        if self._loading is not None:
            await asyncio.wait([self._loading])
        return self.keys is not before

    async def _load_once(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self.keys = await self._run(self._read)
        except (OSError, UnreadableKeys) as error:
            self._failed(str(error))
        except Exception as error:
            log.exception("the keys of the token issuer at %s could not be loaded: this is a bug", self.url)
            self._failed(type(error).__name__)
        else:
            if self.error is not None:
                log.info("%d keys of the token issuer were loaded from %s", len(self.keys), self.url)
            self.error, self._failures = None, 0
        finally:
            self._loading = None
        if not self._closed:
            self._timer = self._timers.call_later(self._pause_ms(), self.start)

    def _read(self) -> KeySet:
        return read_key_set(self._load(), shared_secrets=self._is_file)

    def _failed(self, error: str) -> None:
        self._failures += 1
        if error != self.error:
            kept = f"the {len(self.keys)} keys known stay in use" if len(self.keys) else "nobody can log in"
            log.warning(
                "the keys of the token issuer could not be loaded from %s (%s); %s, and it is tried again",
                self.url,
                error,
                kept,
            )
        self.error = error

    def _pause_ms(self) -> int:
        if not self._failures:
            return self._refresh_ms
        doubled = self._first_backoff_ms << min(self._failures - 1, 30)
        return max(_PAUSE_MS_MIN, min(doubled, self._backoff_max_ms))
