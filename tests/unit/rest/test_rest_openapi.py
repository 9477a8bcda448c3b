"""The OpenAPI document and the page: valid, complete, and with nothing from elsewhere."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
from openapi_spec_validator import OpenAPIV30SpecValidator
from starlette.applications import Starlette

from moldau.services.rest.openapi.document import document, served_document
from moldau.services.rest.openapi.pages import page_routes
from moldau.services.rest.request_limits import ServedOperations
from moldau.services.rest.v2.routes import ROUTES
from moldau.services.rest.v3.resource_names import resource_name
from moldau.services.rest.v3.routes import operations


def get(path: str, accept: str = "*/*") -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=page_routes(document)))
        async with httpx.AsyncClient(transport=transport, base_url="http://proxy") as client:
            return await client.get(path, headers={"Accept": accept})

    return asyncio.run(ask())


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_the_document_is_valid() -> None:
    OpenAPIV30SpecValidator(json.loads(json.dumps(document()))).validate()


def test_the_document_of_a_proxy_has_what_it_serves() -> None:
    everything = served_document(ServedOperations(), v2_enabled=True, v3_enabled=True)
    assert everything == document()
    second = served_document(ServedOperations(), v2_enabled=True, v3_enabled=False)["paths"]
    assert {*second} == {path for path in document()["paths"] if not path.startswith("/v3/")}
    served = ServedOperations(["api.v3.topics.*", "api.v2.brokers.list"], ["api.v3.topics.delete"])
    few = served_document(served, v2_enabled=True, v3_enabled=True)
    topics = "/v3/clusters/{cluster_id}/topics"
    assert {path: {*methods} for path, methods in few["paths"].items()} == {
        "/brokers": {"get"},
        topics: {"get", "post"},
        f"{topics}/{{topic_name}}": {"get", "patch"},
    }
    OpenAPIV30SpecValidator(json.loads(json.dumps(few))).validate()


def test_every_schema_is_there_and_used() -> None:
    known = {f"#/components/schemas/{name}" for name in document()["components"]["schemas"]}
    used = set(references(document()))
    assert used == known


def test_operation_ids_are_different() -> None:
    ids = Counter(each["operationId"] for path in document()["paths"].values() for each in path.values())
    assert [name for name, count in ids.items() if count > 1] == []


def test_version_2_is_described_as_it_is_served() -> None:
    paths = document()["paths"]
    described = {(m.upper(), path) for path in paths if not path.startswith("/v3/") for m in paths[path]}
    assert described == {(method, path) for method, path, _, _ in ROUTES}


def test_all_operations_can_be_switched_off_by_a_name() -> None:
    names = {each.operation_id: resource_name(each) for each in operations()}
    assert names["deleteKafkaV3Topic"] == "api.v3.topics.delete"
    assert names["batchCreateKafkaV3Acls"] == "api.v3.acls.batch-create"
    assert names["listKafkaV3ClusterConfigs"] == "api.v3.cluster-configs.list"
    assert names["updateKafkaV3BrokerConfigBatch"] == "api.v3.broker-configs.alter"
    assert all(re.fullmatch(r"api\.v3\.[a-z-]+\.[a-z.-]+", name) for name in names.values())


def test_the_page_has_all_it_needs_and_may_load_nothing_else() -> None:
    page = get("/", "text/html,application/xhtml+xml,*/*;q=0.8")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "//" not in re.sub(r"^\s*//.*|;\s+//.*", "", page.text, flags=re.MULTILINE)  # no address at all
    assert get("/ui").text == page.text


def test_who_wants_json_gets_what_confluents_proxy_answers() -> None:
    assert get("/").text == "{}"
    assert get("/", "application/vnd.kafka.v2+json, application/json").text == "{}"
    assert get("/openapi.json").json() == json.loads(json.dumps(document()))
