"""A thread that is a member of the group of workers: it joins, sends heartbeats, and distributes work if it
leads.

    join (url, offset, held) -> leader: assign -> sync: what is new, what to let go -> heartbeats ->
    rebalance: join

Tasks go on while the group rebalances; only what is revoked stops, and then the worker joins again. A worker
that cannot reach its group for the session's time must assume that its work was given to others: it stops
all.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
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
from moldau.services.connect.group.assignment import assign
from moldau.services.connect.group.interface import GroupListener
from moldau.services.connect.group.protocol import (
    CONFIG_MISMATCH,
    NOTHING,
    PROTOCOLS,
    VERSIONS,
    Assignment,
    Work,
    WorkerState,
    decode_assignment,
    decode_state,
    encode_assignment,
    encode_state,
)
from moldau.services.connect.runtime.interface import TaskId
from moldau.services.connect.settings import WorkerSettings

log = logging.getLogger("moldau.connect.group")
PROTOCOL_TYPE = "connect"
_PAUSE_SECONDS = 0.3
_LEAVE_BY_MEMBERS = 3
_REMEMBERED_WORKERS = 1000
_REJOIN = frozenset((ErrorCode.REBALANCE_IN_PROGRESS,))
_UNKNOWN = frozenset(
    (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.ILLEGAL_GENERATION)
)


class Member:
    """See Membership."""

    def __init__(
        self,
        connect: Callable[[], Cluster],
        settings: WorkerSettings,
        url: str,
        offset: Callable[[], int],
    ) -> None:
        """`url`: by which others reach this worker; `offset`: how far its configuration has been read."""
        self._cluster = connect()
        options = self._cluster.options
        self._request_seconds = options.request_timeout_seconds
        # Looking for the coordinator, and connecting to it, must leave time within the session.
        third = settings.session_timeout_ms / 3000
        self._cluster.options = replace(
            options,
            request_timeout_seconds=min(options.request_timeout_seconds, third),
            connect_timeout_seconds=min(options.connect_timeout_seconds, third),
        )
        self._group_id, self._url, self._offset = settings.group_id, url, offset
        self._session_ms, self._rebalance_ms = settings.session_timeout_ms, settings.rebalance_timeout_ms
        self._heartbeat_seconds = settings.heartbeat_interval_ms / 1000
        self._offered = PROTOCOLS[settings.connect_protocol.lower()]
        self._protocol = ""
        self._member_id, self._generation = "", -1
        self._wants_to_join = True
        self._heard_at = time.monotonic()
        self._lock = Lock()
        self._held: Work = NOTHING
        self._revoked: Work = NOTHING
        self._last: Assignment | None = None
        self._before: dict[str, Work] = {}
        self._owners: dict[TaskId, str] = {}
        """Of the assignment that this worker has made last as the leader: who was given what."""
        self._complaint = ""
        self._stopping, self._hurry = Event(), Event()
        self._listener: GroupListener | None = None
        self._thread = Thread(target=self._run, name="connect-group", daemon=True)

    def start(self, listener: GroupListener) -> None:
        """See Membership."""
        self._listener = listener
        self._thread.start()

    def close(self) -> None:
        """See Membership."""
        self._stopping.set()
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join(self._request_seconds)
        self._cluster.close()

    def join_again(self) -> None:
        """See Membership."""
        self._wants_to_join = True
        self._hurry.set()

    def let_go(self, work: Work) -> None:
        """See Membership."""
        with self._lock:
            given_back = self._held & work
            self._held -= work
            self._revoked -= work
        if given_back:
            self.join_again()

    def held(self) -> Work:
        """See Membership."""
        with self._lock:
            return self._held

    def revoked(self) -> Work:
        """See Membership."""
        with self._lock:
            return self._revoked

    def owner_url(self, work: TaskId) -> str:
        """See Membership."""
        found = self._owners.get(work, "") if self.is_leader else ""
        return "" if found == self._url else found

    @property
    def trouble(self) -> str:
        """See Membership."""
        silent_ms = (time.monotonic() - self._heard_at) * 1000
        if not self._complaint or silent_ms <= self._session_ms:
            return ""
        return f"the group {self._group_id} of workers is not reached: {self._complaint}"

    @property
    def is_leader(self) -> bool:
        """See Membership."""
        last = self._last
        return last is not None and last.leader == self._member_id and self._generation >= 0

    @property
    def leader_url(self) -> str:
        """See Membership."""
        return "" if self._last is None else self._last.leader_url

    @property
    def generation(self) -> int:
        """See Membership."""
        return self._generation

    @property
    def is_rebalancing(self) -> bool:
        """See Membership."""
        return self._wants_to_join or self._generation < 0

    @property
    def signs_requests(self) -> bool:
        """See Membership."""
        return self._protocol == "sessioned"

    # The thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._wants_to_join or self._generation < 0:
                    self._join()
                    if self._generation >= 0:
                        self._complaint = ""
                else:
                    self._hurry.wait(self._heartbeat_seconds)
                    self._hurry.clear()
                    if not self._stopping.is_set() and not self._wants_to_join:
                        self._heartbeat()
                        self._complaint = ""
            except (Retriable, ClientError, OSError, ValueError) as problem:
                self._cluster.forget_coordinator(self._group_id, GROUP)
                if str(problem) != self._complaint:
                    self._complaint = str(problem)
                    log.warning("the group %s of workers: %s", self._group_id, problem)
                self._after_failure()
            except Exception:
                log.exception("the membership in group %s failed", self._group_id)
                self._lose()
                self._stopping.wait(_PAUSE_SECONDS)
        self._leave()

    def _after_failure(self) -> None:
        if (time.monotonic() - self._heard_at) * 1000 > self._session_ms and self.held():
            log.error(
                "the group %s is out of reach for its session's time: all work is stopped", self._group_id
            )
            self._lose()
        self._stopping.wait(_PAUSE_SECONDS)

    def _lose(self) -> None:
        """Others may have this worker's work by now."""
        with self._lock:
            self._generation, self._held, self._revoked = -1, NOTHING, NOTHING
            self._last = None
        if self._listener is not None:
            self._listener.lost()

    def _ask(self, request: Message, timeout_ms: int = 0):  # type: ignore[no-untyped-def]
        """A worker that belongs to its group waits no longer than its session: after that others may have its
        work, which must have stopped by then."""
        connection = self._cluster.coordinator(self._group_id, GROUP)
        seconds = self._request_seconds + timeout_ms / 1000
        if self._generation >= 0:
            left = self._session_ms / 1000 - (time.monotonic() - self._heard_at)
            seconds = min(seconds, max(left, _PAUSE_SECONDS))
        return connection.ask(request, timeout_seconds=seconds)

    def _join(self) -> None:
        self._wants_to_join = False
        if self._protocol == "default" and self.held():
            self._lose()  # eager: everything is let go before work is distributed
        state, last = WorkerState(self._url, self._offset(), self.held()), self._last
        leader, leader_url = ("", "") if last is None else (last.leader, last.leader_url)
        protocols = [
            JoinGroupRequestProtocol(
                name=name, metadata=encode_state(state, VERSIONS[name], leader, leader_url)
            )
            for name in self._offered
        ]
        try:
            answer: JoinGroupResponse = self._ask(
                JoinGroupRequest(
                    group_id=self._group_id,
                    session_timeout_ms=self._session_ms,
                    rebalance_timeout_ms=self._rebalance_ms,
                    member_id=self._member_id,
                    protocol_type=PROTOCOL_TYPE,
                    protocols=protocols,
                ),
                self._rebalance_ms,
            )
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
                self._wants_to_join = True
                return
            self._check(answer.error_code, "join")
            self._member_id = answer.member_id
            self._sync(answer)
        except BaseException:
            self._wants_to_join = True
            raise

    def _sync(self, joined: JoinGroupResponse) -> None:
        protocol = joined.protocol_name or self._offered[0]
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            states = {each.member_id: decode_state(bytes(each.metadata)) for each in joined.members}
            made = self._distribute(joined.leader, states, protocol)
            version = VERSIONS[protocol]
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(each, version))
                for member, each in made.items()
            ]
        answer = self._ask(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=protocol,
                assignments=assignments,
            ),
            self._rebalance_ms,
        )
        self._check(answer.error_code, "sync with")
        self._take(decode_assignment(bytes(answer.assignment)), joined.generation_id, protocol)

    def _distribute(
        self, leader: str, states: dict[str, WorkerState], protocol: str
    ) -> dict[str, Assignment]:
        assert self._listener is not None
        url = states[leader].url
        read_to = max(each.offset for each in states.values())
        found = self._listener.wanted(read_to)
        if found is None:
            log.warning("the configuration was not read up to offset %d: work is not distributed", read_to)
            mismatch = Assignment(leader, url, read_to, error=CONFIG_MISMATCH)
            return dict.fromkeys(states, mismatch)
        wanted, offset = found
        before = {member: self._before.get(state.url, NOTHING) for member, state in states.items()}
        held = {member: state.held for member, state in states.items()}
        shares = assign(held, wanted, before)
        owners: dict[TaskId, str] = {}
        for member, state in states.items():
            now = (state.held - shares[member].revoked) | shares[member].assigned
            self._before[state.url] = now or self._before.get(state.url, NOTHING)
            owners |= dict.fromkeys(now, state.url)
        self._owners = owners
        if len(self._before) > _REMEMBERED_WORKERS:
            self._before = {state.url: self._before[state.url] for state in states.values()}
        return {
            member: Assignment(leader, url, offset, share.assigned, share.revoked)
            for member, share in shares.items()
        }

    def _take(self, assignment: Assignment, generation: int, protocol: str) -> None:
        with self._lock:
            self._generation, self._protocol, self._last = generation, protocol, assignment
            self._heard_at = time.monotonic()
            self._held = self._held | assignment.assigned
            self._revoked = assignment.revoked & self._held
            is_leader = assignment.leader == self._member_id
        log.info(
            "generation %d of group %s (%s): %d to start, %d to stop; the leader is %s%s",
            generation,
            self._group_id,
            protocol,
            len(assignment.assigned),
            len(assignment.revoked),
            assignment.leader_url,
            " (this worker)" if is_leader else "",
        )
        if assignment.error == CONFIG_MISMATCH:
            self._stopping.wait(_PAUSE_SECONDS)
            self._wants_to_join = True
            return
        assert self._listener is not None
        self._listener.assigned(assignment.offset)

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self._group_id, generation_id=self._generation, member_id=self._member_id
        )
        answer = self._ask(request)
        self._check(answer.error_code, "stay in")
        self._heard_at = time.monotonic()

    def _check(self, error_code: int, deed: str) -> None:
        """Return for success; join again where the group says so. Retriable, RequestRefused."""
        if error_code in _REJOIN:
            self._wants_to_join = True
            self._heard_at = time.monotonic()
            if deed != "stay in":
                raise Retriable(error_words(error_code))
            return
        if error_code in _UNKNOWN:
            self._member_id = "" if error_code != ErrorCode.ILLEGAL_GENERATION else self._member_id
            self._lose()
            raise Retriable(error_words(error_code))
        if error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise RequestRefused(
                f"the group {self._group_id} is used by other programs, or by workers of another "
                f"connect.protocol: "
                "choose another group.id",
                error_code,
            )
        check(error_code, f"{deed} group {self._group_id}")

    def _leave(self) -> None:
        if not self._member_id:
            return
        try:
            connection = self._cluster.coordinator(self._group_id, GROUP)
            request = LeaveGroupRequest(
                group_id=self._group_id, members=[MemberIdentity(member_id=self._member_id)]
            )
            if connection.version_of(LeaveGroupRequest) < _LEAVE_BY_MEMBERS:
                request = LeaveGroupRequest(group_id=self._group_id, member_id=self._member_id)
            connection.ask(request, timeout_seconds=2.0)
        except (Retriable, ClientError, OSError) as problem:
            log.info("group %s was not left: %s", self._group_id, problem)
