"""Appends that fail, answers that are lost, requests that come twice."""

import pytest
from transaction_world import BEER, ID, World

from moldau.common.protocol.errors import ErrorCode

CERTAIN = ErrorCode.KAFKA_STORAGE_ERROR
"""The records are certainly not in the log; the state is taken back."""

DOUBTFUL = ErrorCode.REQUEST_TIMED_OUT
"""They may be; the shard is loaded anew."""


def test_a_failed_end_leaves_the_transaction_as_it_was(world: World) -> None:
    identity = world.begin()
    before = world.transaction()
    world.log.fail = CERTAIN
    assert world.end(identity, True).error == ErrorCode.NOT_COORDINATOR
    assert world.transaction() is before
    assert world.markers.attempts == []
    world.log.fail = 0
    assert world.end(identity, False).error == ErrorCode.NONE, "nothing was decided: it may be aborted now"
    assert world.markers.of(("beer", 0)) == [(1000, 1, False)]


@pytest.mark.parametrize("lands", [True, False])
def test_an_end_whose_outcome_is_unknown(world: World, lands: bool) -> None:
    identity = world.begin()
    world.log.hold = True
    end = world.end(identity, True)
    world.log.hold = False
    world.run(lambda: world.log.finish(DOUBTFUL, lands=lands))
    assert end.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    if lands:
        assert world.state() == "CompleteCommit", "the log has decided, and the shard carries it out"
        assert world.end(identity, False).error == ErrorCode.INVALID_TXN_STATE
    else:
        assert world.state() == "Ongoing"
        assert world.markers.attempts == []
    assert world.end(identity, True).identity == (1000, 1), "the client asks again and gets its answer"
    assert world.markers.of(("beer", 0)) == [(1000, 1, True)]


def test_a_failed_first_request_leaves_no_trace(world: World) -> None:
    world.log.fail = CERTAIN
    response = world.init().response
    assert (response.error_code, response.producer_id) == (ErrorCode.NOT_COORDINATOR, -1)
    assert world.shard.transactions == {}
    world.log.fail = 0
    assert world.init().identity == (1001, 0), "an id that was lost is not given again"


def test_a_failed_addition_can_be_repeated(world: World) -> None:
    identity = world.init().identity
    world.log.fail = CERTAIN
    assert world.verify(identity, add=True) == ErrorCode.NOT_COORDINATOR
    assert world.state() == "Empty"
    world.log.fail = 0
    assert world.verify(identity, add=True) == ErrorCode.NONE
    assert world.transaction().partitions == set(BEER)


def test_a_failed_fence_does_not_use_up_epochs(world: World) -> None:
    world.begin()
    world.log.fail = CERTAIN
    for _ in range(3):
        assert world.init().error == ErrorCode.NOT_COORDINATOR
    world.log.fail = 0
    assert world.transaction().producer_epoch == 0
    assert world.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init().identity == (1000, 2)


def test_what_was_queued_behind_a_failed_append_fails_too(world: World) -> None:
    identity = world.init().identity
    world.log.hold = True
    added = world.add(identity, [("wine", 0)])
    ended = world.end(identity, True, version=4)
    assert added.response is ended.response is None
    world.log.finish(CERTAIN)
    world.settle()
    assert added.error == ended.error == ErrorCode.NOT_COORDINATOR
    assert world.shard.transactions[ID].state.name == "EMPTY"
    assert world.markers.attempts == []


def test_an_answer_waits_for_what_it_rests_on(world: World) -> None:
    identity = world.init().identity
    world.log.hold = True
    added = world.add(identity)
    verified = world.call(world.coordinator.verify, ID, *identity, BEER, add=False, supports_abortable=True)
    again = world.add(identity)
    assert added.response is verified.response is again.response is None
    world.log.finish()
    assert added.error == again.error == ErrorCode.NONE
    assert verified.response == dict.fromkeys(BEER, ErrorCode.NONE)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_an_end_sent_again_gets_the_same_answer(world: World, committed: bool, restart: bool) -> None:
    identity = world.begin()
    answer = world.end(identity, committed).identity
    for _ in range(3):
        if restart:
            world.restart()
        assert world.end(identity, committed).identity == answer
        otherwise = ErrorCode.INVALID_TXN_STATE if committed else ErrorCode.PRODUCER_FENCED
        assert world.end(identity, not committed).error == otherwise
    assert len(world.markers.of(("beer", 0))) == 1


def test_an_old_clients_end_sent_again_after_a_restart(world: World) -> None:
    identity = world.init().identity
    world.add(identity)
    assert world.end(identity, True, version=4).error == ErrorCode.NONE
    world.restart()
    assert world.end(identity, True, version=4).error == ErrorCode.NONE
    assert world.end(identity, False, version=4).error == ErrorCode.INVALID_TXN_STATE


def test_kill_9_between_the_decision_and_the_answer(world: World) -> None:
    identity = world.begin()
    world.log.hold = True
    end = world.end(identity, True)
    world.log.in_flight[0]._land()
    world.log.hold = False
    world.restart()
    assert world.state() == "CompleteCommit"
    assert world.end(identity, True).identity == (1000, 1)
    assert end is not None


def test_a_producer_id_that_cannot_be_had(world: World) -> None:
    world.producer_ids.fail = 1
    assert world.init().error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.init().identity == (1000, 0)


def test_a_coordinator_that_is_elsewhere(world: World) -> None:
    identity = world.begin()
    world.run(lambda: world.coordinator.resigned(0))
    elsewhere = ErrorCode.NOT_COORDINATOR
    assert world.init().error == elsewhere
    assert world.add(identity).error == elsewhere
    assert world.offsets(identity, "crew").error == elsewhere
    assert world.verify(identity) == elsewhere
    assert world.verify(identity, add=True) == elsewhere
    assert world.end(identity, True).error == elsewhere
    assert world.state() == "NOT_COORDINATOR"


def test_a_stop_sends_everybody_away(world: World) -> None:
    identity = world.begin()
    world.log.hold = True
    end = world.end(identity, True)
    world.run(world.coordinator.stop)
    assert end.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.init().error == ErrorCode.NOT_COORDINATOR
