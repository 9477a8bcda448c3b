"""Logs that the metadata has and the start did not find whole: which may be made again, and where they begin.

    its directory was offline            not made: it may be there, and would be twice when the disk is back
    withheld                             not made until another replica leads: an empty log must not lead
    checkpoints tell of its records      made again: at its former end, or at 0 where a leader has them all
    never heard of                       made: it is new

Not here: who decides that a log is withheld (replication/losses.py), logs whose files cannot be read
(unopened.py).
"""

import logging
from collections.abc import Iterable, Sequence

logger = logging.getLogger("moldau.log.manager")

Key = tuple[str, int]
"""Topic and partition."""


class MissingLogs:
    """What one start has found."""

    def __init__(
        self,
        unread: Sequence[str] = (),
        saved_ends: dict[Key, int] | None = None,
        short: frozenset[Key] = frozenset(),
        *,
        stopped_clean: bool = False,
    ) -> None:
        """`saved_ends`: by checkpoints, where logs ended that have no folder. `stopped_clean`: whether the
        last run had, in every directory.
        """
        self.unread_directories = unread
        """Log directories that were offline when the others were read."""
        self.short = short
        """Logs that ended before the offset that their checkpoints promise."""
        self._saved_ends = saved_ends or {}
        self._stopped_clean = stopped_clean
        self._starting = True
        self._withheld: dict[Key, str] = {}
        """Logs that must not be made again, and why."""
        self._start_offsets: dict[tuple[bytes, int], int] = {}
        """By topic id and partition: where logs begin that could not be made yet."""

    def had_folder(self, key: Key) -> bool:
        """At the start: whether checkpoints tell of a log that has no folder any more."""
        return key in self._saved_ends

    def withhold(self, keys: Iterable[Key]) -> None:
        """At the start: do not make these logs again; their partitions are offline."""
        cause = (
            "its folder is missing, and no other replica has all of its records: put the folder back and "
            "restart the broker, or elect another replica (kafka-leader-election --election-type unclean)"
        )
        for key in keys:
            logger.error("%s-%d is offline: %s", *key, cause)
            self._withheld[key] = cause

    def is_withheld(self, key: Key) -> bool:
        """Whether this log is missing, and must not be made again."""
        return key in self._withheld

    def withhold_no_more(self, key: Key) -> None:
        """Another replica leads: this log is made again, empty, and follows."""
        if self._withheld.pop(key, None) is not None:
            logger.warning(
                "%s-%d is made again, empty, since its folder is missing and another replica leads now", *key
            )

    def start_is_over(self) -> None:
        """All partitions in the metadata have their logs: those made from now on are new."""
        self._starting = False
        self._saved_ends.clear()

    def why_not_made(self, key: Key, *, has_files: bool) -> str | None:
        """Why this log must not be made; None: it may be. `has_files`: there were files of another topic."""
        if self._starting and not has_files and self.unread_directories:
            return f"the log directory {', '.join(self.unread_directories)} is offline, and may hold it"
        return self._withheld.get(key)

    def end_offset(self, key: Key, *, sole_copy: bool) -> int:
        """The end offset that this log had reached, which has no folder at the start; told to the person who
        runs the broker.
        """
        if not self._starting:
            return 0
        known = key in self._saved_ends
        end_offset = self._saved_ends.pop(key, 0)
        if end_offset and not sole_copy:
            logger.error(
                "%s-%d has no folder, and had one with records up to offset %d: it is made again, and gets "
                "them from its leader",
                *key,
                end_offset,
            )
        elif end_offset:
            logger.error(
                "%s-%d has no folder, and had one with records up to offset %d: they are lost. It goes on "
                "empty at that offset. If the folder was moved away, stop the broker, remove the new one and "
                "put it back",
                *key,
                end_offset,
            )
        elif known and self._stopped_clean:
            # (Else it was never made: the broker stopped before its turn came.)
            logger.warning("%s-%d had no folder, although the last stop was in order: it is made anew", *key)
        return end_offset

    def begins_at(self, topic_id: bytes, partition: int, start_offset: int) -> int:
        """Where the log begins when it is made, now or later: the disk may refuse now what it takes then."""
        return self._start_offsets.setdefault((topic_id, partition), start_offset)

    def made(self, topic_id: bytes, partition: int) -> None:
        """The log is made."""
        self._start_offsets.pop((topic_id, partition), None)
