"""Questions for transaction coordinators on other brokers: who is asked, in which request, and what every
answer, none, and a coordinator that moves mean to who asked."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.coordinator.coordinator import partition_of
from moldau.broker.handlers.apis.transactions import transaction_verifier
from moldau.broker.handlers.apis.transactions.cluster_verifier import ClusterTransactionVerifier
from moldau.broker.handlers.apis.transactions.transaction_verifier import Codes, Question, ask
from moldau.broker.metadata.image import (
    TRANSACTION_STATE_TOPIC,
    BrokerState,
    Image,
    PartitionState,
    TopicState,
)
from moldau.common.core.waiting import settled
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "coordinator"))
from fake_peers import FakePeers, Sent, turns

HERE, THERE, ELSEWHERE = 1, 2, 3


def image_of(*leaders: int) -> Image:
    """__transaction_state with these leaders of its partitions."""
    states = tuple(PartitionState(each, 0, 0, (1, 2, 3), (1, 2, 3)) for each in leaders)
    brokers = {node: BrokerState(node, 1, {}) for node in (1, 2, 3)}
    topics = {TRANSACTION_STATE_TOPIC: TopicState(TRANSACTION_STATE_TOPIC, bytes(16), states)}
    return Image(brokers=brokers, topics=topics)


def id_in(partition: int, count: int = 3, number: int = 0) -> str:
    """A transactional id that this partition coordinates; `number`: another one."""
    image = image_of(*[1] * count)
    found = (
        f"till-{n}"
        for n in range(10_000)
        if partition_of(f"till-{n}", TRANSACTION_STATE_TOPIC, image, 1) == partition
    )
    for _ in range(number):
        next(found)
    return next(found)


class Local:
    def __init__(self) -> None:
        self.asked: list[Question] = []

    def verify(self, question: Question) -> Codes:
        self.asked.append(question)
        return dict.fromkeys(question.partitions, 0)


class World:
    """Partition 0 is coordinated here, 1 on broker 2, 2 on broker 3."""

    def __init__(self) -> None:
        self.image = image_of(HERE, THERE, ELSEWHERE)
        self.peers, self.local = FakePeers(), Local()
        self.verifier = ClusterTransactionVerifier(HERE, lambda: self.image, self.local, self.peers)

    def ask(
        self, transactional_id: str, *indexes: int, epoch: int = 0, add: bool = True
    ) -> "asyncio.Task[Codes]":
        partitions = tuple(("beer", index) for index in indexes)
        question = Question(transactional_id, 7, epoch, partitions, add=add, supports_abortable=True)
        return asyncio.ensure_future(settled(ask(self.verifier, question)))

    def become(self, image: Image) -> None:
        self.image = image
        self.verifier.image_changed(image)


def rows(sent: Sent) -> list[tuple[str, int, bool, list[int]]]:
    return [
        (
            row.transactional_id,
            row.producer_epoch,
            row.verify_only,
            [i for topic in row.topics for i in topic.partitions],
        )
        for row in sent.request.transactions
    ]


def response(codes: dict[str, dict[int, int]], error_code: int = 0) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=error_code,
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=each,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name="beer",
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=code
                            )
                            for index, code in partitions.items()
                        ],
                    )
                ],
            )
            for each, partitions in codes.items()
        ],
    )


def codes(task: "asyncio.Task[Codes]") -> dict[int, ErrorCode] | None:
    return {index: ErrorCode(code) for (_, index), code in task.result().items()} if task.done() else None


def scene(function: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test is a coroutine."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(function(), 60))

    run.__name__ = function.__name__
    return run


@scene
async def test_each_coordinator_is_asked_for_the_ids_that_it_has() -> None:
    world = World()
    here = world.ask(id_in(0), 0)
    there, also_there = world.ask(id_in(1), 0, 1), world.ask(id_in(1, number=1), 1, add=False)
    elsewhere = world.ask(id_in(2), 2)
    await turns()
    assert codes(here) == {0: 0}
    assert len(world.local.asked) == 1
    (to_2,), (to_3,) = world.peers.to(2), world.peers.to(3)
    assert rows(to_2) == [(id_in(1), 0, False, [0, 1]), (id_in(1, number=1), 0, True, [1])]
    assert rows(to_3) == [(id_in(2), 0, False, [2])]
    to_2.respond(
        response({id_in(1, number=1): {1: ErrorCode.INVALID_TXN_STATE}, id_in(1): {0: 0, 1: 0}}),
    )
    await turns()
    assert codes(there) == {0: 0, 1: 0}
    assert codes(also_there) == {1: ErrorCode.INVALID_TXN_STATE}
    assert codes(elsewhere) is None


@scene
async def test_questions_about_one_transaction_are_one_row_and_about_its_next_another_request() -> None:
    world = World()
    name = id_in(1)
    first, second, later = world.ask(name, 0), world.ask(name, 1, 0), world.ask(name, 0, epoch=1)
    await turns()
    assert rows(world.peers.sent[0]) == [(name, 0, False, [0, 1])]
    world.peers.sent[0].respond(response({name: {0: 0, 1: ErrorCode.OPERATION_NOT_ATTEMPTED}}))
    await turns()
    assert codes(first) == {0: 0}
    assert codes(second) == {0: 0, 1: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert rows(world.peers.sent[1]) == [(name, 1, False, [0])]
    assert codes(later) is None


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("disconnected", ErrorCode.NETWORK_EXCEPTION),
        ("refused as a whole", ErrorCode.INVALID_TXN_STATE),
        ("row missing", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("partition missing", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("fenced", ErrorCode.INVALID_PRODUCER_EPOCH),
        ("loading", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("moved", ErrorCode.NOT_COORDINATOR),
    ],
)
def test_what_is_no_yes_and_the_next_question_is_a_new_one(how: str, told: ErrorCode) -> None:
    async def main() -> None:
        world, name = World(), id_in(1)
        task = world.ask(name, 0)
        await turns()
        (sent,) = world.peers.sent
        if how == "disconnected":
            sent.fail()
        elif how == "refused as a whole":
            sent.respond(response({}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        elif how == "row missing":
            sent.respond(response({}))
        elif how == "partition missing":
            sent.respond(response({name: {1: 0}}))
        elif how == "moved":
            world.become(image_of(HERE, ELSEWHERE, ELSEWHERE))
        else:
            fenced = how == "fenced"
            code = ErrorCode.PRODUCER_FENCED if fenced else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            sent.respond(response({name: {0: code}}))
        await turns()
        assert codes(task) == {0: told}
        again = world.ask(name, 0)
        await turns()
        world.peers.sent[-1].respond(response({name: {0: 0}}))
        await turns()
        assert codes(again) == {0: 0}
        assert world.peers.sent[-1].node_id == (ELSEWHERE if how == "moved" else THERE)

    asyncio.run(main())


@scene
async def test_where_nobody_coordinates_nobody_is_asked() -> None:
    world = World()
    world.become(image_of(HERE, -1, ELSEWHERE))
    task = world.ask(id_in(1), 0)
    await turns()
    assert codes(task) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.become(Image())
    task = world.ask(id_in(1), 0)
    await turns()
    assert codes(task) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.become(image_of(HERE, THERE, ELSEWHERE))
    asked = world.ask(id_in(1), 0)
    await turns()
    world.verifier.close()
    late = world.ask(id_in(1), 0)
    await turns()
    assert codes(asked) == {0: ErrorCode.NETWORK_EXCEPTION}
    assert codes(late) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(world.peers.sent) == 1


def test_a_coordinator_that_never_answers_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_verifier, "ASK_TIMEOUT_MS", 5)

    async def main() -> None:
        world = World()
        first = world.ask(id_in(1), 0)
        assert await asyncio.wait_for(first, 60) == {("beer", 0): ErrorCode.NETWORK_EXCEPTION}
        queued = world.ask(id_in(1), 1)
        assert await asyncio.wait_for(queued, 60) == {("beer", 1): ErrorCode.NETWORK_EXCEPTION}
        world.peers.sent[0].fail()
        await turns()
        assert len(world.peers.sent) == 1, "nobody waits for the second question any more"

    asyncio.run(main())
