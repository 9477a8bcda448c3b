"""What a scrape of /metrics costs a broker, and what it does to the requests of that moment.

    python -m bench.scrape [--partitions 10000]

A client sends one small Produce request after the other, first alone, then while the metrics are read again
and again; the difference in latency is what a scrape does to requests. Client, reader and broker share the
machine.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from confluent_kafka.admin import AdminClient, NewTopic

from bench import wire
from bench.brokers import Moldau
from bench.client import Connection
from moldau.testing.ports import reserve_port

PARTITIONS_A_TOPIC = 100
SECONDS = 5.0
READER = """
import sys, time, urllib.request
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    size_bytes = len(urllib.request.urlopen(sys.argv[1]).read())
    print(time.perf_counter() - began, size_bytes, flush=True)
    time.sleep(0.2)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    partitions = parser.parse_args().partitions
    reserved = reserve_port()
    http_port = reserved.number
    with Moldau(settings={"moldau.http.listener": f"127.0.0.1:{http_port}"}) as broker:
        _create(broker.address, partitions)
        time.sleep(2)
        before_bytes = broker.resident_bytes()
        _show("alone", _latencies(broker.port, SECONDS))
        cpu_s = broker.cpu().total_s
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, f"http://127.0.0.1:{http_port}/metrics", "5"],
            stdout=subprocess.PIPE,
            text=True,
        )
        _show("while scraped", _latencies(broker.port, SECONDS))
        output, _ = reader.communicate(timeout=60)
        scrapes = [line.split() for line in output.splitlines()]
        seconds = [float(line[0]) for line in scrapes]
        print(f"scrape of {partitions} partitions: {int(scrapes[0][1]) / 1e6:.1f} MB in", end=" ")
        print(f"{statistics.median(seconds):.3f} s (median of {len(seconds)}), under load")
        cpu_s = broker.cpu().total_s
        quiet = subprocess.run(
            [sys.executable, "-c", READER, f"http://127.0.0.1:{http_port}/metrics", "5"],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        seconds = [float(line.split()[0]) for line in quiet.stdout.splitlines()]
        cpu_s = (broker.cpu().total_s - cpu_s) / len(seconds)
        print(f"the same on an idle broker: {statistics.median(seconds):.3f} s, {cpu_s:.3f} s of CPU")
        grown_bytes = broker.resident_bytes() - before_bytes
        print(f"memory after ten scrapes: {before_bytes / 2**20:.1f} MB {grown_bytes / 2**20:+.1f} MB")


def _create(address: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [
        NewTopic(f"scrape-{number:04d}", min(PARTITIONS_A_TOPIC, partitions), 1)
        for number in range(max(1, partitions // PARTITIONS_A_TOPIC))
    ]
    for created in admin.create_topics(topics, request_timeout=120, operation_timeout=120).values():
        created.result()


def _latencies(port: int, seconds: float) -> list[float]:
    """Milliseconds of each request, sorted."""
    batch = wire.batch([bytes(100)])
    found: list[float] = []
    with Connection(port, 30) as connection:
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            connection.produce("scrape-0000", batch)
            found.append((time.perf_counter() - began) * 1000)
            time.sleep(0.0005)
    return sorted(found)


def _show(title: str, sorted_ms: list[float]) -> None:
    last = len(sorted_ms) - 1
    figures = ", ".join(f"p{share} {sorted_ms[int(last * share / 100)]:.2f} ms" for share in (50, 99, 99.9))
    print(f"requests {title}: {figures}, longest {sorted_ms[-1]:.2f} ms ({len(sorted_ms)} requests)")


if __name__ == "__main__":
    main()
