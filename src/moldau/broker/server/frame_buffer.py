"""The buffer of a partly received frame: it grows with the bytes received, not with the claimed length.

    idle                 none: all connections receive into one shared buffer
    part of a frame      | at most four times what has come, or 4 KiB |
    a bulk producer's    | 2 MiB, from a pool: touching fresh memory costs more than receiving into it |
    larger than that     | mapped memory of the frame's size, which has pages only for what has come |

A mapped frame stays where it is, so that it may be kept without a copy (parts/exchange.py, `kept`).

Not here: whether there is memory for more (request_memory.py), what is done with a whole frame
(connection.py).
"""

import mmap
import struct

from moldau.broker.server.request_memory import SMALL_BYTES

_FRAME_SIZE = struct.Struct(">i").unpack_from
_SHARED_BUFFER_BYTES = 256 * 1024
_FIRST_BYTES = 4096
_GROWTH = 4
_POOLED_BYTES = 2 * 1024 * 1024
_POOL_MAX = 8
_EARNED_BYTES = 256 * 1024  # so much of a frame has to come before a new buffer for the pool is made
_MAPPED_READ_BYTES = 512 * 1024  # of a large frame in one turn of the loop

# One event loop, one thread: a read fills this buffer and is consumed before the next read begins.
shared = bytearray(_SHARED_BUFFER_BYTES)
shared_view = memoryview(shared)
_pool: list[bytearray] = []


class FrameBuffer:
    """Bytes `data[:end]` of one frame, or of several behind it; up to `limit` may be filled."""

    __slots__ = ("data", "end", "limit")

    def __init__(self, start: memoryview, size_bytes: int) -> None:
        """A buffer of this size that begins with a copy of `start`."""
        self.data: bytearray | mmap.mmap = _buffer(size_bytes)
        self.end = len(start)
        self.limit = size_bytes
        self.data[: self.end] = start

    @property
    def is_mapped(self) -> bool:
        return type(self.data) is mmap.mmap

    @property
    def frame_bytes(self) -> int:
        """The size of the frame with its size field; 0 if that has not come yet."""
        return _FRAME_SIZE(self.data, 0)[0] + 4 if self.end >= 4 else 0

    def filled(self) -> memoryview:
        """What has come."""
        return memoryview(self.data)[: self.end]

    def space(self) -> memoryview:
        """Where the next bytes go: no further than the frame, so that the one behind it begins in the shared
        buffer, uncopied."""
        end, limit = self.end, self.limit
        if self.is_mapped:
            limit = min(limit, end + _MAPPED_READ_BYTES)
        if end < self.frame_bytes <= limit:
            limit = self.frame_bytes
        return memoryview(self.data)[end:limit]

    def enlarge(self, size_bytes: int) -> None:
        """Let it be filled up to this size."""
        self.limit = size_bytes
        if self.is_mapped:
            return
        grown = mmap.mmap(-1, self.frame_bytes) if size_bytes > _POOLED_BYTES else _buffer(size_bytes)
        grown[: self.end] = self.filled()
        self.data = grown

    def release(self) -> None:
        """Return pooled memory for the next bulk producer."""
        data = self.data
        if len(data) == _POOLED_BYTES and len(_pool) < _POOL_MAX and type(data) is bytearray:
            _pool.append(data)


def size_for(start: bytearray | mmap.mmap | memoryview, count: int, frame_bytes_max: int, bulk: bool) -> int:
    """The buffer size for a frame of which `count` bytes have come. No memory for bytes not received yet,
    except a pooled buffer for a client that sent large frames before (`bulk`).
    """
    frame_bytes: int = _FRAME_SIZE(start, 0)[0] + 4 if count >= 4 else 0
    if not count < frame_bytes <= frame_bytes_max + 4:
        return max(_FIRST_BYTES, 2 * count)
    if SMALL_BYTES < frame_bytes <= _POOLED_BYTES and (
        count >= _EARNED_BYTES or (_pool and (bulk or count >= SMALL_BYTES))
    ):
        return _POOLED_BYTES
    return min(frame_bytes, max(_FIRST_BYTES, _GROWTH * count))


def _buffer(size_bytes: int) -> bytearray:
    return _pool.pop() if size_bytes == _POOLED_BYTES and _pool else bytearray(size_bytes)
