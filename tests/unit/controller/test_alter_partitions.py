"""In-sync sets that leaders ask for: compare and set on epochs, who may be in them, who stays eligible."""

import pytest

from moldau.broker.controller.decision import decided
from moldau.broker.controller.in_sync import Rules
from moldau.broker.controller.partitions import AlterPartition, alter_partitions
from moldau.broker.metadata.changes import PartitionsChanged, replay
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, TopicState
from moldau.common.protocol.errors import ErrorCode

REPLICAS = (1, 2, 3)
NOW = PartitionState(1, 5, 7, REPLICAS, (1, 2))
"""What the controller knows: broker 1 leads in epoch 5."""


def image(*partitions):
    topic = TopicState("a", b"a" * 16, partitions or (NOW,))
    brokers = {n: BrokerState(n, n * 10, {}, None, fenced=n == 4) for n in (1, 2, 3, 4)}
    return Image(3, brokers=brokers, topics={"a": topic})


def ask(isr=REPLICAS, leader_epoch=5, partition_epoch=7, broker_epochs=(), topic="a", partition=0):
    return AlterPartition(topic, partition, leader_epoch, partition_epoch, isr, broker_epochs)


def alter(before, *asked, node=1, broker_epoch=10, min_isr=1):
    decision = decided(alter_partitions(before, node, broker_epoch, asked, lambda topic: Rules(min_isr)))
    after = replay(before, before.version + 1, decision.changes)
    assert [alter for alter, _, _ in decision.answer] == list(asked), "an answer for each, in order"
    return [(outcome.error_code, state) for _, outcome, state in decision.answer], after


def test_it_grows_and_shrinks_and_the_leader_learns_the_new_state():
    ((code, state),), after = alter(image(), ask(REPLICAS))
    assert code is ErrorCode.NONE
    assert state == after.topics["a"].partitions[0] == PartitionState(1, 5, 8, REPLICAS, REPLICAS)
    ((_, state),), _ = alter(after, ask((1,), partition_epoch=8))
    assert state == PartitionState(1, 5, 9, REPLICAS, (1,))


def test_who_leaves_while_too_few_are_in_sync_stays_eligible_until_there_are_enough():
    ((_, state),), after = alter(image(), ask((1,)), min_isr=2)
    assert (state.isr, state.elr) == ((1,), (2,))
    ((_, state),), _ = alter(after, ask((1, 3), partition_epoch=8), min_isr=2)
    assert (state.isr, state.elr) == ((1, 3), ())


REFUSED = [
    (ask(topic="b"), {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (ask(partition=1), {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (ask(partition=-1), {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (ask(), {"broker_epoch": 9}, ErrorCode.STALE_BROKER_EPOCH),
    (ask(), {"node": 5, "broker_epoch": -1}, ErrorCode.STALE_BROKER_EPOCH),
    (ask(leader_epoch=6), {}, ErrorCode.NOT_CONTROLLER),
    (ask(partition_epoch=8), {}, ErrorCode.NOT_CONTROLLER),
    (ask(leader_epoch=4), {}, ErrorCode.FENCED_LEADER_EPOCH),
    (ask(leader_epoch=4, partition_epoch=6), {}, ErrorCode.FENCED_LEADER_EPOCH),
    (ask(partition_epoch=6), {}, ErrorCode.INVALID_UPDATE_VERSION),
    (ask(), {"node": 2, "broker_epoch": 20}, ErrorCode.INVALID_REQUEST),
    (ask((2, 3)), {}, ErrorCode.INVALID_REQUEST),
    (ask((1, 1)), {}, ErrorCode.INVALID_REQUEST),
    (ask((1, 9)), {}, ErrorCode.INVALID_REQUEST),
    (ask(()), {}, ErrorCode.INVALID_REQUEST),
    (ask((1, 2), broker_epochs=(10,)), {}, ErrorCode.INVALID_REQUEST),
    (ask((1, 2), broker_epochs=(10, 19)), {}, ErrorCode.INELIGIBLE_REPLICA),
]


@pytest.mark.parametrize(("asked", "named", "code"), REFUSED)
def test_what_is_refused_changes_nothing(asked, named, code):
    ((answered, state),), after = alter(image(), asked, **named)
    assert (answered, state) == (code, None)
    assert after.topics["a"].partitions == (NOW,)


def test_who_is_fenced_or_gone_does_not_get_in():
    for node in (4, 5):
        before = image(NOW._replace(replicas=(1, node), isr=(1,)))
        ((code, _),), _ = alter(before, ask((1, node)))
        assert code is ErrorCode.INELIGIBLE_REPLICA


def test_the_registration_that_the_leader_saw_must_be_the_one_that_lives():
    ((code, _),), _ = alter(image(), ask(REPLICAS, broker_epochs=(10, -1, 30)))
    assert code is ErrorCode.NONE


def test_many_are_one_change_a_topic_and_each_is_answered_for_itself():
    before = image(*[NOW] * 5)
    asked = [ask((1,), partition=n, partition_epoch=7 - n % 2) for n in range(5)]
    answers, after = alter(before, *asked)
    assert [code is ErrorCode.NONE for code, _ in answers] == [True, False, True, False, True]
    assert [state.isr for state in after.topics["a"].partitions] == [(1,), (1, 2), (1,), (1, 2), (1,)]
    decision = decided(alter_partitions(before, 1, 10, asked))
    assert [type(change) for change in decision.changes] == [PartitionsChanged]


def test_a_partition_that_is_asked_for_twice_is_changed_once():
    answers, after = alter(image(), ask((1,)), ask(REPLICAS), ask(REPLICAS, partition_epoch=8))
    codes = [code for code, _ in answers]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NONE]
    assert after.topics["a"].partitions[0] == PartitionState(1, 5, 9, REPLICAS, REPLICAS)


def test_a_request_whose_answer_was_lost_is_told_that_the_state_has_moved_on():
    _, after = alter(image(), ask())
    ((code, _),), again = alter(after, ask())
    assert code is ErrorCode.INVALID_UPDATE_VERSION
    assert again.topics == after.topics
