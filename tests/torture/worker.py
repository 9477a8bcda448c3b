"""A worker of a consume-transform-produce loop: what it reads, writes and commits is one transaction.

    python -m torture.worker '{"address": ..., "name": "w0", "group": "copiers", "protocol": "classic", ...}'

KIP-98, KIP-447. After an abort it goes back to what the group has committed and reads again from there. It
ends when the file `stop` appears beside its ledger. It keeps no ledger of records: what must come out follows
from what went in.

librdkafka 2.16 may wait for ever in send_offsets_to_transaction when a coordinator came back in that moment
(confluentinc/librdkafka#5456, #5511; with Apache Kafka alike). A worker that hangs so gives itself up, and
the harness starts it again: one death more.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import time
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from torture.load import QUICK_RECONNECT, again_while_retriable
from torture.seeds import generator

TRANSACTION_TIMEOUT_MS = 3000
HANGING_S = 4.0


@dataclass(frozen=True)
class WorkPlan:
    """What one worker does, as its command line says it."""

    address: str
    name: str
    group: str
    protocol: str
    seed: int
    source: str
    target: str
    target_partitions: int
    folder: str
    batch_max: int = 20

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def transformed(value: bytes) -> bytes:
    """What comes out for what goes in: different bytes that name their origin."""
    return value + b"|" + f"{zlib.crc32(value):08x}".encode()


class Worker:
    """One consumer and one transactional producer."""

    def __init__(self, plan: WorkPlan) -> None:
        self.plan = plan
        self.draw = generator(plan.seed, f"{plan.name}/{time.monotonic_ns()}")
        self.stop_file = Path(plan.folder) / "stop"

    def run(self) -> None:
        """Until it is told to stop: an incarnation ends with whatever its client library does not forgive."""
        while not self.stop_file.exists():
            consumer = Consumer(self._consumer_config())
            try:
                consumer.subscribe([self.plan.source])
                self._incarnation(consumer, self._new_producer())
            except KafkaException as error:
                print(f"{self.plan.name}: {error}", flush=True)
                time.sleep(0.05)
            finally:
                consumer.close()

    def _incarnation(self, consumer: Consumer, producer: Producer) -> None:
        while not self.stop_file.exists():
            messages = consumer.consume(self.draw.randint(1, self.plan.batch_max), 0.1)
            for one in messages:
                if one.error() is not None and not one.error().retriable():
                    print(f"{self.plan.name}: {one.error()}", flush=True)
            records = [one for one in messages if one.error() is None]
            if records:
                faulthandler.dump_traceback_later(HANGING_S, exit=True)
                try:
                    self._transaction(consumer, producer, records)
                except KafkaException as error:
                    print(f"{self.plan.name}: {error}", flush=True)
                    if not error.args[0].txn_requires_abort():
                        raise
                    again_while_retriable(lambda: producer.abort_transaction(5), 60)
                    _go_back(consumer)
                finally:
                    faulthandler.cancel_dump_traceback_later()

    def _transaction(self, consumer: Consumer, producer: Producer, records: list[Any]) -> None:
        producer.begin_transaction()
        positions: dict[tuple[str, int], int] = {}
        for one in records:
            positions[one.topic(), one.partition()] = one.offset() + 1
            target = self.draw.randrange(self.plan.target_partitions)
            producer.produce(
                self.plan.target, key=one.key(), value=transformed(one.value()), partition=target
            )
            producer.poll(0)
        offsets = [TopicPartition(topic, number, offset) for (topic, number), offset in positions.items()]
        member = consumer.consumer_group_metadata()
        again_while_retriable(lambda: producer.send_offsets_to_transaction(offsets, member, 5), 60)
        if self.draw.random() < 0.1:
            again_while_retriable(lambda: producer.abort_transaction(5), 60)
            _go_back(consumer)
        else:
            again_while_retriable(lambda: producer.commit_transaction(5), 60)

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                **QUICK_RECONNECT,
                "bootstrap.servers": self.plan.address,
                "transactional.id": f"worker-{self.plan.name}",
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 1,
            }
        )
        again_while_retriable(lambda: producer.init_transactions(5), 60)
        return producer

    def _consumer_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            **QUICK_RECONNECT,
            "bootstrap.servers": self.plan.address,
            "group.id": self.plan.group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
        if self.plan.protocol == "consumer":
            return config | {"group.protocol": "consumer"}
        return config | {"session.timeout.ms": 2000, "heartbeat.interval.ms": 300}


def _go_back(consumer: Consumer) -> None:
    """Read again from what the group has committed; a partition without a commit from its beginning."""
    committed = consumer.committed(consumer.assignment(), 20)
    for one in committed:
        consumer.seek(TopicPartition(one.topic, one.partition, max(0, one.offset)))


def main() -> None:
    faulthandler.register(signal.SIGUSR1)  # a client that hangs is asked where
    Worker(WorkPlan(**json.loads(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
