"""Every member that is removed for silence or slowness stands in the log, with the cause and the limit."""

import logging
from collections.abc import Iterator

import consumer_world
import pytest
from group_world import World

from moldau.broker.coordinator.group.removals import GROUPS_MAX, INTERVAL_MS, LINES_MAX, Removals
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers

LOGGER = "moldau.coordinator.group.removals"


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, LOGGER):
        yield


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged since the last question."""
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    caplog.clear()
    return lines


def test_a_silent_member_of_a_classic_group(world: World, caplog: pytest.LogCaptureFixture) -> None:
    (a, b), generation = world.form(2, session_ms=10_000)
    world.advance(6000)
    world.heartbeat(a, generation)
    world.advance(6000)
    assert told(caplog) == [
        f"group crew: member {b} (10.0.0.7) is removed because it was silent for 10000 ms (session timeout)"
    ]


def test_a_member_that_does_not_join(world: World, caplog: pytest.LogCaptureFixture) -> None:
    (a, b), _ = world.form(2, rebalance_ms=5000, session_ms=60_000)
    world.join(b, rebalance_ms=5000, session_ms=60_000, protocols=[("range", b"new")])
    world.advance(5000)
    assert told(caplog) == [
        f"group crew: member {a} (10.0.0.7) is removed because it did not join within 5000 ms "
        "(rebalance timeout)"
    ]


def test_a_member_that_does_not_ask_for_its_assignment(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    (a, first), (b, _) = world.enter(rebalance_ms=5000), world.enter(rebalance_ms=5000)
    world.gather()
    world.sync(a, first.response.generation_id, {})
    world.advance(4000)
    world.heartbeat(b, first.response.generation_id)
    world.advance(1000)
    assert told(caplog) == [
        f"group crew: member {b} (10.0.0.7) is removed because it did not ask for its assignment within "
        "5000 ms (rebalance timeout)"
    ]


def test_a_first_join_whose_sender_is_gone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.form(1, session_ms=1_000_000, rebalance_ms=1_000_000)
    b, _parked = world.enter(session_ms=10_000)
    world.advance(299_999)
    assert told(caplog) == []
    world.advance(1)
    assert told(caplog) == [
        f"group crew: member {b} (10.0.0.7) is removed because it had waited in its first join for 300000 ms"
    ]


def test_who_leaves_is_not_told_of_here(world: World, caplog: pytest.LogCaptureFixture) -> None:
    (a, _b), _ = world.form(2)
    world.leave(a)
    assert told(caplog) == []


def test_members_of_the_consumer_protocol(caplog: pytest.LogCaptureFixture) -> None:
    world = consumer_world.World(group_consumer_assignment_interval_ms=0)
    world.heartbeat("m1", 0, rebalance_timeout_ms=20_000)
    world.heartbeat("m2", 0)
    world.heartbeat("m1", 2)
    for _ in range(4):
        world.advance(5000)
        for member_id, member in list(world.group().members.items()):
            world.heartbeat(member_id, member.member_epoch)
    world.advance(45_000)
    lines = told(caplog)
    assert len(lines) == 2
    assert lines[0].startswith("group g: member m1 (")
    assert lines[0].endswith("because it did not revoke its partitions within 20000 ms (rebalance timeout)")
    assert lines[1].startswith("group g: member m2 (")
    assert lines[1].endswith("because it was silent for 45000 ms (session timeout)")


def test_ten_thousand_at_once_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    timers = ManualTimers(ManualClock())
    removals = Removals(timers)
    for number in range(10_000):
        removals.removed(
            "big" if number % 10 else f"small-{number % 7}", f"m{number}", "/10.0.0.1", "was silent"
        )
    lines = told(caplog)
    assert len(lines) == LINES_MAX
    assert lines[0] == "group small-0: member m0 (10.0.0.1) is removed because it was silent"
    timers.advance(INTERVAL_MS)
    (rest,) = told(caplog)
    assert rest.startswith(
        f"{10_000 - LINES_MAX} more members were removed for such reasons: 8982 of group big, "
    )
    assert rest.endswith(f", the others of {8 - GROUPS_MAX} more groups")
    timers.advance(10 * INTERVAL_MS)
    assert told(caplog) == []
    removals.removed("g", "late", "", "was slow")
    assert told(caplog) == ["group g: member late (an unknown host) is removed because it was slow"]


def test_what_was_counted_is_told_at_the_stop(caplog: pytest.LogCaptureFixture) -> None:
    removals = Removals(ManualTimers(ManualClock()))
    removals.stop()
    for number in range(LINES_MAX + 1):
        removals.removed("g", f"m{number}", "/10.0.0.1", "was silent")
    told(caplog)
    removals.stop()
    assert told(caplog) == ["1 more members were removed for such reasons: 1 of group g"]
