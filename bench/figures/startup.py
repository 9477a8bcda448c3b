"""From starting the process to the first acknowledged record, on an empty folder and on one that holds data.

Formatting Apache Kafka's storage is done before and not counted. The client asks every two milliseconds.
"""

from __future__ import annotations

import time

from bench import wire
from bench.brokers import BrokerProcess
from bench.client import Connection, RequestFailed
from bench.figures import Figure, Row, Start, Values

TOPIC = "first"


def measure(start: Start) -> Values:
    """Seconds to the first acknowledgement, and CPU seconds used until then."""
    with start() as broker:
        _first_record(broker, time.monotonic())
        broker.stop()
        began = time.monotonic()
        broker.spawn()
        restart_s = _first_record(broker, began)
        restart_cpu_s = broker.cpu().total_s
    fresh = start()
    fresh.command()  # formats the storage where that is asked for
    began = time.monotonic()
    fresh.spawn()
    try:
        fresh_s = _first_record(fresh, began)
        fresh_cpu_s = fresh.cpu().total_s
    finally:
        fresh.__exit__(None, None, None)
    return {
        "fresh_s": fresh_s,
        "restart_s": restart_s,
        "fresh_cpu_s": fresh_cpu_s,
        "restart_cpu_s": restart_cpu_s,
    }


def _first_record(broker: BrokerProcess, began: float) -> float:
    """Try until a record is acknowledged; the topic is made on first use."""
    batch = wire.batch([bytes(100)])
    while time.monotonic() - began < 60:
        try:
            with Connection(broker.port, 5) as connection:
                while time.monotonic() - began < 60:
                    connection.call(wire.metadata(TOPIC))
                    try:
                        connection.produce(TOPIC, batch)
                        return time.monotonic() - began
                    except RequestFailed:
                        time.sleep(0.002)
        except OSError:
            time.sleep(0.002)
    raise TimeoutError(f"{broker.name} took no record: {broker.output.read_text()[-2000:]}")


FIGURE = Figure(
    "startup",
    "Start of the process to the first acknowledged record",
    measure,
    (
        Row("fresh_s", "empty folder, topic made on first use", "s", 2, "<= 0.25"),
        Row("fresh_cpu_s", "CPU used until then", "s", 2),
        Row("restart_s", "after a clean stop", "s", 2),
        Row("restart_cpu_s", "CPU used until then", "s", 2),
    ),
)
