"""What topics do to a consumer group: partitions are added, topics come and go, patterns match new ones."""

from consumer_world import World, assignment, image_of, topic_id

from moldau.broker.coordinator.group.topics import changed_topics, metadata_hash

READS = {"rebalance_timeout_ms": 30_000}


def test_more_partitions_are_handed_out_with_the_next_heartbeat() -> None:
    world = World()
    world.heartbeat("m1", 0)
    world.set_topics({"a": 8, "b": 4})
    world.advance(2000)
    assert world.heartbeat("m1", 2).member_epoch == 3
    assert world.held("m1") == {"a": list(range(8))}


def test_a_topic_may_be_subscribed_to_before_it_exists() -> None:
    world = World()
    assert assignment(world.heartbeat("m1", 0, ["later"])) == {}
    world.set_topics({"later": 2})
    world.advance(2000)
    world.heartbeat("m1", 2)
    assert world.held("m1") == {"later": [0, 1]}


def test_a_deleted_topic_is_taken_away_and_its_successor_given() -> None:
    world = World()
    world.heartbeat("m1", 0, ["a", "b"])
    world.set_topics({"b": 4})
    world.advance(2000)
    world.heartbeat("m1", 2, owned={"b": [0, 1, 2, 3]})
    assert world.held("m1") == {"b": [0, 1, 2, 3]}
    world.set_topics({"a": 1, "b": 4}, incarnation=1)
    world.advance(2000)
    world.heartbeat("m1", 3, owned={})
    assert world.held("m1") == {"a": [0], "b": [0, 1, 2, 3]}
    assert topic_id("a", 1) in world.group().members["m1"].assigned


def test_topics_that_nobody_reads_concern_nobody() -> None:
    world = World()
    world.heartbeat("m1", 0)
    world.heartbeat("m1", 2)
    world.set_topics({"a": 6, "b": 5, "c": 1})
    world.advance(2000)
    assert not world.group().topics_changed
    assert world.heartbeat("m1", 2).member_epoch == 2


def test_a_pattern_is_resolved_with_the_join_and_follows_the_topics() -> None:
    world = World({"orders-eu": 2, "orders-us": 1, "other": 3})
    response = world.heartbeat("m1", 0, subscribed_topic_regex="orders-.*")
    assert assignment(response) == {topic_id("orders-eu"): [0, 1], topic_id("orders-us"): [0]}
    world.set_topics({"orders-eu": 2, "orders-us": 1, "orders-asia": 1, "other": 3})
    world.advance(2000)
    world.heartbeat("m1", 2)
    assert world.held("m1") == {"orders-asia": [0], "orders-eu": [0, 1], "orders-us": [0]}
    world.set_topics({"orders-asia": 1})
    world.advance(2000)
    world.heartbeat("m1", 3, owned={"orders-asia": [0]})
    assert world.held("m1") == {"orders-asia": [0]}


def test_a_pattern_is_kept_as_long_as_somebody_uses_it() -> None:
    world = World({"a": 2, "b": 2})
    world.heartbeat("m1", 0, subscribed_topic_regex="a|b")
    world.heartbeat("m2", 0, subscribed_topic_regex="a|b")
    world.heartbeat("m1", -1)
    assert set(world.group().regexes) == {"a|b"}
    world.advance(2000)
    world.heartbeat("m2", 3, ["a"], owned={}, subscribed_topic_regex="", **READS)
    assert dict(world.group().regexes) == {}
    assert world.held("m2") == {"a": [0, 1]}


def test_names_and_a_pattern_add_up() -> None:
    world = World({"a": 1, "b": 1, "c": 1})
    world.heartbeat("m1", 0, ["a"], subscribed_topic_regex="c")
    assert world.held("m1") == {"a": [0], "c": [0]}


def test_members_with_different_patterns_get_what_they_asked_for() -> None:
    world = World({"a": 4, "b": 4}, group_consumer_assignment_interval_ms=0)
    world.heartbeat("m1", 0, subscribed_topic_regex="a")
    world.heartbeat("m2", 0, subscribed_topic_regex="b")
    world.heartbeat("m1", 2)
    assert world.held("m1") == {"a": [0, 1, 2, 3]}
    assert world.held("m2") == {"b": [0, 1, 2, 3]}


def test_the_hash_depends_on_ids_names_and_counts_of_existing_topics() -> None:
    image = image_of({"a": 1, "b": 2})
    digest = metadata_hash({"a", "b"}, image)
    assert -(1 << 63) <= digest < 1 << 63
    assert metadata_hash({"b", "a", "missing"}, image) == digest
    assert metadata_hash({"missing"}, image) == 0
    others = [
        metadata_hash({"a"}, image),
        metadata_hash({"a", "b"}, image_of({"a": 1, "b": 3})),
        metadata_hash({"a", "b"}, image_of({"a": 1, "b": 2}, incarnation=1)),
    ]
    assert digest not in others


def test_only_what_matters_counts_as_a_change() -> None:
    old = image_of({"a": 1, "b": 2, "c": 3})
    assert changed_topics(old, image_of({"a": 1, "b": 2, "c": 3})) == frozenset()
    assert changed_topics(old, image_of({"a": 1, "b": 3, "d": 1})) == {"b", "c", "d"}
    assert changed_topics(old, image_of({"a": 1, "b": 2, "c": 3}, incarnation=1)) == {"a", "b", "c"}
