"""A REST proxy as a process of its own, and load on it over plain sockets: `bench/figures/rest.py`.

The requests' bytes are made beforehand, and responses are only searched for their end, so that the client
takes little of the two cores.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from urllib.parse import urlsplit

VALUE = bytes(range(256)) * 4
"""1 KiB."""
_BINARY = "application/vnd.kafka.binary.v2+json"


class Proxy:
    """A proxy beside a broker; `with` ends it."""

    def __init__(self, bootstrap_servers: str) -> None:
        command = [sys.executable, "-m", "bench.rest_load", bootstrap_servers]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self.pid = self._process.pid

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)


def _serve(bootstrap_servers: str) -> None:
    from moldau.services.http.server import HttpServer, run_until_signal
    from moldau.services.rest.app import serve_rest
    from moldau.services.rest.settings import rest_configuration

    texts = {"bootstrap.servers": bootstrap_servers, "listeners": "http://127.0.0.1:0"}
    configuration, _ = rest_configuration(texts)

    class Announced:
        async def __aenter__(self) -> HttpServer:
            self._serving = serve_rest(configuration)
            server = await self._serving.__aenter__()
            print(server.url, flush=True)
            return server

        async def __aexit__(self, *exception: object) -> None:
            await self._serving.__aexit__(None, None, None)

    run_until_signal(Announced)


class Connection:
    """One kept-alive connection."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """The response's body."""
        self._socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._socket.recv(65536)
        head = data[:end].lower()
        assert b" 200 " in head[:16] or b" 204 " in head[:16], data[:500]
        if b" 204 " in head[:16]:
            return b""
        size_bytes = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        parts = [data[end + 4 :]]
        left = size_bytes - len(parts[0])
        while left > 0:
            parts.append(self._socket.recv(min(left, 1024 * 1024)))
            left -= len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        self._socket.close()


def request(method: str, path: str, body: bytes = b"", media_type: str = _BINARY) -> bytes:
    """A request's bytes."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    types = f"Content-Type: {media_type}\r\nAccept: {media_type}\r\n"
    return f"{head}{types}Content-Length: {len(body)}\r\n\r\n".encode() + body


def produce_request(topic: str, records: int) -> bytes:
    """A request of v2 with so many records of 1 KiB."""
    record = {"value": base64.b64encode(VALUE).decode()}
    return request("POST", f"/topics/{topic}", json.dumps({"records": [record] * records}).encode())


def produce(
    url: str, topic: str, *, connections: int, requests: int, records: int
) -> tuple[float, list[float]]:
    """Seconds for so many requests on each connection, and the seconds of each request."""
    content = produce_request(topic, records)
    seconds: list[float] = []

    def work() -> None:
        connection = Connection(url)
        for _ in range(requests):
            began = time.perf_counter()
            answer = connection.ask(content)
            seconds.append(time.perf_counter() - began)
            assert answer.count(b'"error_code":null') == records, answer[:500]
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(connections)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began, seconds


@contextmanager
def instance(url: str, group: str) -> Iterator[tuple[Connection, str]]:
    """A consumer instance from the beginning of what it subscribes to."""
    connection = Connection(url)
    body = json.dumps({"format": "binary", "auto.offset.reset": "earliest"}).encode()
    answer = json.loads(connection.ask(request("POST", f"/consumers/{group}", body)))
    path = f"/consumers/{group}/instances/{answer['instance_id']}"
    yield connection, path
    connection.ask(request("DELETE", path))
    connection.close()


def consume(url: str, topic: str, count: int, max_bytes: int) -> float:
    """Seconds from the first response with records to that of the last of `count`."""
    with instance(url, f"bench-{time.time_ns()}") as (connection, path):
        connection.ask(request("POST", f"{path}/subscription", json.dumps({"topics": [topic]}).encode()))
        read = request("GET", f"{path}/records?max_bytes={max_bytes}")
        seen, began, first = 0, 0.0, 0
        while seen < count:
            found = connection.ask(read).count(b'"offset":')
            if found and not seen:
                began, first = time.perf_counter(), found
            seen += found
        seconds = time.perf_counter() - began
    return seconds * count / (count - first)


if __name__ == "__main__":
    _serve(sys.argv[1])
