"""Produce requests whose records must all be looked at: frames, answers, inspections that are held."""

import asyncio
import struct
import threading
from collections.abc import Awaitable, Callable, Container
from pathlib import Path

import pytest
from data_plane_world import Client, on_a_node, partition_of, partition_rows
from jumping_time import until

from moldau.broker.handlers.apis.transactions.transaction_verifier import Codes, Question
from moldau.broker.log.appending.inspection import Inspection
from moldau.broker.node import Node
from moldau.common.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from moldau.common.records import unpack_budget
from moldau.common.records.batch import iter_batches
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

KEY = b"k"


def batch(
    count: int,
    *,
    keyless: Container[int] = (),
    value: bytes | None = None,
    codec: str = "zstd",
    **producer: object,
) -> bytes:
    records = [
        Record(index, 1_700_000_000_000, None if index in keyless else KEY, value, ())
        for index in range(count)
    ]
    return build_batch(records, compression=codec, **producer)  # type: ignore[arg-type]


LONG = batch(60_000)
SHORT = batch(1, value=b"short", codec="none")


def frame(
    *rows: tuple[str, int, bytes | None],
    version: int = 9,
    acks: int = -1,
    transactional_id: str | None = None,
) -> bytes:
    topics = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])
        for topic, index, records in rows
    ]
    body = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=topics
    ).encode(version)
    header = struct.pack(">hhih", 0, version, 1, 4) + b"load" + b"\0" * (version >= 9)
    return struct.pack(">i", len(header) + len(body)) + header + body


async def answered(client: Client, count: int = 1) -> list[PartitionProduceResponse]:
    """The rows of the first answers, once so many have come."""
    await until(lambda: len(client.answers()) >= count)
    return [row for each in client.answers() for row in partition_rows(each)]


def compacted(node: Node, *topics: str) -> None:
    for topic in topics:
        for index in range(2):
            log = partition_of(node, topic, index).log
            log.reconfigure(log.settings.replace(cleanup_policy=("compact",)))


def values(node: Node, topic: str, index: int = 0) -> list[int]:
    """The counts of the batches that the partition holds."""
    log = partition_of(node, topic, index).log
    data = log.reader.read(0, 1 << 20, end_offset=log.written_end_offset) if log.written_end_offset else b""
    return [each.count for each in iter_batches(data)]


class Held:
    """Inspections stop in their thread until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str = "run_likely") -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.threads: list[int] = []
        run = getattr(Inspection, method)

        def held(inspection: Inspection, budget: unpack_budget.UnpackBudget) -> None:
            self.threads.append(threading.get_ident())
            self.begun.set()
            assert self.go.wait(10)
            run(inspection, budget)

        monkeypatch.setattr(Inspection, method, held)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 10)


def on_a_compacted_node(scene: Callable[[Node, Client], Awaitable[None]], folder: Path, **texts: str) -> None:
    async def with_topics(node: Node) -> None:
        compacted(node, "a", "b")
        await scene(node, Client(node))

    on_a_node(with_topics, folder, **texts)


class Agreeing:
    """A transaction coordinator that agrees at once."""

    def verify(self, question: Question) -> Codes:
        return dict.fromkeys(question.partitions, 0)


def in_transaction(sequence: int, count: int) -> bytes:
    return batch(count, base_sequence=sequence, producer_id=7, producer_epoch=0, transactional=True)
