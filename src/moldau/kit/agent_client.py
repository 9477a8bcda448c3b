"""Hands messages to the agent of this machine (`moldau agent run`), which delivers them to Kafka.

    with AgentClient() as agent:
        agent.send("orders", b"one", key=b"customer 7")          # on the agent's disk when it returns
        agent.send_many("orders", [b"two", b"three"])

Each message carries the client's name (`source`) and a number, so that one whose answer was lost is sent
again and taken once. A program that knows after its own restart what it had sent passes a `source` of its
own, and `sequence` to `send`. After a fork the child is another source, unless the program gave its name.
One thread at a time; an asyncio program calls it in `asyncio.to_thread`.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType

DEFAULT_SOCKET = "moldau-agent/agent.sock"
RETRY_SECONDS = 0.2
WINDOW = 1000
"""Messages that are on their way before their answers are read."""


class AgentRefused(Exception):
    """The agent did not take a message: `reason` is a word (quota, spool_full, disk_full, too_large ...)."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(f"{reason}: {text}")
        self.reason = reason


class AgentClient:
    """A connection to the agent; made when first used, and again after it was lost."""

    def __init__(
        self,
        path: str | os.PathLike[str] = "",
        *,
        source: str = "",
        timeout_seconds: float = 30.0,
    ) -> None:
        self._path = os.fspath(path) or os.environ.get("MOLDAU_AGENT_SOCKET", DEFAULT_SOCKET)
        self._source = source or uuid.uuid4().hex
        self._own_name = not source
        self._pid = os.getpid()
        self._timeout_seconds = timeout_seconds
        self._sequence = 0
        self._socket: socket.socket | None = None
        self._received = b""

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        sequence: int | None = None,
    ) -> int:
        """Send a message; returns its number in the agent's spool of the topic, -1 if it was there already.

        Raises AgentRefused, and TimeoutError or OSError if no agent answers within `timeout_seconds`.
        """
        return self._send([self._line(topic, value, key, headers, sequence)])[0]

    def send_many(self, topic: str, values: Iterable[bytes | None], key: bytes | None = None) -> None:
        """Send messages, many on their way at a time. Raises as `send`: what was refused for want
        of room (quota, spool_full, disk_full) was refused with all after it.
        """
        lines: list[bytes] = []
        for value in values:
            lines.append(self._line(topic, value, key, None, None))
            if len(lines) == WINDOW:
                self._send(lines)
                lines = []
        if lines:
            self._send(lines)

    def _line(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Mapping[str, str] | None,
        sequence: int | None,
    ) -> bytes:
        if os.getpid() != self._pid:
            self._after_fork()
        self._sequence = self._sequence + 1 if sequence is None else sequence
        said: dict[str, object] = {
            "topic": topic,
            "source": self._source,
            "sequence": self._sequence,
            "value_base64": None if value is None else base64.b64encode(value).decode(),
        }
        if key is not None:
            said["key_base64"] = base64.b64encode(key).decode()
        if headers:
            said["headers"] = dict(headers)
        return json.dumps(said).encode() + b"\n"

    def _after_fork(self) -> None:
        """The connection is the parent's, and so are its numbers: the same ones again would be duplicates."""
        self._pid = os.getpid()
        self.close()
        if self._own_name:
            self._source, self._sequence = uuid.uuid4().hex, 0

    def _send(self, lines: Sequence[bytes]) -> list[int]:
        """Send lines and read their answers; after a lost connection those without an answer again."""
        numbers: list[int] = []
        until = time.monotonic() + self._timeout_seconds
        while True:
            try:
                connection = self._connect(until)
                connection.sendall(b"".join(lines[len(numbers) :]))
                while len(numbers) < len(lines):
                    numbers.append(_number_of(self._answer(connection)))
                return numbers
            except OSError:
                self.close()
                if time.monotonic() + RETRY_SECONDS >= until:
                    raise
                time.sleep(RETRY_SECONDS)
            except AgentRefused:
                self.close()  # the answers to the rest are not read
                raise

    def _connect(self, until: float) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(self._path)
        self._socket.settimeout(max(0.1, until - time.monotonic()))
        return self._socket

    def _answer(self, connection: socket.socket) -> bytes:
        while b"\n" not in self._received:
            data = connection.recv(65_536)
            if not data:
                raise ConnectionResetError("the agent closed the connection")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._received = None, b""

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _number_of(answer: bytes) -> int:
    verdict, first, rest = [*answer.decode().split(" ", 2), "", ""][:3]
    if verdict == "ok":
        return -1 if rest == "duplicate" else int(rest)
    if first in ("closed", "busy", "stopping"):
        raise ConnectionAbortedError(rest)
    raise AgentRefused(first, rest)
