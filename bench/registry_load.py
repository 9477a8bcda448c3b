"""A registry as a process of its own, and clients that load it over HTTP.

Each client is a thread with one connection; requests are prepared before the clock starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import IO, NamedTuple, Self

from bench.rest_load import Connection

WAIT_SECONDS = 120.0
_CONTENT = "Content-Type: application/vnd.schemaregistry.v1+json\r\nContent-Length"


class Call(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes = b""

    def encode(self) -> bytes:
        """Its bytes."""
        head = (
            f"{self.method} {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{_CONTENT}: {len(self.body)}\r\n\r\n"
        )
        return head.encode() + self.body


class Registry:
    """`moldau registry` until the end of the `with` block; `ready_s`: from its start to its first answer."""

    def __init__(self, bootstrap_servers: str, log: IO[bytes] | int = subprocess.DEVNULL) -> None:
        words = ["-b", bootstrap_servers, "--listen", "http://127.0.0.1:0", "--json"]
        began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moldau", "registry", *words], stdout=subprocess.PIPE, stderr=log
        )
        assert self._process.stdout is not None
        try:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError("the registry did not start")
            self.url: str = json.loads(line)["addresses"][0]
            self.get("/subjects?limit=1")
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self.ready_s = time.monotonic() - began

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def get(self, path: str) -> bytes:
        """The body at a path, also one that comes in chunks."""
        with urllib.request.urlopen(self.url + path, timeout=WAIT_SECONDS) as answer:
            body: bytes = answer.read()
            return body

    def wait_until_it_writes(self, call: Call) -> None:
        """Repeat a write until it is accepted: an election takes a moment."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                Connection(self.url).ask(call.encode())
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def run(self, calls: Sequence[Call], connections: int) -> float:
        """Make the calls, over so many connections; the seconds it took. AssertionError if one fails."""
        shares = [[call.encode() for call in calls[index::connections]] for index in range(connections)]
        began = time.monotonic()
        with ThreadPoolExecutor(connections) as pool:
            list(pool.map(self._run_share, shares))
        return time.monotonic() - began

    def _run_share(self, requests: Sequence[bytes]) -> None:
        connection = Connection(self.url)
        for request in requests:
            connection.ask(request)
        connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
