"""Producers that write down what they were told, as tests/torture does with real clients, for the same
judges.

An attempt is a transaction, or a handful of records without one. It is noted before its records are sent,
before its end is asked for, and when the outcome is known (torture/ledger.py); a kill in between leaves it as
it was. A load that is started again goes on with the next number under the same transactional id.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from sim_client import SimClient
from sim_producer import Fatal, KeyValue, Sent, SimProducer
from sim_world import World
from torture.ledger import (
    ABORTED,
    COMMITTED,
    PLAIN,
    TOMBSTONE,
    TRANSACTION,
    UNKNOWN,
    Attempt,
    Entry,
    value_of,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Plan:
    """What a load writes. `key_count` 0: every record has a key of its own."""

    mode: str
    attempts: int
    topics: Mapping[str, int]
    records_max: int = 12
    size_max: int = 300
    key_count: int = 0
    tombstone_share: float = 0.0
    timeout_ms: int = 60_000
    acks: int = -1
    """1 is promised nothing when the machine loses power."""


class Load:
    """One producer by name, through all its lives."""

    def __init__(self, world: World, name: str, address: tuple[str, int], plan: Plan) -> None:
        self.name = name
        self.plan = plan
        self.attempts: list[Attempt] = []
        self.lives = 0
        self.notes: list[str] = []
        self._world, self._address = world, address
        self._transactions = world.draw(f"{name}/version").choice((1, 2))
        self._done = False

    @property
    def over(self) -> bool:
        """Whether all attempts are made, or it was killed and not started again."""
        return self._done or not self.client.process.alive

    def start(self) -> None:
        """Begin, or go on after a kill."""
        self.lives += 1
        self.client = SimClient(self._world, f"{self.name}.{self.lives}", self._address)
        self.random = self.client.random
        self.client.background(self._run())

    def kill(self) -> None:
        """kill -9."""
        self.client.kill()

    async def _run(self) -> None:
        producer = await self._new_producer()
        while len(self.attempts) < self.plan.attempts:
            if self.random.random() < 0.1:
                producer = await self._new_producer()
            try:
                await self._attempt(producer)
            except Fatal as error:
                self.notes.append(f"{len(self.attempts) - 1}: {error}")
                producer = await self._new_producer()
            if self.random.random() < 0.3:
                await self.client.pause()
        self._done = True

    async def _new_producer(self) -> SimProducer:
        while True:
            producer = SimProducer(
                self.client,
                transactional_id=f"id-{self.name}" if self.plan.mode == TRANSACTION else "",
                idempotent=self.plan.mode != PLAIN,
                transactions=self._transactions,
                timeout_ms=self.plan.timeout_ms,
                compression=self.random.choice(CODECS),
                acks=self.plan.acks,
            )
            try:
                await producer.initialise()
            except Fatal as error:
                self.notes.append(str(error))
                await self.client.pause()
            else:
                return producer

    async def _attempt(self, producer: SimProducer) -> None:
        number = len(self.attempts)
        # What a killed process has sent may arrive after its successor's: only a transactional id fences it.
        writer = self.name if self.plan.mode == TRANSACTION else self.client.name
        attempt = Attempt(writer, number, self.plan.mode, self._entries(number))
        attempt.offsets = [None] * len(attempt.records)
        self.attempts.append(attempt)
        pieces = self._batches(producer, attempt)
        cut = self.random.randint(0, len(pieces))
        for part in (pieces[:cut], pieces[cut:]):
            try:
                await producer.deliver([sent for sent, _ in part])
            finally:
                for sent, indexes in part:
                    if sent.base_offset is not None:
                        for place, index in enumerate(indexes):
                            attempt.offsets[index] = sent.base_offset + place
        if self.plan.mode != TRANSACTION:
            attempt.outcome = COMMITTED if None not in attempt.offsets else UNKNOWN
            return
        attempt.commit = self.random.random() < 0.65
        await producer.end(commit=attempt.commit)
        attempt.outcome = COMMITTED if attempt.commit else ABORTED

    def _entries(self, number: int) -> list[Entry]:
        plan, draw = self.plan, self.random
        found = []
        for index in range(draw.randint(1, draw.choice((1, 5, plan.records_max)))):
            topic, partitions = draw.choice(sorted(plan.topics.items()))
            size = draw.randint(20, draw.choice((30, plan.size_max)))
            if plan.key_count:
                key = f"{self.name}-{draw.randrange(plan.key_count)}"
                partition = zlib.crc32(key.encode()) % partitions
                if draw.random() < plan.tombstone_share:
                    size = TOMBSTONE
            else:
                key, partition = f"{number}.{index}", draw.randrange(partitions)
            found.append(Entry(topic, partition, key, size))
        return found

    def _batches(self, producer: SimProducer, attempt: Attempt) -> list[tuple[Sent, list[int]]]:
        """The attempt's records as batches, each with the indexes of its records."""
        runs: list[tuple[tuple[str, int], list[int]]] = []
        for index, one in enumerate(attempt.records):
            place = (one.topic, one.partition)
            if runs and runs[-1][0] == place and self.random.random() < 0.7:
                runs[-1][1].append(index)
            else:
                runs.append((place, [index]))
        found = []
        for place, indexes in runs:
            pairs: list[KeyValue] = [
                (
                    attempt.records[index].key.encode(),
                    value_of(attempt.producer, attempt.number, index, attempt.records[index].size_bytes),
                )
                for index in indexes
            ]
            found.append((producer.batch(place, pairs), indexes))
        return found
