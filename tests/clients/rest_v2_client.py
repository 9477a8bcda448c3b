"""A client of v2 for tests: plain HTTP with v2's media types."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from moldau.testing import Broker

TIMEOUT_SECONDS = 90.0
V2 = "application/vnd.kafka.v2+json"


@contextmanager
def cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a broker for one module; with MOLDAU_TEST_BROKER that of the whole session's."""
    if os.environ.get("MOLDAU_TEST_BROKER", "moldau") != "moldau" or "MOLDAU_TEST_BOOTSTRAP" in os.environ:
        yield request.getfixturevalue("bootstrap")
        return
    with Broker() as running:
        yield running.bootstrap_servers


def embedded(format_name: str) -> str:
    return f"application/vnd.kafka.{format_name}.v2+json"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class V2Client:
    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS, **options)

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        headers = {"Content-Type": V2, "Accept": V2, **options.pop("headers", {})}
        if body is not None:
            options["json"] = body
        return self.http.request(method, path, headers=headers, **options)

    def get(self, path: str, body: Any = None, **options: Any) -> Any:
        response = self.ask("GET", path, body, **options)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, int, str]:
        """Status, error code and message of a request that fails."""
        response = self.ask(method, path, body, **options)
        assert response.status_code >= 400, response.text
        assert set(response.json()) == {"error_code", "message"}
        return response.status_code, response.json()["error_code"], response.json()["message"]

    def produce(
        self, path: str, records: list[Any], format_name: str = "json", **more: Any
    ) -> dict[str, Any]:
        response = self.ask(
            "POST", path, {"records": records, **more}, headers={"Content-Type": embedded(format_name)}
        )
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found


class V2Instance:
    """A consumer instance; `with` deletes it."""

    def __init__(self, client: V2Client, group: str, format_name: str = "json", **config: Any) -> None:
        self.client = client
        self.format_name = format_name
        body = {"format": format_name, "auto.offset.reset": "earliest", **config}
        response = client.ask("POST", f"/consumers/{group}", body)
        assert response.status_code == 200, response.text
        self.name = response.json()["instance_id"]
        self.path = f"/consumers/{group}/instances/{self.name}"
        assert response.json()["base_uri"] == client.url + self.path

    def __enter__(self) -> V2Instance:
        return self

    def __exit__(self, *exception: object) -> None:
        self.client.ask("DELETE", self.path)

    def post(self, path: str, body: Any = None, status: int = 204) -> Any:
        response = self.client.ask("POST", f"{self.path}/{path}", body)
        assert response.status_code == status, response.text
        return response.json() if response.content else None

    def subscribe(self, *topics: str) -> None:
        self.post("subscription", {"topics": list(topics)})

    def assign(self, *places: tuple[str, int]) -> None:
        self.post("assignments", {"partitions": [{"topic": t, "partition": p} for t, p in places]})

    def read(self, **parameters: Any) -> list[dict[str, Any]]:
        """One read."""
        found: list[dict[str, Any]] = self.client.get(
            f"{self.path}/records", params=parameters, headers={"Accept": embedded(self.format_name)}
        )
        return found

    def read_until(self, count: int, **parameters: Any) -> list[dict[str, Any]]:
        """Reads until so many records have come; a test that waits in vain ends by its own timeout."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += self.read(**parameters)
        return found

    def committed(self, topic: str, partition: int = 0) -> int | None:
        body = {"partitions": [{"topic": topic, "partition": partition}]}
        offsets = self.client.get(f"{self.path}/offsets", body)["offsets"]
        return offsets[0]["offset"] if offsets else None
