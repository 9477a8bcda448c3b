"""Share sessions: epochs, limits, and that they end with their connection."""

from moldau.broker.handlers.parts.session import Session
from moldau.broker.share.sessions import EPOCH_MAX, FINAL_EPOCH, MemberKey, ShareSession, ShareSessions
from moldau.common.core.client_state import ClientState
from moldau.common.core.clock import ManualClock
from moldau.common.protocol.errors import ErrorCode

A, B = MemberKey("g", "a"), MemberKey("g", "b")


class World:
    """Sessions with a limit, and those that ended."""

    def __init__(self, limit: int = 10) -> None:
        self.ended: list[MemberKey] = []
        self.sessions = ShareSessions(lambda: limit, lambda session: self.ended.append(session.key))
        self.connection = Session("PLAINTEXT")

    def open(self, key: MemberKey, connection: Session | None = None) -> ShareSession:
        session = self.sessions.open(key, connection or self.connection)
        assert isinstance(session, ShareSession)
        return session


def test_epochs_go_up_by_one_and_wrap() -> None:
    world = World()
    assert world.sessions.resume(A, 1, world.connection) == ErrorCode.SHARE_SESSION_NOT_FOUND
    session = world.open(A)
    assert world.sessions.resume(A, 1, world.connection) is session
    assert world.sessions.resume(A, 1, world.connection) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert world.sessions.resume(A, 2, world.connection) is session
    session.next_epoch = EPOCH_MAX
    assert world.sessions.resume(A, EPOCH_MAX, world.connection) is session
    assert world.sessions.resume(A, 1, world.connection) is session
    assert world.sessions.resume(A, FINAL_EPOCH, world.connection) is session


def test_a_connection_takes_its_sessions_along() -> None:
    world = World()
    world.open(A)
    world.open(B, Session("PLAINTEXT"))
    world.connection.closed()
    assert world.ended == [A]
    assert world.sessions.has_group("g")
    world.connection.closed()
    assert world.ended == [A]


def test_a_session_that_moved_to_another_connection_outlives_the_first() -> None:
    world = World()
    session = world.open(A)
    second = Session("PLAINTEXT")
    assert world.sessions.resume(A, 1, second) is session
    world.connection.closed()
    assert not world.ended
    second.closed()
    assert world.ended == [A]


def test_a_session_opened_anew_does_not_end_the_members_holdings() -> None:
    world = World()
    first = world.open(A)
    second = world.open(A)
    assert (first.is_open, second.is_open, world.ended) == (False, True, [])
    world.sessions.close(first)
    assert second.is_open
    world.sessions.close(second)
    assert world.ended == [A]
    assert not world.sessions.has_group("g")


def test_there_is_a_limit() -> None:
    world = World(limit=1)
    world.open(A)
    assert world.sessions.open(B, world.connection) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    world.open(A)


def test_partitions_take_turns() -> None:
    session = World().open(A)
    session.partitions.update(dict.fromkeys([(b"t", 0), (b"t", 1), (b"t", 2)]))
    session.rotate(2)
    assert list(session.partitions) == [(b"t", 2), (b"t", 0), (b"t", 1)]


def test_a_request_that_comes_when_its_connection_has_ended_opens_nothing_that_stays() -> None:
    world = World()
    world.connection.closed()
    assert not world.open(A).is_open
    assert world.ended == [A]
    assert not len(world.sessions)


def test_what_sessions_hold_is_counted_and_bounded() -> None:
    budget = ClientState(400_000, ManualClock())
    account = budget.share_sessions
    ended: list[ShareSession] = []
    sessions = ShareSessions(lambda: 10_000, ended.append, account)
    connection = Session("PLAINTEXT")
    first = sessions.open(A, connection)
    assert isinstance(first, ShareSession)
    places = [(b"t" * 16, index) for index in range(700)]
    assert sessions.add(first, places)
    assert sessions.add(first, places)
    full_bytes = account.used_bytes
    assert 150_000 < full_bytes <= 200_000
    second = sessions.open(B, connection)
    assert isinstance(second, ShareSession)
    assert not sessions.add(second, [(b"u" * 16, index) for index in range(700)])
    assert not second.partitions
    sessions.drop(first, [*places[:650], (b"none" * 4, 1)])
    assert sessions.add(second, [(b"u" * 16, index) for index in range(500)])
    connection.closed()
    assert (account.used_bytes, budget.used_bytes, len(ended)) == (0, 0, 2)


def test_members_beyond_the_memory_are_refused() -> None:
    account = ClientState(100_000, ManualClock()).share_sessions
    sessions = ShareSessions(lambda: 10_000, lambda session: None, account)
    connection = Session("PLAINTEXT")
    opened = [sessions.open(MemberKey("g", str(number)), connection) for number in range(200)]
    assert opened[-1] == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert account.used_bytes <= 50_000
    assert account.refused_count
    again = sessions.open(MemberKey("g", "0"), connection)
    assert isinstance(again, ShareSession)
    connection.closed()
    assert account.used_bytes == 0
