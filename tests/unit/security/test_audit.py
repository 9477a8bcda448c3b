"""The audit: the first refusal at once, the others as counts, none lost; one line an event, whatever names
clients choose."""

import json
from types import SimpleNamespace

import pytest
from kept import kept

from moldau.broker.security import audit as module
from moldau.broker.security.audit import (
    FAILED_CHANGES_MAX,
    INTERVAL_MS,
    KINDS_MAX,
    NAMES_MAX,
    WRITTEN_AT_ONCE,
    AuditTrail,
    line_of,
    plain,
)
from moldau.common.core.clock import ManualClock
from moldau.common.core.slow_lane import all_steps
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.operations import Operation, ResourceType

TOPIC = ResourceType.TOPIC
ALICE = SimpleNamespace(principal="User:alice", client_host="10.0.0.1", client_id="c", listener="SASL_SSL")


class Written:
    def __init__(self):
        self.events = []

    def write(self, event):
        json.dumps(event)
        self.events.append(event)

    def taken(self):
        events, self.events = self.events, []
        return events


@pytest.fixture
def world():
    clock, sink = ManualClock(), Written()
    timers = ManualTimers(clock)
    trail = AuditTrail(sink, timers, clock.now_ms, node_id=7, untold_topic="audit")
    return SimpleNamespace(clock=clock, timers=timers, sink=sink, trail=trail)


def refuse(world, name="t", client=ALICE, operation=Operation.READ):
    world.trail.decided(client, operation, TOPIC, name, allowed=False)


def test_the_first_refusal_is_told_at_once_and_the_others_as_a_count(world):
    for _ in range(10_000):
        refuse(world)
    refuse(world, operation=Operation.WRITE)
    first, other = world.sink.taken()
    assert first == {
        "event": "denied",
        "time_ms": world.clock.now_ms(),
        "node_id": 7,
        "principal": "User:alice",
        "host": "10.0.0.1",
        "listener": "SASL_SSL",
        "operation": "READ",
        "resource_type": "Topic",
        "resource": "t",
        "client_id": "c",
    }
    assert other["operation"] == "WRITE"
    world.timers.advance(INTERVAL_MS)
    (counted,) = world.sink.taken()
    assert (counted["operation"], counted["repeated"]) == ("READ", 9_999)
    assert "(9999 more times in the last minute)" in line_of(counted)
    refuse(world)
    assert not world.sink.events, "it went on: counted"
    refuse(world, operation=Operation.WRITE)
    assert len(world.sink.taken()) == 1, "it had stopped: told at once"
    world.timers.advance(INTERVAL_MS)
    assert [each["repeated"] for each in world.sink.taken()] == [1]
    world.timers.advance(10 * INTERVAL_MS)
    assert not world.sink.events
    assert not kept(world.trail), "forgotten"


def test_names_of_a_clients_choice_neither_flood_nor_hide(world):
    for number in range(KINDS_MAX * 3):
        refuse(world, f"t{number}")
    bob = SimpleNamespace(**{**vars(ALICE), "principal": "User:bob"})
    for _ in range(5):
        refuse(world, "secret", bob)
    assert len(world.sink.taken()) == KINDS_MAX
    world.timers.advance(INTERVAL_MS)
    counts = {each["principal"]: each["repeated"] for each in world.sink.taken()}
    assert counts == {"User:alice": KINDS_MAX * 2, "User:bob": 5}
    refuse(world, "secret", bob)
    assert [each["principal"] for each in world.sink.taken()] == ["User:bob"]


def test_not_even_many_principals_take_more_memory(world):
    for number in range(KINDS_MAX * 2 + 11):
        client = SimpleNamespace(**{**vars(ALICE), "principal": f"User:{number}"})
        refuse(world, "t", client)
    assert len(world.sink.taken()) == KINDS_MAX
    world.timers.advance(INTERVAL_MS)
    *known, others = world.sink.taken()
    assert len(known) == KINDS_MAX
    assert (others["principal"], others["repeated"]) == ("", 11)
    assert line_of(others).startswith("Other principals are Denied")


