"""TxnOffsetCommit through its bytes, with a transaction coordinator that answers what the test wants."""

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kept import kept

from moldau.broker.handlers import load_all
from moldau.broker.handlers.apis.transactions.transaction_verifier import Question
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "coordinator"))
from group_world import GROUP, Call, World

load_all()

PLACE = (GROUP_OFFSETS_TOPIC, 0)
VERSIONS = range(6)


class Bench:
    """A group coordinator, and the question that is put to the transaction's."""

    def __init__(self) -> None:
        self.world = World()
        self.kept_before = kept(self.world.shard.transactional)
        self.asked: list[tuple[object, ...]] = []
        self.answers: list[int] = []
        self.later: list[asyncio.Future[Any]] | None = None
        self.verifies = True

    def verify(self, question: Question) -> Any:
        transactional_id, producer_id, producer_epoch, partitions, *how = question
        assert partitions == (PLACE,)
        self.asked.append((transactional_id, producer_id, producer_epoch, *how))
        if self.later is not None:
            self.later.append(asyncio.get_running_loop().create_future())
            return self.later[-1]
        return {PLACE: self.answers.pop(0) if self.answers else 0}

    def send(self, offset: int, version: int = 5, *, topic: str = "beer", group: str = GROUP) -> Call:
        rows = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
        topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=rows)]
        if topic != "beer" and group == "both":
            topics.append(TxnOffsetCommitRequestTopic(name="beer", partitions=rows))
        request = TxnOffsetCommitRequest(
            transactional_id="tx", group_id=group, producer_id=7, producer_epoch=2, topics=topics
        )
        decoded = TxnOffsetCommitRequest.decode(request.encode(version), version)
        settings = SimpleNamespace(transaction_partition_verification_enable=self.verifies)
        broker: Any = SimpleNamespace(
            authorizer=None,
            groups=self.world.coordinator,
            transaction_verifier=self,
            settings=settings,
            metadata=SimpleNamespace(image=self.world.image),
            timers=self.world.timers,
        )
        context = RequestContext(version, 1, Session("PLAINTEXT", client_host="10.0.0.7", client_id="app"))

        async def serve() -> Any:
            outcome = TABLE[TxnOffsetCommitRequest.KEY].handler(broker, context, decoded)
            if inspect.isawaitable(outcome):
                outcome = await outcome
            return TxnOffsetCommitResponse.decode(outcome.encode(version), version)

        call = Call(self.world.loop, self.world.loop.create_task(serve()))
        self.world.loop.run_until_complete(asyncio.sleep(0))
        self.world.settle()
        return call

    def answer(self, code: int = 0) -> None:
        assert self.later
        self.later.pop(0).set_result({PLACE: code})
        for _ in range(4):
            self.world.loop.run_until_complete(asyncio.sleep(0))
        self.world.settle()


def codes(call: Call) -> list[ErrorCode] | None:
    response = call.response
    if response is None:
        return None
    return [ErrorCode(row.error_code) for topic in response.topics for row in topic.partitions]


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.world.close()


@pytest.mark.parametrize("ready_after", [1, 5, 7, None])
def test_while_the_former_transaction_gets_its_markers_it_is_asked_again(
    bench: Bench, ready_after: int | None
) -> None:
    """The coordinator is on another broker, and does not let this one wait."""
    bench.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * (20 if ready_after is None else ready_after)
    call = bench.send(5)
    assert codes(call) is None
    for _ in range(127):
        bench.world.advance(1)
        bench.world.loop.run_until_complete(asyncio.sleep(0))
    told = ErrorCode.CONCURRENT_TRANSACTIONS if ready_after is None else ErrorCode.NONE
    assert codes(call) == [told]
    assert len(bench.asked) == (8 if ready_after is None else ready_after + 1)


def test_only_who_adds_the_partition_waits_for_the_former_transaction(bench: Bench) -> None:
    bench.answers = [ErrorCode.CONCURRENT_TRANSACTIONS]
    assert codes(bench.send(5, 4)) == [ErrorCode.CONCURRENT_TRANSACTIONS]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_transaction_is_asked_for_once_and_the_offset_counts_in_the_end(
    bench: Bench, version: int
) -> None:
    assert codes(bench.send(5, version)) == [ErrorCode.NONE]
    assert codes(bench.send(6, version)) == [ErrorCode.NONE]
    assert bench.asked == [("tx", 7, 2, version >= 5, version >= 4)]
    bench.world.end(epoch=2)
    assert bench.world.offsets() == {("beer", 0): 6}
    bench.send(7, version)
    assert len(bench.asked) == 2, "that was another transaction"


