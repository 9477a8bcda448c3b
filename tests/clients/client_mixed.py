"""The port of `mixed_script.Script` that speaks to a broker on the wire: one connection for each caller, so
that a request that is parked holds up nobody.

Requests go out in our own codec (test_every_version.py holds that against Kafka's declarations). Topics get
names of their own for each port, so that many scripts can use one broker.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from client_confluent import create_topic
from client_model import eventually

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "coordinator"))

from mixed_schedule import Schedule
from mixed_script import SESSION_MS, MemoryPort, Script

from moldau.broker.metadata.image import Image, PartitionState, TopicState
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import frame_request, has_tagged_response_header
from moldau.common.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

ANSWER_S = 10.0
QUIET_S = 0.3
"""How long to look out for answers that nobody expects."""


class WirePort:
    """See the module. `restart` kills the broker and starts it again."""

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        topics: Mapping[str, int],
        restart: Callable[[], None] | None = None,
    ) -> None:
        self.group_id = group_id
        self._bootstrap = bootstrap
        self._restart = restart
        self._sockets: dict[str, socket.socket] = {}
        self._asked: dict[str, tuple[type[Message], int]] = {}
        for name, count in topics.items():
            create_topic(bootstrap, self.topic_name(name), count)
        self.image = self._read_image([self.topic_name(name) for name in topics])
        eventually(self._is_ready, 60)
        eventually(self._knows_topics, 60)

    def topic_name(self, short: str) -> str:
        return f"{short}-of-{self.group_id}"

    def _read_image(self, names: Sequence[str]) -> Image:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        self.send("metadata", request, 12)
        topics = self.answers(["metadata"])["metadata"].topics
        states = {
            row.name: TopicState(row.name, row.topic_id, (PartitionState.fresh((0,)),) * len(row.partitions))
            for row in topics
        }
        return Image(topics=states, topic_names={state.topic_id: name for name, state in states.items()})

    def _is_ready(self) -> bool:
        """Whether the coordinator of the group answers; asking for it creates its topic."""
        self.send("probe", FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id]), 4)
        if self.answers(["probe"])["probe"].coordinators[0].error_code:
            return False
        self.send("probe", HeartbeatRequest(group_id=self.group_id, generation_id=0, member_id="probe"), 4)
        return bool(self.answers(["probe"])["probe"].error_code == ErrorCode.UNKNOWN_MEMBER_ID)

    def _knows_topics(self) -> bool:
        """Whether the coordinator assigns what has just been created: a member of another group gets it."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"probe-of-{self.group_id}",
            member_id="probe",
            member_epoch=0,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=list(self.image.topics),
            topic_partitions=[],
        )
        self.send("probe", request, 1)
        joined = self.answers(["probe"])["probe"]
        request.member_epoch = -1
        self.send("probe", request, 1)
        self.answers(["probe"])
        return joined.assignment is not None and len(joined.assignment.topic_partitions) == len(
            self.image.topics
        )

    def send(self, caller: str, request: Message, version: int) -> None:
        connection = self._sockets.get(caller)
        if connection is None:
            host, port = self._bootstrap.rsplit(":", 1)
            connection = self._sockets[caller] = socket.create_connection((host, int(port)), ANSWER_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._asked[caller] = type(request), version
        connection.sendall(frame_request(request.KEY, version, 1, caller, request.encode(version)))

    def answers(self, expected: Sequence[str]) -> Mapping[str, Any]:
        came: dict[str, Any] = {}
        deadline = time.monotonic() + ANSWER_S
        while missing := [caller for caller in expected if caller not in came]:
            self._read(came, deadline - time.monotonic())
            assert time.monotonic() < deadline, f"no answer for {missing}"
        while self._asked and self._read(came, QUIET_S):
            pass  # answers to several callers need not come together
        return came

    def _read(self, came: dict[str, Any], timeout_s: float) -> bool:
        """Take the answers that have come within this time; whether there were any."""
        waiting = {self._sockets[caller]: caller for caller in self._asked}
        readable, _, _ = select.select(list(waiting), [], [], max(timeout_s, 0))
        for connection in readable:
            caller = waiting[connection]
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            frame = _exactly(connection, size)
            kind, version = self._asked.pop(caller)
            start = 5 if has_tagged_response_header(kind.KEY, version) else 4
            came[caller] = kind.RESPONSE.decode(frame[start:], version)
        return bool(readable)

    def wait(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)

    def restart(self) -> None:
        assert self._restart is not None, "this broker cannot be restarted"
        self.close()
        self._restart()
        eventually(self._is_ready, 60)

    def close(self) -> None:
        for connection in self._sockets.values():
            connection.close()
        self._sockets.clear()
        self._asked.clear()


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part, "the broker closed the connection"
        data += part
    return data


assert SESSION_MS >= 6000, "shorter ones are refused by a broker with default settings"


def compare_schedules(
    seed: int, memory: MemoryPort, wire: WirePort, *, same_assignor: bool, steps: int = 120
) -> tuple[int, str]:
    """Run a random schedule in memory and against the broker, drawing the same lines from the same seed: how
    many steps were compared, and the first one that is answered otherwise, with what went before (empty:
    none).

    Which of several members gets a partition depends on their ids, which are random, and on the assignor.
    Once the two have chosen differently, a member may have something to give up on one side only; the
    schedule ends at the first step whose answers differ by that.
    """
    first = Schedule(seed, Script(memory))
    second = Schedule(seed, Script(wire))
    drifted = not same_assignor
    for number in range(steps):
        before, broker_before = len(first.log), len(second.log)
        mine = first.prompt_step()
        theirs = second.prompt_step(first.log[before:])
        if mine != theirs:
            if drifted and [_kinds(row) for row in mine] == [_kinds(row) for row in theirs]:
                return number, ""
            tail = [f"    {line:40s} -> {answer}" for line, answer in first.log[max(0, before - 25) :]]
            rows = [f"    {line:40s} -> {answer}" for line, answer in second.log[broker_before:]]
            return number, "\n".join([*tail, "  the broker:", *rows])
        shares = [[_SHARE.findall(answer) for _, answer in log] for log in (first.log, second.log)]
        drifted = drifted or shares[0][before:] != shares[1][broker_before:]
    return steps, ""


_SHARE = re.compile(r"\ba[0-9a-f]+\b")


def _kinds(row: tuple[str, str]) -> tuple[str, list[str]]:
    """A line's caller with the errors of its answer; to join again is none, it depends on partitions."""
    line, answer = row
    return line.split()[0], re.findall(r"[A-Z]+_[A-Z_]+", answer.replace("REBALANCE_IN_PROGRESS", ""))
