"""Logs members that are removed after a timeout: one line each, with the group, the member, its host, what it
did not do and the timeout.

That is where the reason of a rebalance is found. A network that fails removes ten thousand members at once:
in each interval the first ones get a line of their own, the rest are counted by group, and a line at the
interval's end has the counts.

Not here: members that leave, and who decides that one is removed (classic/rebalance.py, consumer/service.py).
"""

import logging
from collections import Counter

from moldau.common.core.timers import TimerHandle, Timers

LINES_MAX = 20
"""Lines with a member each in one interval."""
INTERVAL_MS = 10_000
GROUPS_MAX = 5
"""Groups that the line about the others names."""

_log = logging.getLogger("moldau.coordinator.group.removals")


class Removals:
    """One for all groups of a broker."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._timer: TimerHandle | None = None
        self._lines = 0
        self._unlogged: Counter[str] = Counter()

    def removed(self, group_id: str, member_id: str, host: str, cause: str) -> None:
        """A member is removed. `cause` goes on after "because it" and tells the limit."""
        if self._timer is None:
            self._timer = self._timers.call_later(INTERVAL_MS, self._interval_over)
        if self._lines >= LINES_MAX:
            self._unlogged[group_id] += 1
            return
        self._lines += 1
        place = host.lstrip("/") or "an unknown host"
        _log.info("group %s: member %s (%s) is removed because it %s", group_id, member_id, place, cause)

    def stop(self) -> None:
        """Log what is counted."""
        if self._timer is not None:
            self._timer.cancel()
            self._interval_over()

    def _interval_over(self) -> None:
        unlogged, self._unlogged = self._unlogged, Counter()
        self._timer, self._lines = None, 0
        if not unlogged:
            return
        named = ", ".join(
            f"{count} of group {group_id}" for group_id, count in unlogged.most_common(GROUPS_MAX)
        )
        others = len(unlogged) - GROUPS_MAX
        if others > 0:
            named += f", the others of {others} more group{'s' if others > 1 else ''}"
        _log.info("%d more members were removed for such reasons: %s", unlogged.total(), named)
