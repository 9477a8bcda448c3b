"""What is known of one cluster's topics and groups; readers fill it, routes and notifiers look.

Safe between threads: every method holds the lock for what it does, and returns copies. A group that has
committed nothing for `expire_ms`, and one that the cluster does not list any more, is forgotten, with its
series; so is a partition whose topic is gone or which the group has not committed for as long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.services.lag.verdicts import Commit, Verdict, judge
from moldau.services.lag.window import Ends, Window, rate_per_second

Place = tuple[str, int]
"""Topic and partition."""
_PARTITIONS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Burrow's settings of storage and evaluator; times in milliseconds."""

    intervals: int = 10
    distance_ms: int = 0
    expire_ms: int = 7 * 24 * 3_600_000
    allowed_lag: int = 0
    stop_after_ms: int = 60_000
    minimum_complete: float = 0.0
    ends: int = 30
    """How many looks at the end are remembered."""


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition of a group, judged."""

    topic: str
    partition: int
    owner: str
    client_id: str
    verdict: Verdict
    start: Commit | None
    end: Commit | None
    lag: int
    complete: float
    held_since_ms: int | None
    """Since when the committed offset has not moved."""
    lag_seconds: float | None
    """Age of the oldest unread record; 0 without lag; None: not known (yet)."""
    seconds_to_end: float | None
    """When it is caught up at the pace of the window; None: never at that pace, or not known."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group, judged by its worst partition."""

    cluster: str
    group: str
    verdict: Verdict
    complete: float
    partitions: tuple[PartitionStatus, ...]
    total_lag: int

    @property
    def worst(self) -> PartitionStatus | None:
        """The partition with the largest lag."""
        return max(self.partitions, key=lambda each: each.lag, default=None)

    @property
    def lag_seconds(self) -> float | None:
        """Of the partition that is furthest behind in time, among those where it is known."""
        return max(
            (each.lag_seconds for each in self.partitions if each.lag_seconds is not None), default=None
        )


class Detail(NamedTuple):
    """The window of one partition, as /consumer/GROUP shows it."""

    commits: tuple[Commit, ...]
    size: int
    owner: str
    client_id: str
    lag: int


@dataclass(slots=True)
class _Group:
    windows: dict[Place, Window] = field(default_factory=dict)


