"""What workers tell each other when they join, in Kafka's bytes.

    metadata v0    | version 2 | url STRING | config offset 8 |
             v1,2  | ... | allocation NULLABLE_BYTES: the assignment that the worker has now |
    assignment v0  | version 2 | error 2 | leader STRING | leader url STRING | config offset 8 | work |
               v1  | ... | revoked work | delay ms 4 |
    work           | count 4 | connector STRING | count 4 | task 4 ...; -1 is the connector itself |

v0 is `default` (eager), v1 `compatible` (KIP-415), v2 `sessioned` (KIP-507: requests between workers are
signed). The assignment of v1 and v2 says only what is new and what is to be let go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from moldau.services.connect.runtime.interface import TaskId

CONNECTOR = -1
"""As a task's number: the connector itself."""
VERSIONS = {"default": 0, "compatible": 1, "sessioned": 2}
PROTOCOLS = {
    "eager": ("default",),
    "compatible": ("compatible", "default"),
    "sessioned": ("sessioned", "compatible", "default"),
}
"""By the setting `connect.protocol`: what a worker offers, the favourite first."""
CONFIG_MISMATCH = 1
_COUNT_MAX = 1_000_000

Work = frozenset[TaskId]
NOTHING: Work = frozenset()


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader tells a worker."""

    leader: str
    leader_url: str
    offset: int
    assigned: Work = field(default=NOTHING)
    revoked: Work = field(default=NOTHING)
    error: int = 0
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a worker tells when it joins."""

    url: str
    offset: int
    held: Work = field(default=NOTHING)


def encode_state(state: WorkerState, version: int, leader: str = "", leader_url: str = "") -> bytes:
    """A member's metadata. `leader`: of the assignment that it has."""
    parts = struct.pack(">h", version) + _string(state.url) + struct.pack(">q", state.offset)
    if version == 0:
        return parts
    if not state.held:
        return parts + struct.pack(">i", -1)
    allocation = encode_assignment(Assignment(leader, leader_url, state.offset, state.held), version)
    return parts + struct.pack(">i", len(allocation)) + allocation


def encode_assignment(assignment: Assignment, version: int) -> bytes:
    """An assignment."""
    parts = [
        struct.pack(">hh", version, assignment.error),
        _string(assignment.leader),
        _string(assignment.leader_url),
        struct.pack(">q", assignment.offset),
        _work(assignment.assigned),
    ]
    if version > 0:
        parts += [_work(assignment.revoked), struct.pack(">i", assignment.delay_ms)]
    return b"".join(parts)


def decode_state(data: bytes) -> WorkerState:
    """ValueError: the bytes are no metadata."""
    reader = _Reader(data)
    version = reader.number(">h")
    url, offset = reader.string(), reader.number(">q")
    held = NOTHING
    if version > 0 and not reader.at_end:
        size = reader.number(">i")
        if size >= 0:
            held = decode_assignment(reader.take(size)).assigned
    return WorkerState(url, offset, held)


def decode_assignment(data: bytes) -> Assignment:
    """ValueError: the bytes are no assignment."""
    reader = _Reader(data)
    version, error = reader.number(">h"), reader.number(">h")
    leader, leader_url, offset = reader.string(), reader.string(), reader.number(">q")
    assigned = reader.work()
    revoked = reader.work() if version > 0 and not reader.at_end else NOTHING
    delay_ms = reader.number(">i") if version > 0 and not reader.at_end else 0
    return Assignment(leader, leader_url, offset, assigned, revoked, error, delay_ms)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _work(work: Iterable[TaskId]) -> bytes:
    by_connector: dict[str, list[int]] = {}
    for each in sorted(work):
        by_connector.setdefault(each.connector, []).append(each.task)
    parts = [struct.pack(">i", len(by_connector))]
    for connector, tasks in by_connector.items():
        parts += [_string(connector), struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)]
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = bytes(data), 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise ValueError("the bytes of a worker's group end too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, form: str) -> int:
        (found,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(found)

    def string(self) -> str:
        size = self.number(">h")
        return self.take(size).decode() if size >= 0 else ""

    def work(self) -> Work:
        count = self.number(">i")
        if count > _COUNT_MAX:
            raise ValueError("a worker's group names too many connectors")
        found: set[TaskId] = set()
        for _ in range(max(count, 0)):
            connector, tasks = self.string(), self.number(">i")
            numbers = struct.unpack(f">{tasks}i", self.take(4 * tasks)) if tasks > 0 else ()
            found.update(TaskId(connector, each) for each in numbers)
        return frozenset(found)
