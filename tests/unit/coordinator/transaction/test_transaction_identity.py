"""InitProducerId and the ends of epochs: who is fenced, who gets the same answer twice (KIP-360, KIP-890)."""

import asyncio

from transaction_world import ID, World

from moldau.broker.coordinator.transaction.metadata import Transaction
from moldau.broker.coordinator.transaction.records import StateRecord, encode
from moldau.broker.coordinator.transaction.states import TransactionState
from moldau.common.protocol.errors import ErrorCode

LAST_EPOCH = 32766


def plant(world: World, state: TransactionState, producer_epoch: int, **fields: object) -> None:
    """Let the log hold this transaction, and the coordinator start from it."""
    transaction = Transaction(
        transactional_id=ID,
        producer_id=77,
        producer_epoch=producer_epoch,
        timeout_ms=60_000,
        state=state,
        updated_ms=world.clock.now_ms(),
        **{"start_ms": world.clock.now_ms(), "previous_producer_id": 77, **fields},  # type: ignore[arg-type]
    )
    world.log.records[0] = [encode(StateRecord(ID, transaction), 1)]
    world.restart()


def test_a_producer_that_names_itself_gets_the_next_epoch(world: World) -> None:
    identity = world.init().identity
    assert world.init(expected=identity).identity == (1000, 1)
    assert world.init(expected=(1000, 1)).identity == (1000, 2)


def test_the_same_call_gets_the_same_answer(world: World) -> None:
    identity = world.init().identity
    for _ in range(4):
        assert world.init(expected=identity).identity == (1000, 1)
    assert world.init(expected=(1000, 1)).identity == (1000, 2)
    assert world.init(expected=identity).error == ErrorCode.PRODUCER_FENCED


def test_a_successor_fences_its_predecessor(world: World) -> None:
    former = world.init().identity
    assert world.init().identity == (1000, 1)
    assert world.init(expected=former).error == ErrorCode.PRODUCER_FENCED
    assert world.init(expected=(1000, 5)).error == ErrorCode.PRODUCER_FENCED


def test_a_repeat_may_change_the_timeout(world: World) -> None:
    identity = world.init().identity
    world.init(expected=identity)
    assert world.init(expected=identity, timeout_ms=5000).identity == (1000, 1)
    assert world.transaction().timeout_ms == 5000


def test_an_ongoing_transaction_is_aborted_before_the_successor_begins(world: World) -> None:
    former = world.begin()
    world.markers.hold = True
    assert world.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.state() == "PrepareAbort"
    assert world.verify(former) == ErrorCode.INVALID_PRODUCER_EPOCH, "the former is fenced at once"
    world.markers.finish()
    assert world.init().identity == (1000, 2)
    assert world.markers.of(("beer", 0)) == [(1000, 1, False)]
    assert world.end(former, True).error == ErrorCode.PRODUCER_FENCED


def test_a_zombie_does_not_abort_its_successors_transaction(world: World) -> None:
    zombie = world.init().identity
    successor = world.init().identity
    assert world.verify(successor, add=True) == ErrorCode.NONE
    assert world.init(expected=zombie).error == ErrorCode.PRODUCER_FENCED
    assert world.state() == "Ongoing"


def test_a_fence_at_an_older_level_of_the_feature(world: World) -> None:
    world.transaction_version = 0
    former = world.init().identity
    world.add(former)
    assert world.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.markers.of(("beer", 0)) == [(1000, 1, False)]
    assert world.markers.written["beer", 0][0].transaction_version == 0
    assert world.end(former, False, version=4).error == ErrorCode.PRODUCER_FENCED
    assert world.init(expected=former).error == ErrorCode.PRODUCER_FENCED
    assert world.init().identity == (1000, 2)


def test_when_the_epochs_are_used_up_another_producer_id_takes_over(world: World) -> None:
    plant(world, TransactionState.COMPLETE_COMMIT, LAST_EPOCH)
    assert world.init().identity == (1000, 0)
    assert world.init(expected=(77, LAST_EPOCH)).error == ErrorCode.PRODUCER_FENCED


def test_used_up_epochs_of_a_producer_that_names_itself(world: World) -> None:
    plant(world, TransactionState.COMPLETE_COMMIT, LAST_EPOCH)
    for _ in range(3):
        assert world.init(expected=(77, LAST_EPOCH)).identity == (1000, 0), "each repeat, too"
    assert world.init(expected=(1000, 0)).identity == (1000, 1)
    assert world.init(expected=(77, LAST_EPOCH)).error == ErrorCode.PRODUCER_FENCED
    assert world.producer_ids.given == 1