class ClusterStore:
    """One cluster."""

    def __init__(
        self, name: str, limits: Limits, accepts: Callable[[str], bool] = lambda group: True
    ) -> None:
        self.name = name
        self.limits = limits
        self._accepts = accepts
        self._lock = threading.Lock()
        self._ends: dict[Place, Ends] = {}
        self._groups: dict[str, _Group] = {}
        self._written_ms: dict[Place, tuple[int, int]] = {}
        """By place: an offset and when the record there was written, as the log says."""

    # What readers say

    def commit(self, group: str, place: Place, offset: int, timestamp_ms: int, now_ms: int) -> None:
        """A group has committed an offset. A time to come (a broker's clock was ahead) is taken for now, or
        what is committed later would count as read again; a partition that no topic has is passed over."""
        if not self._accepts(group) or now_ms - timestamp_ms > self.limits.expire_ms:
            return
        if not 0 <= place[1] < _PARTITIONS_MAX:
            return
        timestamp_ms = min(timestamp_ms, now_ms)
        with self._lock:
            found = self._groups.setdefault(group, _Group())
            window = found.windows.get(place)
            if window is None:
                window = found.windows[place] = Window(self.limits.intervals)
            ends = self._ends.get(place)
            end = ends.last if ends is not None else None
            lag = None if end is None else max(0, end - offset)
            window.add(Commit(offset, timestamp_ms, now_ms, lag), self.limits.distance_ms)

    def forget_commit(self, group: str, place: Place) -> None:
        """The committed offset was deleted; the last one takes the group along."""
        with self._lock:
            found = self._groups.get(group)
            if found is not None:
                found.windows.pop(place, None)
                if not found.windows:
                    del self._groups[group]

    def saw_ends(self, ends: Mapping[Place, int], now_ms: int) -> None:
        """The end offsets of partitions, looked up at this time."""
        with self._lock:
            for place, end in ends.items():
                known = self._ends.get(place)
                if known is None:
                    known = self._ends[place] = Ends(self.limits.ends)
                known.add(now_ms, end)

    def saw_topics(self, counts: Mapping[str, int]) -> None:
        """The cluster's topics and their partition counts: what is not among them is gone."""
        with self._lock:
            for place in [each for each in self._ends if counts.get(each[0], 0) <= each[1]]:
                del self._ends[place]
                self._written_ms.pop(place, None)
            for name, group in list(self._groups.items()):
                for place in [each for each in group.windows if counts.get(each[0], 0) <= each[1]]:
                    del group.windows[place]
                if not group.windows:
                    del self._groups[name]

    def saw_owners(self, group: str, owners: Mapping[Place, tuple[str, str]]) -> None:
        """The members of a group: host and client id by partition."""
        with self._lock:
            found = self._groups.get(group)
            for place, window in found.windows.items() if found is not None else ():
                window.owner, window.client_id = owners.get(place, ("", ""))

    def saw_groups(self, names: Iterable[str]) -> None:
        """The groups that the cluster lists: others are gone."""
        listed = set(names)
        with self._lock:
            for name in [each for each in self._groups if each not in listed]:
                del self._groups[name]

    def saw_written(self, place: Place, offset: int, written_ms: int) -> None:
        """The record at (or next behind) an offset was written at this time, as the log says."""
        with self._lock:
            self._written_ms[place] = (offset, written_ms)

    def expire(self, now_ms: int) -> None:
        """Forget what has not been committed for long."""
        before = now_ms - self.limits.expire_ms
        with self._lock:
            for name, group in list(self._groups.items()):
                for place, window in list(group.windows.items()):
                    if window.last is None or window.last.timestamp_ms < before:
                        del group.windows[place]
                if not group.windows:
                    del self._groups[name]

    def delete_group(self, group: str, topic: str | None = None) -> None:
        """Forget a group, or a topic of it, until it commits again."""
        with self._lock:
            found = self._groups.get(group)
            if found is None:
                return
            for place in [each for each in found.windows if topic is None or each[0] == topic]:
                del found.windows[place]
            if not found.windows:
                del self._groups[group]

    # What others ask

    def groups(self) -> list[str]:
        """In order."""
        with self._lock:
            return sorted(self._groups)

    def topics(self) -> list[str]:
        """In order."""
        with self._lock:
            return sorted({topic for topic, _ in self._ends})

    def ends_of(self, topic: str) -> list[int] | None:
        """The last end offset of each partition, -1 where none is known; None: no such topic."""
        with self._lock:
            found = {place[1]: ends.last for place, ends in self._ends.items() if place[0] == topic}
        if not found:
            return None
        return [end if (end := found.get(index)) is not None else -1 for index in range(max(found) + 1)]

    def consumers_of(self, topic: str) -> list[str]:
        """The groups that have committed offsets of a topic."""
        with self._lock:
            return sorted(
                name
                for name, group in self._groups.items()
                if any(place[0] == topic for place in group.windows)
            )

    def places(self) -> set[Place]:
        """The partitions that some group has committed."""
        with self._lock:
            return {place for group in self._groups.values() for place in group.windows}

    def unknown_ages(self, now_ms: int) -> list[tuple[Place, int, int]]:
        """Where a look into the log would tell how old the oldest unread record is: place, offset, lag; the
        largest lag first."""
        found: dict[tuple[Place, int], int] = {}
        with self._lock:
            for group in self._groups.values():
                for place, window in group.windows.items():
                    last, ends = window.last, self._ends.get(place)
                    if last is None or ends is None or (ends.last or 0) <= last.offset:
                        continue
                    if self._written(place, ends, last.offset) is None:
                        found[place, last.offset] = (ends.last or 0) - last.offset
        rows = [(place, offset, lag) for (place, offset), lag in found.items()]
        return sorted(rows, key=lambda row: -row[2])

    def details(self, group: str) -> dict[str, dict[int, Detail]] | None:
        """The windows of a group by topic and partition; None: it is not known."""
        with self._lock:
            found = self._groups.get(group)
            if found is None:
                return None
            topics: dict[str, dict[int, Detail]] = {}
            for (topic, index), window in sorted(found.windows.items()):
                lag = self._lag((topic, index), window)
                topics.setdefault(topic, {})[index] = Detail(
                    tuple(window.commits), window.size, window.owner, window.client_id, lag
                )
            return topics

    def status(self, group: str, now_ms: int) -> GroupStatus | None:
        """A group, judged now; None: it is not known."""
        with self._lock:
            found = self._groups.get(group)
            if found is None:
                return None
            partitions = tuple(
                self._judged(place, window, now_ms) for place, window in sorted(found.windows.items())
            )
        worst = max((each.verdict for each in partitions), default=Verdict.OK)
        whole = sum(each.complete == 1.0 for each in partitions)
        return GroupStatus(
            self.name,
            group,
            min(worst, Verdict.ERR),
            whole / len(partitions) if partitions else 0.0,
            partitions,
            sum(each.lag for each in partitions),
        )

    def _lag(self, place: Place, window: Window) -> int:
        ends, last = self._ends.get(place), window.last
        if ends is None or ends.last is None or last is None:
            return 0
        return max(0, ends.last - last.offset)

    def _written(self, place: Place, ends: Ends, offset: int) -> int | None:
        """When the record at this offset was written, from what was seen or looked up."""
        at, written_ms = self._written_ms.get(place, (-1, 0))
        return written_ms if at == offset else ends.passed_ms(offset)

    def _judged(self, place: Place, window: Window, now_ms: int) -> PartitionStatus:
        lag = self._lag(place, window)
        ends = self._ends.get(place)
        verdict = Verdict.OK
        commits = tuple(window.commits)
        if commits and window.complete >= self.limits.minimum_complete and ends is not None:
            verdict = judge(
                commits,
                ends.offsets(),
                lag,
                now_ms,
                allowed_lag=self.limits.allowed_lag,
                stop_after_ms=self.limits.stop_after_ms,
            )
        seconds: float | None = 0.0 if not lag else None
        if lag and ends is not None and commits:
            written_ms = self._written(place, ends, commits[-1].offset)
            seconds = None if written_ms is None else max(0.0, (now_ms - written_ms) / 1000)
        return PartitionStatus(
            topic=place[0],
            partition=place[1],
            owner=window.owner,
            client_id=window.client_id,
            verdict=verdict,
            start=commits[0] if commits else None,
            end=commits[-1] if commits else None,
            lag=lag,
            complete=window.complete,
            held_since_ms=window.held_since_ms(),
            lag_seconds=seconds,
            seconds_to_end=_seconds_to_end(lag, window, ends),
        )


def _seconds_to_end(lag: int, window: Window, ends: Ends | None) -> float | None:
    if not lag:
        return 0.0
    read = rate_per_second((each.timestamp_ms, each.offset) for each in window.commits)
    written = rate_per_second(ends.seen) if ends is not None else None
    if read is None or written is None or read <= written:
        return None
    return lag / (read - written)
