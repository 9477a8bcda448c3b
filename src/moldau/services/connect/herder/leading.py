"""What only the leader writes: it claims the configuration, is fenced by the next one, and gives the group
its keys.

    the group says: leader ──> claim (fences the leader before) ──> write ...
    a write is refused as fenced ──> another worker has claimed: join again, so that the group says who leads;
                                     until it has, nothing is claimed back
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from moldau.client.errors import ClientError
from moldau.services.connect.herder.loop import Loop
from moldau.services.connect.herder.parts import RETRY_SECONDS, Parts
from moldau.services.connect.herder.problems import elsewhere
from moldau.services.connect.herder.signing import key_needed
from moldau.services.connect.stores.configs import Record, session_key_record
from moldau.services.connect.stores.kafka_log import LogFailed, NotWritten

log = logging.getLogger("moldau.connect.herder")


class Leading:
    """On the loop, but for `require` and `not_written`."""

    def __init__(self, parts: Parts, loop: Loop, is_closing: Callable[[], bool]) -> None:
        self._settings, self._stores, self._membership = parts.settings, parts.stores, parts.membership
        self._loop, self._is_closing = loop, is_closing
        self._renews_key = False
        self._has_claimed = False
        self._fenced_in: int | None = None
        """The generation in which somebody else claimed the configuration: in it, nothing is claimed back."""

    def require(self) -> None:
        """Go on only as the leader. NotLeader."""
        if not self._membership.is_leader:
            raise elsewhere(self._membership.leader_url)

    def write(self, records: Sequence[Record], *, as_leader: bool = True) -> None:
        """NotWritten: also where another worker leads by now, as its claim shows. Whether it does, the group
        must say, before this one may claim the configuration again."""
        try:
            self._stores.write_configs(records, as_leader=as_leader)
        except NotWritten as problem:
            self.not_written(problem)
            raise

    def not_written(self, problem: NotWritten) -> None:
        """A write as the leader was refused."""
        if problem.fenced and self._has_claimed:
            self._has_claimed, self._fenced_in = False, self._membership.generation
            self._membership.join_again()

    def assigned(self) -> None:
        """There is a new generation: a leader claims the configuration, and gives the group a key to sign
        with."""
        if not self._membership.is_leader:
            self._has_claimed = False
            return
        if not self._has_claimed:
            if self._membership.generation == self._fenced_in:
                self._membership.join_again()
                return
            try:
                self._stores.claim()
            except (NotWritten, ClientError) as problem:
                log.error("%s", problem)
                self._loop.soon(self.assigned, RETRY_SECONDS)
                return
            self._has_claimed, self._fenced_in = True, None
        self._renew_key()

    def _renew_key(self) -> None:
        if self._is_closing() or not (self._membership.is_leader and self._membership.signs_requests):
            return
        now_ms = int(time.time() * 1000)
        new = key_needed(self._stores.configs().session_key, self._settings, now_ms)
        if new is not None:
            try:
                self.write([session_key_record(new)])
            except (NotWritten, LogFailed, TimeoutError) as problem:
                log.error("the key of the group was not written: %s", problem)
                self._loop.soon(self._renew_key, RETRY_SECONDS)
                return
        if self._settings.inter_worker_key_ttl_ms > 0 and not self._renews_key:
            self._renews_key = True
            self._loop.soon(self._renew_key_again, max(self._settings.inter_worker_key_ttl_ms / 1000, 1.0))

    def _renew_key_again(self) -> None:
        self._renews_key = False
        self._renew_key()
