"""Allowed and forbidden operations, limits by the second and the longest stream, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from rest_v2_client import V2Client, embedded
from rest_v3_client import V3Client, rest_proxy
from test_rest_v3_produce import RawStream, produce, record

from moldau.testing import Broker

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def test_only_what_the_allowlist_names_is_served(broker: Broker) -> None:
    allowed = "api.v3.topics.*,api.v3.clusters.list,api.v2.topics.list"
    settings = {"api.endpoints.allowlist": allowed, "api.endpoints.blocklist": "api.v3.topics.delete"}
    with rest_proxy(broker.bootstrap_servers, **settings) as url:
        client = V3Client(url)
        assert client.ask("POST", "/topics", json={"topic_name": "allowed"}).status_code == 201
        client.get("/topics")
        assert client.http.get(client.base).status_code == 404
        assert client.refused("GET", "/acls") == 404
        assert client.refused("DELETE", "/topics/allowed") == 405
        assert client.refused("POST", "/topics/allowed/records", content=record(1)) == 405
        described = client.http.get("/openapi.json").json()["paths"]
        assert {"/topics", "/v3/clusters"} < {*described}
        assert "/brokers" not in described
        v2 = V2Client(url)
        assert "allowed" in v2.get("/topics")
        assert v2.refused("GET", "/brokers")[0] == 404
        body = {"records": [{"value": 1}]}
        assert (
            v2.refused("POST", "/topics/allowed", body, headers={"Content-Type": embedded("json")})[0] == 405
        )


def test_requests_too_many_are_429(broker: Broker) -> None:
    settings = {
        "rate.limit.enable": "true",
        "rate.limit.permits.per.sec": "10",
        "rate.limit.costs": "api.v3.topics.list=1000000,api.v2.brokers.list=0,api.v3.clusters.list=0",
    }
    with rest_proxy(broker.bootstrap_servers, **settings) as url:
        client = V3Client(url)
        client.get("/topics")  # as the first it goes through, and the next ones wait for it
        assert client.refused("GET", "/brokers") == 429
        refused = client.ask("GET", "/topics")
        assert int(refused.headers["retry-after"]) > 1000
        assert "rate.limit.permits.per.sec" in refused.json()["message"]
        v2 = V2Client(url)
        assert v2.refused("GET", "/topics")[:2] == (429, 429)
        v2.get("/brokers")
        assert produce(client, "limited", record(1))[0]["error_code"] != 429  # has limits of its own
        assert httpx.get(f"{url}/health", timeout=90).status_code == 200


def test_records_too_many_are_429_in_their_place(broker: Broker) -> None:
    settings = {
        "api.v3.produce.rate.limit.enabled": "true",
        "api.v3.produce.rate.limit.max.bytes.per.sec": "20",
    }
    with rest_proxy(broker.bootstrap_servers, **settings) as url:
        client = V3Client(url)
        client.create("paced")
        # The first is larger than what a second allows: the next ones are too many for hours.
        codes = [
            each["error_code"] for each in produce(client, "paced", record("x" * 400_000) + record(1) * 2)
        ]
        assert codes == [200, 429, 429]
        body = {"entries": [{"id": "1", "value": {"type": "STRING", "data": "a"}}]}
        batch = client.ask("POST", "/topics/paced/records:batch", json=body)
        assert [each["error_code"] for each in batch.json()["failures"]] == [429]
        assert len(client.get("/topics/paced/records?timeout=500")["data"]) == 1


def test_a_stream_ends_when_it_has_lasted_too_long(broker: Broker) -> None:
    settings = {"streaming.connection.max.duration.ms": "8000"}
    with rest_proxy(broker.bootstrap_servers, **settings) as url:
        client = V3Client(url)
        client.create("long")
        with RawStream(client, "long") as stream:
            stream.send(record(1))
            assert stream.status() == 200
            answers = [json.loads(stream.chunk()), json.loads(stream.chunk())]
            assert [each["error_code"] for each in answers] == [200, 408]
            assert "streaming.connection.max.duration.ms" in answers[1]["message"]
            assert stream.chunk() == b""
        assert len(produce(client, "long", record(1) * 3)) == 3  # others are not touched