def test_an_end_that_uses_up_the_epochs_hands_over(world: World) -> None:
    plant(world, TransactionState.ONGOING, LAST_EPOCH, partitions=frozenset({("beer", 0)}), client_version=2)
    world.markers.hold = True
    assert world.end((77, LAST_EPOCH), True).identity == (1000, 0), "the answer before the markers"
    assert world.end((77, LAST_EPOCH), True).error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.verify((1000, 0), add=True) == ErrorCode.CONCURRENT_TRANSACTIONS, "it takes over soon"
    world.restart()
    assert world.transaction().next_producer_id == 1000, "the promise is in the log"
    world.markers.finish()
    assert world.markers.of(("beer", 0)) == [(77, 32767, True)]
    for restart in (False, True):
        if restart:
            world.restart()
        assert world.end((77, LAST_EPOCH), True).identity == (1000, 0)
        assert world.end((77, LAST_EPOCH), False).error == ErrorCode.INVALID_TXN_STATE
    world.markers.hold = False
    assert world.verify((1000, 0), add=True) == ErrorCode.NONE
    assert world.end((77, LAST_EPOCH), True).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end((1000, 0), True).identity == (1000, 1)


def test_an_overdue_transaction_that_uses_up_the_epochs(world: World) -> None:
    plant(world, TransactionState.ONGOING, LAST_EPOCH, partitions=frozenset({("beer", 0)}), client_version=2)
    world.producer_ids.fail = 2
    world.advance(60_000)
    assert world.state() == "Ongoing", "no producer id can be had at the moment"
    world.advance(2000)
    assert world.markers.of(("beer", 0)) == [(77, 32767, False)]
    assert (world.transaction().producer_id, world.transaction().producer_epoch) == (1000, 0)
    assert world.end((77, LAST_EPOCH), False).identity == (1000, 0), "the producer may go on after its abort"


def test_a_coordinator_that_has_stopped_asks_for_no_more_producer_ids(world: World) -> None:
    plant(world, TransactionState.ONGOING, LAST_EPOCH, partitions=frozenset({("beer", 0)}), client_version=2)
    world.producer_ids.fail = 9
    world.advance(60_000)
    left = world.producer_ids.fail
    assert left < 9
    world.coordinator.stop()
    world.advance(10_000)
    assert world.producer_ids.fail == left


def test_a_fence_that_uses_up_the_epochs(world: World) -> None:
    plant(world, TransactionState.ONGOING, LAST_EPOCH, partitions=frozenset({("beer", 0)}), client_version=2)
    assert world.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init().identity == (1000, 1)


def test_version_1_keeps_one_epoch_to_fence_with(world: World) -> None:
    world.transaction_version = 1
    plant(world, TransactionState.ONGOING, LAST_EPOCH, partitions=frozenset({("beer", 0)}))
    assert world.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.transaction().producer_epoch == 32767
    assert world.init(expected=(77, LAST_EPOCH)).error == ErrorCode.PRODUCER_FENCED
    assert world.init().identity == (1000, 0)


def test_an_epoch_beyond_the_last_that_an_older_broker_left_behind(world: World) -> None:
    plant(world, TransactionState.ONGOING, 32767, partitions=frozenset({("beer", 0)}), client_version=2)
    assert world.end((77, 32767), False).identity == (1000, 0)
    assert world.state() == "CompleteAbort"


def test_a_state_that_moves_while_the_producer_id_is_fetched(world: World) -> None:
    plant(world, TransactionState.COMPLETE_ABORT, LAST_EPOCH)
    world.producer_ids.gate = asyncio.Event()
    rotated = world.init()
    assert rotated.response is None
    assert world.add((77, LAST_EPOCH)).error == ErrorCode.NONE
    world.run(world.producer_ids.gate.set)
    assert rotated.error == ErrorCode.CONCURRENT_TRANSACTIONS, "a transaction has begun meanwhile"
    assert world.state() == "CompleteAbort"


def test_a_shard_that_goes_while_the_producer_id_is_fetched(world: World) -> None:
    world.producer_ids.gate = asyncio.Event()
    waiting = world.init()
    world.run(lambda: world.coordinator.resigned(0))
    world.run(world.producer_ids.gate.set)
    assert waiting.error == ErrorCode.NOT_COORDINATOR


def test_an_abort_of_nothing_gives_a_new_epoch(world: World) -> None:
    identity = world.init().identity
    assert world.end(identity, False).identity == (1000, 1)
    assert world.end(identity, False).identity == (1000, 1), "its repeat the same one"
    assert world.end((1000, 1), False).identity == (1000, 2)
    assert world.end((1000, 1), True).error == ErrorCode.PRODUCER_FENCED
    assert world.markers.attempts == []


def test_after_a_timeout_a_new_client_may_abort_and_go_on(world: World) -> None:
    identity = world.begin()
    world.advance(60_000)
    assert world.end(identity, True).error == ErrorCode.PRODUCER_FENCED
    successor = world.end(identity, False).identity
    assert successor == (1000, 1)
    assert world.verify(successor, add=True) == ErrorCode.NONE
