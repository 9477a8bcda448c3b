"""A sparse index of one segment: sorted pairs, the older ones in a file, the newest in memory.

    .index      | offset - base offset 4 | position of the batch in the .log file 4 |            (OffsetIndex)
    .timeindex  | largest timestamp so far 8 | offset that had it - base offset 4 |              (TimeIndex)

Both parts of a pair only grow, so either can be searched. Kafka preallocates these files and pads them with
zeros until the segment is closed; we write an index only as far as it goes, and cut off such padding when we
open one.

An index is a hint that can always be rebuilt from the log: it is written when its tail has grown, when the
segment rolls and when the log closes, and recovery uses only entries that lead to the batch they name. Pairs
that have reached the file are searched there with positioned reads, so that a closed segment costs no memory.

Not here: when an entry is due (appending/writer.py), rebuilding (segment_end.py, checked_scan.py).
"""

import struct
import sys
from array import array
from bisect import bisect_right

from moldau.common.core.files import Files, write_fully

TAIL_ENTRIES_MAX = 4096
"""How many pairs stay in memory before they are written to the file."""
_WINDOW_ENTRIES = 512


class _Window:
    """A stretch of an index file in memory, so that the searches of one reader going forward cost no
    reads.
    """

    __slots__ = ("columns", "start")

    def __init__(self, start: int, columns: "tuple[array[int], array[int]]") -> None:
        self.start = start
        self.columns = columns

    def decides(self, wanted: int, column: int, file_entries: int) -> bool:
        """Whether a search for `wanted` in the whole file would end within the stretch."""
        numbers = self.columns[column]
        if not numbers:
            return False
        after_first = self.start == 0 or numbers[0] <= wanted
        before_last = self.start + len(numbers) == file_entries or wanted < numbers[-1]
        return after_first and before_last


