"""A connection goes on only while what it has waiting for followers is within its share."""

import pytest
from server_world import FakeListener, Script, feed, framed, start

from moldau.broker.server.commit_backlog import SHARE_BYTES, TOTAL_BYTES, CommitBacklog
from moldau.broker.server.connection import Connection, Parts
from moldau.common.core.clock import ManualClock

MB = 1 << 20


class Appends(Script):
    """As `Script`; and a: an append of 1 MB that waits for followers."""

    def request(self, connection: Connection, view: memoryview, position: int, end: int) -> Parts | None:
        content = bytes(view[position + 4 : end])
        if content[:1] != b"a":
            return super().request(connection, view, position, end)
        self.seen.append(content)
        self.slots.append((content, connection.park(blocking=False)))
        connection.begin_waiting(MB)
        return None

    def settle(self, content: bytes, *, replicated: bool = True) -> None:
        at = next(at for at, (sent, _) in enumerate(self.slots) if sent == content)
        _, slot = self.slots.pop(at)
        slot.exchange.end_waiting(MB, replicated=replicated)
        slot.fill(content)


def connected(listener: FakeListener):  # type: ignore[no-untyped-def]
    connection, transport, _, _ = start(listener)
    script = Appends()
    connection.dispatcher = script
    return connection, transport, script


def names(*numbers: int) -> list[bytes]:
    return [b"a%d" % number for number in numbers]


def test_the_next_frames_wait_while_the_share_is_exceeded_and_answers_stay_in_order() -> None:
    listener = FakeListener()
    connection, transport, script = connected(listener)
    feed(connection, framed(*names(*range(8)), b"e fetches"))
    assert script.seen == names(0, 1, 2, 3, 4), "one more than 4 MB"
    assert not transport.reading
    script.settle(b"a0")
    assert script.seen == names(0, 1, 2, 3, 4, 5)
    for number in (2, 1, 3, 4, 5, 6, 7):
        script.settle(b"a%d" % number)
    assert script.seen == [*names(*range(8)), b"e fetches"]
    assert transport.sent == b"".join([*names(*range(8)), b"e fetches"])
    assert transport.reading
    assert (listener.backlog.waiting_bytes, listener.backlog.connection_count) == (0, 0)


@pytest.mark.parametrize("replicated", [True, False], ids=["replicated", "timed out, or lost"])
def test_any_end_of_the_wait_lets_the_next_frames_in(replicated: bool) -> None:
    connection, transport, script = connected(FakeListener())
    feed(connection, framed(*names(*range(6))))
    for number in range(5):
        script.settle(b"a%d" % number, replicated=replicated)
    assert script.seen == names(*range(6))
    assert transport.reading


def test_a_connection_waits_for_its_own_appends_only() -> None:
    listener = FakeListener()
    stuck, _, waits = connected(listener)
    feed(stuck, framed(*names(*range(8))))
    other, transport, script = connected(listener)
    for number in range(3):
        feed(other, framed(b"a%d" % number))
        script.settle(b"a%d" % number)
    assert transport.sent == b"a0a1a2"
    assert len(waits.seen) == 5


def test_many_connections_together_have_one_request_each_under_way() -> None:
    listener = FakeListener()
    worlds = [connected(listener) for _ in range(100)]
    for connection, _, _ in worlds:
        feed(connection, framed(*names(0, 1, 2)))
    assert listener.backlog.waiting_bytes <= TOTAL_BYTES + 100 * MB
    for number in range(3):
        for _, _, script in worlds:
            script.settle(b"a%d" % number)
    assert all(script.seen == names(0, 1, 2) for _, _, script in worlds)
    assert listener.backlog.waiting_bytes == 0


def test_what_a_lost_connection_had_waiting_counts_no_more_and_is_given_back_once() -> None:
    listener = FakeListener()
    connection, _, script = connected(listener)
    feed(connection, framed(*names(0, 1)))
    connection.connection_lost(None)
    backlog = listener.backlog
    assert (backlog.waiting_bytes, backlog.connection_count) == (0, 0)
    script.settle(b"a0")
    connection.begin_waiting(MB)  # a batch whose inspection has ended only now
    assert (backlog.waiting_bytes, backlog.connection_count) == (0, 0)


def test_a_muted_connection_stays_muted_when_its_appends_are_replicated() -> None:
    listener = FakeListener()
    connection, _, script = connected(listener)
    feed(connection, framed(*names(*range(6))))
    connection.mute(1000)
    for number in range(5):
        script.settle(b"a%d" % number)
    assert script.seen == names(*range(5))
    listener.timers.advance(1000)
    assert script.seen == names(*range(6))


def test_the_share_is_what_was_replicated_in_the_last_second() -> None:
    clock = ManualClock()
    backlog = CommitBacklog(clock.monotonic_ms)
    assert backlog.share_bytes == SHARE_BYTES
    backlog.begin(100 * MB, is_first=True)
    backlog.end(100 * MB, is_last=True, replicated=True)
    assert backlog.share_bytes == 100 * MB
    clock.advance(1500)
    assert backlog.share_bytes == 50 * MB
    backlog.begin(MB, is_first=True)
    backlog.begin(MB, is_first=True)
    assert backlog.share_bytes == 25 * MB, "each of two connections"
    clock.advance(1000)
    assert backlog.share_bytes == SHARE_BYTES
    backlog.end(100 * MB, is_last=True, replicated=False)
    assert backlog.share_bytes == SHARE_BYTES, "what has timed out was not replicated"