def test_without_verification_only_new_clients_cause_a_question(bench: Bench) -> None:
    bench.verifies = False
    assert codes(bench.send(5, 4)) == [ErrorCode.NONE]
    assert bench.asked == []
    bench.world.end(epoch=2)
    assert codes(bench.send(5, 5)) == [ErrorCode.NONE]
    assert len(bench.asked) == 1


@pytest.mark.parametrize(
    ("version", "code", "told"),
    [
        (5, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (3, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (3, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (1, ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (5, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (5, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_what_the_coordinator_refuses_is_not_written(
    bench: Bench, version: int, code: ErrorCode, told: ErrorCode
) -> None:
    bench.answers = [code]
    assert codes(bench.send(5, version)) == [told]
    assert bench.world.log.records == {}
    assert codes(bench.send(5, version)) == [ErrorCode.NONE]


class Silent:
    """The answers of a coordinator on another broker that say nothing about the partition."""

    @staticmethod
    def fails(future: "asyncio.Future[Any]") -> None:
        future.set_exception(ConnectionResetError("gone"))

    @staticmethod
    def is_cancelled(future: "asyncio.Future[Any]") -> None:
        future.cancel()

    @staticmethod
    def leaves_it_out(future: "asyncio.Future[Any]") -> None:
        future.set_result({})


@pytest.mark.parametrize("ends", [Silent.fails, Silent.is_cancelled, Silent.leaves_it_out])
def test_without_a_clear_answer_nothing_is_written_and_the_client_comes_again(
    bench: Bench, ends: Callable[["asyncio.Future[Any]"], None]
) -> None:
    bench.later = []
    call = bench.send(5)
    ends(bench.later.pop())
    for _ in range(4):
        bench.world.loop.run_until_complete(asyncio.sleep(0))
    assert codes(call) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert bench.world.log.records == {}
    assert kept(bench.world.shard.transactional) == bench.kept_before
    bench.later = None
    assert codes(bench.send(5)) == [ErrorCode.NONE]


def test_what_does_not_exist_troubles_nobody(bench: Bench) -> None:
    assert codes(bench.send(5, topic="water")) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes(bench.send(5, group="")) == [ErrorCode.INVALID_GROUP_ID]
    assert bench.asked == []
    bench.answers = [ErrorCode.TRANSACTION_ABORTABLE]
    assert codes(bench.send(5, topic="water", group="both")) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TRANSACTION_ABORTABLE,
    ]


def test_a_commit_that_a_marker_overtook_does_not_hang_a_transaction(bench: Bench) -> None:
    bench.later = []
    call = bench.send(5)
    bench.world.end(epoch=3, committed=False)
    bench.answer()
    assert codes(call) is None, "asked again, as the marker may have been a former transaction's"
    bench.answer(ErrorCode.INVALID_TXN_STATE)
    assert codes(call) == [ErrorCode.INVALID_TXN_STATE]
    assert bench.world.stable() == -1
    assert kept(bench.world.shard.transactional) == bench.kept_before


def test_a_marker_that_comes_twice_does_not_disturb_the_next_transaction(bench: Bench) -> None:
    bench.later = []
    call = bench.send(5)
    bench.world.end(epoch=2)
    bench.answer()
    bench.answer()
    assert codes(call) == [ErrorCode.NONE]
    assert len(bench.asked) == 2


def test_markers_without_end_end_the_questions(bench: Bench) -> None:
    bench.later = []
    call = bench.send(5)
    for _ in range(3):
        bench.world.end(epoch=2)
        bench.answer()
    assert codes(call) == [ErrorCode.INVALID_TXN_STATE]
    assert not bench.later
    assert bench.world.stable() == -1


def test_a_shard_that_goes_away_in_between_is_looked_for_again(bench: Bench) -> None:
    bench.later = []
    call = bench.send(5)
    bench.world.coordinator.resigned(0)
    bench.answer()
    assert codes(call) == [ErrorCode.NOT_COORDINATOR]
    assert codes(bench.send(5)) == [ErrorCode.NOT_COORDINATOR]
    assert len(bench.asked) == 1


def test_a_caller_that_is_cut_off_gives_its_guard_back(bench: Bench) -> None:
    bench.later = []
    bench.send(5)
    (task,) = asyncio.all_tasks(bench.world.loop)
    task.cancel()
    for _ in range(4):
        bench.world.loop.run_until_complete(asyncio.sleep(0))
    assert task.cancelled()
    assert kept(bench.world.shard.transactional) == bench.kept_before
