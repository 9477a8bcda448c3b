"""What fetch sessions hold is bounded in all, counted as the process holds it, and given up fairly."""

import random
import subprocess
import sys

import pytest

from moldau.broker.replication.fetch_session import FetchSessions, Targets, targets_of, update
from moldau.common.core.client_state import ClientState
from moldau.common.core.clock import ManualClock
from moldau.common.protocol.errors import ErrorCode

MB = 1_000_000


def targets(count: int) -> Targets:
    return targets_of([(b"t", [(index, -1, 10 * index, -1, -1, 1000) for index in range(count)])])


def world(limit_bytes: int) -> tuple[ClientState, FetchSessions]:
    state = ClientState(limit_bytes, ManualClock())
    return state, FetchSessions(1000, random.Random(1), state.fetch_sessions)


def test_one_principal_with_large_sessions_gets_no_more_than_the_budget() -> None:
    state, sessions = world(10 * MB)
    opened = [sessions.open(False, targets(5_000), 0, "User:greedy") for _ in range(60)]
    assert any(opened)
    assert opened[-1] == 0, "the request is answered without a session"
    assert state.used_bytes <= 10 * MB
    assert state.fetch_sessions.refused_count > 0


def test_others_get_their_sessions_from_who_holds_most() -> None:
    state, sessions = world(10 * MB)
    while sessions.open(False, targets(5_000), 0, "User:greedy"):
        pass
    modest = [sessions.open(False, targets(100), 0, "User:modest") for _ in range(20)]
    assert all(modest)
    while sessions.open(False, targets(5_000), 0, "User:greedy"):
        pass
    assert state.used_bytes <= 10 * MB
    for session_id in modest:
        assert not isinstance(sessions.resume(session_id, 1, False, 0, "User:modest"), int)


def test_equals_do_not_drive_one_another_out() -> None:
    _, sessions = world(2 * MB)
    ids = [sessions.open(False, targets(1_000), 0, f"User:{number}") for number in range(10)]
    held = [each for each in ids if each]
    assert len(held) == len(sessions)
    assert sessions.evicted_count == 0
    assert sessions.open(False, targets(1_000), 120_000, "User:late"), "one that is idle gives way"


def test_followers_always_get_theirs() -> None:
    _, sessions = world(MB)
    while sessions.open(False, targets(100), 0, "User:client"):
        pass
    assert all(sessions.open(False, targets(3_000), 0, "User:broker", of_follower=True) for _ in range(3))


def test_a_session_that_grows_is_counted_again_and_closed_when_it_does_not_fit() -> None:
    state, sessions = world(MB)
    session_id = sessions.open(False, targets(10), 0, "User:a")
    session = sessions.resume(session_id, 1, False, 0, "User:a")
    assert not isinstance(session, int)
    before_bytes = state.used_bytes
    update(session.targets, [(b"u", [(index, -1, 0, -1, -1, 1) for index in range(500)])], ())
    assert sessions.changed(session_id, 0)
    assert state.used_bytes > before_bytes + 500 * 100
    update(session.targets, (), [(b"u", list(range(500)))])
    assert sessions.changed(session_id, 0)
    assert state.used_bytes == before_bytes
    update(session.targets, [(b"u", [(index, -1, 0, -1, -1, 1) for index in range(5_000)])], ())
    assert not sessions.changed(session_id, 0)
    assert sessions.resume(session_id, 2, False, 0, "User:a") == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert state.used_bytes == 0


def test_all_is_given_back() -> None:
    state, sessions = world(10 * MB)
    ids = [sessions.open(False, targets(50), 0, "User:a") for _ in range(20)]
    for session_id in ids:
        sessions.close(session_id, "User:a")
    assert (state.used_bytes, len(sessions)) == (0, 0)


CHILD = """
import random, resource, sys
from moldau.common.core.client_state import ClientState
from moldau.common.core.clock import ManualClock
from moldau.broker.replication.fetch_session import FetchSessions, targets_of

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def rows(kind):
    if kind == "long names":  # each partition's topic is another one
        return [
            (b"%0249d" % n, [(n % 5 + 300, 7_000_000 + n, 10**12 + n, 8_000_000 + n, 10**9 + n, 10**7 + n)])
            for n in range(20_000)
        ]
    if kind == "one topic":
        return [(b"t", [(n, 7_000_000, 10**12 + n, -1, -1, 10**6) for n in range(20_000)])]
    return [(b"%d" % n, [(0, -1, 0, -1, -1, 1)]) for n in range(20_000)]

state = ClientState(10**12, ManualClock())
sessions = FetchSessions(1000, random.Random(1), state.fetch_sessions)
sessions.open(False, targets_of(rows(sys.argv[1])), 0, "User:a")
before_bytes, counted_before = resident(), state.used_bytes
for _ in range(8):
    targets = targets_of(rows(sys.argv[1]))
    for number, each in enumerate(targets.values()):
        each.told_high_watermark, each.told_start_offset = 10**12 + number, 10**11 + number
    sessions.open(False, targets, 0, "User:a")
print((state.used_bytes - counted_before) / (resident() - before_bytes))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("shape", ["long names", "one topic", "small rows"])
def test_the_budget_counts_what_the_process_holds(shape: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, shape], capture_output=True, text=True, check=True, timeout=300
    )
    assert 0.8 <= float(done.stdout) <= 2.5, "counted bytes by bytes of growth"


def test_a_request_that_only_moves_offsets_needs_no_new_count() -> None:
    kept = targets(3)
    assert not update(kept, [(b"t", [(1, 4, 99, -1, -1, 5)])], [(b"t", [8])])
    assert update(kept, [(b"t", [(7, 4, 99, -1, -1, 5)])], ())
    assert update(kept, (), [(b"t", [7])])
