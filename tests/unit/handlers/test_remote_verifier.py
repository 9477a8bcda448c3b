"""The first batch of a transaction, with a coordinator on another broker: it answers late, wrongly or never.

In every case the producer is told what makes it do the right thing, and nothing is appended twice or unasked.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from data_plane_world import Client, on_a_node, partition_of, partition_rows
from kept import kept
from test_produce_transactional import PRODUCER, end, frame, until

from moldau.broker.handlers.apis.transactions.transaction_verifier import ASK_TIMEOUT_MS, Codes, Question
from moldau.broker.node import Node
from moldau.common.core.waiting import Answer
from moldau.common.protocol.errors import ErrorCode

BUSY = ErrorCode.NOT_ENOUGH_REPLICAS
"""What a producer of any version tries again after, without asking for metadata (as Kafka tells it)."""


class Remote:
    """A coordinator elsewhere: each question is a future, which the test ends as it likes."""

    def __init__(self, node: Node) -> None:
        self.questions: list[Question] = []
        self.futures: list[asyncio.Future[Codes]] = []
        node.broker.verifications.verifier = self

    def verify(self, question: Question) -> Answer[Codes]:
        self.questions.append(question)
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def answer(self, code: int = 0, number: int = -1) -> None:
        self.futures[number].set_result(dict.fromkeys(self.questions[number].partitions, int(code)))


def codes(client: Client, version: int = 9) -> list[int]:
    return [row.error_code for each in client.answers(version) for row in partition_rows(each)]


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        *[(code, version, BUSY) for version in (9, 11, 12) for code in (
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # its metadata lag behind
            ErrorCode.OPERATION_NOT_ATTEMPTED,
        )],
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, BUSY),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 12, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, 9, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 12, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)  # fmt: skip
def test_each_refusal_in_the_terms_of_the_producer_s_version(
    tmp_path: Path, said: int, version: int, told: int
) -> None:
    async def scene(node: Node) -> None:
        remote, client = Remote(node), Client(node)
        client.feed(frame(0, version=version))
        remote.answer(said)
        await until(lambda: bool(client.transport.sent))
        assert codes(client, version) == [told]
        assert partition_of(node, "a").log.log_end_offset == 0
        assert not client.transport.closed
        client.feed(frame(0, version=version))  # it tries again, and is asked about again
        await until(lambda: len(remote.questions) == 2)
        remote.answer()
        await until(lambda: len(codes(client, version)) == 2)
        assert codes(client, version) == [told, 0]
        assert partition_of(node, "a").log.log_end_offset == 1

    on_a_node(scene, tmp_path)


@pytest.mark.parametrize("how", ["fails", "is cancelled", "raises at once", "leaves a partition out"])
def test_without_a_clear_answer_nothing_is_appended(tmp_path: Path, how: str) -> None:
    async def scene(node: Node) -> None:
        remote, client = Remote(node), Client(node)
        if how == "raises at once":

            def raises(question: Question) -> Any:
                raise ConnectionResetError("gone")

            remote.verify = raises  # type: ignore[method-assign]
        client.feed(frame(0, partitions=(0, 1)))
        if how == "fails":
            remote.futures[0].set_exception(ConnectionResetError("gone"))
        elif how == "is cancelled":
            remote.futures[0].cancel()
        elif how == "leaves a partition out":
            remote.futures[0].set_result({("a", 1): 0})
        await until(lambda: bool(client.transport.sent))
        assert codes(client) == [BUSY, 0 if how == "leaves a partition out" else BUSY]
        assert partition_of(node, "a").log.log_end_offset == 0
        assert kept(node.broker.verifications) == 0

    on_a_node(scene, tmp_path)


def test_a_client_that_gave_up_waiting_and_sends_again_gets_one_copy(tmp_path: Path) -> None:
    """The coordinator answers after the producer's request timeout: its retry, on a new connection, waits for
    the same answer behind the first copy, and is a duplicate."""

    async def scene(node: Node) -> None:
        remote, first, second = Remote(node), Client(node), Client(node)
        first.feed(frame(0))
        first.connection.connection_lost(None)
        second.feed(frame(0) + frame(1))
        await asyncio.sleep(ASK_TIMEOUT_MS / 1000 - 1)
        assert len(remote.questions) == 1
        remote.answer()
        await until(lambda: len(codes(second)) == 2)
        rows = [row for each in second.answers() for row in partition_rows(each)]
        assert [(row.error_code, row.base_offset) for row in rows] == [(0, 0), (0, 1)]
        assert partition_of(node, "a").log.log_end_offset == 2

    on_a_node(scene, tmp_path)


def test_a_refusal_that_comes_late_stops_the_copies_behind_it_too(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        remote, first, second = Remote(node), Client(node), Client(node)
        first.feed(frame(0))
        second.feed(frame(0))
        remote.answer(ErrorCode.INVALID_TXN_STATE)
        await until(lambda: bool(first.transport.sent and second.transport.sent))
        assert codes(first) == codes(second) == [ErrorCode.INVALID_TXN_STATE]
        assert partition_of(node, "a").log.log_end_offset == 0

    on_a_node(scene, tmp_path)


@pytest.mark.parametrize("aborted", [False, True])
def test_a_yes_that_comes_after_the_transaction_s_marker_opens_nothing(tmp_path: Path, aborted: bool) -> None:
    async def scene(node: Node) -> None:
        remote, client = Remote(node), Client(node)
        client.feed(frame(0) + frame(1))
        end(node, committed=not aborted)
        remote.answer()
        await until(lambda: len(codes(client)) == 2)
        assert codes(client)[0] == ErrorCode.INVALID_TXN_STATE
        assert 0 not in codes(client)
        partition = partition_of(node, "a")
        await until(lambda: partition.high_watermark == 1)
        assert partition.last_stable_offset == partition.log.log_end_offset == 1

    on_a_node(scene, tmp_path)


def test_a_yes_to_the_leader_of_an_earlier_epoch_counts_no_more(tmp_path: Path) -> None:
    """Leadership went to another broker and came back: that one may have appended the marker."""

    async def scene(node: Node) -> None:
        remote, client = Remote(node), Client(node)
        client.feed(frame(0))
        partition_of(node, "a").leader_epoch += 2
        remote.answer()
        await until(lambda: len(codes(client)) == 1)
        assert codes(client) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert partition_of(node, "a").log.log_end_offset == 0
        client.feed(frame(0))
        await until(lambda: len(remote.questions) == 2)
        remote.answer()
        await until(lambda: len(codes(client)) == 2)
        assert codes(client)[1] == 0

    on_a_node(scene, tmp_path)


def test_questions_of_two_producers_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        remote, slow, quick = Remote(node), Client(node), Client(node)
        slow.feed(frame(0))
        quick.feed(frame(0, epoch=1))
        assert [(each.producer_id, each.producer_epoch) for each in remote.questions] == [
            (PRODUCER, 0),
            (PRODUCER, 1),
        ]
        remote.answer(number=1)
        await until(lambda: len(codes(quick)) == 1)
        assert codes(quick) == [0]
        remote.answer(ErrorCode.PRODUCER_FENCED, number=0)
        await until(lambda: len(codes(slow)) == 1)
        assert codes(slow) == [ErrorCode.INVALID_PRODUCER_EPOCH]

    on_a_node(scene, tmp_path)
