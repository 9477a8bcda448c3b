"""A REST proxy for tests, and a client that holds every response against the OpenAPI document."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx
from jsonschema import Draft202012Validator

# Routes are loaded here and not first in a server's thread: two threads that compile modules at a time can
# fail in Python 3.11 ("AST constructor recursion depth mismatch").
import moldau.services.rest.v2.routes
import moldau.services.rest.v3.routes  # noqa: F401
from moldau.services.http.server import ServerThread
from moldau.services.rest.app import serve_rest
from moldau.services.rest.openapi.document import document
from moldau.services.rest.settings import rest_configuration

TIMEOUT_SECONDS = 90.0


class V3Client:
    """Requests below /v3/clusters/{id}; a response that is not as the document says fails the test."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        headers = {"Content-Type": "application/json"}
        self.http = httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS, headers=headers, **options)
        self.cluster_id: str = self.http.get("/v3/clusters").json()["data"][0]["cluster_id"]

    @property
    def base(self) -> str:
        return f"/v3/clusters/{self.cluster_id}"

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request, held against the document."""
        response = self.http.request(method, self.base + path, **options)
        check(method, response)
        return response

    def get(self, path: str, **options: Any) -> Any:
        """The JSON of a resource that is there."""
        response = self.ask("GET", path, **options)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, method: str, path: str, **options: Any) -> int:
        """The error code of a request that fails."""
        response = self.ask(method, path, **options)
        assert response.status_code >= 400, response.text
        error = response.json()
        assert error["message"]
        assert str(error["error_code"]).startswith(str(response.status_code))
        return int(error["error_code"])

    def create(self, topic: str, partitions: int = 1, **more: Any) -> None:
        body = {"topic_name": topic, "partitions_count": partitions, **more}
        response = self.ask("POST", "/topics", json=body)
        assert response.status_code == 201, response.text
        self.await_topic(topic)

    def await_topic(self, topic: str) -> None:
        """Return when the broker knows of it: Apache Kafka's learn of a new topic a moment later."""
        while self.ask("GET", f"/topics/{topic}/partitions/0/offset").status_code != 200:
            time.sleep(0.02)


@contextmanager
def rest_proxy(bootstrap_servers: str, **settings: str) -> Iterator[str]:
    """The URL of a proxy; settings as keywords with underscores for dots."""
    texts = {"bootstrap.servers": bootstrap_servers, "listeners": "http://127.0.0.1:0"}
    texts |= {name.replace("_", "."): value for name, value in settings.items()}
    configuration, warnings = rest_configuration(texts)
    assert not warnings
    with ServerThread(lambda: serve_rest(configuration), "rest-of-a-test") as thread:
        yield thread.served.url


def check(method: str, response: httpx.Response) -> None:
    """Assert that a response is one that the document describes."""
    operation = find_operation(method, response.request.url.raw_path.decode().partition("?")[0])
    if operation is None:
        assert response.status_code in (404, 405)
        return
    described = operation["responses"].get(str(response.status_code), operation["responses"]["default"])
    if "content" not in described:
        assert not response.content
        return
    media_type = response.headers["content-type"].partition(";")[0]
    schema = described["content"][media_type]["schema"]
    if media_type == "application/json" and not response.headers.get("transfer-encoding"):
        schema_errors = list(validator(schema["$ref"]).iter_errors(response.json()))
        assert not schema_errors, schema_errors[0].message


def check_object(name: str, value: Any) -> None:
    """Assert that a value is as a schema of the document says."""
    errors = list(validator(f"#/components/schemas/{name}").iter_errors(value))
    assert not errors, errors[0].message


@cache
def validator(reference: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": reference, "components": strict(document()["components"])})


def strict(schema: Any) -> Any:
    """OpenAPI 3.0's `nullable` as JSON Schema has it, and no properties that are not named."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(each) for name, each in schema.items() if name != "nullable"}
    if "properties" in made and isinstance(made.get("type"), str) and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") is True else made


def find_operation(method: str, raw_path: str) -> Any:
    paths = sorted(document()["paths"], key=lambda path: path.count("{"))
    for path in paths:
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))
        if re.fullmatch(pattern, raw_path.replace("%3A", ":")):
            return document()["paths"][path].get(method.lower())
    return None
