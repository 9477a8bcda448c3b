"""Round trips of a live broker through its own listener: counted, and failing where nobody gets through."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from confluent_kafka.admin import AdminClient

from moldau.testing import Broker

WAIT_SECONDS = 60.0
SETTINGS = {"moldau.health.round.trip.interval.ms": "100", "moldau.http.listener": "127.0.0.1:0"}


def page(broker: Broker, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{broker.http_address}{path}", timeout=WAIT_SECONDS) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as failing:
        return failing.read().decode()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def counted(broker: Broker, metric: str) -> float:
    lines = [line for line in page(broker, "/metrics").splitlines() if line.startswith(metric + " ")]
    return float(lines[0].split()[1]) if lines else -1.0


def test_round_trips_are_made_and_counted() -> None:
    with Broker(SETTINGS) as broker:
        wait_for(lambda: counted(broker, "moldau_round_trips_total") >= 3)
        assert counted(broker, "moldau_round_trip_last_seconds") > 0
        assert "round-trip" not in page(broker, "/health")
        topics = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=30).topics
        assert len(topics["__moldau_health"].partitions) == 1


def test_they_are_off_by_default() -> None:
    with Broker({"moldau.http.listener": "127.0.0.1:0"}) as broker:
        assert counted(broker, "moldau_uptime_seconds") >= 0
        assert counted(broker, "moldau_round_trips_total") == -1.0


def test_an_address_that_nobody_reaches_fails_the_verdict() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{closed}"}
    with Broker(settings) as broker:
        wait_for(lambda: counted(broker, "moldau_round_trips_failed_total") >= 2)
        causes = {each["name"]: each["message"] for each in json.loads(page(broker, "/health"))["causes"]}
        assert f"127.0.0.1:{closed}" in causes["round-trip-failing"]