def test_counts_are_told_a_few_at_a_turn_of_the_loop_and_all_at_the_end(world):
    for _ in range(2):
        for number in range(100):
            refuse(world, f"t{number}")
    world.sink.taken()
    world.trail._write_counts()
    assert len(world.sink.events) == WRITTEN_AT_ONCE
    world.trail.close()
    assert len(world.sink.taken()) == 100
    world.timers.advance(INTERVAL_MS)
    assert not world.sink.events


def test_counts_are_told_at_the_end(world):
    refuse(world)
    refuse(world)
    world.trail.close()
    assert [each.get("repeated") for each in world.sink.taken()] == [None, 1]
    world.timers.advance(INTERVAL_MS)
    assert not world.sink.events


def test_the_audits_own_writes_are_no_events_but_a_refusal_of_them_is(world):
    world.trail.decided(ALICE, Operation.WRITE, TOPIC, "audit", allowed=True)
    assert not world.sink.events
    refuse(world, "audit")
    world.trail.decided(ALICE, Operation.WRITE, TOPIC, "t", allowed=True)
    assert [each["event"] for each in world.sink.taken()] == ["denied", "allowed"]


def test_a_change_is_one_event_with_a_few_names_of_each_outcome(world):
    made = []

    def late(number):
        made.append(number)
        return f"late{number}"

    outcomes = [("a\nb", 0), *((lambda n=n: late(n), 0) for n in range(10_000)), ("x", 36)]
    all_steps(world.trail.changed(ALICE, "CreateTopics", outcomes))
    (event,) = world.sink.taken()
    assert event["counts"] == {"NONE": 10_001, "TOPIC_ALREADY_EXISTS": 1}
    assert len(event["outcomes"]["NONE"]) == NAMES_MAX
    assert len(made) == NAMES_MAX - 1, "what is not written is not made"
    line = line_of(event)
    assert "request = CreateTopics" in line
    assert f"and {10_001 - NAMES_MAX} more" in line
    assert "\n" not in line
    assert ErrorCode(36).name in line


@pytest.mark.parametrize(
    "name",
    [
        "t\n2026-01-01 00:00:00.000 INFO moldau.audit: Principal = User:root is Allowed",
        "t is Allowed operation = READ",
        't" is Allowed',
        "t\u2028x",
        "t\x1b[2J",
        "\u202eevil",
        "t,u;v",
    ],
)
def test_no_name_forges_a_line_or_a_field(world, name):
    refuse(world, name)
    refuse(world, "t", SimpleNamespace(**{**vars(ALICE), "principal": f"User:{name}"}))
    all_steps(world.trail.changed(ALICE, "DeleteTopics", [(name, 0)]))
    for event in world.sink.taken():
        line = line_of(event)
        assert line.isprintable()
        assert plain(name) == json.dumps(name)
        assert line.count(" is Allowed operation") <= json.dumps(name).count(" is Allowed operation")
        assert json.dumps(name)[1:-1] in line


def test_a_line_follows_kafkas(world, caplog):
    sink = module.LogSink()
    refuse(world)
    with caplog.at_level("INFO", "moldau.audit"):
        sink.write(world.sink.taken()[0])
    assert caplog.messages == [
        "Principal = User:alice is Denied operation = READ from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:t on listener = SASL_SSL"
    ]


def test_requests_in_which_nothing_was_done_do_not_flood_and_changes_are_all_told(world):
    for _ in range(1_000):
        all_steps(world.trail.changed(ALICE, "CreateTopics", [("t", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]))
    assert len(world.sink.taken()) == FAILED_CHANGES_MAX
    for number in range(50):
        all_steps(world.trail.changed(ALICE, "CreateTopics", [(f"t{number}", 0), ("u", 36)]))
    assert len(world.sink.taken()) == 50
    world.timers.advance(INTERVAL_MS)
    (counted,) = world.sink.taken()
    assert (counted["request"], counted["repeated"]) == ("CreateTopics", 1_000 - FAILED_CHANGES_MAX)
    assert line_of(counted).endswith("request = CreateTopics refused (980 more times in the last minute)")
    world.timers.advance(10 * INTERVAL_MS)
    assert not world.sink.events
