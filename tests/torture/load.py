"""A producer process: so many attempts, each written to the ledger before and after, come what may.

    python -m torture.load '{"address": ..., "name": "t0", "mode": "transaction", ...}'

It keeps its transactional id for life. When the client library says that a transaction must be aborted, it
is; when it says that the producer is done for (fenced, or worse), a new one takes its place. Killed and
started again it reads its own ledger and goes on with the next number. Transactions here are librdkafka's
(version 1).
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import time
import zlib
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer

from torture.ledger import (
    ABORTED,
    COMMITTED,
    PLAIN,
    TOMBSTONE,
    TRANSACTION,
    UNKNOWN,
    Entry,
    Ledger,
    read_ledger,
    value_of,
)
from torture.seeds import generator

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUICK_RECONNECT = {
    "log_level": 0,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 150,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "socket.timeout.ms": 3000,
}


@dataclass(frozen=True)
class Plan:
    """What one producer does, as its command line says it."""

    address: str
    name: str
    mode: str
    seed: int
    attempts: int
    topics: tuple[tuple[str, int], ...]
    ledger: str
    records_max: int = 60
    size_max: int = 1500
    key_count: int = 0
    """0: every record has a key of its own; else keys are drawn from so many, each with its partition."""
    tombstone_share: float = 0.0
    transaction_timeout_ms: int = 60000

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Loader:
    """One producer with its ledger."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        path = Path(plan.ledger)
        self.next_number = len(read_ledger(plan.name, path))
        # A restarted process draws anew: the same draws would only repeat what it did before.
        self.draw = generator(plan.seed, f"{plan.name}/{self.next_number}")
        self.ledger = Ledger(path)
        self.producer = self._new_producer()

    def run(self) -> None:
        while self.next_number < self.plan.attempts:
            if self.draw.random() < 0.1:
                self.producer = self._new_producer()
            self._attempt(self.next_number)
            self.next_number += 1

    def _new_producer(self) -> Producer:
        config: dict[str, Any] = {
            **QUICK_RECONNECT,
            "bootstrap.servers": self.plan.address,
            "compression.type": self.draw.choice(CODECS),
            "linger.ms": self.draw.choice((0, 1, 5)),
            "batch.num.messages": self.draw.choice((3, 30, 10000)),
            "enable.idempotence": self.plan.mode != PLAIN,
            # Nobody gives up but the broker: an answer that never came must be asked for again after a
            # restart.
            "message.timeout.ms": 0,
        }
        if self.plan.mode == PLAIN:
            # Without a producer id a second try may write a second time, so there is none.
            config |= {"message.send.max.retries": 0, "message.timeout.ms": 60000, "max.in.flight": 1}
        if self.plan.mode != TRANSACTION:
            return Producer(config)
        config |= {
            "transactional.id": f"torture-{self.plan.name}",
            "transaction.timeout.ms": self.plan.transaction_timeout_ms,
            "message.timeout.ms": self.plan.transaction_timeout_ms,
        }
        while True:
            producer = Producer(config)
            try:
                again_while_retriable(partial(producer.init_transactions, 5), 90)
                return producer
            except KafkaException as error:
                self.ledger.note(f"init_transactions: {error}")
                time.sleep(0.05)

    def _entries(self) -> list[Entry]:
        plan, draw = self.plan, self.draw
        count = draw.randint(1, draw.choice((1, 5, plan.records_max)))
        size_max = draw.choice((30, 200, plan.size_max))
        found = []
        for index in range(count):
            topic, partitions = draw.choice(plan.topics)
            size = draw.randint(20, size_max)
            if plan.key_count:
                key = f"{plan.name}-{draw.randrange(plan.key_count)}"
                partition = zlib.crc32(key.encode()) % partitions
                if draw.random() < plan.tombstone_share:
                    size = TOMBSTONE
            else:
                key, partition = f"{self.next_number}.{index}", draw.randrange(partitions)
            found.append(Entry(topic, partition, key, size))
        return found

    def _attempt(self, number: int) -> None:
        entries = self._entries()
        offsets: list[int | None] = [None] * len(entries)
        self.ledger.begin(number, self.plan.mode, entries)
        if self.plan.mode == TRANSACTION:
            outcome = self._transaction(number, entries, offsets)
        else:
            self._send(number, entries, offsets)
            self.producer.flush(90)
            outcome = COMMITTED if None not in offsets else UNKNOWN
        self.ledger.told(number, outcome, offsets)

    def _send(self, number: int, entries: list[Entry], offsets: list[int | None]) -> None:
        """Hand the records over; at a few places everything so far is sent before the next comes."""
        for index, one in enumerate(entries):

            def note(error: object, message: Any, index: int = index) -> None:
                if error is None:
                    offsets[index] = message.offset()

            value = value_of(self.plan.name, number, index, one.size_bytes)
            self.producer.produce(
                one.topic, key=one.key, value=value, partition=one.partition, on_delivery=note
            )
            self.producer.poll(0)
            if self.draw.random() < 0.05:
                self.producer.flush(90)

    def _transaction(self, number: int, entries: list[Entry], offsets: list[int | None]) -> str:
        commit = self.draw.random() < 0.65
        asked = False
        try:
            self.producer.begin_transaction()
            self._send(number, entries, offsets)
            if commit or self.draw.random() < 0.7:  # an abort throws away what was not sent yet
                self.producer.flush(90)
            self.ledger.decide(number, commit)
            asked = True
            end = self.producer.commit_transaction if commit else self.producer.abort_transaction
            again_while_retriable(lambda: end(5), 90)
            return COMMITTED if commit else ABORTED
        except KafkaException as error:
            self.ledger.note(f"transaction {number}: {error}")
            if error.args[0].txn_requires_abort():
                return self._abort(number, UNKNOWN if asked and commit else ABORTED)
            self.producer = self._new_producer()
            return UNKNOWN if asked and commit else ABORTED

    def _abort(self, number: int, otherwise: str) -> str:
        try:
            again_while_retriable(lambda: self.producer.abort_transaction(5), 90)
            return ABORTED
        except KafkaException as error:
            self.ledger.note(f"abort of {number}: {error}")
            self.producer = self._new_producer()
            return otherwise


def again_while_retriable(call: Any, timeout_s: float) -> None:
    """What the library calls retriable goes on in the background; asking again waits for its end."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def main() -> None:
    faulthandler.register(signal.SIGUSR1)  # a client that hangs is asked where
    values = json.loads(sys.argv[1])
    values["topics"] = tuple(map(tuple, values["topics"]))
    Loader(Plan(**values)).run()


if __name__ == "__main__":
    main()
