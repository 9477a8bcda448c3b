"""One client process of a cluster's torture; it records what it did and was told until it is told to stop.

    python -m torture.cluster_client '{"kind": "write", "name": "w0", "address": ..., "folder": ...}'

    write      an idempotent producer: a few records at a time, to all partitions in turn
    transact   transactions of some records each, most committed, some aborted
    copy       consume-transform-produce: what a group reads from one topic is written to another, offsets and
               copies in one transaction (KIP-98, KIP-447)
    read       a group member that commits what it has read

No client is made anew because a broker died: that must be lived through. Only what the library itself calls
the end of a producer (fenced, fatal) makes a new one, and is noted in the log.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from histories.history import ACKNOWLEDGED, UNKNOWN, Commit, Resume, Send, Transaction

from torture.cluster_record import Recorder, now_s
from torture.load import QUICK_RECONNECT, again_while_retriable
from torture.seeds import generator

TRANSACTION_TIMEOUT_MS = 20_000
PATIENCE_S = 180.0
"""How long a client asks again: longer than any fault lasts."""
HANGING_S = 40.0
"""How long a copy may take. confluentinc/librdkafka 2.16 ignores the timeout of send_offsets_to_transaction
(#5456), and where the group's coordinator was missing in the metadata for a moment it waits for a connection
that it has given up itself (#5511): it sends nothing until another connection changes."""
STOP_WRITERS, STOP_READERS = "stop-writers", "stop-readers"
PAUSE_S = 0.01
BETWEEN_S = 0.03
"""Between two batches or transactions: a round of minutes is judged in seconds."""


@dataclass(frozen=True)
class ClientPlan:
    """What one client does, as its command line says it."""

    kind: str
    name: str
    address: str
    seed: int
    folder: str
    topic: str
    partitions: int
    target: str = ""
    group: str = ""
    protocol: str = "classic"
    batch_max: int = 10
    settings: tuple[tuple[str, Any], ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def history(self) -> Path:
        return Path(self.folder) / f"{self.name}.history"


class Client:
    """What all kinds share: the recorder, numbers of sends and of transactions, when to stop."""

    def __init__(self, plan: ClientPlan) -> None:
        self.plan = plan
        self.draw = generator(plan.seed, plan.name)
        self.recorder = Recorder(plan.history)
        # Readers go on after the writers, until they have read everything.
        self._stop = Path(plan.folder) / (STOP_READERS if plan.group else STOP_WRITERS)
        self.sends = 0
        self.transactions = 0
        # A client that gave itself up and was started again is another life.
        self.life = f"{plan.name}.{time.monotonic_ns():x}"
        self.given_up = False
        """A record of the transaction was given up: whether it is there is not known."""

    def stopping(self) -> bool:
        return self._stop.exists()

    def config(self, **more: Any) -> dict[str, Any]:
        named = {name.replace("_", "."): value for name, value in more.items()}
        return {
            **QUICK_RECONNECT,
            "bootstrap.servers": self.plan.address,
            "client.id": self.plan.name,
            **named,
            **dict(self.plan.settings),
        }

    def send(
        self, producer: Producer, topic: str, partition: int, tail: str = "", transaction: int | None = None
    ) -> None:
        """Note a send, hand it over, and note its outcome when it comes."""
        value = f"{self.life}.{self.sends}{tail}"
        send = Send(self.life, self.sends, (topic, partition), value, now_s(), transaction=transaction)
        self.sends += 1
        self.recorder.note(send)

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                send.outcome, send.offset, send.ended_s = ACKNOWLEDGED, message.offset(), now_s()
                self.recorder.note(send)
            else:
                self.given_up = True
                print(f"{self.plan.name}: {value}: {error}", flush=True)

        while True:
            try:
                producer.produce(topic, value=value.encode(), partition=partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)

    def new_transactional(self) -> Producer:
        """A producer with this client's id; it fences and ends what an earlier one left."""
        config = self.config(
            transactional_id=f"torture-{self.plan.name}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            message_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=1,
        )
        while True:
            producer = Producer(config)
            try:
                again_while_retriable(partial(producer.init_transactions, 5), PATIENCE_S)
                return producer
            except KafkaException as error:
                print(f"{self.plan.name}: init_transactions: {error}", flush=True)
                if self.stopping():
                    raise
                time.sleep(0.1)

    def end(self, producer: Producer, found: Transaction, commit: bool) -> Producer:
        """End a transaction; returns the producer to go on with."""
        found.commit = commit
        self.recorder.note(found)
        finish = producer.commit_transaction if commit else producer.abort_transaction
        try:
            again_while_retriable(lambda: finish(5), PATIENCE_S)
            found.outcome = ACKNOWLEDGED
            self.recorder.note(found)
            return producer if commit else self.after_abort(producer)
        except KafkaException as error:
            print(f"{self.plan.name}: transaction {found.number}: {error}", flush=True)
            return self.give_up(producer, found, error)

    def after_abort(self, producer: Producer) -> Producer:
        """The producer to go on with.

        librdkafka 2.16 throws away what waits to be sent again, and numbers the next transaction's records as
        if it had never been sent. Where it had been written, the broker must take the next record for it, and
        acknowledges an offset of the aborted transaction.
        """
        if not self.given_up:
            return producer
        self.given_up = False
        return self.new_transactional()

    def give_up(self, producer: Producer, found: Transaction, error: KafkaException) -> Producer:
        """Abort where the library says so; else the producer is done for, and a new one ends it."""
        if error.args[0].txn_requires_abort():
            try:
                again_while_retriable(lambda: producer.abort_transaction(5), PATIENCE_S)
                found.commit, found.outcome = False, ACKNOWLEDGED
                self.recorder.note(found)
                return self.after_abort(producer)
            except KafkaException as worse:
                print(f"{self.plan.name}: abort of {found.number}: {worse}", flush=True)
        found.outcome = UNKNOWN
        self.recorder.note(found)
        return self.new_transactional()


class Writer(Client):
    """Idempotent, all partitions in turn."""

    def run(self) -> None:
        # Nothing is given up: librdkafka would take a new epoch for what is under way and send it twice.
        producer = Producer(self.config(enable_idempotence=True, linger_ms=2, message_timeout_ms=0))
        turn = 0
        while not self.stopping():
            for _ in range(self.draw.randint(1, self.plan.batch_max)):
                self.send(producer, self.plan.topic, turn % self.plan.partitions)
                turn += 1
            producer.poll(PAUSE_S)
            time.sleep(BETWEEN_S)
            while len(producer) > 2000 and not self.stopping():
                producer.poll(0.05)
        if producer.flush(PATIENCE_S):
            sys.exit(f"{self.plan.name}: {len(producer)} records are still not acknowledged")


class Transactor(Client):
    """Transactions of some records each."""

    def run(self) -> None:
        producer = self.new_transactional()
        while not self.stopping():
            found = Transaction(self.life, self.transactions)
            self.transactions += 1
            try:
                producer.begin_transaction()
                for _ in range(self.draw.randint(1, self.plan.batch_max)):
                    partition = self.draw.randrange(self.plan.partitions)
                    self.send(producer, self.plan.topic, partition, transaction=found.number)
                commit = self.draw.random() < 0.7
                if not commit and self.draw.random() < 0.7:
                    producer.flush(2)
            except KafkaException as error:
                print(f"{self.plan.name}: transaction {found.number}: {error}", flush=True)
                producer = self.give_up(producer, found, error)
                continue
            producer = self.end(producer, found, commit)
            time.sleep(BETWEEN_S)


class Copier(Client):
    """A worker of a consume-transform-produce loop."""

    def run(self) -> None:
        consumer = Consumer(member_config(self, read_committed=True))
        consumer.subscribe([self.plan.topic])
        producer = self.new_transactional()
        while not self.stopping():
            messages = [one for one in consumer.consume(50, 0.1) if one.error() is None]
            if messages:
                # A worker that hangs ends itself, and the harness starts it again.
                faulthandler.dump_traceback_later(HANGING_S, exit=True)
                producer = self.copy(consumer, producer, messages)
                faulthandler.cancel_dump_traceback_later()
        consumer.close()

    def copy(self, consumer: Consumer, producer: Producer, messages: list[Any]) -> Producer:
        found = Transaction(self.life, self.transactions)
        self.transactions += 1
        positions = {(one.topic(), one.partition()): one.offset() + 1 for one in messages}
        offsets = [TopicPartition(topic, number, at) for (topic, number), at in positions.items()]
        try:
            producer.begin_transaction()
            for one in messages:
                partition = self.draw.randrange(self.plan.partitions)
                tail = f":{one.value().decode()}"
                self.send(producer, self.plan.target, partition, tail, transaction=found.number)
            member = consumer.consumer_group_metadata()
            add = partial(producer.send_offsets_to_transaction, offsets, member, 5)
            again_while_retriable(add, PATIENCE_S)
        except KafkaException as error:
            print(f"{self.plan.name}: transaction {found.number}: {error}", flush=True)
            producer = self.give_up(producer, found, error)
        else:
            producer = self.end(producer, found, commit=True)
        if not (found.commit and found.outcome == ACKNOWLEDGED):
            go_back(consumer)
        return producer


class Reader(Client):
    """A group member that commits what it has read, and notes where it found its group to stand."""

    def run(self) -> None:
        consumer = Consumer(member_config(self, read_committed=False))
        consumer.subscribe([self.plan.topic], on_assign=self.assigned)
        while not self.stopping():
            messages = [one for one in consumer.consume(200, 0.1) if one.error() is None]
            positions = {(one.topic(), one.partition()): one.offset() + 1 for one in messages}
            if positions:
                self.commit(consumer, positions)
        consumer.close()

    def assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        began = now_s()
        try:
            found = consumer.committed(partitions, 30)
        except KafkaException as error:  # nothing is noted: a member that is not told cannot complain
            print(f"{self.plan.name}: committed: {error}", flush=True)
            return
        for one in found:
            at = one.offset if one.offset >= 0 else -1
            self.recorder.note(Resume(self.plan.group, (one.topic, one.partition), at, began, now_s()))

    def commit(self, consumer: Consumer, positions: dict[tuple[str, int], int]) -> None:
        began = now_s()
        commits = [Commit(self.plan.group, place, offset, began) for place, offset in positions.items()]
        self.recorder.note(*commits)
        try:
            asked = [TopicPartition(*place, offset) for place, offset in positions.items()]
            answered = consumer.commit(offsets=asked, asynchronous=False) or []
        except (
            KafkaException
        ) as error:  # lost with its partitions, or the answer was: the next owner reads on
            print(f"{self.plan.name}: commit: {error}", flush=True)
            return
        told = {(one.topic, one.partition) for one in answered if one.error is None}
        for one in commits:
            if one.place in told:
                one.outcome, one.ended_s = ACKNOWLEDGED, now_s()
                self.recorder.note(one)


def member_config(client: Client, *, read_committed: bool) -> dict[str, Any]:
    """A group member; a rebalance takes seconds, not a minute."""
    config = client.config(
        group_id=client.plan.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed" if read_committed else "read_uncommitted",
        fetch_wait_max_ms=50,
    )
    if client.plan.protocol == "consumer":
        return config | {"group.protocol": "consumer"}
    return config | {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}


def go_back(consumer: Consumer) -> None:
    """Read again from what the group has committed; a partition without a commit from its beginning.

    It must succeed: what was read and not committed would be left out. The assignment is looked up anew each
    time, since a rebalance brings its own positions.
    """

    def once() -> None:
        for one in consumer.committed(consumer.assignment(), 5):
            if one.error is not None:
                raise KafkaException(one.error)
            consumer.seek(TopicPartition(one.topic, one.partition, max(0, one.offset)))

    again(once)


def again(call: Callable[[], Any]) -> Any:
    """Ask until somebody answers."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].fatal() or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


KINDS: dict[str, type[Any]] = {"write": Writer, "transact": Transactor, "copy": Copier, "read": Reader}


def main() -> None:
    faulthandler.register(signal.SIGUSR1)  # a client that hangs is asked where
    values = json.loads(sys.argv[1])
    values["settings"] = tuple((name, value) for name, value in values["settings"])
    plan = ClientPlan(**values)
    KINDS[plan.kind](plan).run()


if __name__ == "__main__":
    main()
