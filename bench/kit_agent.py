"""Messages a second through `moldau agent`, and the agent's CPU for each: `python -m bench.kit_agent`.

A broker and an agent, each a process of its own; clients in this process send lines of 100 bytes over the
Unix socket, many on their way. Taken: until the last answer. Delivered: until the last transaction.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from moldau.testing import Broker

LINE = b"bench:key %s\n" % (b"x" * 86)
RUNS = 3


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send(path: str, count: int, window: int) -> None:
    """Send `count` lines, `window` at a time, and read their answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with connection.makefile("rb") as answers:
            for start in range(0, count, window):
                some = min(window, count - start)
                connection.sendall(LINE * some)
                for _ in range(some):
                    answer = answers.readline()
                    assert answer.startswith(b"ok"), answer


def status(path: str) -> dict[str, dict[str, int]]:
    """The agent's topics."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as answers:
        connection.connect(path)
        connection.sendall(b"?status\n")
        topics: dict[str, dict[str, int]] = json.loads(answers.readline())["topics"]
        return topics


def measure(mode: str, clients: int, window: int, count: int) -> tuple[float, float, float]:
    """Messages a second taken, a second delivered, and the agent's CPU in microseconds a message."""
    with Broker(process=True) as broker, tempfile.TemporaryDirectory() as folder:
        broker.create_topic("bench")
        command = [sys.executable, "-m", "moldau", "agent", "run", "-d", folder, "--json"]
        command += ["-b", broker.bootstrap_servers, "--http", "off", "--udp", "off", "--delivery", mode]
        agent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert agent.stdout is not None
            path = json.loads(agent.stdout.readline())["socket"]
            send(path, 100, 100)
            while status(path)["bench"]["waiting"]:
                time.sleep(0.05)
            began, cpu = time.perf_counter(), cpu_seconds(agent.pid)
            threads = [
                threading.Thread(target=send, args=(path, count // clients, window)) for _ in range(clients)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            taken = time.perf_counter() - began
            while status(path)["bench"]["waiting"]:
                time.sleep(0.01)
            delivered = time.perf_counter() - began
            cpu = cpu_seconds(agent.pid) - cpu
        finally:
            agent.terminate()
            agent.wait(60)
    return count / taken, count / delivered, cpu / count * 1e6


def main() -> None:
    """Print a table."""
    print("| delivery | clients x in flight | taken / s | delivered / s | agent's CPU a message, us |")
    print("| --- | --- | --- | --- | --- |")
    for clients, window, count in ((4, 500, 100_000), (50, 1, 10_000)):
        runs: dict[str, list[tuple[float, float, float]]] = {"exactly-once": [], "at-least-once": []}
        for _ in range(RUNS):
            for mode, found in runs.items():  # in turn, as the disk's syncs differ from minute to minute
                found.append(measure(mode, clients, window, count))
        for mode, found in runs.items():
            taken, delivered, cpu = (statistics.median(column) for column in zip(*found, strict=True))
            print(
                f"| {mode} | {clients} x {window} | {taken:,.0f} | {delivered:,.0f} | {cpu:.1f} |", flush=True
            )


if __name__ == "__main__":
    main()
