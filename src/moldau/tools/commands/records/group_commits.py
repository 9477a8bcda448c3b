"""Commits the offsets of what `moldau consume --group` has printed, and says why that cannot be done.

librdkafka's commit at close waits for as long as the coordinator refuses (a full disk: the offsets topic
cannot be written) and keeps the reason to itself. So offsets are committed here, at intervals, when
partitions are revoked, and at the end, each within the command's timeout; what the cluster says about the
cause is asked for when that is over (shared/causes.py). A commit that a rebalance overtakes is left out, as
by any consumer: the next owner reads these records again.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from moldau.tools.shared.causes import why_stalled
from moldau.tools.shared.errors import CommandError, explain_kafka_error

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from moldau.tools.shared.connection import Connection

INTERVAL_SECONDS = 5.0
_OVERTAKEN = frozenset(
    {"REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}
)


class GroupCommits:
    """One group member's commits. Methods run on the thread that polls."""

    def __init__(self, consumer: Consumer, group: str, connection: Connection) -> None:
        self.refused = False
        """A commit was not taken: closing the consumer would wait for it."""
        self._consumer = consumer
        self._group = group
        self._connection = connection
        self._timeout_seconds = connection.timeout_seconds
        self._joining_since: float | None = time.monotonic()
        self._due_at = time.monotonic() + INTERVAL_SECONDS
        self._next: dict[tuple[str, int], int] = {}

    def assigned(self) -> None:
        """The group has assigned partitions, or none."""
        self._joining_since = None

    def revoked(self, partitions: list[Any]) -> None:
        """Others read these from now on."""
        self._commit()
        for each in partitions:
            self._next.pop((each.topic, each.partition), None)

    def printed(self, message: Any) -> None:
        """Its offset is to be committed."""
        self._next[message.topic(), message.partition()] = message.offset() + 1

    def tick(self) -> None:
        """Commit what is due. CommandError when it, or joining the group, is not done in time, for a cause
        that the cluster tells.
        """
        now = time.monotonic()
        if self._joining_since is not None and now - self._joining_since > self._timeout_seconds:
            self._joining_since = now  # others may still be leaving: without a cause, wait on
            cause = why_stalled(self._connection, coordinators=True)
            if cause:
                self.refused = True
                raise CommandError(f"group {self._group} does not let this member in: {cause}")
        if now >= self._due_at:
            self._commit()
            self._due_at = time.monotonic() + INTERVAL_SECONDS

    def finish(self) -> None:
        """Commit what is left. CommandError as `tick`."""
        if not self.refused:
            self._commit()

    def _commit(self) -> None:
        if not self._next or self.refused:
            return
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(*place, offset) for place, offset in self._next.items()]
        done: list[Any] = []

        def run() -> None:
            try:
                rows = self._consumer.commit(offsets=offsets, asynchronous=False)
                done.append(next((each.error for each in rows if each.error), None))
            except KafkaException as failure:
                done.append(failure.args[0])

        # The call has no timeout of its own.
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self._timeout_seconds)
        if done and done[0] is None:
            self._next.clear()
            return
        if done and done[0].name() in _OVERTAKEN:
            return
        self.refused = True
        said = explain_kafka_error(done[0]) if done else f"no answer in {self._timeout_seconds:g} s"
        cause = why_stalled(self._connection, coordinators=True)
        raise CommandError(
            f"the offsets of what was printed could not be committed for group {self._group} ({said}), and "
            f"will be read again{f': {cause}' if cause else ''}"
        )
