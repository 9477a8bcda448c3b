"""Decisions on topics and partitions: names, counts, placement, manual assignments, error codes as
Kafka's."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.controller.partitions import MorePartitions, create_partitions
from moldau.broker.controller.placement import place
from moldau.broker.controller.topics import NewTopic, create_topics, delete_topics
from moldau.broker.metadata.changes import replay
from moldau.broker.metadata.image import BrokerState, Image, PartitionState, ResourceType
from moldau.common.core.ids import ZERO_UUID
from moldau.common.core.slow_lane import all_steps
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings


def at_once(decide, *args, **named):
    """What `decide` gives in steps."""
    return all_steps(decide(*args, **named))


def cluster(count=1, racks=None):
    racks = racks or [None] * count
    return Image(
        brokers={n: BrokerState(n, 1, {}, rack) for n, rack in zip(range(1, count + 1), racks, strict=True)}
    )


def create(image, *topics, **settings):
    decision = at_once(create_topics, image, topics, BrokerSettings(**settings), random.Random(1))
    return decision.answer, replay(image, image.version + 1, decision.changes)


def outcome_of(image, topic, **settings):
    (result,), after = create(image, topic, **settings)
    if result.outcome.failed:
        assert after.topics == image.topics
    return result.outcome.error_code, result.outcome.message


def test_a_topic_is_created_with_defaults():
    (result,), image = create(cluster(), NewTopic("a"), num_partitions=3)
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    topic = image.topics["a"]
    assert topic.topic_id == result.topic_id != ZERO_UUID
    assert [p.leader for p in topic.partitions] == [1, 1, 1]
    assert topic.partitions[0] == PartitionState.fresh((1,))


def test_settings_of_a_new_topic_are_checked_and_stored():
    configs = {"retention.ms": "5", "message.format.version": "2.8"}
    (result,), image = create(cluster(), NewTopic("a", configs=configs))
    assert image.configs == {(ResourceType.TOPIC, "a"): {"retention.ms": "5"}}
    assert result.configs == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "the empty string"),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "'.' or '..'"),
        (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "longer than the max allowed length 249"),
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "contains one or more characters other than"),
        (NewTopic("a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION, "contains one or more characters other than"),
        (NewTopic("ü"), ErrorCode.INVALID_TOPIC_EXCEPTION, "contains one or more characters other than"),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "is prohibited"),
        (NewTopic("is.there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'is.there' already exists."),
        (NewTopic("is_there"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: is.there"),
        (NewTopic("a", 0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("a", -2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("a", 100_001), ErrorCode.POLICY_VIOLATION, "Excessively large"),
        (NewTopic("a", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
        (NewTopic("a", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, "only 1 broker(s) are registered"),
        (NewTopic("a", configs={"x": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: x"),
        (NewTopic("a", configs={"retention.m": "1"}), ErrorCode.INVALID_CONFIG, "did you mean retention.ms?"),
        (NewTopic("a", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
        (NewTopic("a", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "Null value not supported"),
        (
            NewTopic("a", configs={"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}),
            ErrorCode.INVALID_CONFIG,
            "conflict topic config",
        ),
        (NewTopic("a", -1, 1, [(0, [1])]), ErrorCode.INVALID_REQUEST, "replication factor was not set to -1"),
        (NewTopic("a", 1, -1, [(0, [1])]), ErrorCode.INVALID_REQUEST, "numPartitions was not set to -1"),
        (NewTopic("a", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        (NewTopic("a", assignments=[(0, [7])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 7"),
        (NewTopic("a", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        (NewTopic("a", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
        (
            NewTopic("a", assignments=[(0, [1]), (0, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "multiple manual",
        ),
    ],
)
def test_refusals(topic, code, message):
    _, image = create(cluster(), NewTopic("is.there"))
    got, said = outcome_of(image, topic)
    assert got is code
    assert message in said


def test_each_topic_of_a_request_has_its_own_outcome():
    results, image = create(
        cluster(),
        NewTopic("a"),
        NewTopic("twice"),
        NewTopic("b.c"),
        NewTopic("twice"),
        NewTopic("b_c"),
        NewTopic(""),
    )
    assert [(r.name, r.outcome.error_code) for r in results] == [
        ("a", ErrorCode.NONE),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("b.c", ErrorCode.NONE),
        ("b_c", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert set(image.topics) == {"a", "b.c"}


def test_manual_assignments_are_taken_over():
    (result,), image = create(cluster(3), NewTopic("a", assignments=[(1, [2, 3]), (0, [1, 2])]))
    assert [p.replicas for p in image.topics["a"].partitions] == [(1, 2), (2, 3)]
    assert (result.num_partitions, result.replication_factor) == (2, 2)


def brokers(*racks):
    return [BrokerState(n, 1, {}, rack) for n, rack in enumerate(racks)]


def test_placement_goes_round_robin_and_followers_shift():
    placed = at_once(
        place, brokers(None, None, None), start=0, first_partition=0, count=6, replication_factor=2
    )
    assert placed == [(0, 1), (1, 2), (2, 0), (0, 2), (1, 0), (2, 1)]
    again = at_once(
        place, brokers(None, None, None), start=0, first_partition=3, count=3, replication_factor=2
    )
    assert again == placed[3:]


@given(st.integers(1, 12), st.integers(0, 50), st.integers(1, 80), st.data())
def test_without_racks_no_two_brokers_differ_by_more_than_one_replica(size, start, count, data):
    factor = data.draw(st.integers(1, size))
    nodes = brokers(*[None] * size)
    placed = at_once(place, nodes, start=start, first_partition=0, count=count, replication_factor=factor)
    numbers = Counter(node for replicas in placed for node in replicas)
    assert max(numbers.values()) - min(numbers[node] for node in range(size)) <= 1


def test_followers_of_a_leader_change():
    placed = at_once(place, brokers(*[None] * 6), start=0, first_partition=0, count=60, replication_factor=3)
    followers = Counter((replicas[0], node) for replicas in placed for node in replicas[1:])
    assert len(followers) == 30
    assert max(followers.values()) <= 6


@pytest.mark.parametrize("start", range(6))
def test_replicas_stand_on_different_racks(start):
    nodes = brokers("a", "a", "b", "b", "c", "c")
    placed = at_once(place, nodes, start=start, first_partition=0, count=60, replication_factor=3)
    assert all(len({nodes[n].rack for n in replicas}) == 3 for replicas in placed)
    leaders = [replicas[0] for replicas in placed]
    assert {leaders.count(n) for n in range(6)} == {10}


@given(
    st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12),
    st.integers(0, 50),
    st.integers(1, 80),
    st.data(),
)
def test_replicas_are_even_and_on_as_many_racks_as_possible(racks, start, count, data):
    factor = data.draw(st.integers(1, len(racks)))
    nodes = brokers(*racks)
    placed = at_once(place, nodes, start=start, first_partition=0, count=count, replication_factor=factor)
    assert len(placed) == count
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({racks[node] for node in replicas}) == min(factor, len(set(racks)))
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[node] for node in range(len(racks))) <= 1
    by_rack = {}
    for node, number in Counter(node for replicas in placed for node in replicas).items():
        by_rack.setdefault(racks[node], []).append(number)
    if factor < 2:
        return
    for rack, numbers in by_rack.items():
        if len(numbers) == racks.count(rack):
            assert max(numbers) - min(numbers) <= 2, "brokers of one rack have the same chances"


def test_a_hundred_brokers_on_three_racks_are_even():
    nodes = brokers(*(f"rack-{number % 3}" for number in range(100)))
    placed = at_once(place, nodes, start=7, first_partition=0, count=1_000, replication_factor=3)
    numbers = Counter(node for replicas in placed for node in replicas)
    assert len(numbers) == 100
    assert max(numbers.values()) - min(numbers.values()) <= 2


def test_fenced_brokers_are_the_last_resort():
    nodes = [BrokerState(1, 1, {}, fenced=True), BrokerState(2, 1, {}), BrokerState(3, 1, {})]
    placed = at_once(place, nodes, start=0, first_partition=0, count=4, replication_factor=2)
    assert all(1 not in replicas for replicas in placed)
    placed = at_once(place, nodes, start=0, first_partition=0, count=4, replication_factor=3)
    assert all(replicas[2] == 1 for replicas in placed)


def test_deleting_by_name_and_by_id():
    _, image = create(cluster(), NewTopic("a"), NewTopic("b"), NewTopic("c"))
    by_id = image.topics["b"].topic_id
    decision = at_once(
        delete_topics,
        image,
        [
            ("a", ZERO_UUID),
            (None, by_id),
            ("nope", ZERO_UUID),
            (None, b"x" * 16),
            ("c", by_id),
            (None, ZERO_UUID),
        ],
        enabled=True,
    )
    assert [d.outcome.error_code for d in decision.answer] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert decision.answer[1].name == "b"
    assert set(replay(image, 9, decision.changes).topics) == {"c"}


def test_deleting_twice_or_where_it_is_switched_off():
    _, image = create(cluster(), NewTopic("a"))
    topic_id = image.topics["a"].topic_id
    twice = at_once(delete_topics, image, [("a", ZERO_UUID), ("a", ZERO_UUID)], enabled=True)
    assert [d.outcome.error_code for d in twice.answer] == [ErrorCode.INVALID_REQUEST]
    both = at_once(delete_topics, image, [("a", ZERO_UUID), (None, topic_id)], enabled=True)
    assert [d.outcome.error_code for d in both.answer] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    off = at_once(delete_topics, image, [("a", ZERO_UUID)], enabled=False)
    assert off.answer[0].outcome.error_code is ErrorCode.TOPIC_DELETION_DISABLED
    assert not off.changes


def test_partitions_are_added_behind_those_there_are():
    _, image = create(cluster(2), NewTopic("a", 2), NewTopic("b"))
    decision = at_once(
        create_partitions, image, [MorePartitions("a", 4), MorePartitions("b", 2, [[2]])], random.Random(1)
    )
    after = replay(image, 2, decision.changes)
    assert [o.error_code for _, o in decision.answer] == [ErrorCode.NONE, ErrorCode.NONE]
    assert after.topics["a"].partitions[:2] == image.topics["a"].partitions
    assert len(after.topics["a"].partitions) == 4
    assert after.topics["b"].partitions[1].replicas == (2,)


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (MorePartitions("x", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic"),
        (MorePartitions("a", 2), ErrorCode.INVALID_PARTITIONS, "already has 2 partition(s)"),
        (MorePartitions("a", 1), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (MorePartitions("a", 3, [[1], [1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Attempted to add 1"),
        (MorePartitions("a", 3, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not consistent"),
        (MorePartitions("a", 3, [[9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
    ],
)
def test_partitions_that_cannot_be_added(more, code, message):
    _, image = create(cluster(2), NewTopic("a", 2))
    ((_, outcome),) = at_once(create_partitions, image, [more], random.Random(1)).answer
    assert outcome.error_code is code
    assert message in outcome.message


def test_a_request_for_more_than_ten_thousand_partitions_is_refused_as_a_whole():
    def topics(*counts):
        return [NewTopic(f"t{number}", count, 1) for number, count in enumerate(counts)]

    answer, _ = create(cluster(), *topics(9_998))
    assert not answer[0].outcome.failed
    answer, after = create(cluster(), *topics(5_000, 5_000, 1))
    assert {result.outcome for result in answer} == {
        (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    }
    assert not after.topics
    # The partitions fit, but not together with the topics' own records.
    answer, after = create(cluster(), *topics(*[1] * 5_001))
    assert {result.outcome for result in answer} == {
        (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    }
    assert len(answer) == 5_001
    assert not after.topics


def test_more_than_ten_thousand_further_partitions_are_refused_as_a_whole():
    _, image = create(cluster(), NewTopic("a", 1, 1), NewTopic("b", 1, 1))
    decision = at_once(
        create_partitions, image, [MorePartitions("a", 6_000), MorePartitions("b", 6_000)], random.Random(1)
    )
    assert not decision.changes
    assert {outcome.error_code for _, outcome in decision.answer} == {ErrorCode.POLICY_VIOLATION}
    fits = at_once(create_partitions, image, [MorePartitions("a", 10_001)], random.Random(1))
    assert len(fits.changes[0].partitions) == 10_000


def test_many_topics_and_partitions_are_decided_in_steps():
    for topics in ([NewTopic("t", 9_000, 1)], [NewTopic(f"t{number}", 1, 1) for number in range(1_000)]):
        steps = create_topics(cluster(), topics, BrokerSettings(), random.Random(1))
        assert sum(1 for _ in steps) >= 2 * 9_000 // 64 or len(topics) > 1
        assert sum(1 for _ in create_topics(cluster(), topics, BrokerSettings(), random.Random(1))) >= len(
            topics
        )