class Index:
    """Sorted pairs (key, value), both ascending. OSError comes through from the files."""

    ENTRY = struct.Struct(">II")
    KEY_TYPE = "I"

    __slots__ = ("_files", "_keys", "_values", "_window", "file_entries", "path")

    def __init__(self, files: Files, path: str) -> None:
        """An index without entries; `load` takes up what the file holds."""
        self._files = files
        self.path = path
        self.file_entries = 0
        self._window: _Window | None = None
        self._keys = array(self.KEY_TYPE)
        self._values = array("I")

    def __len__(self) -> int:
        return self.file_entries + len(self._keys)

    @property
    def tail_entries(self) -> int:
        """How many pairs are not yet in the file."""
        return len(self._keys)

    def append(self, key: int, value: int) -> None:
        """Add a pair that is larger than all before it."""
        self._keys.append(key)
        self._values.append(value)

    def entry(self, index: int) -> tuple[int, int]:
        """The pair number `index`."""
        if index >= self.file_entries:
            return self._keys[index - self.file_entries], self._values[index - self.file_entries]
        window = self._window
        if window is not None and window.start <= index < window.start + len(window.columns[0]):
            return window.columns[0][index - window.start], window.columns[1][index - window.start]
        return self._read(index, 1)[0]

    def last(self) -> tuple[int, int] | None:
        """The largest pair."""
        return self.entry(len(self) - 1) if len(self) else None

    def floor_key(self, key: int) -> tuple[int, int] | None:
        """The last pair whose key is at most `key`."""
        return self._floor(key, 0)

    def floor_value(self, value: int) -> tuple[int, int] | None:
        """The last pair whose value is at most `value`."""
        return self._floor(value, 1)

    def count_below_key(self, key: int) -> int:
        """How many pairs have a key below `key`."""
        return self._count_at_most(key - 1, 0)

    def count_below_value(self, value: int) -> int:
        """How many pairs have a value below `value`."""
        return self._count_at_most(value - 1, 1)

    def _floor(self, wanted: int, column: int) -> tuple[int, int] | None:
        tail = self._values if column else self._keys
        if tail and tail[0] <= wanted:
            place = bisect_right(tail, wanted) - 1
            return self._keys[place], self._values[place]
        count = self._count_at_most(wanted, column)
        return self.entry(count - 1) if count else None

    def release_memory(self) -> None:
        """Nobody reads the segment any more: keep nothing of the file in memory."""
        self._window = None

    def _count_at_most(self, wanted: int, column: int) -> int:
        """How many pairs have at most `wanted` in this column."""
        tail = self._values if column else self._keys
        if tail and tail[0] <= wanted:
            return self.file_entries + bisect_right(tail, wanted)
        if not self.file_entries:
            return 0
        return self._search_file(wanted, column)

    def _search_file(self, wanted: int, column: int) -> int:
        """As `_count_at_most`, among the pairs in the file."""
        window = self._window
        if window is None or not window.decides(wanted, column, self.file_entries):
            window = self._window = self._load_window(wanted, column)
        return window.start + bisect_right(window.columns[column], wanted)

    def _load_window(self, wanted: int, column: int) -> "_Window":
        """The stretch of the file in which the search for `wanted` ends, and what follows it: the next
        searches.
        """
        entry, size = self.ENTRY, self.ENTRY.size
        low, high = 0, self.file_entries
        fd = self._files.open(self.path)
        try:
            while high - low > _WINDOW_ENTRIES // 8:
                middle = (low + high) // 2
                if entry.unpack(self._files.pread(fd, size, middle * size))[column] <= wanted:
                    low = middle + 1
                else:
                    high = middle
            start = max(0, low - 1)
            count = min(_WINDOW_ENTRIES, self.file_entries - start)
            data = self._files.pread(fd, count * size, start * size)
        finally:
            self._files.close(fd)
        return _Window(start, self._columns(data))

    def _columns(self, data: bytes) -> "tuple[array[int], array[int]]":
        """The keys and the values of a stretch of the file."""
        pairs = list(self.ENTRY.iter_unpack(data))
        return array(self.KEY_TYPE, [pair[0] for pair in pairs]), array("I", [pair[1] for pair in pairs])

    def _read(self, index: int, count: int) -> list[tuple[int, int]]:
        size = self.ENTRY.size
        fd = self._files.open(self.path)
        try:
            data = self._files.pread(fd, count * size, index * size)
        finally:
            self._files.close(fd)
        return [(pair[0], pair[1]) for pair in self.ENTRY.iter_unpack(data)]

    def entries(self) -> list[tuple[int, int]]:
        """All pairs: for tests, dumps and checks."""
        in_file = self._read(0, self.file_entries) if self.file_entries else []
        return in_file + list(zip(self._keys, self._values, strict=True))

    def keep(self, count: int) -> None:
        """Forget all pairs but the first `count`. The file follows at the next `write`."""
        self._window = None
        if count >= self.file_entries:
            del self._keys[count - self.file_entries :]
            del self._values[count - self.file_entries :]
        else:
            self.file_entries = count
            del self._keys[:]
            del self._values[:]

    def write(self, *, sync: bool = False) -> None:
        """Bring the file up to date: what memory holds goes in, what was forgotten is cut off."""
        size = self.ENTRY.size
        fd = self._files.open(self.path, create=True)
        try:
            if self._keys:
                data = b"".join(map(self.ENTRY.pack, self._keys, self._values))
                write_fully(self._files, fd, data, self.file_entries * size)
                self.file_entries += len(self._keys)
                del self._keys[:]
                del self._values[:]
            if self._files.size_bytes(fd) != self.file_entries * size:
                self._files.truncate(fd, self.file_entries * size)
            if sync:
                self._files.sync(fd)
        finally:
            self._files.close(fd)

    def load(self) -> bool:
        """Load the file, without padding; False when there is no file or its pairs are not sorted."""
        del self._keys[:]
        del self._values[:]
        self._window = None
        self.file_entries = 0
        size = self.ENTRY.size
        try:
            count = self._files.file_size_bytes(self.path) // size
            if not count:
                return True
            self.file_entries = self._without_padding(count)
        except FileNotFoundError:
            return False
        return self._ends_look_sorted()

    def _without_padding(self, count: int) -> int:
        """How many of the file's entries come before the zeros. (An entry of zeros may only be the first.)"""
        size = self.ENTRY.size
        fd = self._files.open(self.path)
        try:
            low, high = 0, count
            if any(self._files.pread(fd, size, (count - 1) * size)):
                return count
            while low < high:
                middle = (low + high) // 2
                if any(self._files.pread(fd, size, middle * size)):
                    low = middle + 1
                else:
                    high = middle
        finally:
            self._files.close(fd)
        return low

    def _ends_look_sorted(self) -> bool:
        """A cheap look at the file's first and last pairs; a full check is not worth a start-up's time."""
        if self.file_entries < 2:
            return True
        first, *_, last = [*self._read(0, 1), *self._read(self.file_entries - 2, 2)]
        before_last = self._read(self.file_entries - 2, 1)[0]
        return first[0] <= before_last[0] < last[0] and first[1] <= before_last[1] <= last[1]


class OffsetIndex(Index):
    """(last offset of a batch - base offset, position of that batch)."""

    __slots__ = ()

    def _columns(self, data: bytes) -> "tuple[array[int], array[int]]":
        # Both columns are 32 bits wide, so no pair needs to be an object.
        numbers = array("I")
        numbers.frombytes(data)
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers[::2], numbers[1::2]


class TimeIndex(Index):
    """(largest timestamp so far, offset that had it - base offset): ascending timestamps, offsets never
    falling.
    """

    ENTRY = struct.Struct(">qI")
    KEY_TYPE = "q"

    __slots__ = ()
