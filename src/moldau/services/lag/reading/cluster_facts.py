"""What a cluster is asked for: topics, end offsets, groups and their members, and how old unread records are.

One thread a cluster, one client; each question has an interval. Where `__consumer_offsets` may not be read
(hosted clusters), committed offsets are asked for, too: an offset that has not moved counts as committed
again while the group has members, so that a group that stands still is told from one that has stopped.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moldau.client.admin.groups import (
    Listed,
    committed_offsets,
    describe_groups,
    end_offsets,
    list_groups,
)
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.fetcher import fetch_range
from moldau.services.lag.store import ClusterStore, Place

log = logging.getLogger("moldau.lag")

_LOOKUPS_AT_ONCE = 50
_LOOKUP_BYTES = 1
"""The broker gives one whole batch all the same."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds."""

    topics: float = 60.0
    offsets: float = 10.0


class ClusterFacts:
    """Asks, and tells the store."""

    def __init__(
        self,
        store: ClusterStore,
        connect: Callable[[], Cluster],
        intervals: Intervals,
        *,
        asks_for_commits: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._connect, self._intervals = store, connect, intervals
        self._asks_for_commits, self._clock = asks_for_commits, clock
        self._cluster: Cluster | None = None
        self._due_topics = 0.0
        self._counts: dict[str, int] = {}
        self._described: set[str] = set()
        self._stopping = threading.Event()
        self.trouble: str | None = None
        """Why the last look failed."""
        self.looks = 0
        """How often all was looked at."""
        self._thread = threading.Thread(target=self._run, name=f"lag-facts-{store.name}", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """End asking."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(15)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
                if self.trouble is not None:
                    log.info("cluster %s answers again", self._store.name)
                self.trouble = None
            except (ClientError, OSError) as problem:
                if self.trouble is None:
                    log.warning("cluster %s cannot be asked: %s", self._store.name, problem)
                self.trouble = str(problem)
                self._close()
            except Exception as problem:
                log.exception("cluster %s: a look at its groups failed", self._store.name)
                self.trouble = f"{type(problem).__name__}: {problem}"
                self._close()
            self._stopping.wait(self._intervals.offsets)
        self._close()

    def look(self) -> None:
        """Everything that is due. ClientError, OSError."""
        if self._cluster is None:
            self._cluster = self._connect()
        now = self._clock()
        if now >= self._due_topics:
            self._look_at_topics(self._cluster)
            self._look_at_groups(self._cluster)
            self._due_topics = now + self._intervals.topics
        # Ends before commits: a commit is compared with an end that is not older than itself.
        places = [(topic, index) for topic, count in self._counts.items() for index in range(count)]
        ends = end_offsets(self._cluster, places)
        self._store.saw_ends(ends, int(self._clock() * 1000))
        if self._asks_for_commits():
            self._look_at_commits(self._cluster)
        new = set(self._store.groups()) - self._described
        if new:  # others when their turn comes
            self._look_at_members(self._cluster, list_groups(self._cluster), new)
        self._look_up_ages(self._cluster)
        self._store.expire(int(self._clock() * 1000))
        self.looks += 1

    def _look_at_topics(self, cluster: Cluster) -> None:
        self._counts = cluster.topics()
        self._store.saw_topics(self._counts)

    def _look_at_groups(self, cluster: Cluster) -> None:
        listed = list_groups(cluster)
        self._store.saw_groups(each.group_id for each in listed)
        self._described.clear()
        self._look_at_members(cluster, listed, set(self._store.groups()))

    def _look_at_members(self, cluster: Cluster, listed: Sequence[Listed], wanted: set[str]) -> None:
        """Who holds which partition, of the groups that are wanted."""
        self._described |= wanted
        for group in describe_groups(cluster, [each for each in listed if each.group_id in wanted]):
            owners = {
                place: (member.host.lstrip("/"), member.client_id)
                for member in group.members
                for place in member.assignment
            }
            self._store.saw_owners(group.group_id, owners)

    def _look_at_commits(self, cluster: Cluster) -> None:
        now_ms = int(self._clock() * 1000)
        listed = list_groups(cluster)
        for each in listed:
            has_members = each.state.lower() not in ("empty", "dead")
            known = self._store.details(each.group_id) or {}
            for place, commit in committed_offsets(cluster, each.group_id).items():
                if commit.is_ledger:
                    continue
                detail = known.get(place[0], {}).get(place[1])
                moved = not detail or not detail.commits or detail.commits[-1].offset != commit.offset
                if moved or has_members:
                    self._store.commit(each.group_id, place, commit.offset, now_ms, now_ms)

    def _look_up_ages(self, cluster: Cluster) -> None:
        """How old the oldest unread records are that were written before the first look."""
        now_ms = int(self._clock() * 1000)
        for place, offset, _ in self._store.unknown_ages(now_ms)[:_LOOKUPS_AT_ONCE]:
            if self._stopping.is_set():
                return
            written_ms = self._written_ms(cluster, place, offset)
            if written_ms is not None:
                self._store.saw_written(place, offset, written_ms)

    @staticmethod
    def _written_ms(cluster: Cluster, place: Place, offset: int) -> int | None:
        try:
            batches = fetch_range(
                cluster, *place, offset, offset + 1, read_committed=False, max_bytes=_LOOKUP_BYTES
            )
            for batch in batches:
                # The first record's time for the batch: exact enough, and nothing is unpacked.
                return batch.base_timestamp_ms if batch.base_timestamp_ms >= 0 else None
        except ClientError:
            return None  # deleted by now, or not readable: the age stays unknown
        return None

    def _close(self) -> None:
        if self._cluster is not None:
            with contextlib.suppress(OSError):
                self._cluster.close()
            self._cluster = None
