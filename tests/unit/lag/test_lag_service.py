"""The service against a real broker, asked as Burrow's users ask."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.services.http.server import ServerThread
from moldau.services.lag.app import serve_lag
from moldau.services.lag.settings import configuration_of
from moldau.testing import Broker

WAIT_S = 60.0


def ask(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, _parsed(answer.read())
    except urllib.error.HTTPError as problem:
        return problem.code, _parsed(problem.read())


def _parsed(data: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(data)
    return data.decode()


def until(probe: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (found := probe()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as found:
        admin = AdminClient({"bootstrap.servers": found.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(30)
        producer = Producer({"bootstrap.servers": found.bootstrap_servers})
        for number in range(90):
            producer.produce("orders", str(number), partition=number % 3)
        producer.flush()
        yield found


@contextlib.contextmanager
def watching(servers: str, **consumer: Any) -> Iterator[str]:
    configuration = configuration_of(
        {
            "cluster": {"east": {"servers": [servers], "offset-refresh": 1, "topic-refresh": 1}},
            "consumer": {"east": {"cluster": "east", **consumer}},
            "evaluator": {"default": {"stop-after": 1}},
        },
        {"listeners": "http://127.0.0.1:0"},
    )
    thread = ServerThread(lambda: serve_lag(configuration), "lag")
    thread.start()
    try:
        yield thread.served.url
    finally:
        thread.stop()


def commit(servers: str, group: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    places = [TopicPartition("orders", partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def test_a_group_is_seen_judged_and_forgotten(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    commit(servers, "billing", {0: 10, 1: 30})
    with watching(servers) as url:
        group = f"{url}/v3/kafka/east/consumer/billing"
        status = until(lambda: (found := ask(f"{group}/lag"))[0] == 200 and found[1]["status"])
        until(lambda: ask(f"{url}/burrow/admin/ready")[0] == 200)
        status = until(
            lambda: (
                (found := ask(f"{group}/lag")[1]["status"])["totallag"] == 20
                and found["status"] == "ERR"
                and found["lag_seconds"] is not None
                and found
            )
        )
        assert [each["status"] for each in status["partitions"]] == ["STOP", "OK"]
        assert status["maxlag"]["current_lag"] == 20
        assert status["partition_count"] == 2
        bad = ask(f"{group}/status")[1]["status"]["partitions"]
        assert [(each["topic"], each["partition"], each["end"]["offset"]) for each in bad] == [
            ("orders", 0, 10)
        ]

        assert ask(f"{url}/v3/kafka")[1]["clusters"] == ["east"]
        assert ask(f"{url}/v3/kafka/east/topic/orders")[1]["offsets"] == [30, 30, 30]
        assert ask(f"{url}/v3/kafka/east/topic/orders/consumers")[1]["consumers"] == ["billing"]
        assert ask(f"{url}/v3/kafka/east/consumer")[1]["consumers"] == ["billing"]
        windows = ask(group)[1]["topics"]["orders"]
        assert windows[0]["offsets"][-1]["offset"] == 10
        assert windows[0]["offsets"][0] is None

        metrics = ask(f"{url}/metrics")[1]
        assert 'burrow_kafka_consumer_lag_total{cluster="east",consumer_group="billing"} 20' in metrics
        assert 'kafka_consumergroup_group_lag_seconds{cluster="east",group="billing"}' in metrics

        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_consumer_groups(["billing"])["billing"].result(30)
        until(lambda: ask(f"{group}/status")[0] == 404)
        assert "billing" not in ask(f"{url}/metrics")[1]


def test_without_the_offsets_topic_groups_are_asked(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    commit(servers, "asked", {2: 25})
    with watching(servers, **{"offsets-topic": "not-to-be-read"}) as url:
        group = f"{url}/v3/kafka/east/consumer/asked"
        status = until(lambda: (found := ask(f"{group}/lag"))[0] == 200 and found[1]["status"])
        assert (status["totallag"], status["partitions"][0]["end"]["offset"]) == (5, 25)
        assert "not-to-be-read" in until(lambda: ask(f"{url}/health")[1]["asked_for_offsets"].get("east"))


def test_unknown_names_and_wrong_words(broker: Broker) -> None:
    with watching(broker.bootstrap_servers) as url:
        assert ask(f"{url}/burrow/admin") == (200, "GOOD")
        for path in ("/v3/kafka/west", "/v3/kafka/west/topic", "/v3/kafka/east/topic/no", "/v3/config/no"):
            code, body = ask(url + path)
            assert (code, body["error"]) == (404, True), path
        code, body = ask(f"{url}/v3/kafka/east/consumer/nobody/status")
        assert (code, body["error"], body["status"]["status"]) == (404, False, "NOTFOUND")
        assert ask(f"{url}/v3/kafka/east/consumer/", "DELETE")[0] in (404, 405)
        assert ask(f"{url}/v3/kafka/east/consumer/x?group=y", "DELETE")[0] == 400
        assert ask(f"{url}/v3/admin/loglevel", "POST", b"{")[0] == 400
        assert ask(f"{url}/v3/admin/loglevel", "POST", b'{"level": "loud"}')[0] == 404


def test_a_cluster_that_is_away_is_said(broker: Broker) -> None:
    with watching("127.0.0.1:9") as url:
        found = until(lambda: ask(f"{url}/health")[1].get("unreachable"))
        assert "127.0.0.1:9" in found["east"]
        assert ask(f"{url}/burrow/admin/ready")[0] == 503
