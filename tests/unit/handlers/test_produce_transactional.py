"""The first batch of a transaction in a partition, with a coordinator that answers what the test wants."""

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest
from data_plane_world import Client, on_a_node, partition_of, partition_rows
from jumping_time import until

from moldau.broker.handlers.apis.transactions.transaction_verifier import ASK_TIMEOUT_MS, Question
from moldau.broker.node import Node
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record

PRODUCER = 7000


class Coordinator:
    """Answers what it is told to, at once or when the test says so."""

    def __init__(self, node: Node, *answers: int, later: bool = False) -> None:
        self.answers = list(answers)
        self.later = later
        self.asked: list[Question] = []
        self.futures: list[tuple[asyncio.Future[Any], Any]] = []
        node.broker.verifications.verifier = self

    def verify(self, question: Question) -> Any:
        self.asked.append(question)
        code = self.answers.pop(0) if self.answers else 0
        codes = dict.fromkeys(question.partitions, int(code))
        if not self.later:
            return codes
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.futures.append((future, codes))
        return future

    def answer(self) -> None:
        future, codes = self.futures.pop(0)
        future.set_result(codes)


def frame(
    sequence: int, *, version: int = 9, epoch: int = 0, partitions: tuple[int, ...] = (0,), acks: int = -1
) -> bytes:
    """A transactional batch of one record for each of these partitions of topic `a`."""
    batch = build_batch(
        [Record(0, 1_000, None, b"value" * 20, ())],
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    rows = [PartitionProduceData(index=index, records=batch) for index in partitions]
    topics = [TopicProduceData(name="a", partition_data=rows)]
    body = ProduceRequest(transactional_id="t", acks=acks, timeout_ms=1000, topic_data=topics).encode(version)
    header = struct.pack(">hhih", 0, version, 1, 4) + b"load" + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def codes(client: Client) -> list[int]:
    return [row.error_code for each in client.answers() for row in partition_rows(each)]


def end(node: Node, *, committed: bool = True) -> None:
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    partition_of(node, "a").append_marker(EndTransactionMarker(kind, 0), PRODUCER, 0, 1_000)


def test_the_coordinator_is_asked_once_a_transaction(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        coordinator = Coordinator(node)
        client = Client(node)
        for sequence in range(4):
            client.feed(frame(sequence))
        await until(lambda: len(codes(client)) == 4)
        assert codes(client) == [0] * 4
        assert coordinator.asked == [("t", PRODUCER, 0, (("a", 0),), False, False)]
        end(node)
        client.feed(frame(4))
        await until(lambda: len(codes(client)) == 5)
        assert len(coordinator.asked) == 2
        assert partition_of(node, "a").log.log_end_offset == 6

    on_a_node(scene, tmp_path)


def test_batches_that_come_while_the_coordinator_thinks_keep_their_order(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        coordinator = Coordinator(node, later=True)
        client = Client(node)
        for sequence in range(5):
            client.feed(frame(sequence))
        await asyncio.sleep(ASK_TIMEOUT_MS / 1000 - 1)
        assert not client.answers()
        assert partition_of(node, "a").log.log_end_offset == 0
        assert len(coordinator.asked) == 1
        coordinator.answer()
        await until(lambda: len(codes(client)) == 5)
        assert codes(client) == [0] * 5
        offsets = [row.base_offset for each in client.answers() for row in partition_rows(each)]
        assert offsets == [0, 1, 2, 3, 4]

    on_a_node(scene, tmp_path)


def test_a_marker_that_comes_while_the_coordinator_thinks_stops_the_late_batch(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        coordinator = Coordinator(node, later=True)
        client = Client(node)
        client.feed(frame(0))
        end(node, committed=False)
        coordinator.answer()
        await until(lambda: len(codes(client)) == 1)
        assert codes(client) == [ErrorCode.INVALID_TXN_STATE]
        partition = partition_of(node, "a")
        await until(lambda: partition.high_watermark == 1)
        assert partition.last_stable_offset == 1

    on_a_node(scene, tmp_path)


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, 9, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.PRODUCER_FENCED, 9, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_refusal_is_told_in_words_that_the_client_knows(
    tmp_path: Path, said: int, version: int, told: int
) -> None:
    async def scene(node: Node) -> None:
        Coordinator(node, said)
        client = Client(node)
        client.feed(frame(0, version=version, partitions=(0, 1)))
        await until(lambda: bool(client.transport.sent))
        assert [row.error_code for each in client.answers(version) for row in partition_rows(each)] == [
            told,
            told,
        ]
        assert partition_of(node, "a").log.log_end_offset == 0

    on_a_node(scene, tmp_path)


def test_while_the_former_transaction_is_ended_the_coordinator_is_asked_again(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        busy = ErrorCode.CONCURRENT_TRANSACTIONS
        coordinator = Coordinator(node, busy, busy, 0)
        client = Client(node)
        client.feed(frame(0, version=12) + frame(1, version=12))
        end(node)  # the former transaction's marker must not count against this one
        await until(lambda: len(client.answers(12)) == 2)
        assert [row.error_code for each in client.answers(12) for row in partition_rows(each)] == [0, 0]
        assert len(coordinator.asked) == 3
        assert all(add for *_, add, _ in coordinator.asked)

    on_a_node(scene, tmp_path)


def test_a_marker_of_the_former_transaction_that_comes_before_the_answer_is_no_end(tmp_path: Path) -> None:
    """The coordinator keeps the question until the former transaction is complete, and only then agrees."""

    async def scene(node: Node) -> None:
        coordinator = Coordinator(node, later=True)
        client = Client(node)
        client.feed(frame(0, version=12, epoch=1))
        former = EndTransactionMarker(ControlType.COMMIT, 0)
        partition_of(node, "a").append_marker(former, PRODUCER, 1, 1_000, transaction_version=2)
        coordinator.answer()
        await until(lambda: bool(coordinator.futures))
        coordinator.answer()
        await until(lambda: len(client.answers(12)) == 1)
        assert [row.error_code for each in client.answers(12) for row in partition_rows(each)] == [0]
        assert partition_of(node, "a").last_stable_offset == 1

    on_a_node(scene, tmp_path)


def test_a_former_transaction_that_takes_long_is_the_clients_to_wait_for(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        Coordinator(node, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 50)
        client = Client(node)
        client.feed(frame(0, version=12))
        await until(lambda: len(client.answers(12)) == 1)
        (row,) = partition_rows(client.answers(12)[0])
        assert row.error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    on_a_node(scene, tmp_path)


def test_a_batch_that_is_too_large_is_refused_without_asking(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        coordinator = Coordinator(node, later=True)
        client = Client(node)
        client.feed(frame(0))
        assert codes(client) == [ErrorCode.MESSAGE_TOO_LARGE]
        assert not coordinator.asked

    on_a_node(scene, tmp_path, message_max_bytes="100")


def test_without_an_acknowledgement_a_refusal_ends_the_connection(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        coordinator = Coordinator(node, 0, ErrorCode.INVALID_TXN_STATE)
        client = Client(node)
        client.feed(frame(0, acks=0))
        await until(lambda: partition_of(node, "a").high_watermark == 1)
        assert not client.transport.closed
        end(node)
        client.feed(frame(1, acks=0))
        await until(lambda: client.transport.closed)
        assert not client.transport.sent
        assert len(coordinator.asked) == 2

    on_a_node(scene, tmp_path)


def test_a_topic_deleted_meanwhile_is_told(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        coordinator = Coordinator(node, later=True)
        client = Client(node)
        client.feed(frame(0))
        partition_of(node, "a").close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        coordinator.answer()
        await until(lambda: len(codes(client)) == 1)
        assert codes(client)[0]

    on_a_node(scene, tmp_path)


def test_verification_can_be_switched_off(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        coordinator = Coordinator(node)
        client = Client(node)
        client.feed(frame(0))
        await until(lambda: len(codes(client)) == 1)
        assert codes(client) == [0]
        assert not coordinator.asked

    on_a_node(scene, tmp_path, transaction_partition_verification_enable="false")
