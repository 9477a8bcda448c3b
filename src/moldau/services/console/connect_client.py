"""Kafka Connect's REST interface as pages need it; blocking, for threads."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

from moldau.services.console.addresses import without_login
from moldau.services.http.problems import HttpProblem

TIMEOUT_SECONDS = 10.0
_ANSWER_BYTES_MAX = 16 * 1024 * 1024


class ConnectWorkers:
    """One cluster of workers, by the address of one. HttpProblem: it refuses, or cannot be reached."""

    def __init__(self, url: str) -> None:
        """`url`: http://HOST:8083"""
        self._url = url.rstrip("/")
        self.url = without_login(self._url)
        """For people."""

    def connectors(self) -> dict[str, Any]:
        """All with their configuration and state."""
        found = self.ask("GET", "/connectors?expand=status&expand=info")
        return found if isinstance(found, dict) else {}

    def connector(self, name: str) -> tuple[Any, Any]:
        """Configuration and state of one."""
        path = f"/connectors/{quote(name, safe='')}"
        return self.ask("GET", path), self.ask("GET", f"{path}/status")

    def ask(self, method: str, path: str) -> Any:
        """The answer's JSON; None if it has no body."""
        parts = urlsplit(self._url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, f"{parts.path}{path}", headers={"Accept": "application/json"})
            answer = connection.getresponse()
            body = answer.read(_ANSWER_BYTES_MAX)
            value = json.loads(body) if body.strip() else None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise HttpProblem(503, f"Kafka Connect at {self.url} does not answer: {problem}") from None
        finally:
            connection.close()
        if answer.status >= 400:
            said = value.get("message", "") if isinstance(value, dict) else ""
            status = answer.status if answer.status in (404, 409) else 502
            raise HttpProblem(status, f"Kafka Connect says: {said or answer.reason}")
        return value
