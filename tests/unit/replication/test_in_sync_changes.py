"""In-sync changes on their way to the controller in this process."""

import asyncio
from collections.abc import Sequence

from moldau.broker.controller.decision import DONE, Outcome
from moldau.broker.controller.partitions import AlterPartition
from moldau.broker.metadata.image import EMPTY_IMAGE, BrokerState, PartitionState
from moldau.broker.replication.in_sync_changes import LocalInSyncChanges
from moldau.broker.replication.role import Role
from moldau.broker.replication.role_outputs import AskInSync
from moldau.common.protocol.errors import ErrorCode

STATE = PartitionState(1, 3, 8, (1, 2), (1,))


class Controller:
    def __init__(self) -> None:
        self.requests: list[tuple[int, int, list[AlterPartition]]] = []
        self.failure: Exception | None = None

    async def alter_partitions(
        self, node_id: int, broker_epoch: int, asked: Sequence[AlterPartition]
    ) -> list[tuple[AlterPartition, Outcome, PartitionState | None]]:
        self.requests.append((node_id, broker_epoch, list(asked)))
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        refused = Outcome(ErrorCode.INVALID_UPDATE_VERSION)
        return [(each, refused, None) if each.partition else (each, DONE, STATE) for each in asked]


class Asks:
    """A partition, as far as it is needed."""

    topic = "t"

    def __init__(self, index: int) -> None:
        self.index = index
        self.answers: list[tuple[AskInSync, int, PartitionState | None]] = []

    def in_sync_change_answered(
        self, asked: AskInSync, error_code: int, state: PartitionState | None
    ) -> None:
        self.answers.append((asked, error_code, state))


def test_what_is_asked_for_in_one_turn_is_one_request_and_each_gets_its_answer() -> None:
    async def scene() -> None:
        controller = Controller()
        image = EMPTY_IMAGE._replace(brokers={1: BrokerState(1, 77, {})})
        changes = LocalInSyncChanges(1, controller, lambda: image)
        first, second = Asks(0), Asks(1)
        older, newer = AskInSync((1, 2), (-1, 5), 3, 6), AskInSync((1,), (-1,), 3, 7)
        changes.ask(first, older)  # type: ignore[arg-type]
        changes.ask(first, newer)  # type: ignore[arg-type]
        changes.ask(second, newer)  # type: ignore[arg-type]
        assert not controller.requests
        for _ in range(5):
            await asyncio.sleep(0)
        wanted = [AlterPartition("t", index, 3, 7, (1,), (-1,)) for index in (0, 1)]
        assert controller.requests == [(1, 77, wanted)]
        assert first.answers == [(newer, 0, STATE)]
        assert second.answers == [(newer, ErrorCode.INVALID_UPDATE_VERSION, None)]

    asyncio.run(scene())


def test_a_controller_that_fails_is_an_unknown_outcome_and_asked_again_later() -> None:
    async def scene() -> None:
        controller = Controller()
        controller.failure = OSError("the metadata cannot be written")
        changes = LocalInSyncChanges(1, controller, lambda: EMPTY_IMAGE)
        partition, asked = Asks(0), AskInSync((1,), (-1,), 3, 7)
        for expected in (ErrorCode.UNKNOWN_SERVER_ERROR, 0):
            changes.ask(partition, asked)  # type: ignore[arg-type]
            for _ in range(5):
                await asyncio.sleep(0)
            assert partition.answers[-1][1] == expected
            controller.failure = None

    asyncio.run(scene())


def test_a_replica_that_lost_its_log_does_not_enter_by_an_older_request() -> None:
    """The leader asks for broker 2, and is not answered. Broker 2 loses its disk and is registered anew; the
    same request again must not name the new registration."""
    role = Role(1, high_watermark=9, written_end_offset=9, flushed_end_offset=9)
    role.become(PartitionState(1, 0, 0, (1, 2), (1,)), 9, 0.0)
    (asked,) = [each for each in role.follower_fetched(2, 9, 7, True, 1.0) if isinstance(each, AskInSync)]
    assert asked.broker_epochs == (-1, 7)
    role.in_sync_change_answered(asked, ErrorCode.NETWORK_EXCEPTION, None, 2.0)
    again = [each for each in role.follower_fetched(2, 0, 8, True, 3.0) if isinstance(each, AskInSync)]
    assert again == [asked]
    role.in_sync_change_answered(asked, ErrorCode.INELIGIBLE_REPLICA, None, 4.0)
    assert role.asked is None
    assert not role.follower_fetched(2, 5, 8, True, 5.0), "it is behind"
    (asked,) = [each for each in role.follower_fetched(2, 9, 8, True, 6.0) if isinstance(each, AskInSync)]
    assert asked.broker_epochs == (-1, 8)


def test_the_answer_to_an_older_request_withdraws_no_newer_one() -> None:
    """The metadata was faster than the answer, and the leader asks for another set by now. That set counts:
    the answer to the former request says nothing of it."""
    role = Role(1, high_watermark=9, written_end_offset=9, flushed_end_offset=9)
    role.become(PartitionState(1, 0, 0, (1, 2, 3), (1,)), 9, 0.0)
    (older,) = [each for each in role.follower_fetched(2, 9, 7, True, 1.0) if isinstance(each, AskInSync)]
    role.become(PartitionState(1, 0, 1, (1, 2, 3), (1, 2)), 9, 2.0)
    (newer,) = [each for each in role.follower_fetched(3, 9, 8, True, 3.0) if isinstance(each, AskInSync)]
    assert newer.in_sync == (1, 2, 3)
    for error_code in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NETWORK_EXCEPTION):
        assert not role.in_sync_change_answered(older, error_code, None, 4.0)
        assert role.asked is newer
        assert {*role.in_sync, *role.asked.in_sync} == {1, 2, 3}
