"""The last commits of one partition by one group, and what follows from them.

A commit that comes sooner than `distance_ms` after the one before replaces it and keeps that one's time, so
that a consumer that commits each record does not shrink the window to a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from moldau.services.lag.verdicts import Commit


class Window:
    """A ring of `size` commits."""

    __slots__ = ("client_id", "commits", "owner", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.commits: deque[Commit] = deque(maxlen=size)
        self.owner = ""
        """The host of the member that holds the partition."""
        self.client_id = ""

    def add(self, commit: Commit, distance_ms: int) -> None:
        """Take one more commit; one that is older than the last (read again) is passed over."""
        if self.commits:
            last = self.commits[-1]
            if commit.timestamp_ms < last.timestamp_ms:
                return
            if commit.timestamp_ms - last.timestamp_ms < distance_ms:
                self.commits[-1] = commit._replace(timestamp_ms=last.timestamp_ms)
                return
        self.commits.append(commit)

    @property
    def last(self) -> Commit | None:
        """The newest commit."""
        return self.commits[-1] if self.commits else None

    @property
    def complete(self) -> float:
        """The share of the window that is filled."""
        return len(self.commits) / self.size

    def held_since_ms(self) -> int | None:
        """When the committed offset was first committed, as far as the window goes back."""
        if not self.commits:
            return None
        since = self.commits[-1]
        for each in reversed(self.commits):
            if each.offset != since.offset:
                break
            since = each
        return since.timestamp_ms


class Ends:
    """The end offsets of one partition as they were seen, each with its time.

    They are the log's clock: the age of an unread record is how long ago the end passed it.
    """

    __slots__ = ("seen",)

    def __init__(self, size: int) -> None:
        self.seen: deque[tuple[int, int]] = deque(maxlen=size)
        """(time in ms, end offset), old to new."""

    def add(self, now_ms: int, end: int) -> None:
        """An end; one lower than before (topic made anew, log cut) ends what was known."""
        if self.seen and end < self.seen[-1][1]:
            self.seen.clear()
        # Of a run of equal ends the first and the last tell all.
        if len(self.seen) > 1 and self.seen[-1][1] == end == self.seen[-2][1]:
            self.seen[-1] = (now_ms, end)
        else:
            self.seen.append((now_ms, end))

    @property
    def last(self) -> int | None:
        """The newest end offset."""
        return self.seen[-1][1] if self.seen else None

    def offsets(self) -> list[int]:
        """Old to new."""
        return [end for _, end in self.seen]

    def passed_ms(self, offset: int) -> int | None:
        """About when the end passed `offset` (the record there was written); None: before all that was seen.

        Between two looks the end is taken to have grown evenly.
        """
        earlier: tuple[int, int] | None = None
        for at, end in self.seen:
            if end > offset:
                if earlier is None:
                    return None
                began, start = earlier
                return began + (at - began) * max(0, offset - start) // max(1, end - start)
            earlier = (at, end)
        return None


def rate_per_second(points: Iterable[tuple[int, int]]) -> float | None:
    """Offsets a second between the first and the last of (time in ms, offset); None: too little is known."""
    found = list(points)
    if len(found) < 2 or found[-1][0] - found[0][0] < 1000:
        return None
    return (found[-1][1] - found[0][1]) / (found[-1][0] - found[0][0]) * 1000
