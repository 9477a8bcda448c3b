"""Reassignments as decisions on the image: begun, completed with an in-sync change, cancelled, replaced."""

import random

import pytest

from moldau.broker.controller.decision import decided
from moldau.broker.controller.election import ElectionType, elect_leaders
from moldau.broker.controller.in_sync import Rules
from moldau.broker.controller.membership import brokers_changed
from moldau.broker.controller.partitions import (
    AlterPartition,
    MorePartitions,
    alter_partitions,
    create_partitions,
)
from moldau.broker.controller.reassignment import reassign, reassigning
from moldau.broker.metadata.changes import PartitionsChanged, TopicDeleted, replay
from moldau.broker.metadata.codec import decode_changes, decode_image, encode_changes, encode_image
from moldau.broker.metadata.image import NO_LEADER, BrokerState, Image, PartitionState, TopicState
from moldau.broker.metadata.store import Registration
from moldau.common.core.slow_lane import all_steps
from moldau.common.protocol.errors import ErrorCode

NOW = PartitionState(1, 5, 7, (1, 2, 3), (1, 2, 3))


def image(*partitions: PartitionState, fenced=()) -> Image:
    topic = TopicState("a", b"a" * 16, partitions or (NOW,))
    brokers = {n: BrokerState(n, n * 10, {}, None, fenced=n in fenced) for n in range(1, 7)}
    return Image(3, brokers=brokers, topics={"a": topic}, topic_names={topic.topic_id: "a"})


def applied(before: Image, decision) -> Image:
    """What the changes make, as they are written and read again."""
    changes = decode_changes(encode_changes(decision.changes))
    after = replay(before, before.version + 1, changes)
    assert decode_image(encode_image(after)) == after
    return after


def move(before: Image, replicas, *, index=0, topic="a", rules=Rules(), factor_change=True):  # noqa: B008
    decision = decided(
        reassign(before, [(topic, index, replicas)], lambda name: rules, allow_factor_change=factor_change)
    )
    ((_, outcome),) = decision.answer
    if outcome.failed:
        assert decision.changes == []
        return outcome.error_code
    return applied(before, decision)


def in_sync(before: Image, isr, *, index=0, min_isr=1) -> Image:
    state = before.topics["a"].partitions[index]
    asked = AlterPartition("a", index, state.leader_epoch, state.partition_epoch, isr)
    decision = decided(
        alter_partitions(before, state.leader, state.leader * 10, [asked], lambda topic: Rules(min_isr))
    )
    ((_, outcome, answered),) = decision.answer
    assert not outcome.failed
    after = applied(before, decision)
    assert after.topics["a"].partitions[index] == answered
    return after


def state_of(given: Image, index=0) -> PartitionState:
    return given.topics["a"].partitions[index]


def under_way(given: Image):
    return {
        (topic, index): (state.replicas, state.adding, state.removing)
        for topic, states in all_steps(reassigning(given, None)).items()
        for index, state in states.items()
    }


# The usual course


def test_it_adds_first_and_removes_once_the_target_is_in_sync():
    begun = move(image(), (3, 4))
    assert state_of(begun) == PartitionState(1, 5, 8, (3, 4, 1, 2), (1, 2, 3), (), (1, 2, 3), (3, 4))
    assert under_way(begun) == {("a", 0): ((3, 4, 1, 2), (4,), (1, 2))}
    done = in_sync(begun, (1, 2, 3, 4))
    assert state_of(done) == PartitionState(3, 6, 9, (3, 4), (3, 4))
    assert under_way(done) == {}


def test_replicas_meanwhile_are_the_target_and_then_those_that_go_in_the_order_of_their_ids():
    three = image()
    assert state_of(move(three, (1, 2, 4))).replicas == (1, 2, 4, 3)
    begun = move(image(PartitionState(3, 5, 7, (3, 1, 2), (1, 2, 3))), (6, 4, 5))
    assert state_of(begun).replicas == (6, 4, 5, 1, 2, 3)
    assert under_way(begun) == {("a", 0): ((6, 4, 5, 1, 2, 3), (4, 5, 6), (1, 2, 3))}
    assert state_of(move(begun, None)).replicas == (3, 1, 2)


