"""The index of aborted transactions of one segment (KIP-98): read_committed consumers skip their records.

    00000000000000000042.txnindex
    | version 2 | producer id 8 | first offset 8 | last offset 8 | last stable offset 8 |   34 bytes, repeated

An entry belongs to the segment that holds the abort marker; its transaction may have begun before that. Last
offset is the marker's, so entries ascend by it. Last stable offset is that of the moment of the abort:
everything below was decided then, so a search for transactions that begin below some offset may stop at the
first entry whose last stable offset has reached it.

    search 40..50:   last offset < 40      skipped, whole blocks at once
                     40 ...                first offset < 50: a hit
                     last stable >= 50     the end

Most logs have no such entries, and then no file. The newest entries are in memory until the tail has grown,
the segment rolls or the log closes; those in the file are searched by a summary (one line a block of entries)
and read when they are needed, so that a closed segment costs next to nothing.

Unlike the other indexes this one must be complete: an entry that is lost lets an aborted record through.
Recovery therefore rebuilds it wherever it rebuilds anything, and a damaged file is rebuilt from the batches
(rebuild.py). Not here: when an entry is due (appending/writer.py), several segments (transactions.py).
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from moldau.common.core.crc import crc32c
from moldau.common.core.files import Files, write_fully

ENTRY = struct.Struct(">hqqqq")
_last_offset = attrgetter("last_offset")
VERSION = 0
TAIL_ENTRIES_MAX = 1024
"""How many entries stay in memory before they are written to the file."""
_BLOCK_ENTRIES = 256
_READ_BLOCKS = 64


class DamagedIndex(Exception):
    """The file holds something that an index of this segment cannot be."""


class AbortedTransaction(NamedTuple):
    """One entry."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The abort marker's."""
    last_stable_offset: int


