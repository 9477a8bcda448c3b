"""Cuts what a broker sends into frames, with memory for what has come, not for what is claimed.

    no frame begun             all connections receive into one shared buffer
    up to 64 KiB               a buffer of the frame's size
    larger                     mapped memory of the frame's size, which has pages only for what has come

A receiver that is done with a large frame may give its memory back for the connection's next one: fresh pages
cost more than receiving into them.

Invariant: `space` never reaches behind the frame that has begun, so what follows it stays in the socket.
"""

import mmap
import struct
from collections.abc import Iterator

_SIZE = struct.Struct(">i").unpack_from
_SHARED_BYTES = 256 * 1024
_SMALL_BYTES = 64 * 1024
_READ_BYTES_MAX = 1024 * 1024  # in one turn of the loop
_SPARE_BYTES_MAX = 16 * 1024 * 1024

# One event loop, one thread: a read fills this buffer and is consumed before the next read begins.
_shared = bytearray(_SHARED_BYTES)
_shared_view = memoryview(_shared)


class MalformedFrame(Exception):
    """A size that no response has."""


class ResponseFrames:
    """The frames of one connection."""

    __slots__ = ("_end", "_frame_bytes", "_frame_bytes_max", "_head", "_own", "_spare")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._head = b""  # the first bytes of a size that has not come whole
        self._own: bytearray | mmap.mmap | None = None
        self._spare: mmap.mmap | None = None
        self._frame_bytes = 0  # of the frame that has begun, without its size field
        self._end = 0

    @property
    def pending_bytes(self) -> int:
        """What has come of the frame that is not whole."""
        return self._end if self._own is not None else len(self._head)

    def space(self) -> memoryview:
        """Where the next bytes go."""
        if self._own is None:
            return _shared_view
        limit = min(self._frame_bytes, self._end + _READ_BYTES_MAX)
        return memoryview(self._own)[self._end : limit]

    def received(self, count: int) -> Iterator[memoryview]:
        """So many bytes came into `space`: the frames that are whole now. MalformedFrame."""
        if self._own is not None:
            self._end += count
            if self._end == self._frame_bytes:
                whole = memoryview(self._own)[: self._end]
                self._own = None
                yield whole
            return
        data = _shared_view[:count]
        if self._head:
            data = memoryview(self._head + bytes(data))
            self._head = b""
        position, end = 0, len(data)
        while end - position >= 4:
            (size_bytes,) = _SIZE(data, position)
            if not 4 <= size_bytes <= self._frame_bytes_max:
                raise MalformedFrame(f"a response of {size_bytes} bytes; {self._frame_bytes_max} is the most")
            position += 4
            if end - position < size_bytes:
                self._begin(size_bytes, data[position:])
                return
            yield memoryview(bytes(data[position : position + size_bytes]))
            position += size_bytes
        self._head = bytes(data[position:])

    def _begin(self, size_bytes: int, start: memoryview) -> None:
        own: bytearray | mmap.mmap
        spare = self._spare
        if size_bytes <= _SMALL_BYTES:
            own = bytearray(size_bytes)
        elif spare is not None and len(spare) >= size_bytes:
            own, self._spare = spare, None
        else:
            own = mmap.mmap(-1, size_bytes)
        self._own, self._frame_bytes, self._end = own, size_bytes, len(start)
        own[: self._end] = start

    def give_back(self, frame: memoryview) -> None:
        """Nothing refers to this frame any more: its memory may be used for the next one."""
        memory = frame.obj
        if isinstance(memory, mmap.mmap) and len(memory) <= _SPARE_BYTES_MAX:
            self._spare = memory
