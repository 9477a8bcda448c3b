"""Asks brokers of ours for their own verdict: GET /health of their HTTP port.

Where no address is told, the brokers' hosts are tried at the port that is ours by default. A broker that does
not answer there is not ours, or keeps it to itself: it is asked again only after a while.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from moldau.client.admin.topics import Broker

DEFAULT_PORT = 9640
TIMEOUT_SECONDS = 2.0
AGAIN_AFTER_SECONDS = 60.0
_ANSWER_BYTES_MAX = 1024 * 1024

Fetch = Callable[[str], Mapping[str, Any] | None]


class BrokerHealth:
    """Called from one thread at a time."""

    def __init__(
        self,
        urls: Sequence[str] = (),
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`urls`: where brokers tell their health, such as http://host:9640; empty: they are looked for."""
        self._urls = tuple(urls)
        self._fetch = fetch or fetch_health
        self._clock = clock
        self._silent_until: dict[str, float] = {}

    def told(self, brokers: Iterable[Broker]) -> dict[int, Mapping[str, Any]]:
        """What brokers say of themselves, by id."""
        found: dict[int, Mapping[str, Any]] = {}
        now = self._clock()
        for count, url in enumerate(
            self._urls or [f"http://{_host(each)}:{DEFAULT_PORT}" for each in brokers]
        ):
            if self._silent_until.get(url, 0.0) > now:
                continue
            health = self._fetch(url)
            if health is None or "verdict" not in health:
                if not self._urls:
                    self._silent_until[url] = now + AGAIN_AFTER_SECONDS
                continue
            self._silent_until.pop(url, None)
            node = health.get("node_id")
            found[node if isinstance(node, int) else -1 - count] = health
        return found


def fetch_health(url: str) -> Mapping[str, Any] | None:
    """The document at /health; None if there is none."""
    parts = urlsplit(url)
    if parts.hostname is None:
        return None
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/health", headers={"Accept": "application/json"})
        answer = connection.getresponse()
        if answer.status not in (200, 503):
            return None
        value = json.loads(answer.read(_ANSWER_BYTES_MAX))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return value if isinstance(value, dict) else None


def _host(broker: Broker) -> str:
    return f"[{broker.host}]" if ":" in broker.host else broker.host
