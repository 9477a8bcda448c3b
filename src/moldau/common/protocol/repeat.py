"""Recognises a Produce request that repeats an earlier one's header; in Python. `_repeat.c` is its compiled
twin.

    | size 4 | key 2, version 2 | correlation id 4 | client id ... partition | size | records | 0 0 0 |
              ^ head                                ^ prefix                       (flexible only)

A producer's requests to one partition differ in the correlation id and the records only. Such a request is
recognised by comparing bytes; all others go to the decoder (hot_produce.py).

    repeat = make_repeat(head, prefix, flexible)
    repeat.match(buffer, position, end) -> (correlation id, start, stop of the records) | None

Both kernels have the same behaviour and the same tests.

HOT: `match`. Budget: a fifth of a reference loop when compiled (bench/hot_path.py).
"""

import struct
from collections.abc import Callable
from typing import Protocol

from moldau.common.core.kernels import kernel
from moldau.common.protocol.hot_wire import uvarint
from moldau.common.protocol.wire import MalformedMessage

_compiled = kernel("moldau.common.protocol._repeat")

HEAD_AT = 4
CORRELATION_AT = 8
PREFIX_AT = 12
TRAILING_TAGS = b"\x00\x00\x00"

_I32 = struct.Struct(">i").unpack_from


class Repeat(Protocol):
    """The first bytes of a repeated request."""

    @property
    def head(self) -> bytes:
        """API key and version."""

    @property
    def prefix(self) -> bytes:
        """The bytes between the correlation id and the records' size."""

    def match(
        self, buffer: bytes | bytearray | memoryview, position: int, end: int
    ) -> tuple[int, int, int] | None:
        """The correlation id of the frame from its size field at `position` to `end`, and the start and
        end of its records; None for another request. ValueError if they are not inside the buffer.
        """


class PythonRepeat:
    """The twin of the compiled repeat."""

    __slots__ = ("_flexible", "head", "prefix")

    def __init__(self, head: bytes, prefix: bytes, flexible: bool) -> None:
        if len(head) != CORRELATION_AT - HEAD_AT:
            raise ValueError("a head has four bytes")
        self.head = head
        self.prefix = prefix
        self._flexible = flexible

    def match(
        self, buffer: bytes | bytearray | memoryview, position: int, end: int
    ) -> tuple[int, int, int] | None:
        """See `Repeat`."""
        if position < 0 or end > len(buffer):
            raise ValueError("the frame lies outside of the buffer")
        at = position + PREFIX_AT + len(self.prefix)
        if (
            at + 1 > end
            or buffer[position + HEAD_AT : position + CORRELATION_AT] != self.head
            or buffer[position + PREFIX_AT : at] != self.prefix
        ):
            return None
        try:
            if self._flexible:
                size_bytes, start = uvarint(memoryview(buffer), at)
                stop = start + size_bytes - 1
                if not size_bytes or stop + len(TRAILING_TAGS) != end or buffer[stop:end] != TRAILING_TAGS:
                    return None
            else:
                start, stop = at + 4, end
                if start > end or _I32(buffer, at)[0] != stop - start:
                    return None
        except (MalformedMessage, IndexError):
            return None
        return _I32(buffer, position + CORRELATION_AT)[0], start, stop


def make_repeat(head: bytes, prefix: bytes, flexible: bool) -> Repeat:
    """A repeat of the chosen kernel; `flexible`: the version has compact lengths and tagged fields."""
    kind: Callable[..., Repeat] = PythonRepeat if _compiled is None else _compiled.Repeat
    return kind(head, prefix, flexible)