def test_it_waits_for_every_replica_of_the_target():
    begun = move(image(), (4, 5, 3))
    half = in_sync(begun, (1, 2, 3, 4))
    assert state_of(half).replicas == (4, 5, 3, 1, 2)
    assert state_of(half).leader == 1
    assert state_of(in_sync(half, (1, 2, 3, 4, 5))) == PartitionState(4, 6, 10, (4, 5, 3), (3, 4, 5))


def test_a_leader_of_the_target_goes_on_in_a_new_epoch_that_fences_removed_followers():
    done = in_sync(move(image(), (4, 1)), (1, 2, 3, 4))
    assert state_of(done) == PartitionState(1, 6, 9, (4, 1), (1, 4))


def test_more_replicas_need_no_new_epoch():
    done = in_sync(move(image(PartitionState(1, 5, 7, (1,), (1,))), (1, 2)), (1, 2))
    assert state_of(done) == PartitionState(1, 5, 9, (1, 2), (1, 2))


def test_fewer_replicas_are_done_at_once():
    assert state_of(move(image(), (3, 2))) == PartitionState(3, 6, 8, (3, 2), (2, 3))


def test_fewer_replicas_wait_for_one_that_lags():
    begun = move(image(NOW._replace(isr=(1, 3))), (1, 2))
    assert state_of(begun).replicas == (1, 2, 3)
    assert state_of(in_sync(begun, (1, 2, 3))).replicas == (1, 2)


def test_another_order_is_done_at_once_and_the_leader_stays():
    assert state_of(move(image(), (3, 2, 1))) == PartitionState(1, 5, 8, (3, 2, 1), (1, 2, 3))


def test_what_is_so_already_changes_nothing():
    assert decided(reassign(image(), [("a", 0, (1, 2, 3))])).changes == []
    begun = move(image(), (3, 4))
    assert decided(reassign(begun, [("a", 0, (3, 4))])).changes == []


def test_one_request_may_name_a_partition_twice_and_the_last_counts():
    decision = decided(reassign(image(), [("a", 0, (1, 2, 4)), ("a", 0, (1, 2, 5))]))
    assert [type(change) for change in decision.changes] == [PartitionsChanged]
    after = applied(image(), decision)
    assert (state_of(after).target, state_of(after).replicas) == ((1, 2, 5), (1, 2, 5, 3))


# Cancelled, replaced


