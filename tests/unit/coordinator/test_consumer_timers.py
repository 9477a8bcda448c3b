"""What time does to a consumer group: sessions end, slow members are removed, a failed append is mended."""

from consumer_world import World, assignment, topic_id

from moldau.broker.metadata.image import ResourceType
from moldau.common.protocol.errors import ErrorCode


def moving_world() -> World:
    """m1 has all six partitions and was told to give up three, which m2 waits for."""
    world = World(group_consumer_assignment_interval_ms=0)
    world.heartbeat("m1", 0, rebalance_timeout_ms=20_000)
    world.heartbeat("m2", 0)
    assert assignment(world.heartbeat("m1", 2)) == {topic_id("a"): [0, 1, 2]}
    assert world.held("m2") == {}
    return world


def keep_alive(world: World, duration_ms: int) -> None:
    """Both members say that they live, and nothing else."""
    for _ in range(duration_ms // 5000):
        world.advance(5000)
        for member_id, member in list(world.group().members.items()):
            world.heartbeat(member_id, member.member_epoch)


def test_a_silent_member_loses_its_partitions() -> None:
    world = World()
    world.heartbeat("m1", 0)
    world.advance(44_999)
    assert list(world.group().members) == ["m1"]
    world.advance(1)
    assert world.group().members == {}
    assert world.group().held_partition_count() == 0
    assert world.group().state_name() == "Empty"
    assert world.heartbeat("m1", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_prolong_the_session() -> None:
    world = World()
    world.heartbeat("m1", 0)
    keep_alive(world, 300_000)
    assert list(world.group().members) == ["m1"]


def test_the_session_timeout_and_the_interval_are_settings_of_the_group() -> None:
    world = World()
    configs = {
        (ResourceType.GROUP, "g"): {
            "consumer.session.timeout.ms": "50000",
            "consumer.heartbeat.interval.ms": "7000",
        }
    }
    world.image = world.image._replace(configs=configs)
    assert world.heartbeat("m1", 0).heartbeat_interval_ms == 7000
    world.advance(49_999)
    assert list(world.group().members) == ["m1"]
    world.advance(1)
    assert world.group().members == {}


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    world = moving_world()
    keep_alive(world, 15_000)
    assert world.held("m2") == {}
    keep_alive(world, 5000)
    assert list(world.group().members) == ["m2"]
    assert world.held("m2") == {"a": [0, 1, 2, 3, 4, 5]}


def test_a_member_that_revokes_in_time_stays() -> None:
    world = moving_world()
    keep_alive(world, 15_000)
    world.heartbeat("m1", 2, owned={"a": [0, 1, 2]})
    keep_alive(world, 60_000)
    assert world.held("m1") == {"a": [0, 1, 2]}
    assert world.held("m2") == {"a": [3, 4, 5]}


def test_after_a_restart_every_member_has_a_whole_session_again() -> None:
    world = moving_world()
    world.advance(19_000)
    world.restart()
    world.advance(19_000)
    assert set(world.group().members) == {"m1", "m2"}
    world.advance(1000)
    assert set(world.group().members) == {"m2"}, "the time to revoke was counted anew, too"


def test_a_failed_append_changes_nothing_and_the_member_may_try_again() -> None:
    world = moving_world()
    before = world.held("m1")
    world.fail_appends = True
    response = world.heartbeat("m1", 2, owned={"a": [0, 1, 2]})
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.held("m1") == before
    world.fail_appends = False
    assert world.heartbeat("m1", 2, owned={"a": [0, 1, 2]}).member_epoch == 3


def test_a_failed_append_does_not_lose_the_timer_that_it_cancelled() -> None:
    world = moving_world()
    world.fail_appends = True
    world.heartbeat("m1", 2, owned={"a": [0, 1, 2]})
    world.fail_appends = False
    keep_alive(world, 25_000)
    assert list(world.group().members) == ["m2"]


def test_a_session_that_ends_while_the_log_is_broken_ends_later() -> None:
    world = World()
    world.heartbeat("m1", 0)
    world.fail_appends = True
    world.advance(46_000)
    assert list(world.group().members) == ["m1"]
    world.fail_appends = False
    world.advance(45_000)
    assert world.group().members == {}


def test_a_static_member_keeps_its_place_for_one_session() -> None:
    world = World()
    world.heartbeat("s1", 0, instance_id="i1")
    world.heartbeat("s1", -2, instance_id="i1")
    world.advance(40_000)
    assert assignment(world.heartbeat("s2", 0, instance_id="i1")) == {topic_id("a"): [0, 1, 2, 3, 4, 5]}
    world.heartbeat("s2", -2, instance_id="i1")
    world.advance(45_000)
    assert world.group().members == {}
