"""Requests of this worker to the leader: a connector's tasks, and fencing; signed (KIP-507).

A login that the leader's REST interface asks for is not sent: as in Kafka, paths between workers are let in
by their signature, not by a password.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from moldau.services.connect.herder.interface import HerderProblem
from moldau.services.connect.herder.problems import failed, rebalancing
from moldau.services.connect.herder.signing import signed
from moldau.services.connect.settings import WorkerSettings
from moldau.services.connect.stores.configs import SessionKey

_ANSWER_BYTES_MAX = 1024 * 1024


class HttpPeer:
    """Sends them, and waits for the answers."""

    def __init__(
        self,
        settings: WorkerSettings,
        key: Callable[[], SessionKey | None],
        tls: Callable[[], ssl.SSLContext],
        timeout_seconds: float = 60.0,
    ) -> None:
        self._algorithm = settings.inter_worker_signature_algorithm
        self._key, self._tls, self._timeout_seconds = key, tls, timeout_seconds

    def put_tasks(self, url: str, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """A connector's tasks. HerderProblem."""
        self._send(
            url, "POST", f"/connectors/{quote(name, safe='')}/tasks", orjson.dumps(list(map(dict, configs)))
        )

    def fence(self, url: str, name: str) -> None:
        """End what older tasks write. HerderProblem."""
        self._send(url, "PUT", f"/connectors/{quote(name, safe='')}/fence", b"")

    def _send(self, url: str, method: str, path: str, body: bytes) -> None:
        if not url:
            raise rebalancing()
        parts = urlsplit(url)
        key = self._key()
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers |= signed(key, self._algorithm, body)
        try:
            connection = self._connection(parts.scheme, parts.hostname or "", parts.port)
            try:
                connection.request(method, f"{path}?forward=false", body, headers)
                answer = connection.getresponse()
                text = answer.read(_ANSWER_BYTES_MAX)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as problem:
            raise failed(f"the leader at {url} is not reached: {problem}") from None
        if answer.status >= 400:
            raise HerderProblem(answer.status, f"the leader at {url} refused: {_message(text)}")

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_seconds, context=self._tls())
        return http.client.HTTPConnection(host, port, timeout=self._timeout_seconds)


def _message(text: bytes) -> str:
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    return (
        str(found["message"])
        if isinstance(found, dict) and "message" in found
        else text[:200].decode("utf-8", "replace")
    )
