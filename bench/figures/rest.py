"""Records of 1 KiB through the REST proxy (v2, binary), beside a plain client of the same broker.

Proxy, broker and load share the machine's cores; the proxy's own CPU a record is taken as well. The plain
client is confluent-kafka in this process: `produce` with a delivery report each, `consume` in lists.
"""

from __future__ import annotations

import statistics
import time

from bench import rest_load
from bench.figures import Figure, Row, Start, Subject, Values
from bench.figures.kit_consume import create_topic
from bench.proc import cpu_time, peak_resident_bytes

TOPIC, PARTITIONS = "records", 3
BATCH, BATCH_REQUESTS, BATCH_CONNECTIONS = 100, 150, 4
SINGLE_REQUESTS, SINGLE_CONNECTIONS = 400, 8
CONSUMED = 60_000
READ_BYTES = 1024 * 1024
_WARM_REQUESTS = 20


def _rest(start: Start) -> Values:
    with start() as broker, rest_load.Proxy(broker.address) as proxy:
        create_topic(broker.address, TOPIC, PARTITIONS, {})
        rest_load.produce(proxy.url, TOPIC, connections=2, requests=_WARM_REQUESTS, records=10)
        values: dict[str, float] = {}
        count = BATCH * BATCH_REQUESTS * BATCH_CONNECTIONS
        cpu = cpu_time(proxy.pid)
        seconds, _ = rest_load.produce(
            proxy.url, TOPIC, connections=BATCH_CONNECTIONS, requests=BATCH_REQUESTS, records=BATCH
        )
        values["produce_per_s"] = count / seconds
        values["produce_cpu_us"] = (cpu_time(proxy.pid) - cpu).total_s / count * 1e6
        single = SINGLE_REQUESTS * SINGLE_CONNECTIONS
        cpu = cpu_time(proxy.pid)
        seconds, _ = rest_load.produce(
            proxy.url, TOPIC, connections=SINGLE_CONNECTIONS, requests=SINGLE_REQUESTS, records=1
        )
        values["produce_single_per_s"] = single / seconds
        values["produce_single_cpu_us"] = (cpu_time(proxy.pid) - cpu).total_s / single * 1e6
        _, alone = rest_load.produce(proxy.url, TOPIC, connections=1, requests=SINGLE_REQUESTS, records=1)
        values["produce_alone_ms"] = statistics.median(alone) * 1000
        cpu = cpu_time(proxy.pid)
        values["consume_per_s"] = CONSUMED / rest_load.consume(proxy.url, TOPIC, CONSUMED, READ_BYTES)
        values["consume_cpu_us"] = (cpu_time(proxy.pid) - cpu).total_s / CONSUMED * 1e6
        values["peak_mb"] = peak_resident_bytes(proxy.pid) / 1e6
    return values


def _plain(start: Start) -> Values:
    from confluent_kafka import Consumer, Producer

    with start() as broker:
        create_topic(broker.address, TOPIC, PARTITIONS, {})
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0, "enable.idempotence": True})
        values: dict[str, float] = {}
        delivered = [0]

        def report(error: object, message: object) -> None:
            assert error is None
            delivered[0] += 1

        def send(count: int) -> float:
            began, cpu = time.perf_counter(), time.process_time()
            for _ in range(count):
                producer.produce(TOPIC, rest_load.VALUE, on_delivery=report)
                producer.poll(0)
            producer.flush()
            values["produce_cpu_us"] = (time.process_time() - cpu) / count * 1e6
            return time.perf_counter() - began

        send(_WARM_REQUESTS)
        values["produce_per_s"] = CONSUMED / send(CONSUMED)
        alone = []
        for _ in range(SINGLE_REQUESTS):
            began = time.perf_counter()
            producer.produce(TOPIC, rest_load.VALUE)
            producer.flush()
            alone.append(time.perf_counter() - began)
        values["produce_alone_ms"] = statistics.median(alone) * 1000
        settings = {"bootstrap.servers": broker.address, "group.id": "plain", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe([TOPIC])
        first, seen, began = 0, 0, 0.0
        while seen < CONSUMED:
            found = len(consumer.consume(1000, 0.1))
            if found and not seen:
                began, cpu, first = time.perf_counter(), time.process_time(), found
            seen += found
        values["consume_per_s"] = (CONSUMED - first) / (time.perf_counter() - began)
        values["consume_cpu_us"] = (time.process_time() - cpu) / (CONSUMED - first) * 1e6
        consumer.close()
    return values


FIGURE = Figure(
    "rest",
    "REST proxy: records of 1 KiB",
    None,
    (
        Row("produce_per_s", f"written, {BATCH} records a request", "/s", 0),
        Row("produce_single_per_s", "written, one record a request", "/s", 0),
        Row("produce_alone_ms", "one record, one client, until its answer", "ms", 2),
        Row("consume_per_s", "read by one instance, 1 MiB a request", "/s", 0),
        Row("produce_cpu_us", f"CPU a record written, {BATCH} a request", "µs", 1),
        Row("produce_single_cpu_us", "CPU a record written, one a request", "µs", 1),
        Row("consume_cpu_us", "CPU a record read", "µs", 1),
        Row("peak_mb", "most memory", "MB", 0),
    ),
    note="CPU is that of the proxy's process, or of the plain client's.",
    subjects={
        "rest": Subject("moldau rest, v2 binary", _rest),
        "plain": Subject("confluent-kafka alone", _plain),
    },
)
