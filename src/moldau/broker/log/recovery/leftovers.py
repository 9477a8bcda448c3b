"""Finishes or undoes interrupted deletions and compactions in a partition's directory, by file names alone,
before the log is opened.

    .deleted, .tmp     removed
    .cleaned           a compaction that was not finished: removed
    .swap              a compaction that was committed with `<base>.log.swap`: finished. Without that file, or
                       with a `.cleaned` at or below its base offset, it was not: removed
    .index alone       its log file is gone: removed

The order of the steps is that of log/compaction/swap.py, where it is explained; `.log` comes last in each, so
that a second crash finds what the first did. Kafka's own order is `.log` first: of its swaps the indexes may
be lost, which are rebuilt.

Not here: what is in the segments (recovery.py).
"""

import logging

from moldau.broker.log.files.descriptors import DescriptorLimit
from moldau.broker.log.files.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    CorruptSegment,
    Segment,
    file_name,
)
from moldau.common.core.files import Files

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"
LOG_LAST = tuple(reversed(SEGMENT_SUFFIXES))
"""The order in which a segment's files are renamed or removed."""

logger = logging.getLogger("moldau.log.leftovers")


class Leftovers:
    """One directory and the names in it."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._names = set(files.list_directory(directory))

    def names(self) -> list[str]:
        """The names that the directory holds now."""
        return sorted(self._names)

    def settle(self) -> list[str]:
        """Finish or undo; returns the names that the directory then holds."""
        self._forget_uncommitted()
        for name in self._ending(DELETED_SUFFIX, TEMPORARY_SUFFIX):
            self._remove(name)
        for name in sorted(self._ending(LOG_SUFFIX + SWAP_SUFFIX)):
            self._finish(_offset_in(name))
        self._adopt_rest()
        for name in self._ending(*SEGMENT_SUFFIXES[1:]):
            if name[:20].isdecimal() and file_name(_offset_in(name), LOG_SUFFIX) not in self._names:
                log_name = file_name(_offset_in(name), LOG_SUFFIX)
                logger.warning("%s/%s is removed: there is no %s", self._directory, name, log_name)
                self._remove(name)
        return sorted(self._names)

    # -- the steps ---------------------------------------------------------------------------------

    def _forget_uncommitted(self) -> None:
        """Swaps first, of them the log files first: a crash in between leaves what is still uncommitted."""
        cleaned = self._ending(CLEANED_SUFFIX)
        lowest = min((_offset_in(name) for name in cleaned if name[:20].isdecimal()), default=1 << 63)
        swaps = [name for name in self._ending(SWAP_SUFFIX) if _offset_in(name) >= lowest]
        for name in sorted(swaps, key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
            self._remove(name)
        for name in cleaned:
            self._remove(name)

    def _finish(self, base_offset: int) -> None:
        """A compacted segment takes the place of those whose offsets it covers."""
        log_name = file_name(base_offset, LOG_SUFFIX)
        last_offset, whole = self._last_offset(base_offset)
        if not whole and log_name in self._names:
            logger.error(
                "%s/%s cannot be read: what it was made from stays", self._directory, log_name + SWAP_SUFFIX
            )
            for suffix in SEGMENT_SUFFIXES:
                self._remove(file_name(base_offset, suffix) + SWAP_SUFFIX)
            return
        bases = sorted(_offset_in(name) for name in self._ending(LOG_SUFFIX) if name[:20].isdecimal())
        for source in bases:
            if base_offset <= source <= max(base_offset, last_offset):
                for suffix in LOG_LAST:
                    self._remove(file_name(source, suffix))
        for suffix in LOG_LAST:
            self._rename(file_name(base_offset, suffix) + SWAP_SUFFIX, file_name(base_offset, suffix))
        logger.info(
            "%s: finished a compaction that was interrupted, at offset %d", self._directory, base_offset
        )

    def _last_offset(self, base_offset: int) -> tuple[int, bool]:
        """The swap's last offset (below its base offset when empty), and whether all of it could be read."""
        swap = Segment(self._files, self._directory, base_offset, DescriptorLimit(), 0)
        last_offset, position = base_offset - 1, 0
        swap.fd = self._files.open(swap.path(LOG_SUFFIX) + SWAP_SUFFIX)
        try:
            swap.size_bytes = self._files.size_bytes(swap.fd)
            for place in swap.walk(0):
                last_offset, position = place.last_offset, place.position + place.size_bytes
        except CorruptSegment:
            return last_offset, False
        finally:
            swap.release_descriptor()
        return last_offset, position == swap.size_bytes

    def _adopt_rest(self) -> None:
        """Kafka finishes with the log file first, so that an index of it may not have its name yet."""
        for name in self._ending(SWAP_SUFFIX):
            final = name.removesuffix(SWAP_SUFFIX)
            if file_name(_offset_in(name), LOG_SUFFIX) in self._names and final not in self._names:
                self._rename(name, final)
            else:
                self._remove(name)

    # -- names -------------------------------------------------------------------------------------

    def _ending(self, *suffixes: str) -> list[str]:
        return sorted(name for name in self._names if name.endswith(suffixes))

    def _remove(self, name: str) -> None:
        if name in self._names:
            self._files.remove(f"{self._directory}/{name}")
            self._names.discard(name)

    def _rename(self, name: str, target: str) -> None:
        if name in self._names:
            self._files.rename(f"{self._directory}/{name}", f"{self._directory}/{target}")
            self._names.discard(name)
            self._names.add(target)


def _offset_in(name: str) -> int:
    return int(name[:20])
