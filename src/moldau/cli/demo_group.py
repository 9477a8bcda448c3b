"""The demo's consumers: a group of several members in threads of one process, each with a client of its own.

Members join first and read later: partitions are paused as they are assigned, and resumed when every member
has its share. So no record is read twice because the group was still forming, and "each record once" can be
checked without exceptions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moldau.cli.errors import CommandError

JOIN_TIMEOUT_SECONDS = 30.0
IDLE_TIMEOUT_SECONDS = 15.0
BATCH_RECORDS = 5_000


@dataclass(slots=True)
class MemberOutcome:
    """What one member read."""

    name: str
    partitions: list[int] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True)
class Outcome:
    """What the group read: values by key in the order of reading, and the lag that is left."""

    members: list[MemberOutcome]
    values: dict[bytes, list[bytes]]
    count: int
    size_bytes: int
    seconds: float
    lag: int


class Member:
    """One consumer in one thread."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str, name: str) -> None:
        from confluent_kafka import Consumer

        self.outcome = MemberOutcome(name)
        self.values: dict[bytes, list[bytes]] = {}
        self.size_bytes = 0
        self.failure: BaseException | None = None
        self.go = threading.Event()
        self.done = threading.Event()
        self._resumed = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "range",
                "fetch.max.bytes": 50_000_000,
                "max.partition.fetch.bytes": 10_000_000,
                "queued.min.messages": 200_000,
                "fetch.queue.backoff.ms": 10,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        self.outcome.partitions = sorted(each.partition for each in partitions)
        consumer.assign(partitions)
        if not self._resumed:
            consumer.pause(partitions)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        self.outcome.partitions = []
        consumer.unassign()

    def _run(self) -> None:
        try:
            self._read()
            self._consumer.commit(asynchronous=False)
        except BaseException as failure:
            self.failure = failure
        finally:
            self._consumer.close()

    def _read(self) -> None:
        while not self.done.is_set():
            if self.go.is_set() and not self._resumed:
                self._resumed = True
                self._consumer.resume(self._consumer.assignment())
            for message in self._consumer.consume(BATCH_RECORDS, timeout=0.05):
                error = message.error()
                if error is not None:
                    raise CommandError(f"{self.outcome.name}: {error.str()}")
                key, value = message.key() or b"", message.value() or b""
                self.values.setdefault(key, []).append(value)
                self.outcome.count += 1
                self.size_bytes += len(key) + len(value)


def consume(
    bootstrap_servers: str,
    topic: str,
    group: str,
    member_count: int,
    partition_count: int,
    expected: int,
    advance: Callable[[int], None],
) -> Outcome:
    """Read `expected` records with a group; stops early when nothing comes any more."""
    members = [
        Member(bootstrap_servers, topic, group, f"member-{index + 1}") for index in range(member_count)
    ]
    for member in members:
        member.thread.start()
    try:
        _await_assignment(members, partition_count)
        started_at = time.perf_counter()
        for member in members:
            member.go.set()
        _await_records(members, expected, advance)
        seconds = time.perf_counter() - started_at
        partitions = [list(member.outcome.partitions) for member in members]
    finally:
        for member in members:
            member.done.set()
        for member in members:
            member.thread.join()
    _raise_failure(members)
    for member, had in zip(members, partitions, strict=True):
        member.outcome.partitions = had
    values: dict[bytes, list[bytes]] = {}
    for member in members:
        for key, read in member.values.items():
            values.setdefault(key, []).extend(read)
    return Outcome(
        members=[member.outcome for member in members],
        values=values,
        count=sum(member.outcome.count for member in members),
        size_bytes=sum(member.size_bytes for member in members),
        seconds=seconds,
        lag=_lag(bootstrap_servers, topic, group, partition_count),
    )


def _await_assignment(members: list[Member], partition_count: int) -> None:
    deadline = time.monotonic() + JOIN_TIMEOUT_SECONDS
    while True:
        shares = [list(member.outcome.partitions) for member in members]
        if all(shares) and sorted(index for share in shares for index in share) == list(
            range(partition_count)
        ):
            return
        _raise_failure(members)
        if time.monotonic() > deadline:
            raise CommandError(
                f"the group did not form within {JOIN_TIMEOUT_SECONDS:.0f} s: assigned are {shares}"
            )
        time.sleep(0.01)


def _await_records(members: list[Member], expected: int, advance: Callable[[int], None]) -> None:
    count, changed_at = 0, time.monotonic()
    while count < expected:
        now_count = sum(member.outcome.count for member in members)
        if now_count != count:
            count, changed_at = now_count, time.monotonic()
            advance(count)
        elif time.monotonic() - changed_at > IDLE_TIMEOUT_SECONDS:
            return
        _raise_failure(members)
        time.sleep(0.01)


def _raise_failure(members: list[Member]) -> None:
    for member in members:
        if member.failure is not None:
            raise member.failure


def _lag(bootstrap_servers: str, topic: str, group: str, partition_count: int) -> int:
    """Give how many records the group has not committed yet."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    try:
        committed = consumer.committed(
            [TopicPartition(topic, index) for index in range(partition_count)], timeout=10
        )
        ends = [consumer.get_watermark_offsets(each, timeout=10)[1] for each in committed]
    finally:
        consumer.close()
    return sum(end - max(each.offset, 0) for each, end in zip(committed, ends, strict=True))