def test_cancelling_restores_the_replicas_in_their_order_and_fences_those_that_were_added():
    begun = in_sync(move(image(), (5, 4)), (1, 2, 3, 4))
    assert state_of(move(begun, None)) == PartitionState(1, 6, 10, (1, 2, 3), (1, 2, 3))
    assert move(image(), None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_naming_the_original_replicas_cancels_too():
    assert state_of(move(move(image(), (5, 4)), (1, 2, 3))) == PartitionState(1, 6, 9, (1, 2, 3), (1, 2, 3))


def test_a_cancellation_moves_the_leader_back():
    led_by_the_new = NOW._replace(
        leader=4, replicas=(1, 2, 3, 4, 5), isr=(4, 3), original=(1, 2, 3), target=(4, 5)
    )
    assert state_of(move(image(led_by_the_new), None)) == PartitionState(3, 6, 8, (1, 2, 3), (3,))


def test_a_cancellation_that_would_leave_no_replica_with_all_records_is_refused_unless_losing_is_allowed():
    only_new = NOW._replace(leader=4, replicas=(1, 2, 3, 4, 5), isr=(4,), original=(1, 2, 3), target=(4, 5))
    assert move(image(only_new), None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    after = move(image(only_new, fenced=(1,)), None, rules=Rules(1, unclean=True))
    assert state_of(after) == PartitionState(2, 6, 8, (1, 2, 3), (2,))
    assert (
        move(image(only_new, fenced=(1, 2, 3)), None, rules=Rules(1, unclean=True))
        is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


def test_a_new_target_replaces_the_former_one_and_the_original_stays():
    begun = in_sync(move(image(), (3, 4, 5)), (1, 2, 3, 4))
    again = move(begun, (3, 5, 6))
    assert state_of(again) == PartitionState(1, 6, 10, (3, 5, 6, 1, 2), (1, 2, 3), (), (1, 2, 3), (3, 5, 6))
    assert state_of(move(again, None)).replicas == (1, 2, 3)


# Settings, brokers, other requests meanwhile


def test_min_insync_replicas_counts_the_original_replicas_until_it_is_completed():
    alone = image(PartitionState(1, 5, 7, (1,), (1,)))
    begun = move(alone, (1, 2, 3), rules=Rules(2))
    assert state_of(begun).replication_factor == 1
    full = in_sync(in_sync(begun, (1, 2), min_isr=2), (1, 2, 3), min_isr=2)
    assert state_of(full).replication_factor == 3


def test_who_is_eligible_stays_among_the_replicas():
    state = NOW._replace(
        isr=(1, 4), elr=(2, 5), replicas=(1, 2, 3, 4, 5), original=(1, 2, 3), target=(4, 5, 6)
    )
    after = state_of(move(image(state), None, rules=Rules(3)))
    assert (after.replicas, after.isr, after.elr) == ((1, 2, 3), (1,), (2,))


def test_a_dead_target_may_be_named_and_is_waited_for():
    begun = move(image(fenced=(4,)), (3, 4))
    assert state_of(begun).adding == (4,)


def test_it_survives_the_leader_and_is_completed_under_another():
    begun = move(image(), (3, 4))
    live = {n: Registration(n, {}, None, -1, n * 10) for n in (2, 3, 4, 5, 6)}
    after = applied(begun, decided(brokers_changed(begun, live, lambda topic: Rules())))
    assert (state_of(after).leader, state_of(after).target) == (3, (3, 4))
    assert state_of(in_sync(after, (2, 3, 4))).replicas == (3, 4)


def test_an_election_that_makes_the_target_in_sync_completes_it():
    waiting = PartitionState(NO_LEADER, 5, 7, (1, 2), (), (1, 2), (1, 2), (2,))
    live = {2: Registration(2, {}, None, 20, 21)}
    after = applied(image(waiting), decided(brokers_changed(image(waiting), live, lambda topic: Rules(2))))
    assert state_of(after)[3:] == ((2,), (2,), (), (), (), ())
    lost = waiting._replace(isr=(1,), elr=())
    before = image(lost, fenced=(1,))
    elected = applied(before, decided(elect_leaders(before, ElectionType.UNCLEAN, {"a": [0]})))
    assert state_of(elected)[3:] == ((2,), (2,), (), (), (), ())


def test_new_partitions_get_as_many_replicas_as_the_target():
    begun = move(image(), (3, 4))
    added = decided(create_partitions(begun, [MorePartitions("a", 2)], random.Random(1)))
    after = applied(begun, added)
    assert len(state_of(after, 1).replicas) == 2
    assert state_of(after).target == (3, 4)


def test_a_topic_that_is_deleted_meanwhile_ends_it():
    begun = move(image(), (3, 4))
    after = replay(begun, 9, [TopicDeleted("a")])
    assert under_way(after) == {}
    assert move(after, None) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


REFUSED = [
    ({"replicas": (), "expected": ErrorCode.INVALID_REPLICA_ASSIGNMENT}),
    ({"replicas": (1, 1), "expected": ErrorCode.INVALID_REPLICA_ASSIGNMENT}),
    ({"replicas": (1, 9), "expected": ErrorCode.INVALID_REPLICA_ASSIGNMENT}),
    ({"replicas": (1, -1), "expected": ErrorCode.INVALID_REPLICA_ASSIGNMENT}),
    ({"replicas": (1,), "index": 1, "expected": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
    ({"replicas": (1,), "topic": "b", "expected": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
    ({"replicas": (1, 2), "factor_change": False, "expected": ErrorCode.INVALID_REPLICATION_FACTOR}),
]


@pytest.mark.parametrize("row", REFUSED, ids=str)
def test_refused(row):
    expected = row["expected"]
    assert move(image(), **{name: value for name, value in row.items() if name != "expected"}) is expected


def test_the_number_of_replicas_is_that_of_the_target_while_one_is_under_way():
    begun = move(image(), (3, 4))
    assert state_of(move(begun, (3, 5), factor_change=False)).target == (3, 5)
    assert move(begun, (1, 2, 5), factor_change=False) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_entries_of_earlier_versions_are_read_as_they_were():
    old = ["partition-changed", "a", 0, [1, 5, 7, [1, 2], [1], [2]]]
    (change,) = decode_changes([old])
    assert change.state == PartitionState(1, 5, 7, (1, 2), (1,), (2,))
    assert encode_changes([change]) == [["partition-changed", "a", 0, (1, 5, 7, (1, 2), (1,), (2,))]]
