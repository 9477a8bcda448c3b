"""What clients of consumer instances can cost: idle ones, many, those that leave, those that do not read."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from urllib.parse import urlsplit

import httpx
import pytest
from rest_v2_client import V2Client, V2Instance, embedded
from rest_v3_client import rest_proxy

from moldau.services.rest.v2 import instances as instances_module
from moldau.services.rest.v2.prefetch import LEAST_BYTES
from moldau.testing import Broker

pytestmark = pytest.mark.client

RECORD = "x" * 1000


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


def metric(client: V2Client, name: str) -> float:
    lines = client.http.get("/metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


class Clock:
    """The time of the expiry of instances; `later_seconds` may be set forward."""

    later_seconds = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.later_seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(instances_module, "time", made)
    return made


def test_an_instance_that_is_not_used_ends(broker: Broker, clock: Clock):
    with rest_proxy(broker.bootstrap_servers) as url:
        client = V2Client(url)
        instance = V2Instance(client, "idle")
        instance.subscribe("idle-topic")
        clock.later_seconds = 600
        while metric(client, "moldau_rest_consumer_instances"):
            time.sleep(0.05)
        assert client.refused("GET", f"{instance.path}/records")[:2] == (404, 40403)


def test_an_instance_does_not_end_during_a_read(broker: Broker, clock: Clock):
    with rest_proxy(broker.bootstrap_servers, consumer_request_timeout_ms="5000") as url:
        client = V2Client(url)
        instance = V2Instance(client, "patient")
        instance.subscribe("nothing-there")
        found: list[object] = []
        reading = threading.Thread(target=lambda: found.append(instance.read()))
        reading.start()
        while metric(client, "moldau_rest_requests_running") < 2:  # this one, and the read
            time.sleep(0.02)
        clock.later_seconds = 600
        reading.join()
        assert found == [[]]


def test_the_number_of_instances_is_limited(broker: Broker):
    with rest_proxy(broker.bootstrap_servers, moldau_rest_consumer_instances_max="2") as url:
        client = V2Client(url)
        with V2Instance(client, "few"), V2Instance(client, "few"):
            status, code, message = client.refused("POST", "/consumers/few", {})
            assert (status, code) == (429, 42901)
            assert "moldau.rest.consumer.instances.max" in message
        with V2Instance(client, "few"):
            pass


def test_instances_that_may_fetch_little_ahead_read_large_records(broker: Broker):
    """Two least shares: a third instance is refused, and a record larger than a share is read."""
    with rest_proxy(
        broker.bootstrap_servers, moldau_rest_consumer_prefetch_bytes_max=str(2 * LEAST_BYTES)
    ) as url:
        client = V2Client(url)
        for number in range(3):
            client.produce("/topics/large", [{"value": "x" * 700_000}, {"value": number}])
        with V2Instance(client, "large") as one, V2Instance(client, "larger") as other:
            assert client.refused("POST", "/consumers/largest", {})[:2] == (429, 42901)
            for instance in (one, other):
                instance.assign(("large", 0))
                found = instance.read_until(6)
                assert [each["value"] for each in found if each["value"] in range(3)] == [0, 1, 2]
        with V2Instance(client, "large"), V2Instance(client, "larger"):  # their shares are free again
            pass


def raw_get(client: V2Client, path: str) -> socket.socket:
    """A request on a connection whose response is not read."""
    address = urlsplit(client.url)
    connection = socket.create_connection((address.hostname, address.port), 60)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {embedded('json')}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def test_who_leaves_while_a_read_waits_loses_nothing(broker: Broker):
    with rest_proxy(broker.bootstrap_servers, consumer_request_timeout_ms="60000") as url:
        client = V2Client(url)
        client.produce("/topics/left", [{"value": 0}])
        with V2Instance(client, "leavers") as instance:
            instance.assign(("left", 0))
            assert len(instance.read_until(1)) == 1
            raw_get(client, f"{instance.path}/records").close()
            time.sleep(0.2)
            client.produce("/topics/left", [{"value": 1}])
            assert [each["value"] for each in instance.read_until(1)] == [1]


def test_clients_that_read_nothing_hold_bounded_memory_and_lose_nothing(broker: Broker):
    """Each response is larger than what the two kernels take of it: what they took counts as received."""
    with rest_proxy(
        broker.bootstrap_servers,
        moldau_rest_responses_bytes_max="20000000",
        moldau_http_send_timeout_ms="3000",
        consumer_request_timeout_ms="60000",
        compression_enable="false",
    ) as url:
        client = V2Client(url)
        for _ in range(20):
            client.produce("/topics/unread", [{"value": RECORD} for _ in range(1000)])
        few = {"fetch.min.bytes": 5_000_000}
        slow = [V2Instance(client, f"slow-{number}", **few) for number in range(3)]
        connections = []
        for instance in slow:
            instance.assign(("unread", 0))
            connections.append(raw_get(client, f"{instance.path}/records?max_bytes=18000000"))
        most_bytes = 0.0
        while metric(client, "moldau_rest_requests_running") < 1 + len(slow):
            time.sleep(0.02)
        while metric(client, "moldau_rest_requests_running") > 1:  # until all of them are cut off
            most_bytes = max(most_bytes, metric(client, "moldau_rest_unsent_bytes"))
            time.sleep(0.02)
        assert 10_000_000 < most_bytes <= 20_000_000
        for connection in connections:
            connection.close()
        found = slow[0].read_until(20_000)
        assert [each["offset"] for each in found] == list(range(20_000))
        for instance in slow:
            instance.client.ask("DELETE", instance.path)
        assert metric(client, "moldau_rest_unsent_bytes") == 0


def test_when_the_budget_is_used_up_reads_return_less(broker: Broker):
    with rest_proxy(broker.bootstrap_servers, moldau_rest_responses_bytes_max="20000") as url:
        client = V2Client(url)
        client.produce("/topics/scarce", [{"value": RECORD} for _ in range(100)])
        with V2Instance(client, "scarce") as instance:
            instance.assign(("scarce", 0))
            reads = []
            while sum(map(len, reads)) < 100:
                reads.append(instance.read())
            assert 0 < max(map(len, reads)) < 20
            assert [each["offset"] for read in reads for each in read] == list(range(100))


def test_who_posts_without_end_waits(broker: Broker):
    """Many posts at once: the records on their way never exceed their budget, and all are written."""
    with rest_proxy(broker.bootstrap_servers, moldau_rest_producing_bytes_max="200000") as url:
        client = V2Client(url)

        async def post_all() -> int:
            async with httpx.AsyncClient(
                base_url=url, timeout=90, headers={"Content-Type": embedded("json")}
            ) as many:
                body = {"records": [{"value": RECORD} for _ in range(100)]}
                responses = await asyncio.gather(
                    *(many.post("/topics/endless", json=body) for _ in range(50))
                )
            return sum(len(each.json()["offsets"]) for each in responses if each.status_code == 200)

        assert asyncio.run(post_all()) == 5000
        assert client.get("/topics/endless/partitions/0/offsets")["end_offset"] == 5000
        assert metric(client, "moldau_rest_producing_bytes") == 0


def test_the_end_of_the_proxy_ends_its_instances(broker: Broker):
    with rest_proxy(broker.bootstrap_servers) as url:
        instance = V2Instance(V2Client(url), "ends")
        instance.subscribe("ends-topic")
        instance.read(timeout=10)
    with rest_proxy(broker.bootstrap_servers) as url:
        assert V2Client(url).refused("GET", f"{instance.path}/records")[:2] == (404, 40403)


def test_a_broker_that_dies_and_comes_back():
    """Records posted meanwhile are written once, in order; an instance goes on where it was."""
    with Broker(process=True) as broker, rest_proxy(broker.bootstrap_servers) as url:
        client = V2Client(url)
        client.produce("/topics/survives", [{"value": 0}])
        with V2Instance(client, "survivors") as instance:
            instance.subscribe("survives")
            assert len(instance.read_until(1)) == 1
            broker.kill()
            posted: list[dict[str, object]] = []
            posting = threading.Thread(
                target=lambda: posted.append(
                    client.produce("/topics/survives", [{"value": n} for n in range(1, 500)])
                )
            )
            posting.start()
            assert instance.read(timeout=50) == []
            broker.restart()
            posting.join()
            assert [each["offset"] for each in posted[0]["offsets"]] == list(range(1, 500))  # type: ignore[index,attr-defined]
            assert [each["value"] for each in instance.read_until(499)] == list(range(1, 500))
            instance.post("offsets", status=200)
            assert instance.committed("survives") == 500
