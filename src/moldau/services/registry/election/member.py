"""A thread that is a member of the registry's group: it joins, sends heartbeats, and tells who is primary.

    join -> (leader: choose the primary) -> sync: the assignment -> heartbeats -> rebalance: join again

An assignment holds until the next one: while the group rebalances, or its coordinator is away, the last
primary goes on. That is safe because a primary's writes do not rest on the election (topic/writer.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event, Lock, Thread

from moldau.client.cluster import GROUP, Cluster
from moldau.client.errors import ClientError, RequestRefused, Retriable, check, error_words
from moldau.common.protocol.declare import Message
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.heartbeat import HeartbeatRequest
from moldau.common.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from moldau.common.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.common.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.services.registry.election.choice import choose_primary
from moldau.services.registry.election.identity import (
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    Assignment,
    Identity,
    encode_assignment,
    encode_identity,
    parse_assignment,
    parse_identity,
)

log = logging.getLogger("moldau.registry.election.member")
SESSION_TIMEOUT_MS = 10_000
_HEARTBEATS = 0.3
"""The time between heartbeats, as a part of the session's."""
_REBALANCE_TIMEOUT_MS = 30_000
_PAUSE_SECONDS = 0.3
_LEAVE_BY_MEMBERS = 3
_REJOIN = frozenset((ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION))
_UNKNOWN = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.MEMBER_ID_REQUIRED))


class ElectionMember:
    """One instance's place in the group."""

    def __init__(
        self,
        connect: Callable[[], Cluster],
        group_id: str,
        identity: Identity,
        on_change: Callable[[bool], None],
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        """`on_change` is called, on the member's thread, with whether this instance is the primary."""
        self._cluster = connect()
        self._group_id, self._identity, self._on_change = group_id, identity, on_change
        self._session_timeout_ms = session_timeout_ms
        self._heartbeat_seconds = session_timeout_ms / 1000 * _HEARTBEATS
        self._member_id, self._generation = "", -1
        self._lock = Lock()
        self._assignment: Assignment | None = None
        self._is_primary = False
        self._stopping, self._hurry = Event(), Event()
        self._thread = Thread(target=self._run, name="registry-election", daemon=True)

    def start(self) -> None:
        """Join."""
        self._thread.start()

    def close(self) -> None:
        """Leave the group, so that another instance takes over at once."""
        self._stopping.set()
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join(self._cluster.options.request_timeout_seconds)
        self._cluster.close()

    def join_again(self) -> None:
        """Give the place as primary up and join anew: another instance writes."""
        with self._lock:
            self._is_primary = False
            self._generation = -1
        self._hurry.set()

    @property
    def is_primary(self) -> bool:
        """Whether this instance is elected."""
        return self._is_primary

    @property
    def primary(self) -> Identity | None:
        """Who is elected; None while nobody is."""
        assignment = self._assignment
        return None if assignment is None else assignment.identity

    @property
    def has_assignment(self) -> bool:
        """Whether an election has ended since this instance joined."""
        return self._assignment is not None

    # The thread

    def _run(self) -> None:
        complaint = ""
        while not self._stopping.is_set():
            try:
                if self._generation < 0:
                    self._join()
                    complaint = ""
                else:
                    self._hurry.wait(self._heartbeat_seconds)
                    self._hurry.clear()
                    if self._generation >= 0 and not self._stopping.is_set():
                        self._heartbeat()
            except (Retriable, ClientError, OSError, ValueError) as problem:
                self._cluster.forget_coordinator(self._group_id, GROUP)
                if str(problem) != complaint:
                    complaint = str(problem)
                    log.warning("the election in group %s waits: %s", self._group_id, problem)
                self._stopping.wait(_PAUSE_SECONDS)
            except Exception:
                log.exception("the election in group %s failed", self._group_id)
                self._generation = -1
                self._stopping.wait(_PAUSE_SECONDS)
        self._leave()

    def _ask(self, request: Message, timeout_ms: int = 0):  # type: ignore[no-untyped-def]
        connection = self._cluster.coordinator(self._group_id, GROUP)
        seconds = self._cluster.options.request_timeout_seconds + timeout_ms / 1000
        return connection.ask(request, timeout_seconds=seconds)

    def _join(self) -> None:
        identity = self._identity._replace(is_primary=self._is_primary)
        protocol = JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=encode_identity(identity))
        answer: JoinGroupResponse = self._ask(
            JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=self._session_timeout_ms,
                rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[protocol],
            ),
            _REBALANCE_TIMEOUT_MS,
        )
        if answer.error_code in _UNKNOWN:
            self._member_id = answer.member_id if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED else ""
            return
        self._check(answer.error_code, "join")
        self._member_id = answer.member_id
        self._sync(answer)

    def _sync(self, joined: JoinGroupResponse) -> None:
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            members = {each.member_id: parse_identity(each.metadata) for each in joined.members}
            encoded = encode_assignment(choose_primary(members))
            assignments = [SyncGroupRequestAssignment(member_id=each, assignment=encoded) for each in members]
        answer = self._ask(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL_NAME,
                assignments=assignments,
            ),
            _REBALANCE_TIMEOUT_MS,
        )
        self._check(answer.error_code, "sync with")
        self._take(parse_assignment(answer.assignment), joined.generation_id)

    def _take(self, assignment: Assignment, generation: int) -> None:
        with self._lock:
            was = self._assignment
            self._generation = generation
            self._assignment = assignment
            self._is_primary = assignment.primary == self._member_id
            is_primary = self._is_primary
        if assignment.error:
            log.error("members of group %s have one address: set host.name for each", self._group_id)
        if was is None or was.identity != assignment.identity:
            url = "nobody" if assignment.identity is None else assignment.identity.url
            log.info("the registry's primary is %s%s", url, " (this instance)" if is_primary else "")
        self._on_change(is_primary)

    def _heartbeat(self) -> None:
        answer = self._ask(
            HeartbeatRequest(
                group_id=self._group_id, generation_id=self._generation, member_id=self._member_id
            )
        )
        self._check(answer.error_code, "stay in")

    def _check(self, error_code: int, deed: str) -> None:
        """Return for success; join again where the group says so. Retriable, RequestRefused."""
        if error_code in _REJOIN:
            self._generation = -1
            if deed != "stay in":
                raise Retriable(error_words(error_code))
            return
        if error_code in _UNKNOWN:
            self._generation, self._member_id = -1, ""
            raise Retriable(error_words(error_code))
        if error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise RequestRefused(
                f"the group {self._group_id} is used by other programs: set schema.registry.group.id",
                error_code,
            )
        check(error_code, f"{deed} group {self._group_id}")

    def _leave(self) -> None:
        if not self._member_id:
            return
        started = time.monotonic()
        try:
            connection = self._cluster.coordinator(self._group_id, GROUP)
            request = LeaveGroupRequest(
                group_id=self._group_id, members=[MemberIdentity(member_id=self._member_id)]
            )
            if connection.version_of(LeaveGroupRequest) < _LEAVE_BY_MEMBERS:
                request = LeaveGroupRequest(group_id=self._group_id, member_id=self._member_id)
            connection.ask(request, timeout_seconds=2.0)
        except (Retriable, ClientError, OSError) as problem:
            log.info(
                "group %s was not left (%.1f s): %s", self._group_id, time.monotonic() - started, problem
            )