class _Block(NamedTuple):
    """What is remembered of `_BLOCK_ENTRIES` entries of the file."""

    first_offset_min: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The index of one segment. OSError comes through from the files."""

    __slots__ = (
        "_blocks",
        "_checksum",
        "_files",
        "_tail",
        "_window",
        "file_entries",
        "last_offset",
        "path",
    )

    def __init__(self, files: Files, path: str) -> None:
        """An index without entries; `load` takes up what the file holds."""
        self._files = files
        self.path = path
        self.file_entries = 0
        self.last_offset = -1
        """The largest last offset, or -1."""
        self._checksum: int | None = 0
        self._blocks: list[_Block] = []
        self._tail: list[AbortedTransaction] = []
        self._window: tuple[int, list[AbortedTransaction]] | None = None

    def __len__(self) -> int:
        return self.file_entries + len(self._tail)

    @property
    def tail_entries(self) -> int:
        """How many entries are not yet in the file."""
        return len(self._tail)

    def append(self, entry: AbortedTransaction) -> None:
        """Add the transaction that was aborted last."""
        if entry.last_offset <= self.last_offset:
            raise ValueError(f"{entry} does not follow on an abort at offset {self.last_offset}")
        self._tail.append(entry)
        self.last_offset = entry.last_offset
        self._checksum = None

    def entries(self) -> Sequence[AbortedTransaction]:
        """All of them, by last offset."""
        return [*self._in_file(0, self.file_entries), *self._tail]

    def checksum(self) -> int:
        """A crc32c over all entries, 0 where there are none. DamagedIndex when they cannot be read."""
        if self._checksum is None:
            self._checksum = crc32c(b"".join(ENTRY.pack(VERSION, *entry) for entry in self.entries()))
        return self._checksum

    def overlapping(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The transactions that have an offset in the range, and whether no later segment can hold more."""
        found: list[AbortedTransaction] = []
        blocks = self._blocks
        number = bisect_left(blocks, start_offset, key=_last_offset)
        for place in range(number, len(blocks)):
            block = blocks[place]
            if block.first_offset_min < end_offset:
                if _collect(self._block(place), start_offset, end_offset, found):
                    return found, True
            elif block.last_stable_offset >= end_offset:
                return found, True
        return found, _collect(self._tail, start_offset, end_offset, found)

    def _block(self, place: int) -> list[AbortedTransaction]:
        """A block of the file; the last one asked for stays in memory, since a reader goes forward."""
        if self._window is None or self._window[0] != place:
            first = place * _BLOCK_ENTRIES
            stop = min(first + _BLOCK_ENTRIES, self.file_entries)
            self._window = place, list(self._in_file(first, stop))
        return self._window[1]

    def release_memory(self) -> None:
        """Nobody reads the segment any more: keep only the summary of the file in memory."""
        self._window = None

    # -- the file ----------------------------------------------------------------------------------

    def _in_file(self, start: int, stop: int) -> Iterator[AbortedTransaction]:
        """The file's entries from number `start` to `stop`; DamagedIndex when it does not hold them."""
        if start >= stop:
            return
        step = _BLOCK_ENTRIES * _READ_BLOCKS
        fd = self._files.open(self.path)
        try:
            while start < stop:
                count = min(step, stop - start)
                data = self._files.pread(fd, count * ENTRY.size, start * ENTRY.size)
                if len(data) < count * ENTRY.size:
                    raise DamagedIndex(f"{self.path} has become shorter")
                for version, *fields in ENTRY.iter_unpack(data):
                    if version != VERSION:
                        raise DamagedIndex(f"{self.path} has an entry of version {version}")
                    yield AbortedTransaction(*fields)
                start += count
        finally:
            self._files.close(fd)

    def load(self, base_offset: int) -> None:
        """Take up what the file holds, if there is one; DamagedIndex when it cannot be the index of a segment
        with this base offset. Reads all of it: an entry that is wrong would be found out too late.
        """
        self.clear()
        try:
            size_bytes = self._files.file_size_bytes(self.path)
        except FileNotFoundError:
            return
        if size_bytes % ENTRY.size:
            raise DamagedIndex(f"{self.path} breaks off in the middle of an entry")
        last_offset = base_offset - 1
        for entry in self._in_file(0, size_bytes // ENTRY.size):
            if not (last_offset < entry.last_offset and 0 <= entry.first_offset < entry.last_offset):
                self.clear()
                raise DamagedIndex(f"{self.path} cannot hold {entry} after an abort at {last_offset}")
            last_offset = entry.last_offset
            self._summarize(entry)
        self.last_offset = last_offset if self.file_entries else -1

    def _summarize(self, entry: AbortedTransaction) -> None:
        """An entry now is the file's last."""
        self._window = None
        self._checksum = None
        if self.file_entries % _BLOCK_ENTRIES:
            first_offset = min(self._blocks[-1].first_offset_min, entry.first_offset)
            self._blocks[-1] = _Block(first_offset, entry.last_offset, entry.last_stable_offset)
        else:
            self._blocks.append(_Block(entry.first_offset, entry.last_offset, entry.last_stable_offset))
        self.file_entries += 1

    def write(self, *, sync: bool = False) -> None:
        """Bring the file up to date: what memory holds goes in, what was forgotten is cut off."""
        if not len(self) and not self._files.exists(self.path):
            return
        fd = self._files.open(self.path, create=True)
        try:
            if self._tail:
                data = b"".join(ENTRY.pack(VERSION, *entry) for entry in self._tail)
                write_fully(self._files, fd, data, self.file_entries * ENTRY.size)
                for entry in self._tail:
                    self._summarize(entry)
                self._tail = []
            if self._files.size_bytes(fd) != self.file_entries * ENTRY.size:
                self._files.truncate(fd, self.file_entries * ENTRY.size)
            if sync:
                self._files.sync(fd)
        finally:
            self._files.close(fd)

    def clear(self) -> None:
        """Forget all entries. The file follows at the next `write`."""
        self.file_entries = 0
        self.last_offset = -1
        self._checksum = 0
        self._blocks = []
        self._tail = []
        self._window = None

    def truncate(self, end_offset: int) -> None:
        """Forget aborts from this offset on. The file follows at the next `write`."""
        if self.last_offset < end_offset:
            return
        kept = [entry for entry in self.entries() if entry.last_offset < end_offset]
        in_file = min(len(kept), self.file_entries)
        self.clear()
        self._checksum = None
        for entry in kept[:in_file]:
            self._summarize(entry)
        self._tail = kept[in_file:]
        self.last_offset = kept[-1].last_offset if kept else -1


def _collect(
    entries: list[AbortedTransaction],
    start_offset: int,
    end_offset: int,
    found: list[AbortedTransaction],
) -> bool:
    """Add what overlaps the range; whether nothing after these can."""
    begin = bisect_left(entries, start_offset, key=_last_offset)
    for entry in entries[begin:] if begin else entries:
        if entry.first_offset < end_offset:
            found.append(entry)
        if entry.last_stable_offset >= end_offset:
            return True
    return False
